//! The tensors that a refusal names.

use core::fmt;

/// A tensor of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tensor {
    /// Queries.
    Q,
    /// Keys.
    K,
    /// Values.
    V,
    /// Output.
    O,
    /// Log-sum-exp.
    Lse,
    /// The rows at which packed sequences begin.
    CuSeqlens,
    /// The same of K and V.
    CuSeqlensK,
    /// How many rows of Q a sequence has.
    SequsedQ,
    /// How many rows of K and V it has.
    SequsedK,
    /// What is added to scores.
    Bias,
    /// ALiBi slopes.
    Slopes,
}

impl Tensor {
    /// Its name, as in a message.
    pub const fn name(self) -> &'static str {
        match self {
            Tensor::Q => "Q",
            Tensor::K => "K",
            Tensor::V => "V",
            Tensor::O => "O",
            Tensor::Lse => "LSE",
            Tensor::CuSeqlens => "cu_seqlens",
            Tensor::CuSeqlensK => "cu_seqlens_k",
            Tensor::SequsedQ => "seqused_q",
            Tensor::SequsedK => "seqused_k",
            Tensor::Bias => "bias",
            Tensor::Slopes => "alibi_slopes",
        }
    }
}

impl fmt::Display for Tensor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

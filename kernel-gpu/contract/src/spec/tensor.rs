//! The tensors of a call: their names, dimensions and strides.

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
    /// The gradient with respect to O.
    DO,
    /// The gradient with respect to Q.
    DQ,
    /// The gradient with respect to K.
    DK,
    /// The gradient with respect to V.
    DV,
    /// Log-sum-exp.
    Lse,
    /// First row of each packed sequence.
    CuSeqlens,
    /// The same for K and V.
    CuSeqlensK,
    /// Number of rows of Q that each sequence uses.
    SequsedQ,
    /// Number of rows of K and V that each sequence uses.
    SequsedK,
    /// Bias on the scores.
    Bias,
    /// The gradient with respect to the bias.
    DBias,
    /// ALiBi slopes.
    Slopes,
    /// Memory in which the [parts](crate::schedule::parts) of items leave their results.
    Workspace,
}

impl Tensor {
    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Tensor::Q => "Q",
            Tensor::K => "K",
            Tensor::V => "V",
            Tensor::O => "O",
            Tensor::DO => "dO",
            Tensor::DQ => "dQ",
            Tensor::DK => "dK",
            Tensor::DV => "dV",
            Tensor::Lse => "LSE",
            Tensor::CuSeqlens => "cu_seqlens",
            Tensor::CuSeqlensK => "cu_seqlens_k",
            Tensor::SequsedQ => "seqused_q",
            Tensor::SequsedK => "seqused_k",
            Tensor::Bias => "bias",
            Tensor::DBias => "dBias",
            Tensor::Slopes => "alibi_slopes",
            Tensor::Workspace => "workspace",
        }
    }
}

impl fmt::Display for Tensor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A dimension of a tensor other than the columns of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// B.
    Batch,
    /// H.
    Head,
    /// S.
    Row,
}

impl fmt::Display for Dimension {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Dimension::Batch => "batch",
            Dimension::Head => "head",
            Dimension::Row => "row",
        })
    }
}

/// Strides of a `[batch, head, sequence, head_dim]` view, in elements; the last dimension is contiguous.
///
/// `[B,H,S,D]` and `[B,S,H,D]` tensors are both such views. A stride may be 0 for an input (broadcast).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strides {
    /// Elements from one batch entry to the next.
    pub batch: u64,
    /// Elements from one head to the next.
    pub head: u64,
    /// Elements from one row (sequence position) to the next; a multiple of 8, so that rows are 16-byte aligned.
    pub row: u64,
}

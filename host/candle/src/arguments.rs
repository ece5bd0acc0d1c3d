//! What the arguments ask for, beside Q, K and V.

use candle_core::{DType, Result, Tensor};
use fa512::{ScoreMod, Slopes};

/// Which sequences Q, K and V are of.
pub enum Sequences {
    /// A batch of sequences of one length: `[batch, sequence, heads, head size]`.
    OneLength,
    /// Packed ones: `[rows, heads, head size]`.
    Packed {
        /// The rows at which they begin, and where the last one ends.
        seqlens: Tensor,
        /// The length of the longest.
        longest: usize,
    },
}

/// Keys that a query attends to: so many before its own and so many behind it; `None` is any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub left: Option<usize>,
    pub right: Option<usize>,
}

impl Window {
    /// The window of a causal mask, or of none.
    pub fn unlimited(causal: bool) -> Self {
        Self { left: None, right: causal.then_some(0) }
    }

    /// What is left of it in sequences of up to `longest` rows: a side that reaches beyond them has no limit, which a faster kernel
    /// computes.
    pub fn within(self, longest: usize) -> fa512::Window {
        let side = |side: Option<usize>| {
            let keys = side.filter(|keys| keys.saturating_add(1) < longest)?;
            // More than any sequence has is no limit either.
            u32::try_from(keys).ok()
        };
        fa512::Window { left: side(self.left), right: side(self.right) }
    }
}

/// What is done to scores before the softmax.
#[derive(Clone, Default)]
pub struct Scores {
    /// Of ALiBi, `[heads]`.
    pub alibi_slopes: Option<Tensor>,
    /// The cap of soft-capped scores; 0 is none.
    pub softcap: f32,
}

impl Scores {
    pub fn new(alibi_slopes: Option<&Tensor>, softcap: f32) -> Self {
        Self { alibi_slopes: alibi_slopes.cloned(), softcap }
    }

    /// The same as the library takes it, for so many heads of Q.
    ///
    /// # Errors
    /// When slopes are of another type or shape.
    pub fn score_mod(&self, heads: u32) -> Result<ScoreMod> {
        if let Some(slopes) = &self.alibi_slopes {
            if slopes.dtype() != DType::F32 {
                candle_core::bail!("alibi_slopes is {:?}; it must be F32", slopes.dtype());
            }
            if slopes.dims() != [heads as usize] {
                candle_core::bail!("alibi_slopes has the shape {:?}; it must be [{heads}]", slopes.dims());
            }
        }
        Ok(ScoreMod {
            softcap: (self.softcap != 0.0).then_some(f64::from(self.softcap)),
            alibi: self.alibi_slopes.as_ref().map(|_| Slopes::PerHead),
            bias: None,
        })
    }
}

/// Requires both to hold the same.
///
/// # Errors
/// When they do not, or cannot be compared.
pub fn require_equal_lengths(seqlens_q: &Tensor, seqlens_k: &Tensor) -> Result<()> {
    for (tensor, name) in [(seqlens_q, "seqlens_q"), (seqlens_k, "seqlens_k")] {
        if tensor.dtype() != DType::U32 {
            candle_core::bail!("{name} is {:?}; it must be U32", tensor.dtype());
        }
        if tensor.rank() != 1 || tensor.elem_count() == 0 {
            candle_core::bail!("{name} has the shape {:?}; it must be [sequences + 1]", tensor.dims());
        }
    }
    if seqlens_q.id() == seqlens_k.id() {
        return Ok(());
    }
    if seqlens_q.dims() != seqlens_k.dims() || seqlens_q.to_vec1::<u32>()? != seqlens_k.to_vec1::<u32>()? {
        candle_core::bail!("seqlens_q and seqlens_k differ; K must have the lengths of Q");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn windows_keep_the_sides_that_limit_something() {
        for (left, right, expected) in [
            (None, None, (None, None)),
            (None, Some(0), (None, Some(0))),
            (Some(99), None, (None, None)),
            (Some(98), Some(99), (Some(98), None)),
            (Some(100), Some(0), (None, Some(0))),
            (Some(0), Some(0), (Some(0), Some(0))),
            (Some(usize::MAX), Some(1 << 40), (None, None)),
        ] {
            let window = Window { left, right }.within(100);
            assert_eq!((window.left, window.right), expected, "{left:?}, {right:?}");
        }
        assert_eq!(Window { left: Some(0), right: Some(0) }.within(1), fa512::Window::UNLIMITED);
        assert_eq!(Window { left: None, right: Some(1 << 40) }.within(usize::MAX), fa512::Window::UNLIMITED);
    }

    #[test]
    fn a_softcap_of_0_is_none_and_slopes_are_those_of_heads() {
        let slopes = Tensor::new(&[0.5f32, 0.25], &Device::Cpu).unwrap();
        let made = |slopes, softcap| Scores::new(slopes, softcap).score_mod(2).unwrap();
        assert_eq!(made(None, 0.0), ScoreMod::NONE);
        assert_eq!(made(None, 30.0), ScoreMod { softcap: Some(30.0), ..ScoreMod::NONE });
        assert_eq!(made(Some(&slopes), 0.0), ScoreMod { alibi: Some(Slopes::PerHead), ..ScoreMod::NONE });
    }

    #[test]
    fn lengths_are_compared_by_what_they_hold() {
        let lengths = |numbers: &[u32]| Tensor::new(numbers, &Device::Cpu).unwrap();
        let one = lengths(&[0, 3, 9]);
        require_equal_lengths(&one, &one).unwrap();
        require_equal_lengths(&one, &lengths(&[0, 3, 9])).unwrap();
        let refused = |other: &Tensor| require_equal_lengths(&one, other).unwrap_err().to_string();
        assert!(refused(&lengths(&[0, 4, 9])).contains("seqlens_q and seqlens_k differ"));
        assert!(refused(&lengths(&[0, 9])).contains("differ"));
        assert!(refused(&one.to_dtype(DType::I64).unwrap()).contains("seqlens_k is I64; it must be U32"));
        assert!(refused(&one.reshape((1, 3)).unwrap()).contains("seqlens_k has the shape [1, 3]"));
    }
}

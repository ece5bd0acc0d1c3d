//! What the arguments ask for, beside Q, K and V.

use candle_core::{DType, Error, Result, Tensor};
use fa512::Mask;

/// Which sequences Q, K and V are of.
pub enum Sequences {
    /// A batch of sequences of one length: `[batch, sequence, heads, 64]`.
    OneLength,
    /// Packed ones: `[rows, heads, 64]`.
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

    /// The mask that it is for sequences of up to `longest` rows.
    ///
    /// # Errors
    /// When it is a window that limits something else than a causal mask does.
    pub fn mask(self, longest: usize) -> Result<Mask> {
        let limits = |side: Option<usize>| side.filter(|&side| side.saturating_add(1) < longest);
        match (limits(self.left), self.right) {
            (None, Some(0)) => Ok(Mask::Causal),
            (None, right) if limits(right).is_none() => Ok(Mask::Full),
            (Some(left), _) => candle_core::bail!(
                "window_size_left is {left}, less than the {} keys that may be there; windows are not computed: it must be None",
                longest - 1
            ),
            (None, right) => candle_core::bail!(
                "window_size_right is {}; windows are not computed: it must be None, or Some(0) for a causal mask",
                right.unwrap_or_default()
            ),
        }
    }
}

/// What is said where there are ALiBi slopes.
pub fn no_slopes() -> Error {
    Error::msg("alibi_slopes are given, which is not computed; use the function without them")
}

/// Requires that there are neither slopes nor a softcap.
///
/// # Errors
/// With the argument that is given.
pub fn require_neither(alibi_slopes: Option<&Tensor>, softcap: f32) -> Result<()> {
    if alibi_slopes.is_some() {
        return Err(no_slopes());
    }
    if softcap != 0.0 {
        candle_core::bail!("softcap is {softcap}, which is not computed; it must be 0");
    }
    Ok(())
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
    fn windows_that_limit_nothing_are_masks() {
        for (left, right, expected) in [
            (None, None, Mask::Full),
            (None, Some(0), Mask::Causal),
            (Some(99), None, Mask::Full),
            (None, Some(99), Mask::Full),
            (Some(100), Some(0), Mask::Causal),
            (Some(usize::MAX), Some(usize::MAX), Mask::Full),
        ] {
            assert_eq!(Window { left, right }.mask(100).unwrap(), expected, "{left:?}, {right:?}");
        }
        assert_eq!(Window { left: Some(0), right: Some(0) }.mask(1).unwrap(), Mask::Causal);
    }

    #[test]
    fn windows_that_limit_are_refused_by_name() {
        for (left, right, words) in [
            (Some(98), None, "window_size_left is 98, less than the 99 keys"),
            (Some(0), Some(0), "window_size_left is 0"),
            (None, Some(1), "window_size_right is 1"),
            (None, Some(98), "window_size_right is 98"),
        ] {
            let error = Window { left, right }.mask(100).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
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

//! The arguments other than Q, K and V.

use candle_core::{DType, Result, Tensor};
use fa512::{Packing, ScoreMod, Slopes};

/// The sequences of Q, K and V.
pub enum Sequences {
    /// A batch of sequences of one length: `[batch, sequence, heads, head size]`.
    OneLength,
    /// Packed sequences: `[rows, heads, head size]`.
    Packed(Lengths),
}

impl Sequences {
    /// Length of the longest sequence in Q and in K. For a batch a number above any length: the library knows its
    /// lengths.
    pub fn longest(&self) -> [usize; 2] {
        match self {
            Self::OneLength => [usize::MAX; 2],
            Self::Packed(Lengths { q, k }) => [q.longest, k.as_ref().unwrap_or(q).longest],
        }
    }

    /// The library's description of the sequences.
    ///
    /// # Errors
    /// When the number of sequences does not fit 32 bits.
    pub fn packing(&self) -> Result<Option<Packing>> {
        let Self::Packed(Lengths { q, k }) = self else { return Ok(None) };
        let sequences = u32::try_from(q.seqlens.elem_count() - 1).map_err(candle_core::Error::wrap)?;
        // A bound, which only helps to choose a kernel.
        let longest = u32::try_from(q.longest).unwrap_or(u32::MAX);
        Ok(Some(match k {
            None => Packing::new(sequences, longest),
            Some(_) => Packing::separate(sequences, longest),
        }))
    }
}

/// Where packed sequences begin and end.
pub struct Lengths {
    /// In the rows of Q.
    pub q: Bounds,
    /// In the rows of K and V; `None` if they are those of Q.
    pub k: Option<Bounds>,
}

/// Where packed sequences begin and end in the rows of one tensor.
pub struct Bounds {
    /// First row of each sequence, then the end of the last.
    pub seqlens: Tensor,
    /// Length of the longest sequence.
    pub longest: usize,
}

impl Bounds {
    /// # Errors
    /// When `seqlens`, the argument `name`, has the wrong type or shape.
    fn new(seqlens: &Tensor, longest: usize, name: &str) -> Result<Self> {
        if seqlens.dtype() != DType::U32 {
            candle_core::bail!("{name} is {:?}; it must be U32", seqlens.dtype());
        }
        if seqlens.rank() != 1 || seqlens.elem_count() == 0 {
            candle_core::bail!("{name} has the shape {:?}; it must be [sequences + 1]", seqlens.dims());
        }
        Ok(Self { seqlens: seqlens.clone(), longest })
    }
}

impl Lengths {
    /// The bounds in Q and in K. If both are the same tensor, K has the lengths of Q.
    ///
    /// # Errors
    /// When one has the wrong type or shape.
    pub fn new(seqlens_q: &Tensor, seqlens_k: &Tensor, longest_q: usize, longest_k: usize) -> Result<Self> {
        let q = Bounds::new(seqlens_q, longest_q, "seqlens_q")?;
        if seqlens_q.id() == seqlens_k.id() {
            return Ok(Self { q, k: None });
        }
        let k = Bounds::new(seqlens_k, longest_k, "seqlens_k")?;
        if seqlens_q.dims() != seqlens_k.dims() {
            candle_core::bail!(
                "seqlens_q has the shape {:?} and seqlens_k {:?}; both must be [sequences + 1]",
                seqlens_q.dims(),
                seqlens_k.dims()
            );
        }
        Ok(Self { q, k: Some(k) })
    }
}

/// Window of keys that a query attends to: keys before its own position and after it; `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub left: Option<usize>,
    pub right: Option<usize>,
}

impl Window {
    /// The window of a causal mask, or of no mask.
    pub fn unlimited(causal: bool) -> Self {
        Self { left: None, right: causal.then_some(0) }
    }

    /// The window for sequences of at most so many queries and keys, bottom-right aligned. A side that reaches beyond
    /// the sequence becomes unlimited, which a faster kernel computes.
    pub fn within(self, [queries, keys]: [usize; 2]) -> fa512::Window {
        let side = |side: Option<usize>, longest: usize| {
            let keys = side.filter(|keys| keys.saturating_add(1) < longest)?;
            // A side beyond 32 bits is unlimited too.
            u32::try_from(keys).ok()
        };
        // The last query has at most all keys before it; the first has those of all later queries after it.
        fa512::Window { left: side(self.left, keys), right: side(self.right, queries) }
    }
}

/// Modifications of the scores before the softmax.
#[derive(Clone, Default)]
pub struct Scores {
    /// ALiBi slopes, `[heads]`.
    pub alibi_slopes: Option<Tensor>,
    /// Softcap; 0 means none.
    pub softcap: f32,
}

impl Scores {
    pub fn new(alibi_slopes: Option<&Tensor>, softcap: f32) -> Self {
        Self { alibi_slopes: alibi_slopes.cloned(), softcap }
    }

    /// The library's description of the modifications, for so many heads of Q.
    ///
    /// # Errors
    /// When slopes have the wrong type or shape.
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
            let window = Window { left, right }.within([100; 2]);
            assert_eq!((window.left, window.right), expected, "{left:?}, {right:?}");
        }
        assert_eq!(Window { left: Some(0), right: Some(0) }.within([1; 2]), fa512::Window::UNLIMITED);
        assert_eq!(Window { left: None, right: Some(1 << 40) }.within([usize::MAX; 2]), fa512::Window::UNLIMITED);
        let both = Window { left: Some(98), right: Some(98) };
        assert_eq!(both.within([200, 99]), fa512::Window { left: None, right: Some(98) });
        assert_eq!(both.within([99, 200]), fa512::Window { left: Some(98), right: None });
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
    fn one_tensor_says_that_lengths_are_the_same() {
        let lengths = |numbers: &[u32]| Tensor::new(numbers, &Device::Cpu).unwrap();
        let one = lengths(&[0, 3, 9]);
        let packed = |other: &Tensor| Lengths::new(&one, other, 6, 8).map(Sequences::Packed);
        let shared = packed(&one.clone()).unwrap();
        assert_eq!((shared.packing().unwrap(), shared.longest()), (Some(Packing::new(2, 6)), [6, 6]));
        let separate = packed(&lengths(&[0, 8, 9])).unwrap();
        assert_eq!((separate.packing().unwrap(), separate.longest()), (Some(Packing::separate(2, 6)), [6, 8]));
        let refused = |other: &Tensor| packed(other).err().unwrap().to_string();
        assert!(refused(&lengths(&[0, 9])).contains("seqlens_q has the shape [3] and seqlens_k [2]"));
        assert!(refused(&one.to_dtype(DType::I64).unwrap()).contains("seqlens_k is I64; it must be U32"));
        assert!(refused(&one.reshape((1, 3)).unwrap()).contains("seqlens_k has the shape [1, 3]"));
    }
}

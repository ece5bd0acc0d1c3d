//! Score modifications: what is applied to scores before the softmax.

use crate::spec::config::ELEMENT_BYTES;
use crate::spec::limits::{MAXIMUM_SOFTCAP, MINIMUM_SOFTCAP, ROW_ALIGNMENT};
use crate::spec::packing::Packing;
use crate::spec::refusal::Refusal;
use crate::spec::shape::Shape;
use crate::spec::tensor::Strides;

/// Score modifications of a problem. With s = scale · q·k, the score of query i and key j is cap · tanh(s / cap), minus
/// slope · |i − j| (ALiBi), plus the bias, in this order.
///
/// `i` is the query's position among the keys ([`Alignment`](super::Alignment)).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScoreMod {
    /// The softcap.
    pub softcap: Option<f64>,
    /// Shape of the ALiBi slopes; f32, contiguous.
    pub alibi: Option<Slopes>,
    /// Strides of a bias `[B,H,S_q,S_k]` of the problem's element type, in elements; the last dimension is contiguous. Any of
    /// them may be 0 (broadcast).
    pub bias: Option<Strides>,
}

/// Shape of the ALiBi slopes (Press et al., arXiv 2108.12409).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Slopes {
    /// `[H]`: one per head.
    PerHead,
    /// `[B,H]`: one per head of each batch entry; of packed sequences `[sequences,H]`.
    PerBatchAndHead,
}

impl ScoreMod {
    /// No score modifications.
    pub const NONE: Self = Self { softcap: None, alibi: None, bias: None };

    /// Whether there are no score modifications.
    pub const fn is_none(&self) -> bool {
        self.softcap.is_none() && self.alibi.is_none() && self.bias.is_none()
    }

    /// Number of slopes for a problem of `shape` with this packing; `None` without ALiBi.
    pub const fn slopes(&self, shape: Shape, packing: Option<Packing>) -> Option<u64> {
        match (self.alibi, packing) {
            (None, _) => None,
            (Some(Slopes::PerHead), _) => Some(shape.heads as u64),
            (Some(Slopes::PerBatchAndHead), None) => Some(shape.batch as u64 * shape.heads as u64),
            (Some(Slopes::PerBatchAndHead), Some(packing)) => Some(packing.sequences as u64 * shape.heads as u64),
        }
    }

    /// Elements from the first to one past the last of the bias for a problem of `shape`; `None` without a bias, or if 64 bits
    /// cannot count them.
    pub fn bias_extent(&self, shape: Shape) -> Option<u64> {
        let Strides { batch, head, row } = self.bias?;
        let dimensions = [(shape.batch, batch), (shape.heads, head), (shape.sequence, row)];
        dimensions.into_iter().try_fold(u64::from(shape.kv_sequence), |end, (size, stride)| {
            end.checked_add(u64::from(size - 1).checked_mul(stride)?)
        })
    }

    /// Whether all rows of a bias for a problem of `shape` are 16-byte aligned if the first one is, or there is none.
    pub fn has_aligned_bias(&self, shape: Shape) -> bool {
        let Some(Strides { batch, head, row }) = self.bias else { return true };
        let dimensions = [(shape.batch, batch), (shape.heads, head), (shape.sequence, row)];
        dimensions.into_iter().all(|(size, stride)| size == 1 || stride % ROW_ALIGNMENT == 0)
    }

    /// Checks that kernels compute it for a problem of `shape` with this packing.
    pub(super) fn check(&self, shape: Shape, packing: Option<Packing>) -> Result<(), Refusal> {
        match self.softcap {
            Some(softcap) if !(MINIMUM_SOFTCAP..=MAXIMUM_SOFTCAP).contains(&softcap) => {
                return Err(Refusal::SoftcapOutOfRange { softcap });
            }
            _ => {}
        }
        if packing.is_some() && self.bias.is_some() {
            return Err(Refusal::PackedBias);
        }
        let bytes = || self.bias_extent(shape)?.checked_mul(ELEMENT_BYTES);
        match self.bias {
            Some(strides) if bytes().is_none() => Err(Refusal::BiasTooLarge { shape, strides }),
            _ => Ok(()),
        }
    }
}

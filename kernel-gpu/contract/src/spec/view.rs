//! Memory layout of a tensor.

use crate::spec::config::ELEMENT_BYTES;
use crate::spec::limits::ROW_ALIGNMENT;
use crate::spec::refusal::Refusal;
use crate::spec::shape::Shape;
use crate::spec::tensor::{Dimension, Strides, Tensor};

/// Dimension order of a contiguous tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Layout {
    /// `[batch, heads, sequence, head_dim]`, as in PyTorch's scaled_dot_product_attention.
    Bhsd,
    /// `[batch, sequence, heads, head_dim]`, as in flash-attn.
    Bshd,
}

impl Layout {
    /// Every layout.
    pub const ALL: [Layout; 2] = [Layout::Bhsd, Layout::Bshd];

    /// The name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Layout::Bhsd => "bhsd",
            Layout::Bshd => "bshd",
        }
    }

    /// Strides of a contiguous tensor with `shape`, the shape of that tensor alone ([`Shape::of`]).
    ///
    /// # Errors
    /// [`Refusal::TensorTooLarge`] when a stride does not fit 64 bits.
    pub fn strides(self, shape: Shape) -> Result<Strides, Refusal> {
        let [head_dim, heads, sequence] = [shape.head_dim, shape.heads, shape.sequence].map(u64::from);
        let (head, row) = match self {
            Layout::Bhsd => (sequence * head_dim, head_dim),
            Layout::Bshd => (head_dim, heads * head_dim),
        };
        let batch = (heads * head_dim).checked_mul(sequence).ok_or(Refusal::TensorTooLarge { shape })?;
        Ok(Strides { batch, head, row })
    }

    /// Sizes of a tensor with `shape`, likewise, in this order of dimensions.
    pub fn dimensions(self, shape: Shape) -> [u64; 4] {
        let Shape { batch, heads, sequence, head_dim, .. } = shape;
        match self {
            Layout::Bhsd => [batch, heads, sequence, head_dim],
            Layout::Bshd => [batch, sequence, heads, head_dim],
        }
        .map(u64::from)
    }

    /// The shape of a tensor whose sizes in this order are `dimensions`; `None` if one exceeds 32 bits.
    pub fn shape(self, dimensions: [u64; 4]) -> Option<Shape> {
        let [batch, second, third, head_dim] = dimensions;
        let (heads, sequence) = match self {
            Layout::Bhsd => (second, third),
            Layout::Bshd => (third, second),
        };
        let narrow = |value: u64| u32::try_from(value).ok();
        let shape = Shape::new(narrow(batch)?, narrow(heads)?, narrow(sequence)?);
        Some(shape.with_head_dim(narrow(head_dim)?))
    }
}

/// Memory layout of a `[B,H,S,D]` tensor, counted from an address: element `(b, h, s, d)` is at
/// `offset + b·batch + h·head + s·row + d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Elements before the first; a multiple of [`ROW_ALIGNMENT`].
    pub offset: u64,
    /// Strides, in elements. The stride of a dimension of size 1 is ignored.
    pub strides: Strides,
}

impl View {
    /// A view with offset 0.
    pub const fn new(strides: Strides) -> Self {
        Self { offset: 0, strides }
    }

    /// Checks that rows are 16-byte aligned and the tensor fits 64-bit addresses.
    pub(crate) fn check(&self, tensor: Tensor, shape: Shape) -> Result<(), Refusal> {
        for (dimension, _, stride) in self.dimensions(shape) {
            if stride % ROW_ALIGNMENT != 0 {
                return Err(Refusal::MisalignedStride { tensor, dimension, stride });
            }
        }
        if self.offset % ROW_ALIGNMENT != 0 {
            return Err(Refusal::MisalignedOffset { tensor, offset: self.offset });
        }
        let end = self.span(shape).and_then(|elements| elements.checked_add(self.offset));
        match end.and_then(|elements| elements.checked_mul(ELEMENT_BYTES)) {
            Some(_) => Ok(()),
            None => Err(Refusal::ViewTooLarge { tensor, shape, offset: self.offset, strides: self.strides }),
        }
    }

    /// Checks that each dimension, from the smallest stride up, steps over everything inside one of its entries.
    pub(crate) fn check_rows_apart(&self, tensor: Tensor, shape: Shape) -> Result<(), Refusal> {
        let mut dimensions = [(Dimension::Row, 1, 0); 3];
        let mut count = 0;
        for one in self.dimensions(shape) {
            dimensions[count] = one;
            count += 1;
        }
        let dimensions = &mut dimensions[..count];
        dimensions.sort_unstable_by_key(|&(_, _, stride)| stride);
        let mut covered = u64::from(shape.head_dim);
        for &mut (dimension, size, stride) in dimensions {
            if stride < covered {
                return Err(Refusal::RowsOverlap { tensor, dimension, stride, least: covered });
            }
            covered += stride * (size - 1);
        }
        Ok(())
    }

    /// Elements from the first to one past the last; `None` if 64 bits cannot count them.
    pub fn span(&self, shape: Shape) -> Option<u64> {
        let mut end = u64::from(shape.head_dim);
        for (_, size, stride) in self.dimensions(shape) {
            end = end.checked_add((size - 1).checked_mul(stride)?)?;
        }
        Some(end)
    }

    /// `(dimension, size, stride)` of the dimensions with more than one entry.
    fn dimensions(&self, shape: Shape) -> impl Iterator<Item = (Dimension, u64, u64)> {
        let Strides { batch, head, row } = self.strides;
        [
            (Dimension::Batch, shape.batch, batch),
            (Dimension::Head, shape.heads, head),
            (Dimension::Row, shape.sequence, row),
        ]
        .into_iter()
        .filter(|&(_, size, _)| size > 1)
        .map(|(dimension, size, stride)| (dimension, u64::from(size), stride))
    }
}

/// The views of the four tensors of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Views {
    /// View of Q.
    pub q: View,
    /// View of K.
    pub k: View,
    /// View of V.
    pub v: View,
    /// View of O.
    pub o: View,
}

impl Views {
    /// The same view for all four tensors.
    pub const fn all(view: View) -> Self {
        Self { q: view, k: view, v: view, o: view }
    }

    /// The view of Q, K, V or O.
    ///
    /// # Panics
    /// For any other tensor, which has no view.
    pub const fn of(&self, tensor: Tensor) -> View {
        match tensor {
            Tensor::Q => self.q,
            Tensor::K => self.k,
            Tensor::V => self.v,
            Tensor::O => self.o,
            _ => panic!("only Q, K, V and O have views"),
        }
    }

    /// The views, with their tensors.
    pub const fn named(&self) -> [(Tensor, View); 4] {
        [(Tensor::Q, self.q), (Tensor::K, self.k), (Tensor::V, self.v), (Tensor::O, self.o)]
    }
}

/// The rows of a tensor in memory, in bytes.
pub(crate) struct RowsAt {
    start: u64,
    row_bytes: u64,
    /// In each dimension the distance to the next row, and how many follow the first.
    steps: [(u64, u64); 3],
}

impl RowsAt {
    /// The rows of a tensor with this view, whose first element is at `start`.
    pub(crate) fn new(start: u64, view: View, shape: Shape) -> Self {
        let mut steps = [(0, 0); 3];
        for (step, (_, size, stride)) in steps.iter_mut().zip(view.dimensions(shape)) {
            *step = (stride.saturating_mul(ELEMENT_BYTES), size - 1);
        }
        Self { start, row_bytes: u64::from(shape.head_dim) * ELEMENT_BYTES, steps }
    }

    /// Whether no byte is of both, as far as strides tell: false also for some that are apart.
    ///
    /// The steps of at least some distance repeat what the shorter ones span. If they are multiples of a period, in which the two spans are
    /// apart, all rows are.
    pub(crate) fn are_apart_from(&self, other: &Self) -> bool {
        let begin = i128::from(other.start) - i128::from(self.start);
        self.steps.iter().chain(&other.steps).any(|&(least, _)| {
            let period = gcd(self.period(least), other.period(least));
            // Where the other's span begins behind the beginning of the own.
            let behind = if period > 0 { begin.rem_euclid(i128::from(period)) as u64 } else { return false };
            self.span(least) <= behind && other.span(least) <= period - behind
        })
    }

    /// The greatest common divisor of the steps of at least `least`; 0 if there are none.
    fn period(&self, least: u64) -> u64 {
        let longer = self.steps.iter().filter(|&&(distance, count)| count > 0 && distance >= least);
        longer.fold(0, |period, &(distance, _)| gcd(period, distance))
    }

    /// Bytes from the beginning to the end of what the shorter steps lead to.
    fn span(&self, least: u64) -> u64 {
        let shorter = self.steps.iter().filter(|&&(distance, _)| distance < least);
        shorter.fold(self.row_bytes, |span, &(distance, count)| span.saturating_add(distance.saturating_mul(count)))
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::collections::BTreeSet;

    /// The rows of 8 elements of a `[2,2,3]` tensor with these strides, in elements.
    fn rows(start: u64, [batch, head, row]: [u64; 3]) -> RowsAt {
        let shape = Shape::new(2, 2, 3).with_head_dim(8);
        RowsAt::new(start * ELEMENT_BYTES, View::new(Strides { batch, head, row }), shape)
    }

    fn bytes(rows: &RowsAt) -> BTreeSet<u64> {
        let mut starts = std::vec![rows.start];
        for (distance, count) in rows.steps {
            starts = (0..=count).flat_map(|index| starts.iter().map(move |start| start + index * distance)).collect();
        }
        starts.into_iter().flat_map(|start| start..start + rows.row_bytes).collect()
    }

    #[test]
    fn rows_are_apart_only_if_they_share_no_byte() {
        let mut apart = 0;
        let strides: std::vec::Vec<[u64; 3]> = (0..5_u64.pow(3))
            .map(|index| [index / 25, index / 5 % 5, index % 5].map(|digit| [0, 8, 16, 40, 48][digit as usize]))
            .collect();
        for (index, &own) in strides.iter().enumerate() {
            for start in [64, 72, 80, 88, 104] {
                let (own, other) = (rows(80, own), rows(start, strides[index * 7 % strides.len()]));
                let are_apart = own.are_apart_from(&other);
                assert_eq!(are_apart, other.are_apart_from(&own));
                assert!(!are_apart || bytes(&own).is_disjoint(&bytes(&other)), "{:?} {:?}", own.steps, other.steps);
                apart += u32::from(are_apart);
            }
        }
        assert!(apart > 0);
    }

    #[test]
    fn interleaved_views_of_one_buffer_are_apart() {
        // Two tensors in a buffer [B,S,2,H,D], in [B,S,H,2,D] and in [B,H,S,2,D].
        for (strides, other) in [([96, 8, 32], 16), ([96, 16, 32], 8), ([96, 48, 16], 8)] {
            let (own, next) = (rows(800, strides), rows(800 + other, strides));
            assert!(own.are_apart_from(&next) && next.are_apart_from(&own), "{strides:?}");
            assert!(!own.are_apart_from(&rows(800, strides)) && !own.are_apart_from(&rows(804, strides)));
        }
    }
}

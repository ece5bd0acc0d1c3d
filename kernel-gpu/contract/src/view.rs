//! Memory layout of a tensor.

use crate::config::ELEMENT_BYTES;
use crate::limits::ROW_ALIGNMENT;
use crate::refusal::Refusal;
use crate::shape::Shape;
use crate::tensor::{Dimension, Strides, Tensor};

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
    pub(crate) fn span(&self, shape: Shape) -> Option<u64> {
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

//! Memory layout of tensors.

use serde::Deserialize;

/// The order of dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// `[B,H,S,D]`.
    Bhsd,
    /// `[B,S,H,D]`.
    Bshd,
}

/// The type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// fp16.
    F16,
    /// bf16.
    Bf16,
}

/// B, H, S and D of a tensor, independent of their order in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Batch.
    pub batch: usize,
    /// Heads.
    pub heads: usize,
    /// Sequence.
    pub sequence: usize,
    /// Head dimension.
    pub columns: usize,
}

impl Shape {
    /// From dimensions in the order of `layout`.
    pub fn of([batch, second, third, columns]: [usize; 4], layout: Layout) -> Self {
        let (heads, sequence) = match layout {
            Layout::Bhsd => (second, third),
            Layout::Bshd => (third, second),
        };
        Self { batch, heads, sequence, columns }
    }

    /// Its dimensions in the order of `layout`.
    pub fn dimensions(self, layout: Layout) -> [usize; 4] {
        let Self { batch, heads, sequence, columns } = self;
        match layout {
            Layout::Bhsd => [batch, heads, sequence, columns],
            Layout::Bshd => [batch, sequence, heads, columns],
        }
    }

    /// Strides of B, H, S and D, elements.
    pub fn strides(self, layout: Layout) -> [usize; 4] {
        let Self { heads, sequence, columns, .. } = self;
        match layout {
            Layout::Bhsd => [heads * sequence * columns, sequence * columns, columns, 1],
            Layout::Bshd => [sequence * heads * columns, columns, heads * columns, 1],
        }
    }

    /// Number of elements.
    pub fn elements(self) -> usize {
        self.batch * self.heads * self.sequence * self.columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_those_of_the_layout() {
        let shape = Shape { batch: 2, heads: 4, sequence: 100, columns: 64 };
        assert_eq!(shape.strides(Layout::Bhsd), [4 * 100 * 64, 100 * 64, 64, 1]);
        assert_eq!(shape.strides(Layout::Bshd), [100 * 4 * 64, 64, 4 * 64, 1]);
        for layout in [Layout::Bhsd, Layout::Bshd] {
            assert_eq!(Shape::of(shape.dimensions(layout), layout), shape);
        }
    }
}

//! The shape of a problem.

use crate::spec::config::{ELEMENT_BYTES, Mask};
use crate::spec::tensor::Tensor;

/// Columns of a row of Q, K, V and O, unless [`Shape::with_head_dim`] sets another number.
pub const DEFAULT_HEAD_DIM: u32 = 64;

/// The shape of a problem, or of one of its tensors ([`Shape::of`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(from = "stored::Shape", into = "stored::Shape"))]
pub struct Shape {
    /// B.
    pub batch: u32,
    /// H, heads of Q and O.
    pub heads: u32,
    /// Heads of K and V, a divisor of H: H / `kv_heads` consecutive heads of Q share one (grouped-query attention; with 1,
    /// multi-query attention).
    pub kv_heads: u32,
    /// S, rows of a head of Q and O.
    pub sequence: u32,
    /// Rows of a head of K and V.
    pub kv_sequence: u32,
    /// D, columns of a row.
    pub head_dim: u32,
}

impl core::fmt::Display for Shape {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { batch, heads, kv_heads, sequence, kv_sequence, head_dim } = self;
        write!(formatter, "batch {batch}, heads {heads}")?;
        if kv_heads != heads {
            write!(formatter, " of Q and {kv_heads} of K and V")?;
        }
        write!(formatter, ", sequence {sequence}")?;
        if kv_sequence != sequence {
            write!(formatter, " of Q and {kv_sequence} of K and V")?;
        }
        match *head_dim {
            DEFAULT_HEAD_DIM => Ok(()),
            _ => write!(formatter, ", head_dim {head_dim}"),
        }
    }
}

impl Shape {
    /// A shape with [`DEFAULT_HEAD_DIM`] columns, as many heads of K and V as of Q, and as many keys as queries.
    pub const fn new(batch: u32, heads: u32, sequence: u32) -> Self {
        let (kv_heads, kv_sequence) = (heads, sequence);
        Self { batch, heads, kv_heads, sequence, kv_sequence, head_dim: DEFAULT_HEAD_DIM }
    }

    /// The same shape with `kv_sequence` rows per head of K and V.
    pub const fn with_kv_sequence(self, kv_sequence: u32) -> Self {
        Self { kv_sequence, ..self }
    }

    /// The same shape with `kv_heads` heads of K and V.
    pub const fn with_kv_heads(self, kv_heads: u32) -> Self {
        Self { kv_heads, ..self }
    }

    /// The same shape with rows of `head_dim` columns.
    pub const fn with_head_dim(self, head_dim: u32) -> Self {
        Self { head_dim, ..self }
    }

    /// The shape of one tensor: for K and V it has `kv_heads` heads of `kv_sequence` rows.
    pub const fn of(self, tensor: Tensor) -> Self {
        let Self { batch, heads, kv_heads, sequence, kv_sequence, head_dim } = self;
        match tensor {
            Tensor::K | Tensor::V | Tensor::DK | Tensor::DV => Self::new(batch, kv_heads, kv_sequence),
            _ => Self::new(batch, heads, sequence),
        }
        .with_head_dim(head_dim)
    }

    /// Heads of Q that share a head of K and V.
    pub const fn group(self) -> u32 {
        self.heads / self.kv_heads
    }

    /// Rows of Q and O, B·H·S.
    pub const fn rows(self) -> u128 {
        self.batch as u128 * self.heads as u128 * self.sequence as u128
    }

    /// Floating-point operations of a forward call by the usual count: 4·B·H·S·D per key, half of that if a causal mask begins
    /// at the row's own position.
    pub fn operations(self, mask: Mask) -> f64 {
        let [queries, keys] = [self.sequence, self.kv_sequence].map(f64::from);
        let of_a_head = match mask {
            // How much a window leaves depends on the problem.
            Mask::Full | Mask::Window => queries * keys,
            Mask::Causal => {
                let square = queries.min(keys);
                square * square / 2.0 + (queries - square) * keys
            }
        };
        4.0 * f64::from(self.batch) * f64::from(self.heads) * of_a_head * f64::from(self.head_dim)
    }

    /// Bytes of contiguous Q, K, V and O, and of LSE in f32.
    pub fn bytes(self) -> f64 {
        let rows_of_all = 2 * (self.rows() + self.of(Tensor::K).rows());
        rows_of_all as f64 * self.row_bytes() as f64 + self.rows() as f64 * 4.0
    }

    /// Bytes of a row of Q, K, V and O.
    pub const fn row_bytes(self) -> u64 {
        self.head_dim as u64 * ELEMENT_BYTES
    }

    /// The default scale, 1/√D.
    pub const fn default_scale(self) -> f64 {
        let square = self.head_dim as f64;
        // Newton's method from above until it stops decreasing: core has no square root.
        let mut root = square;
        loop {
            let next = 0.5 * (root + square / root);
            if next >= root {
                return 1.0 / root;
            }
            root = next;
        }
    }
}

/// The file format of a shape. Missing fields have their defaults.
#[cfg(feature = "manifest")]
mod stored {
    use super::DEFAULT_HEAD_DIM;

    #[derive(serde::Serialize, serde::Deserialize)]
    pub struct Shape {
        batch: u32,
        heads: u32,
        /// Default: `heads`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kv_heads: Option<u32>,
        sequence: u32,
        /// Default: `sequence`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kv_sequence: Option<u32>,
        #[serde(default = "default_head_dim")]
        head_dim: u32,
    }

    const fn default_head_dim() -> u32 {
        DEFAULT_HEAD_DIM
    }

    impl From<Shape> for super::Shape {
        fn from(Shape { batch, heads, kv_heads, sequence, kv_sequence, head_dim }: Shape) -> Self {
            let (kv_heads, kv_sequence) = (kv_heads.unwrap_or(heads), kv_sequence.unwrap_or(sequence));
            Self { batch, heads, kv_heads, sequence, kv_sequence, head_dim }
        }
    }

    impl From<super::Shape> for Shape {
        fn from(super::Shape { batch, heads, kv_heads, sequence, kv_sequence, head_dim }: super::Shape) -> Self {
            let kv_heads = (kv_heads != heads).then_some(kv_heads);
            let kv_sequence = (kv_sequence != sequence).then_some(kv_sequence);
            Self { batch, heads, kv_heads, sequence, kv_sequence, head_dim }
        }
    }
}

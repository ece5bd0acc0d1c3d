//! The kinds of sequences that tensors hold, and the sizes of their dimensions.

use attention::contract::problem::check_head_dim;
use attention::{Layout, Strides, View};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::Array;
use crate::checks::{element_of, narrow, require_element, require_gpu};
use crate::error::of_refusal;

/// The kind of sequences that tensors hold, and the order of their dimensions.
#[derive(Clone, Copy)]
pub enum Form<'a, 'py> {
    /// A batch of sequences of one length.
    Batch(Layout),
    /// Packed sequences: `[rows, heads, head size]`.
    Packed {
        /// First row of each sequence, then the end of the last.
        cu_seqlens: &'a Bound<'py, PyAny>,
        /// The same for K and V; `None` if they have the lengths of Q.
        cu_seqlens_k: Option<&'a Bound<'py, PyAny>>,
        /// How many of its rows each sequence uses.
        used: Used<'a, 'py>,
        /// Length of the longest sequence, if known.
        longest: Option<u32>,
    },
    /// A padded batch: `[batch, sequence, heads, head size]`.
    Padded(Used<'a, 'py>),
}

/// Number of rows that each sequence uses; `None`: all.
#[derive(Clone, Copy)]
pub struct Used<'a, 'py> {
    /// Rows of Q.
    pub q: Option<&'a Bound<'py, PyAny>>,
    /// Rows of K and V.
    pub k: Option<&'a Bound<'py, PyAny>>,
}

impl Used<'_, '_> {
    /// Whether either is given.
    pub fn is_given(&self) -> bool {
        self.q.is_some() || self.k.is_some()
    }
}

/// A tensor's dimensions, independent of their order.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Dimensions {
    batch: i64,
    heads: i64,
    /// Rows per sequence; for packed sequences, the total.
    rows: i64,
    head_dim: i64,
}

/// Sizes of the problem's dimensions.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub batch: i64,
    pub heads: i64,
    /// Rows per sequence; for packed sequences, the total.
    pub rows: i64,
    pub head_dim: i64,
    /// Heads of K and V.
    pub kv_heads: i64,
    /// Rows of K and V.
    pub kv_rows: i64,
}

impl Sizes {
    /// The sizes of `q` and `k`; K must have the type, GPU, batch and head size of Q.
    pub fn of(q: &Array, k: &Array, form: Form<'_, '_>) -> PyResult<Self> {
        let Dimensions { batch, heads, rows, head_dim } = form.queries(q)?;
        require_element(k, "k", q.element)?;
        match form.dimensions(k.shape()) {
            Some(of_k) if (of_k.batch, of_k.head_dim) == (batch, head_dim) && form.takes_keys(rows, of_k.rows) => {
                require_gpu(k, "k", q)?;
                Ok(Self { batch, heads, rows, head_dim, kv_heads: of_k.heads, kv_rows: of_k.rows })
            }
            _ => Err(PyValueError::new_err(format!(
                "k has the shape {:?} and q {:?}; they may differ in {} only",
                k.shape(),
                q.shape(),
                form.what_differs()
            ))),
        }
    }

    /// The shape of LSE.
    pub fn of_lse(self, form: Form<'_, '_>) -> Vec<i64> {
        let Self { batch, heads, rows, .. } = self;
        match form {
            Form::Batch(_) => vec![batch, heads, rows],
            Form::Packed { .. } => vec![heads, rows],
            Form::Padded(_) => vec![heads, batch, rows],
        }
    }

    /// The shape `[batch, heads, queries, keys]` that score modifications are given for; padded batches have batch 1.
    pub fn of_scores(self, form: Form<'_, '_>) -> [i64; 4] {
        let batch = if matches!(form, Form::Padded(_)) { 1 } else { self.batch };
        [batch, self.heads, self.rows, self.kv_rows]
    }
}

impl Form<'_, '_> {
    /// Names of the dimensions of Q, K, V and O.
    fn names(self) -> &'static str {
        match self {
            Form::Batch(Layout::Bhsd) => "[batch, heads, sequence, head size]",
            Form::Batch(Layout::Bshd) | Form::Padded(_) => "[batch, sequence, heads, head size]",
            Form::Packed { .. } => "[rows of all sequences, heads, head size]",
        }
    }

    /// Names of the dimensions of LSE.
    pub fn lse_names(self) -> &'static str {
        match self {
            Form::Batch(_) => "batch, heads, sequence",
            Form::Packed { .. } => "heads, rows of all sequences",
            Form::Padded(_) => "heads, batch, sequence",
        }
    }

    /// The dimensions in which K may differ from Q, in words.
    fn what_differs(self) -> &'static str {
        match self {
            Form::Batch(_) | Form::Padded(_) => "heads and in the sequence",
            Form::Packed { cu_seqlens_k: None, .. } => "heads and, with cu_seqlens_k, in rows",
            Form::Packed { .. } => "heads and in rows",
        }
    }

    /// Whether K may have `kv_rows` rows if Q has `rows`.
    fn takes_keys(self, rows: i64, kv_rows: i64) -> bool {
        !matches!(self, Form::Packed { cu_seqlens_k: None, .. }) || rows == kv_rows
    }

    fn dimensions(self, shape: &[i64]) -> Option<Dimensions> {
        let (batch, heads, rows, head_dim) = match (self, shape) {
            (Form::Batch(Layout::Bhsd), &[batch, heads, rows, head_dim]) => (batch, heads, rows, head_dim),
            (Form::Batch(Layout::Bshd) | Form::Padded(_), &[batch, rows, heads, head_dim]) => {
                (batch, heads, rows, head_dim)
            }
            (Form::Packed { .. }, &[rows, heads, head_dim]) => (1, heads, rows, head_dim),
            _ => return None,
        };
        Some(Dimensions { batch, heads, rows, head_dim })
    }

    /// The dimensions of Q.
    fn queries(self, q: &Array) -> PyResult<Dimensions> {
        element_of(q)?;
        let dimensions = self.dimensions(q.shape()).ok_or_else(|| {
            PyValueError::new_err(format!("q has {} dimensions; it must be {}", q.shape().len(), self.names()))
        })?;
        check_head_dim(narrow(dimensions.head_dim, "the head size of q")?).map_err(of_refusal)?;
        Ok(dimensions)
    }

    /// Requires the entries of a padded batch to lie one behind the other, which `Problem::padded` requires of Q, K, V and O.
    pub fn require_entries_together(self, array: &Array, name: &str) -> PyResult<()> {
        let (Form::Padded(_), &[batch, rows, ..], &[stride, row, ..]) = (self, array.shape(), array.strides()) else {
            return Ok(());
        };
        match batch <= 1 || stride == rows.saturating_mul(row) {
            true => Ok(()),
            false => Err(PyValueError::new_err(format!(
                "{name} has a batch stride of {stride}; a padded batch needs {}, entries that lie one behind the other",
                rows.saturating_mul(row)
            ))),
        }
    }

    /// The view of the argument `name`, which is Q, K, V or O.
    pub fn view(self, array: &Array, name: &str) -> PyResult<View> {
        let (batch, head, row, last) = match (self, array.strides()) {
            (Form::Batch(Layout::Bhsd), &[batch, head, row, last]) => (batch, head, row, last),
            (Form::Batch(Layout::Bshd) | Form::Padded(_), &[batch, row, head, last]) => (batch, head, row, last),
            (Form::Packed { .. }, &[row, head, last]) => (0, head, row, last),
            (_, strides) => {
                return Err(PyValueError::new_err(format!("{name} has {} dimensions, unlike q", strides.len())));
            }
        };
        if last != 1 {
            return Err(PyValueError::new_err(format!(
                "{name} has a stride of {last} elements along its last dimension; it must be 1 (rows without gaps)"
            )));
        }
        let positive = |stride: i64| {
            u64::try_from(stride).map_err(|_| {
                PyValueError::new_err(format!("{name} has a stride of {stride}; strides must not be negative"))
            })
        };
        Ok(View::new(Strides { batch: positive(batch)?, head: positive(head)?, row: positive(row)? }))
    }
}

//! Score modifications before the softmax.

use attention::{ScoreMod, Slopes, Strides};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::{Array, SINGLE};
use crate::checks::{require_element, require_gpu};

/// The score modifications of a call.
#[derive(Clone, Copy)]
pub struct Changes<'a, 'py> {
    /// The softcap.
    pub softcap: Option<f64>,
    /// ALiBi slopes.
    pub alibi_slopes: Option<&'a Bound<'py, PyAny>>,
    /// The bias.
    pub bias: Option<&'a Bound<'py, PyAny>>,
}

/// How many sequences may have slopes of their own, and what they are called.
pub type Entries = (i64, &'static str);

/// The score modifications, read.
pub struct Scores {
    /// As the library takes them.
    pub score_mod: ScoreMod,
    /// ALiBi slopes.
    pub alibi_slopes: Option<Array>,
    /// The bias.
    pub bias: Option<Array>,
}

impl<'py> Changes<'_, 'py> {
    /// Reads them for a problem of `[batch, heads, queries, keys]` with Q `q`, whose slopes may be given for each of `entries`, and are then
    /// `[entries, heads]`.
    pub fn read(
        &self,
        mut read: impl FnMut(&Bound<'py, PyAny>, &str) -> PyResult<Array>,
        sizes: [i64; 4],
        entries: Entries,
        q: &Array,
    ) -> PyResult<Scores> {
        let alibi_slopes = self.alibi_slopes.map(|slopes| read(slopes, "alibi_slopes")).transpose()?;
        let bias = self.bias.map(|bias| read(bias, "bias")).transpose()?;
        let score_mod = ScoreMod {
            softcap: self.softcap,
            alibi: alibi_slopes.as_ref().map(|slopes| slopes_of(slopes, sizes[1], entries, q)).transpose()?,
            bias: bias.as_ref().map(|bias| strides_of(bias, "bias", sizes, q)).transpose()?,
        };
        Ok(Scores { score_mod, alibi_slopes, bias })
    }
}

/// Whether slopes are of heads, or of each of `entries`.
pub fn slopes_of(slopes: &Array, heads: i64, (entries, name): Entries, q: &Array) -> PyResult<Slopes> {
    require_element(slopes, "alibi_slopes", SINGLE)?;
    require_gpu(slopes, "alibi_slopes", q)?;
    let (shape, strides) = (slopes.shape(), slopes.strides());
    let next_to_each_other = |size: i64, stride: i64, gap_free: i64| size <= 1 || stride == gap_free;
    match (shape, strides) {
        (&[of_heads], &[stride]) if of_heads == heads && next_to_each_other(heads, stride, 1) => Ok(Slopes::PerHead),
        (&[of_entries, of_heads], &[outer, inner])
            if (of_entries, of_heads) == (entries, heads)
                && next_to_each_other(entries, outer, heads)
                && next_to_each_other(heads, inner, 1) =>
        {
            Ok(Slopes::PerBatchAndHead)
        }
        _ => Err(PyValueError::new_err(format!(
            "alibi_slopes have the shape {shape:?} and strides {strides:?}; they must be [{heads}] or [{entries}, {heads}] (heads, or \
             {name} and heads) without gaps"
        ))),
    }
}

/// Strides of a bias, or its gradient, broadcast to `sizes`, by the rules of NumPy and PyTorch except along the last dimension.
pub fn strides_of(bias: &Array, name: &str, sizes: [i64; 4], q: &Array) -> PyResult<Strides> {
    require_element(bias, name, q.element)?;
    require_gpu(bias, name, q)?;
    let (shape, own) = (bias.shape(), bias.strides());
    // Missing leading dimensions are broadcast.
    let lacking = sizes.len() - shape.len();
    let mut strides = [0u64; 4];
    for (dimension, (&size, &stride)) in shape.iter().zip(own).enumerate() {
        let (whole, is_last) = (sizes[lacking + dimension], lacking + dimension == 3);
        let fits = size == whole || size == 1 && !is_last;
        let stride = if size == 1 { Some(0) } else { u64::try_from(stride).ok() };
        match stride {
            Some(stride) if fits && (!is_last || size <= 1 || stride == 1) => strides[lacking + dimension] = stride,
            _ => return Err(refused(bias, name, sizes)),
        }
    }
    if shape.is_empty() {
        return Err(refused(bias, name, sizes));
    }
    let [batch, head, row, _] = strides;
    Ok(Strides { batch, head, row })
}

fn refused(bias: &Array, name: &str, [batch, heads, queries, keys]: [i64; 4]) -> PyErr {
    PyValueError::new_err(format!(
        "{name} has the shape {:?} and strides {:?}; it must be [{batch} or 1, {heads} or 1, {queries} or 1, {keys}] (batch, heads, queries, \
         keys), the last dimension without gaps, no stride negative",
        bias.shape(),
        bias.strides()
    ))
}

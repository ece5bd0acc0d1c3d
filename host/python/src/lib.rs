//! The native module of the Python package `fa512`: `fa512._native`.
//!
//! No argument from Python causes a panic. A panic would surface as Python's `PanicException`, not as a crash.

mod array;
mod aten;
mod call;
mod checks;
mod dlpack;
mod error;
mod form;
mod gradients;
mod lengths;
mod output;
mod scores;
mod window;

use ::attention::{Element, Gpu, Layout, Lengths, Mask, Packing, Problem, ScoreMod, Shape};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::call::{Call, Tensors};
use crate::checks::narrow;
use crate::error::{of_library, of_refusal};
use crate::form::{Form, Used};
use crate::gradients::GradientTensors;
use crate::scores::Changes;
use crate::window::Whole;

/// Extracts an argument, with its name in the error.
macro_rules! argument {
    ($function:ident, $name:literal: $type:ty, $wanted:literal) => {
        fn $function(object: &Bound<'_, PyAny>) -> PyResult<$type> {
            object.extract().map_err(|_| {
                let found = object.repr().map_or_else(|_| "something else".to_owned(), |found| found.to_string());
                PyTypeError::new_err(format!("{} is {found}; it must be {}", $name, $wanted))
            })
        }
    };
}

argument!(causal_of, "causal": bool, "True or False");
argument!(return_lse_of, "return_lse": bool, "True or False");
argument!(scale_of, "scale": Option<f64>, "a number, or None for 1/√(head size)");
argument!(softcap_of, "softcap": Option<f64>, "a number, or None for no cap");

/// Computes softmax(scale · QKᵀ + mask) · V on the GPU, without a gradient.
///
/// Parameters
/// ----------
/// q, k, v
///     PyTorch tensors, CuPy or JAX arrays, or any objects with DLPack or `__cuda_array_interface__`: all float16 or all
///     bfloat16, on one GPU, with four dimensions in the order of `layout`. The last one, the head size, is a multiple of 8 up to
///     128. `k` and `v` may have another sequence length, and fewer heads if the number of heads of `q` is a multiple of theirs
///     (groups share one). Any strides work if rows are contiguous and start at multiples of 16 bytes; inputs may be broadcast
///     (stride 0).
/// causal
///     If true, query i attends only to the keys 0 … i.
/// window
///     (left, right): query i attends only to the keys i - left … i + right. None is no limit, for a side or both. With `causal`, right
///     is always 0.
/// align
///     How queries align with keys, for `causal` and `window`, if their numbers differ: "top-left", the first query with the first
///     key, as in PyTorch's `is_causal`, or "bottom-right", the last query with the last key, as in flash-attn.
/// scale
///     Factor on the scores; default 1/√(head size).
/// softcap
///     Caps scores: s = scale · q·k becomes softcap · tanh(s / softcap). From 0.001 to 1000; None means no cap.
/// alibi_slopes
///     float32 [heads] or [batch, heads]: slope · |i - j| is subtracted from the score of query i and key j, after the cap.
/// bias
///     Added to scores last: [batch, heads, queries, keys] of the type of `q`, whatever the layout. Batch, heads and queries may
///     be 1 or missing. The last dimension is contiguous. A key whose bias is -inf is excluded.
/// layout
///     Order of the dimensions: "bhsd" (batch, heads, sequence, head size), as in PyTorch, or "bshd", as in flash-attn.
/// out
///     Tensor for the result; if missing, the library of `q` allocates it, with the memory order of the dimensions of `q`.
/// return_lse
///     If true, also return the logarithm of the sum of exp(scores): float32 [batch, heads, sequence].
/// lse
///     Tensor for it, at a multiple of 16 bytes; if given, it is computed.
/// stream
///     The stream to use: a number, or a stream of PyTorch, CuPy or cuda.core. Default: the current stream of PyTorch or CuPy, or
///     the stream of `__cuda_array_interface__`, or the legacy default stream. For JAX and other libraries without a stream, the
///     call waits for the result.
///
/// Returns
/// -------
/// The result, or the result and LSE.
///
/// Raises
/// ------
/// TypeError
///     If an argument is not an array on a GPU, or has another element type.
/// ValueError
///     If a shape, stride, address, device, layout, window or scale is not acceptable.
/// RuntimeError
///     If there is no driver or GPU, or the driver reports an error.
#[pyfunction]
#[pyo3(signature = (q, k, v, *, causal=false, window=None, align="top-left", scale=None, softcap=None, alibi_slopes=None, bias=None, layout="bhsd", out=None, return_lse=false, lse=None, stream=None))]
#[allow(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
fn attention<'py>(
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = causal_of)] causal: bool,
    window: Option<&Bound<'py, PyAny>>,
    align: &str,
    #[pyo3(from_py_with = scale_of)] scale: Option<f64>,
    #[pyo3(from_py_with = softcap_of)] softcap: Option<f64>,
    alibi_slopes: Option<&Bound<'py, PyAny>>,
    bias: Option<&Bound<'py, PyAny>>,
    layout: &str,
    out: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = return_lse_of)] return_lse: bool,
    lse: Option<&Bound<'py, PyAny>>,
    stream: Option<&Bound<'py, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let (form, window) = (Form::Batch(layout_of(layout)?), window::of(causal, window)?);
    let alignment = window::alignment_of(align)?;
    let changes = Changes { softcap, alibi_slopes, bias };
    run(
        &Tensors { q, k, v, out, lse, gradients: None },
        &Call { window, alignment, scale, changes, form, return_lse, stream },
    )
}

/// Computes softmax(scale · QKᵀ + mask) · V of packed sequences on the GPU, without a gradient.
///
/// Sequence s has the rows from cu_seqlens[s] up to cu_seqlens[s + 1], and attends only to itself. Only the kernel reads `cu_seqlens`
/// and the other lengths, so the host does not wait. Whatever they hold, nothing outside the tensors is read or written, and no sequence
/// affects another's result. Rows that belong to no sequence, before cu_seqlens[0] and from its last element on, get zeros and an LSE of
/// -inf, as does a query whose sequence has no key.
///
/// Parameters
/// ----------
/// q, k, v
///     As for `attention`, but with three dimensions: [rows of all sequences, heads, head size]. `k` and `v` may have fewer heads and,
///     with `cu_seqlens_k`, another number of rows.
/// cu_seqlens
///     int32 or uint32 [sequences + 1] on the same GPU: where each sequence begins, and where the last one ends.
/// cu_seqlens_k
///     The same for the rows of `k` and `v`, if their lengths differ.
/// seqused_q, seqused_k
///     int32 or uint32 [sequences] on the same GPU: how many of its rows a sequence uses, in `q`, and in `k` and `v`. A number below 0
///     counts as 0, and one above the number of rows as that number. Rows from `seqused_q` on are not written.
/// max_seqlen
///     The length of the longest sequence of `q`, or an upper bound. It only helps to choose a kernel; results are right in any case.
/// causal
///     If true, query i of a sequence attends only to its keys 0 … i.
/// window
///     As for `attention`, within each sequence.
/// align
///     As for `attention`, within each sequence.
/// scale
///     Factor on the scores; default 1/√(head size).
/// softcap
///     As for `attention`.
/// alibi_slopes
///     As for `attention`: [heads], or [sequences, heads].
/// out
///     Tensor for the result; if missing, the library of `q` allocates it, contiguous.
/// return_lse
///     If true, also return the logarithm of the sum of exp(scores): float32 [heads, rows].
/// lse
///     Tensor for it, at a multiple of 16 bytes; if given, it is computed.
/// stream
///     As for `attention`.
///
/// Returns
/// -------
/// The result, or the result and LSE.
///
/// Raises
/// ------
/// TypeError, ValueError, RuntimeError
///     As `attention`.
#[pyfunction]
#[pyo3(signature = (q, k, v, cu_seqlens, *, cu_seqlens_k=None, seqused_q=None, seqused_k=None, max_seqlen=None, causal=false, window=None, align="top-left", scale=None, softcap=None, alibi_slopes=None, out=None, return_lse=false, lse=None, stream=None))]
#[allow(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
fn attention_varlen<'py>(
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    cu_seqlens: &Bound<'py, PyAny>,
    cu_seqlens_k: Option<&Bound<'py, PyAny>>,
    seqused_q: Option<&Bound<'py, PyAny>>,
    seqused_k: Option<&Bound<'py, PyAny>>,
    max_seqlen: Option<Whole>,
    #[pyo3(from_py_with = causal_of)] causal: bool,
    window: Option<&Bound<'py, PyAny>>,
    align: &str,
    #[pyo3(from_py_with = scale_of)] scale: Option<f64>,
    #[pyo3(from_py_with = softcap_of)] softcap: Option<f64>,
    alibi_slopes: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = return_lse_of)] return_lse: bool,
    lse: Option<&Bound<'py, PyAny>>,
    stream: Option<&Bound<'py, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let longest = max_seqlen.map(|longest| narrow(longest.0, "max_seqlen")).transpose()?;
    let used = Used { q: seqused_q, k: seqused_k };
    let (form, window) = (Form::Packed { cu_seqlens, cu_seqlens_k, used, longest }, window::of(causal, window)?);
    let alignment = window::alignment_of(align)?;
    let changes = Changes { softcap, alibi_slopes, bias: None };
    run(
        &Tensors { q, k, v, out, lse, gradients: None },
        &Call { window, alignment, scale, changes, form, return_lse, stream },
    )
}

/// Computes softmax(scale · QKᵀ + mask) · V of a padded batch on the GPU, without a gradient.
///
/// Entry b uses its first seqused_q[b] rows of `q` and its first seqused_k[b] rows of `k` and `v`. Only the kernel reads these numbers, so
/// the host does not wait. Rows of the result and of LSE from `seqused_q` on are not written. A query without a key gets zeros, and an LSE
/// of -inf.
///
/// Parameters
/// ----------
/// q, k, v
///     As for `attention`, but [batch, sequence, heads, head size]. The batch stride must be the sequence length times the row stride.
/// seqused_q, seqused_k
///     int32 or uint32 [batch] on the same GPU: how many rows an entry uses, in `q`, and in `k` and `v`; default: all. A number below
///     0 counts as 0, and one above the number of rows as that number.
/// causal
///     As for `attention`, within the used rows.
/// window
///     As for `attention`, within the used rows.
/// align
///     As for `attention`: how the used queries align with the used keys.
/// scale
///     Factor on the scores; default 1/√(head size).
/// softcap
///     As for `attention`.
/// alibi_slopes
///     As for `attention`: [heads], or [batch, heads].
/// out
///     Tensor for the result; if missing, the library of `q` allocates it.
/// return_lse
///     If true, also return the logarithm of the sum of exp(scores): float32 [heads, batch, sequence].
/// lse
///     Tensor for it, at a multiple of 16 bytes; if given, it is computed.
/// stream
///     As for `attention`.
///
/// Returns
/// -------
/// The result, or the result and LSE.
///
/// Raises
/// ------
/// TypeError, ValueError, RuntimeError
///     As `attention`.
#[pyfunction]
#[pyo3(signature = (q, k, v, *, seqused_q=None, seqused_k=None, causal=false, window=None, align="top-left", scale=None, softcap=None, alibi_slopes=None, out=None, return_lse=false, lse=None, stream=None))]
#[allow(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
fn attention_padded<'py>(
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    seqused_q: Option<&Bound<'py, PyAny>>,
    seqused_k: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = causal_of)] causal: bool,
    window: Option<&Bound<'py, PyAny>>,
    align: &str,
    #[pyo3(from_py_with = scale_of)] scale: Option<f64>,
    #[pyo3(from_py_with = softcap_of)] softcap: Option<f64>,
    alibi_slopes: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = return_lse_of)] return_lse: bool,
    lse: Option<&Bound<'py, PyAny>>,
    stream: Option<&Bound<'py, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let (form, window) = (Form::Padded(Used { q: seqused_q, k: seqused_k }), window::of(causal, window)?);
    let alignment = window::alignment_of(align)?;
    let changes = Changes { softcap, alibi_slopes, bias: None };
    run(
        &Tensors { q, k, v, out, lse, gradients: None },
        &Call { window, alignment, scale, changes, form, return_lse, stream },
    )
}

/// Computes dQ, dK and dV from the gradient `grad` of O. `q`, `k`, `v`, `out` and `lse` are as `attention` got and returned them, with the same
/// options. `dbias` has the dimensions of the bias that get sums of their own. Long sequences and sums are faster with a workspace: `allocate(bytes)` returns one, an array of bytes on the tensors' GPU.
#[pyfunction]
#[pyo3(signature = (grad, q, k, v, out, lse, dq, dk, dv, *, causal=false, window=None, align="top-left", scale=None, softcap=None, alibi_slopes=None, bias=None, dbias=None, layout="bhsd", allocate=None))]
#[allow(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
fn attention_backward<'py>(
    grad: &Bound<'py, PyAny>,
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    out: &Bound<'py, PyAny>,
    lse: &Bound<'py, PyAny>,
    dq: &Bound<'py, PyAny>,
    dk: &Bound<'py, PyAny>,
    dv: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = causal_of)] causal: bool,
    window: Option<&Bound<'py, PyAny>>,
    align: &str,
    #[pyo3(from_py_with = scale_of)] scale: Option<f64>,
    #[pyo3(from_py_with = softcap_of)] softcap: Option<f64>,
    alibi_slopes: Option<&Bound<'py, PyAny>>,
    bias: Option<&Bound<'py, PyAny>>,
    dbias: Option<&Bound<'py, PyAny>>,
    layout: &str,
    allocate: Option<&Bound<'py, PyAny>>,
) -> PyResult<()> {
    let (form, window) = (Form::Batch(layout_of(layout)?), window::of(causal, window)?);
    let alignment = window::alignment_of(align)?;
    let changes = Changes { softcap, alibi_slopes, bias };
    let gradients = Some(GradientTensors { grad, dq, dk, dv, dbias, allocate });
    let tensors = Tensors { q, k, v, out: Some(out), lse: Some(lse), gradients };
    let call = Call { window, alignment, scale, changes, form, return_lse: true, stream: None };
    call::run(&tensors, &call).map(drop)
}

/// The same of a padded batch, of `attention_padded`. Rows of dQ from `seqused_q` on, and those of dK and dV from `seqused_k` on, are not
/// written.
#[pyfunction]
#[pyo3(signature = (grad, q, k, v, out, lse, dq, dk, dv, *, seqused_q=None, seqused_k=None, causal=false, window=None, align="top-left", scale=None, softcap=None, alibi_slopes=None))]
#[allow(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
fn attention_padded_backward<'py>(
    grad: &Bound<'py, PyAny>,
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    out: &Bound<'py, PyAny>,
    lse: &Bound<'py, PyAny>,
    dq: &Bound<'py, PyAny>,
    dk: &Bound<'py, PyAny>,
    dv: &Bound<'py, PyAny>,
    seqused_q: Option<&Bound<'py, PyAny>>,
    seqused_k: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = causal_of)] causal: bool,
    window: Option<&Bound<'py, PyAny>>,
    align: &str,
    #[pyo3(from_py_with = scale_of)] scale: Option<f64>,
    #[pyo3(from_py_with = softcap_of)] softcap: Option<f64>,
    alibi_slopes: Option<&Bound<'py, PyAny>>,
) -> PyResult<()> {
    let (form, window) = (Form::Padded(Used { q: seqused_q, k: seqused_k }), window::of(causal, window)?);
    let alignment = window::alignment_of(align)?;
    let changes = Changes { softcap, alibi_slopes, bias: None };
    let gradients = Some(GradientTensors { grad, dq, dk, dv, dbias: None, allocate: None });
    let tensors = Tensors { q, k, v, out: Some(out), lse: Some(lse), gradients };
    let call = Call { window, alignment, scale, changes, form, return_lse: true, stream: None };
    call::run(&tensors, &call).map(drop)
}

/// The same of packed sequences, of `attention_varlen`.
#[pyfunction]
#[pyo3(signature = (grad, q, k, v, out, lse, dq, dk, dv, cu_seqlens, *, cu_seqlens_k=None, max_seqlen=None, causal=false, window=None, align="top-left", scale=None, softcap=None, alibi_slopes=None))]
#[allow(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
fn attention_varlen_backward<'py>(
    grad: &Bound<'py, PyAny>,
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    out: &Bound<'py, PyAny>,
    lse: &Bound<'py, PyAny>,
    dq: &Bound<'py, PyAny>,
    dk: &Bound<'py, PyAny>,
    dv: &Bound<'py, PyAny>,
    cu_seqlens: &Bound<'py, PyAny>,
    cu_seqlens_k: Option<&Bound<'py, PyAny>>,
    max_seqlen: Option<Whole>,
    #[pyo3(from_py_with = causal_of)] causal: bool,
    window: Option<&Bound<'py, PyAny>>,
    align: &str,
    #[pyo3(from_py_with = scale_of)] scale: Option<f64>,
    #[pyo3(from_py_with = softcap_of)] softcap: Option<f64>,
    alibi_slopes: Option<&Bound<'py, PyAny>>,
) -> PyResult<()> {
    let longest = max_seqlen.map(|longest| narrow(longest.0, "max_seqlen")).transpose()?;
    let used = Used { q: None, k: None };
    let (form, window) = (Form::Packed { cu_seqlens, cu_seqlens_k, used, longest }, window::of(causal, window)?);
    let alignment = window::alignment_of(align)?;
    let changes = Changes { softcap, alibi_slopes, bias: None };
    let gradients = Some(GradientTensors { grad, dq, dk, dv, dbias: None, allocate: None });
    let tensors = Tensors { q, k, v, out: Some(out), lse: Some(lse), gradients };
    let call = Call { window, alignment, scale, changes, form, return_lse: true, stream: None };
    call::run(&tensors, &call).map(drop)
}

fn run<'py>(tensors: &Tensors<'_, 'py>, call: &Call<'_, 'py>) -> PyResult<Py<PyAny>> {
    let (o, lse) = call::run(tensors, call)?;
    match lse {
        None => Ok(o.unbind()),
        Some(lse) => Ok((o, lse).into_pyobject(tensors.q.py())?.into_any().unbind()),
    }
}

fn layout_of(name: &str) -> PyResult<Layout> {
    let layout = Layout::ALL.into_iter().find(|layout| layout.name() == name);
    layout.ok_or_else(|| PyValueError::new_err(format!("layout is {name:?}; it must be \"bhsd\" or \"bshd\"")))
}

fn lengths_of(name: &str) -> PyResult<Lengths> {
    match name {
        "shared" => Ok(Lengths::Shared),
        "separate" => Ok(Lengths::Separate),
        "padded" => Ok(Lengths::Padded),
        _ => Err(PyValueError::new_err(format!(
            "lengths is {name:?}; it must be \"shared\", \"separate\" or \"padded\""
        ))),
    }
}

/// Loads the kernel for a shape, so that the first call is as fast as later ones, and can be captured into a CUDA graph.
///
/// Parameters
/// ----------
/// batch, heads, sequence
///     Sizes of the tensors.
/// causal
///     Whether the mask is causal.
/// window
///     As for `attention`.
/// layout
///     Order of the dimensions, as for `attention`.
/// device
///     Number of the GPU.
/// sequences
///     For packed sequences, their number; `batch` is then 1, and `sequence` the total number of rows.
/// lengths
///     "separate" for packed sequences with `cu_seqlens_k`, `seqused_q` or `seqused_k`; "padded" for `attention_padded`, whatever the
///     `layout`; "shared" for all others.
/// dtype
///     Element type of the tensors: "float16" or "bfloat16".
/// head_dim
///     Head size of the tensors.
/// kv_heads
///     Heads of `k` and `v`; default: as many as `q`.
/// kv_sequence
///     Sequence length of `k` and `v`; default: that of `q`.
/// align
///     As for `attention`.
/// changes_scores
///     Whether calls will have a softcap, ALiBi slopes or a bias; one kernel computes all of them.
///
/// Raises
/// ------
/// ValueError
///     If a size is not acceptable.
/// RuntimeError
///     If there is no driver or no such GPU, or the driver reports an error.
#[pyfunction]
#[pyo3(signature = (batch, heads, sequence, *, causal=false, window=None, layout="bhsd", device=Whole(0), sequences=None, lengths="shared", dtype="float16", head_dim=Whole(64), kv_heads=None, kv_sequence=None, align="top-left", changes_scores=false))]
#[allow(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
fn warm_up(
    py: Python<'_>,
    batch: Whole,
    heads: Whole,
    sequence: Whole,
    #[pyo3(from_py_with = causal_of)] causal: bool,
    window: Option<&Bound<'_, PyAny>>,
    layout: &str,
    device: Whole,
    sequences: Option<Whole>,
    lengths: &str,
    dtype: &str,
    head_dim: Whole,
    kv_heads: Option<Whole>,
    kv_sequence: Option<Whole>,
    align: &str,
    changes_scores: bool,
) -> PyResult<()> {
    let window = window::of(causal, window)?;
    let element = match dtype {
        "float16" => Element::F16,
        "bfloat16" => Element::Bf16,
        other => {
            let message = format!("dtype is {other:?}; it must be \"float16\" or \"bfloat16\"");
            return Err(PyValueError::new_err(message));
        }
    };
    let sequence = narrow(sequence.0, "sequence")?;
    let shape = Shape::new(narrow(batch.0, "batch")?, narrow(heads.0, "heads")?, sequence);
    let unless_given =
        |given: Option<Whole>, otherwise: u32, name| given.map_or(Ok(otherwise), |size| narrow(size.0, name));
    let shape = shape.with_kv_heads(unless_given(kv_heads, shape.heads, "kv_heads")?);
    let shape = shape.with_kv_sequence(unless_given(kv_sequence, sequence, "kv_sequence")?);
    let shape = shape.with_head_dim(narrow(head_dim.0, "head_dim")?);
    let alignment = window::alignment_of(align)?;
    let device = narrow(device.0, "device")? as usize;
    let lengths = lengths_of(lengths)?;
    let layout = if lengths == Lengths::Padded { Layout::Bshd } else { layout_of(layout)? };
    let problem = Problem::new(shape, Mask::Full, layout);
    let problem = problem.map(|problem| problem.with_element(element).with_window(window).aligned(alignment));
    let sequences = sequences.map(|sequences| narrow(sequences.0, "sequences")).transpose()?;
    let packing = sequences.map(|sequences| Packing::new(sequences, sequence));
    let problem = match (packing, lengths) {
        (None, Lengths::Shared) => problem,
        (None, Lengths::Padded) => problem.and_then(Problem::padded),
        (Some(packing), lengths @ (Lengths::Shared | Lengths::Separate)) => {
            problem.and_then(|problem| problem.packed(Packing { lengths, ..packing }))
        }
        (None, Lengths::Separate) => {
            return Err(PyValueError::new_err(
                "lengths is \"separate\", which is for packed sequences; give sequences",
            ));
        }
        (Some(_), Lengths::Padded) => {
            return Err(PyValueError::new_err(
                "lengths is \"padded\" and sequences given; sequences are packed or padded",
            ));
        }
    };
    let any_cap = ScoreMod { softcap: Some(1.0), ..ScoreMod::NONE };
    let problem =
        problem.and_then(|problem| if changes_scores { problem.with_score_mod(any_cap) } else { Ok(problem) });
    let problem = problem.map_err(of_refusal)?;
    let warm_up = || {
        let _context = Gpu::of_device(device)?.enter()?;
        ::attention::warm_up(&[problem])
    };
    py.detach(warm_up).map_err(of_library)
}

/// Reports what the package found on this machine.
///
/// Returns
/// -------
/// A dict: `version`; `kernels`, the number of kernels in the package; `driver`, the CUDA version that the driver
/// supports, or None; `gpus`, a list of dicts with `name`, `architecture`, `multiprocessors` and `why_not`; `why_not`,
/// the reason why nothing can be computed, or None.
#[pyfunction]
fn info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let info = PyDict::new(py);
    let kernels = ::attention::kernels().count();
    let version = py.detach(::attention::driver_version);
    let gpus = PyList::empty(py);
    let mut usable = false;
    for ordinal in 0.. {
        let found = py.detach(|| Gpu::of_device(ordinal));
        let gpu = PyDict::new(py);
        match found {
            Ok(found) => {
                usable = true;
                gpu.set_item("name", found.name())?;
                gpu.set_item("architecture", found.architecture())?;
                gpu.set_item("multiprocessors", found.multiprocessors())?;
                gpu.set_item("why_not", py.None())?;
            }
            Err(error @ ::attention::Error::GpuTooOld { .. }) => gpu.set_item("why_not", error.to_string())?,
            Err(_) => break,
        }
        gpus.append(gpu)?;
    }
    let why_not = match &version {
        Err(error) => Some(error.to_string()),
        Ok(_) if kernels == 0 => Some("this package was built without kernels".to_owned()),
        Ok(_) if !usable => Some("no GPU is new enough; the kernels need sm_80 or later".to_owned()),
        Ok(_) => None,
    };
    info.set_item("version", env!("CARGO_PKG_VERSION"))?;
    info.set_item("kernels", kernels)?;
    info.set_item("driver", version.ok().map(|version| version.to_string()))?;
    info.set_item("gpus", gpus)?;
    info.set_item("why_not", why_not)?;
    Ok(info)
}

/// The native module of fa512.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::aten::implement_aten;
    #[pymodule_export]
    use super::{
        attention, attention_backward, attention_padded, attention_padded_backward, attention_varlen,
        attention_varlen_backward, info, warm_up,
    };

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

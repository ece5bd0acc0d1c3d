//! The native half of the Python package `fa512`: `fa512._native`.
//!
//! Nothing of it panics on what Python passes; a panic all the same would be Python's `PanicException`, not a crash.

mod array;
mod call;
mod dlpack;
mod error;
mod form;
mod lengths;
mod output;
mod scores;
mod window;

use ::attention::{Element, Gpu, Layout, Lengths, Mask, Packing, Problem, ScoreMod, Shape};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::call::{Call, Tensors, narrow};
use crate::error::{of_library, of_refusal};
use crate::form::{Form, Used};
use crate::scores::Changes;

/// Computes softmax(scale · QKᵀ + mask) · V on the GPU, without a gradient.
///
/// Parameters
/// ----------
/// q, k, v
///     Tensors of PyTorch, arrays of CuPy or JAX, or any objects with DLPack or `__cuda_array_interface__`: float16, or
///     all bfloat16, on one GPU, four dimensions in the order of `layout`, the last one, the head size, a multiple of 8 up to
///     128. `k` and `v` may have fewer heads, of which those of `q` are a multiple (groups of them share one), and another
///     sequence length. Any strides will do whose rows are without gaps and start at multiples of 16 bytes; inputs may be
///     broadcast (stride 0).
/// causal
///     Whether query i attends to the keys 0 … i only.
/// window
///     (left, right): query i attends to the keys i - left … i + right only. None is no limit, for a side or both. With `causal`, right
///     is 0 whatever is given.
/// align
///     Where queries are among the keys, for `causal` and `window`, if there are not as many of these: "top-left", the first query
///     at the first key, as PyTorch's `is_causal` has it, or "bottom-right", the last query at the last key, as in flash-attn.
/// scale
///     Factor on the scores; 1/√(head size) unless given.
/// softcap
///     Caps scores: s = scale · q·k becomes softcap · tanh(s / softcap). From 0.001 to 1000; None is no cap.
/// alibi_slopes
///     float32 [heads] or [batch, heads]: the score of query i and key j becomes less by slope · |i - j|, behind the cap.
/// bias
///     Is added to scores last: of the type of `q`, [batch, heads, queries, keys] whatever the layout, where batch, heads and queries may
///     be 1 or missing. Its last dimension is without gaps. Where it is -inf, a query does not attend to the key.
/// layout
///     Order of the dimensions: "bhsd" (batch, heads, sequence, head size), as in PyTorch, or "bshd", as in flash-attn.
/// out
///     Where the result goes; made by the library of `q` unless given. A tensor that is made has the order of dimensions in
///     memory that `q` has.
/// return_lse
///     Whether the logarithm of the sum of exp(scores) is returned, too: float32 [batch, heads, sequence].
/// lse
///     Where that goes; giving it asks for it.
/// stream
///     The stream to work on: a number, or a stream of PyTorch, CuPy or cuda.core. Unless given it is the current stream of
///     PyTorch or CuPy, that of `__cuda_array_interface__`, else the legacy default stream; for JAX, and others that tell no
///     stream of theirs, the call waits for the result.
///
/// Returns
/// -------
/// The result, or the result and LSE.
///
/// Raises
/// ------
/// TypeError
///     When an argument is no array on a GPU, or of another element type.
/// ValueError
///     When a shape, stride, address, device, layout, window or scale is not acceptable.
/// RuntimeError
///     When there is no driver or GPU, or the driver reports an error.
#[pyfunction]
#[pyo3(signature = (q, k, v, *, causal=false, window=None, align="top-left", scale=None, softcap=None, alibi_slopes=None, bias=None, layout="bhsd", out=None, return_lse=false, lse=None, stream=None))]
#[allow(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
fn attention<'py>(
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    causal: bool,
    window: window::Sides,
    align: &str,
    scale: Option<f64>,
    softcap: Option<f64>,
    alibi_slopes: Option<&Bound<'py, PyAny>>,
    bias: Option<&Bound<'py, PyAny>>,
    layout: &str,
    out: Option<&Bound<'py, PyAny>>,
    return_lse: bool,
    lse: Option<&Bound<'py, PyAny>>,
    stream: Option<&Bound<'py, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let (form, window) = (Form::Batch(layout_of(layout)?), window::of(causal, window)?);
    let alignment = window::alignment_of(align)?;
    let changes = Changes { softcap, alibi_slopes, bias };
    run(&Tensors { q, k, v, out, lse }, &Call { window, alignment, scale, changes, form, return_lse, stream })
}

/// Computes softmax(scale · QKᵀ + mask) · V of packed sequences on the GPU, without a gradient.
///
/// Sequence s is the rows from cu_seqlens[s] up to cu_seqlens[s + 1], and attends to itself only. The kernel reads `cu_seqlens` and the
/// other lengths: the host waits for nothing. Whatever they hold, nothing outside the tensors is read or written, and no sequence
/// reaches another's result. Rows that belong to no sequence are not written. A query whose sequence has no key gets zeros, and an LSE
/// of -inf.
///
/// Parameters
/// ----------
/// q, k, v
///     As for `attention`, of three dimensions: [rows of all sequences, heads, head size]; `k` and `v` may have fewer heads and, with
///     `cu_seqlens_k`, another number of rows.
/// cu_seqlens
///     int32 or uint32 [sequences + 1] on the same GPU: where each sequence begins, and where the last one ends.
/// cu_seqlens_k
///     The same for the rows of `k` and `v`, if the sequences have other lengths there.
/// seqused_q, seqused_k
///     int32 or uint32 [sequences] on the same GPU: how many of its rows a sequence has, of `q`, and of `k` and `v`. A number below 0
///     counts as 0, a larger one than there are rows as these. Rows behind `seqused_q` are not written.
/// max_seqlen
///     The length of the longest sequence of `q`, or a bound. It helps to choose a kernel, and makes no result wrong.
/// causal
///     Whether query i of a sequence attends to its keys 0 … i only.
/// window
///     As for `attention`, within each sequence.
/// align
///     As for `attention`, within each sequence.
/// scale
///     Factor on the scores; 1/√(head size) unless given.
/// softcap
///     As for `attention`.
/// alibi_slopes
///     As for `attention`, [heads].
/// out
///     Where the result goes; made by the library of `q` unless given, without gaps.
/// return_lse
///     Whether the logarithm of the sum of exp(scores) is returned, too: float32 [heads, rows].
/// lse
///     Where that goes; giving it asks for it.
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
    max_seqlen: Option<i64>,
    causal: bool,
    window: window::Sides,
    align: &str,
    scale: Option<f64>,
    softcap: Option<f64>,
    alibi_slopes: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
    return_lse: bool,
    lse: Option<&Bound<'py, PyAny>>,
    stream: Option<&Bound<'py, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let longest = max_seqlen.map(|longest| narrow(longest, "max_seqlen")).transpose()?;
    let used = Used { q: seqused_q, k: seqused_k };
    let (form, window) = (Form::Packed { cu_seqlens, cu_seqlens_k, used, longest }, window::of(causal, window)?);
    let alignment = window::alignment_of(align)?;
    let changes = Changes { softcap, alibi_slopes, bias: None };
    run(&Tensors { q, k, v, out, lse }, &Call { window, alignment, scale, changes, form, return_lse, stream })
}

/// Computes softmax(scale · QKᵀ + mask) · V of a padded batch on the GPU, without a gradient.
///
/// Entry b uses its first seqused_q[b] rows of `q` and its first seqused_k[b] rows of `k` and `v`. The kernel reads them: the host waits
/// for nothing. Rows of the result and of LSE behind `seqused_q` are not written. A query without a key gets zeros, and an LSE of -inf.
///
/// Parameters
/// ----------
/// q, k, v
///     As for `attention`, [batch, sequence, heads, head size], whose entries lie one behind the other: the stride of the batch is the
///     sequence length times that of rows.
/// seqused_q, seqused_k
///     int32 or uint32 [batch] on the same GPU: how many rows an entry uses, of `q`, and of `k` and `v`; all unless given. A number below
///     0 counts as 0, a larger one than there are rows as these.
/// causal
///     As for `attention`, within the rows that are used.
/// window
///     As for `attention`, within the rows that are used.
/// align
///     As for `attention`: where the used queries are among the used keys.
/// scale
///     Factor on the scores; 1/√(head size) unless given.
/// softcap
///     As for `attention`.
/// alibi_slopes
///     As for `attention`, [heads].
/// out
///     Where the result goes; made by the library of `q` unless given.
/// return_lse
///     Whether the logarithm of the sum of exp(scores) is returned, too: float32 [heads, batch, sequence].
/// lse
///     Where that goes; giving it asks for it.
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
    causal: bool,
    window: window::Sides,
    align: &str,
    scale: Option<f64>,
    softcap: Option<f64>,
    alibi_slopes: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
    return_lse: bool,
    lse: Option<&Bound<'py, PyAny>>,
    stream: Option<&Bound<'py, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let (form, window) = (Form::Padded(Used { q: seqused_q, k: seqused_k }), window::of(causal, window)?);
    let alignment = window::alignment_of(align)?;
    let changes = Changes { softcap, alibi_slopes, bias: None };
    run(&Tensors { q, k, v, out, lse }, &Call { window, alignment, scale, changes, form, return_lse, stream })
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

/// Loads the kernel for a shape, so that the first call is as quick as the others, and may be captured into a CUDA graph.
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
///     Of a packed batch, the number of sequences; `batch` is then 1 and `sequence` the rows of all of them.
/// lengths
///     "separate" for packed sequences with `cu_seqlens_k`, `seqused_q` or `seqused_k`; "padded" for `attention_padded`, whatever the
///     `layout`; "shared" for all others.
/// dtype
///     Element type of the tensors: "float16" or "bfloat16".
/// head_dim
///     Head size of the tensors.
/// kv_heads
///     Heads of `k` and `v`; as many as of `q` unless given.
/// kv_sequence
///     Sequence length of `k` and `v`; that of `q` unless given.
/// align
///     As for `attention`.
/// changes_scores
///     Whether there will be a softcap, ALiBi slopes or a bias: one kernel computes all of them.
///
/// Raises
/// ------
/// ValueError
///     When a size is not acceptable.
/// RuntimeError
///     When there is no driver or no such GPU, or the driver reports an error.
#[pyfunction]
#[pyo3(signature = (batch, heads, sequence, *, causal=false, window=None, layout="bhsd", device=0, sequences=None, lengths="shared", dtype="float16", head_dim=64, kv_heads=None, kv_sequence=None, align="top-left", changes_scores=false))]
#[allow(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
fn warm_up(
    py: Python<'_>,
    batch: i64,
    heads: i64,
    sequence: i64,
    causal: bool,
    window: window::Sides,
    layout: &str,
    device: i64,
    sequences: Option<i64>,
    lengths: &str,
    dtype: &str,
    head_dim: i64,
    kv_heads: Option<i64>,
    kv_sequence: Option<i64>,
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
    let sequence = narrow(sequence, "sequence")?;
    let shape = Shape::new(narrow(batch, "batch")?, narrow(heads, "heads")?, sequence);
    let unless_given =
        |given: Option<i64>, otherwise: u32, name| given.map_or(Ok(otherwise), |size| narrow(size, name));
    let shape = shape.with_kv_heads(unless_given(kv_heads, shape.heads, "kv_heads")?);
    let shape = shape.with_kv_sequence(unless_given(kv_sequence, sequence, "kv_sequence")?);
    let shape = shape.with_head_dim(narrow(head_dim, "head_dim")?);
    let alignment = window::alignment_of(align)?;
    let device = narrow(device, "device")? as usize;
    let lengths = lengths_of(lengths)?;
    let layout = if lengths == Lengths::Padded { Layout::Bshd } else { layout_of(layout)? };
    let problem = Problem::new(shape, Mask::Full, layout);
    let problem = problem.map(|problem| problem.with_element(element).with_window(window).aligned(alignment));
    let sequences = sequences.map(|sequences| narrow(sequences, "sequences")).transpose()?;
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

/// Tells what the package finds on this machine.
///
/// Returns
/// -------
/// A dict: `version`; `kernels`, the number of kernels inside; `driver`, the CUDA version that the driver supports, or None;
/// `gpus`, a list of dicts with `name`, `architecture`, `multiprocessors` and `why_not`; `why_not`, which says why nothing can
/// be computed, or None.
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

/// The native half of fa512.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{attention, attention_padded, attention_varlen, info, warm_up};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

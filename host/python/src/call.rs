//! `fa512.attention`, `fa512.attention_varlen` and `fa512.attention_padded`.

use attention::{
    Addresses, Alignment, BackwardAddresses, Entered, Gpu, Gradient, Layout, Mask, Options, Problem, Shape, Stream,
    Views, Window,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::array::{self, Array, Library, Protocol, SINGLE};
use crate::checks::{element_of, narrow, require_element, require_gpu, require_like, require_writable};
use crate::error::{of_library, of_refusal};
use crate::form::{Form, Sizes};
use crate::gradients::GradientTensors;
use crate::lengths::Lengths;
use crate::output;
use crate::scores::{Changes, Scores};

/// The tensor arguments of a call.
pub struct Tensors<'a, 'py> {
    /// Queries.
    pub q: &'a Bound<'py, PyAny>,
    /// Keys.
    pub k: &'a Bound<'py, PyAny>,
    /// Values.
    pub v: &'a Bound<'py, PyAny>,
    /// Receives O; allocated if `None`.
    pub out: Option<&'a Bound<'py, PyAny>>,
    /// Receives LSE.
    pub lse: Option<&'a Bound<'py, PyAny>>,
    /// Those of a backward call, which reads O and LSE.
    pub gradients: Option<GradientTensors<'a, 'py>>,
}

/// The other arguments of a call.
pub struct Call<'a, 'py> {
    /// Which keys a query attends to.
    pub window: Window,
    /// How queries are aligned with keys.
    pub alignment: Alignment,
    /// Factor on the scores; `None`: 1/√D.
    pub scale: Option<f64>,
    /// Score modifications.
    pub changes: Changes<'a, 'py>,
    /// The kind of sequences.
    pub form: Form<'a, 'py>,
    /// Whether to allocate LSE if it is not given.
    pub return_lse: bool,
    /// The caller's stream; `None`: the current one.
    pub stream: Option<&'a Bound<'py, PyAny>>,
}

/// O and, if requested, LSE.
pub type Results<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

/// The stream that a call works on, and its synchronisation with producers and consumers.
struct Order {
    stream: u64,
    /// The stream that producers have to synchronise with; `None` if it is the one that they work on.
    exported: Option<u64>,
    /// Whether nobody else knows the stream, so that the call has to wait for its results.
    waits: bool,
}

/// Computes attention of `tensors`.
pub fn run<'py>(tensors: &Tensors<'_, 'py>, call: &Call<'_, 'py>) -> PyResult<Results<'py>> {
    let py = tensors.q.py();
    let library = Library::of(tensors.q)?;
    if library == Library::Torch {
        // A backward call is made where PyTorch records its gradient, or says that there is none.
        if tensors.gradients.is_none() {
            refuse_gradients(tensors, &call.changes)?;
        }
        refuse_negative_bits(tensors, &call.changes)?;
    }
    let protocol = Protocol::of(tensors.q, "q")?;
    let order = order(py, tensors.q, protocol, library, call.stream)?;
    let mut keep = Vec::new();
    let mut read = |object: &Bound<'py, PyAny>, name: &str| {
        let array = Array::read(object, name, order.exported, &mut keep)?;
        require_memory(&array, name).map(|()| array)
    };
    let (q, k, v) = (read(tensors.q, "q")?, read(tensors.k, "k")?, read(tensors.v, "v")?);
    let sizes = Sizes::of(&q, &k, call.form)?;
    require_like(&v, "v", &k, "k")?;
    require_gpu(&v, "v", &q)?;
    let o_object = match tensors.out {
        Some(out) => out.clone(),
        None => output::for_o(tensors.q, &q, library)?,
    };
    let lse_object = match (tensors.lse, call.return_lse) {
        (Some(lse), _) => Some(lse.clone()),
        (None, true) => Some(output::for_lse(tensors.q, &sizes.of_lse(call.form), library)?),
        (None, false) => None,
    };
    let o = read(&o_object, "out")?;
    require_like(&o, "out", &q, "q")?;
    let lse = lse_object.as_ref().map(|lse| read(lse, "lse")).transpose()?;
    // JAX hands out read-only arrays; one that was allocated here is not shared yet, and may be written.
    let is_forward = tensors.gradients.is_none();
    require_writable(&o, "out", is_forward && tensors.out.is_some())?;
    if let Some(lse) = &lse {
        require_lse(lse, &sizes.of_lse(call.form), call.form.lse_names(), &q)?;
        require_writable(lse, "lse", is_forward && tensors.lse.is_some())?;
    }
    let lengths = Lengths::read(call.form, &mut read, sizes, &q)?;
    let scores = call.changes.read(&mut read, sizes.of_scores(call.form), lengths.entries(sizes.batch), &q)?;
    let gradients = match &tensors.gradients {
        Some(gradients) => Some(gradients.read(&mut read, [&o, &q, &k, &v], call.form, sizes.of_scores(call.form))?),
        None => None,
    };
    let has_rows = ![sizes.batch, sizes.heads, sizes.rows].contains(&0);
    let has_keys = sizes.kv_rows > 0 && !lengths.are_of_none();
    if gradients.is_some() && !(has_rows && has_keys) {
        return Err(PyValueError::new_err(
            "there are no queries, keys or sequences, so that no kernel would write dq, dk and dv; their values are zeros",
        ));
    }
    if !has_rows {
        return Ok((o_object, lse_object));
    }
    let problem = problem([&q, &k, &v, &o], sizes, has_keys.then_some(&lengths), call)?;
    let Scores { score_mod, alibi_slopes, bias } = scores;
    let problem = problem.with_score_mod(score_mod).map_err(of_refusal)?;
    let addresses = Addresses {
        lse: lse.as_ref().map(|lse| lse.address),
        bias: bias.as_ref().map(|bias| bias.address),
        alibi_slopes: alibi_slopes.as_ref().map(|slopes| slopes.address),
        ..lengths.beside(Addresses::new(q.address, k.address, v.address, o.address))
    };
    // PyTorch guarantees that a tensor lies within its memory, on the GPU that it names.
    let is_trusted = library == Library::Torch && matches!(protocol, Protocol::Exchange(_));
    let options = Options::default().check_pointers(!is_trusted);
    // Its memory must not be anybody else's before the launch is queued.
    let mut workspace = None;
    let work = match &gradients {
        Some(gradients) => {
            let (gradient, mut addresses) = gradients.of(problem, addresses)?;
            workspace = tensors.gradients.map(|of| of.workspace(&gradient, &q, &mut read)).transpose()?.flatten();
            addresses.forward.workspace = workspace.as_ref().map(|(_, array)| array.address);
            Work::Backward(gradient, addresses)
        }
        None if has_keys => Work::Forward(problem, addresses),
        None => Work::WithoutKeys(problem, addresses),
    };
    let of_gradients = gradients.iter().flat_map(|gradients| gradients.arrays());
    let arrays = [&q, &k, &v, &o].into_iter().chain(lengths.arrays()).chain(&alibi_slopes).chain(&bias);
    let arrays = arrays.chain(of_gradients).chain(workspace.as_ref().map(|(_, array)| array));
    let stream = producers_stream(&order, arrays, call.stream.is_some())?;
    let gpu = q.gpu;
    // Release the GIL: the driver may wait for room in the stream's queue, or compile a kernel.
    py.detach(|| launch(gpu, &work, stream, options, order.waits)).map_err(of_library)?;
    drop((keep, workspace));
    Ok((o_object, lse_object))
}

/// What is launched.
#[expect(clippy::large_enum_variant, reason = "a call makes one, on the stack")]
enum Work {
    Forward(Problem, Addresses),
    /// Of K and V without rows.
    WithoutKeys(Problem, Addresses),
    Backward(Gradient, BackwardAddresses),
}

fn launch(gpu: Option<usize>, work: &Work, stream: u64, options: Options, waits: bool) -> Result<(), attention::Error> {
    let _context: Option<Entered> = gpu.map(|ordinal| Gpu::of_device(ordinal)?.enter()).transpose()?;
    let stream = Stream::from_raw(std::ptr::without_provenance_mut(stream as usize));
    // SAFETY: the stream is the current one of the tensors' library, or one that the caller vouches for by naming it.
    // The caller's arguments keep the tensors alive during this call; afterwards, as for every asynchronous call, their
    // library orders frees and writes behind it on that stream, and if it has no such stream, this call waits.
    // Addresses come from PyTorch's descriptions, or were checked.
    unsafe {
        match work {
            Work::Forward(problem, addresses) => attention::forward_with(problem, *addresses, stream, options)?,
            Work::WithoutKeys(problem, addresses) => {
                attention::forward_without_keys(problem, addresses.o, addresses.lse, stream, options)?;
            }
            Work::Backward(gradient, addresses) => attention::backward_with(gradient, *addresses, stream, options)?,
        }
        if waits { stream.synchronize() } else { Ok(()) }
    }
}

/// Refuses tensors that require a gradient, since this call would lose it.
fn refuse_gradients(tensors: &Tensors<'_, '_>, changes: &Changes<'_, '_>) -> PyResult<()> {
    static IS_GRAD_ENABLED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = tensors.q.py();
    let is_grad_enabled = IS_GRAD_ENABLED
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("torch")?.getattr("is_grad_enabled")?.unbind()))?;
    if !is_grad_enabled.bind(py).call0()?.is_truthy()? {
        return Ok(());
    }
    let given = [(Some(tensors.q), "q"), (Some(tensors.k), "k"), (Some(tensors.v), "v"), (changes.bias, "bias")];
    for (object, name) in given {
        let Some(object) = object else { continue };
        let Some(requires_grad) = object.getattr_opt(intern!(py, "requires_grad"))? else { continue };
        if !requires_grad.is_truthy()? {
            continue;
        }
        return Err(PyValueError::new_err(format!(
            "{name} requires grad, and fa512.attention records no gradient; fa512.torch.attention does, or call this one under \
             torch.no_grad()"
        )));
    }
    Ok(())
}

/// Refuses tensors of PyTorch whose memory holds the negatives of their elements (`torch._neg_view`).
fn refuse_negative_bits(tensors: &Tensors<'_, '_>, changes: &Changes<'_, '_>) -> PyResult<()> {
    let py = tensors.q.py();
    let Tensors { q, k, v, out, lse, gradients } = *tensors;
    let grad = gradients.map(|gradients| gradients.grad);
    let optional =
        [(out, "out"), (lse, "lse"), (grad, "grad"), (changes.bias, "bias"), (changes.alibi_slopes, "alibi_slopes")];
    for (object, name) in [(Some(q), "q"), (Some(k), "k"), (Some(v), "v")].into_iter().chain(optional) {
        let Some(object) = object else { continue };
        // Arrays of other libraries have no such method.
        let Ok(is_negative) = object.call_method0(intern!(py, "is_neg")) else { continue };
        if is_negative.is_truthy()? {
            return Err(PyValueError::new_err(format!(
                "{name} has its negative bit set: its memory holds the negatives of its elements; pass {name}.resolve_neg()"
            )));
        }
    }
    Ok(())
}

/// Requires an array with elements to have an address.
fn require_memory(array: &Array, name: &str) -> PyResult<()> {
    match array.address == 0 && !array.shape().contains(&0) {
        true => Err(PyValueError::new_err(format!(
            "{name} has no memory (its address is 0), as zero tensors of PyTorch do; pass {name}.clone()"
        ))),
        false => Ok(()),
    }
}

fn order(
    py: Python<'_>,
    q: &Bound<'_, PyAny>,
    protocol: Protocol,
    library: Library,
    explicit: Option<&Bound<'_, PyAny>>,
) -> PyResult<Order> {
    if let Some(stream) = explicit {
        let stream = handle(stream)?;
        return Ok(Order { stream, exported: Some(stream), waits: false });
    }
    let of_library = |stream| Order { stream, exported: None, waits: false };
    Ok(match (protocol, library) {
        (Protocol::Exchange(api), _) => {
            let gpu = Array::read(q, "q", None, &mut Vec::new())?.gpu.unwrap_or(0);
            of_library(array::current_stream(py, api, gpu)?)
        }
        (_, Library::Torch) => {
            let (_, gpu) = array::device(q, "q")?;
            let current = py.import("torch.cuda")?.call_method1("current_stream", (gpu,))?;
            of_library(handle(&current)?)
        }
        (_, Library::Cupy) => of_library(handle(&py.import("cupy.cuda")?.call_method0("get_current_stream")?)?),
        (Protocol::Capsule, _) => Order { stream: 0, exported: Some(0), waits: true },
        (Protocol::Interface, _) => Order { stream: 0, exported: Some(0), waits: false },
    })
}

/// The stream of the call: the one in `order`, or the one that the producers of `arrays` work on.
fn producers_stream<'a>(order: &Order, arrays: impl Iterator<Item = &'a Array>, is_explicit: bool) -> PyResult<u64> {
    let mut named = arrays.filter_map(|array| array.stream);
    let Some(first) = named.next().filter(|_| !is_explicit) else { return Ok(order.stream) };
    if named.any(|stream| stream != first) {
        return Err(PyValueError::new_err(
            "the arrays are in use on different streams (__cuda_array_interface__); make one wait for the others and pass it as \
             stream=",
        ));
    }
    Ok(first)
}

/// The handle of a stream: a number, or an object with a handle attribute as in CUDA's Python libraries, PyTorch or
/// CuPy.
fn handle(stream: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = stream.py();
    if let Ok(number) = stream.extract::<u64>() {
        return Ok(number);
    }
    if let Some(protocol) = stream.getattr_opt(intern!(py, "__cuda_stream__"))? {
        return Ok(protocol.call0()?.extract::<(i64, u64)>()?.1);
    }
    for name in [intern!(py, "cuda_stream"), intern!(py, "ptr")] {
        if let Some(number) = stream.getattr_opt(name)? {
            return number.extract();
        }
    }
    Err(PyTypeError::new_err(format!(
        "stream is a {}; it must be a number (a CUstream), or a stream of PyTorch, CuPy or cuda.core",
        stream.get_type().name()?
    )))
}

fn require_lse(lse: &Array, sizes: &[i64], names: &str, q: &Array) -> PyResult<()> {
    require_element(lse, "lse", SINGLE)?;
    let mut gap_free = 1;
    let is_contiguous = lse.shape().iter().zip(lse.strides()).rev().all(|(&size, &stride)| {
        let is_next = size == 1 || stride == gap_free;
        gap_free *= size;
        is_next
    });
    if lse.shape() != sizes || !(is_contiguous || sizes.contains(&0)) {
        return Err(PyValueError::new_err(format!(
            "lse has the shape {:?} and strides {:?}; it must be {sizes:?} ({names}) without gaps",
            lse.shape(),
            lse.strides()
        )));
    }
    require_gpu(lse, "lse", q)
}

/// The problem of these tensors; without `lengths`, that of as many queries with a key.
fn problem(
    [q, k, v, o]: [&Array; 4],
    sizes: Sizes,
    lengths: Option<&Lengths>,
    call: &Call<'_, '_>,
) -> PyResult<Problem> {
    let shape =
        Shape::new(narrow(sizes.batch, "batch")?, narrow(sizes.heads, "heads")?, narrow(sizes.rows, "sequence")?);
    let shape = shape.with_kv_heads(narrow(sizes.kv_heads, "the heads of k")?);
    let kv_rows = if lengths.is_some() { sizes.kv_rows } else { 1 };
    let shape = shape.with_kv_sequence(narrow(kv_rows, "the sequence of k")?);
    let shape = shape.with_head_dim(narrow(sizes.head_dim, "the head size")?);
    let view = |array, name| call.form.view(array, name);
    let views = Views { q: view(q, "q")?, k: view(k, "k")?, v: view(v, "v")?, o: view(o, "out")? };
    let element = element_of(q)?;
    let problem = Problem::new(shape, Mask::Full, Layout::Bshd);
    let problem = problem.and_then(|problem| {
        problem.with_element(element).with_window(call.window).aligned(call.alignment).with_views(views)
    });
    let problem = problem
        .and_then(|problem| lengths.map_or(Ok(problem), |lengths| lengths.apply(problem)))
        .map_err(of_refusal)?;
    match call.scale {
        None => Ok(problem),
        Some(scale) => problem.with_scale(scale).map_err(of_refusal),
    }
}

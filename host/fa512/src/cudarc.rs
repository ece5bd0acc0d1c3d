//! A safe interface for tensors in cudarc slices.

use std::sync::Arc;

use ::cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice};
use contract::config::Element;
use contract::plan::{Addresses, lengths_elements};
use contract::problem::Problem;
use contract::refusal::Tensor;
use half::{bf16, f16};

use crate::driver::Driver;
use crate::error::{Error, MemoryProblem};
use crate::forward::Options;
use crate::gpu::Gpu;
use crate::plan::Plan;

/// A slice type of cudarc itself. Sealed: an implementation elsewhere could return any address.
pub trait Slice: sealed::Sealed {}

impl<T: sealed::Sealed> Slice for T {}

/// Element type of `cu_seqlens`: i32 or u32. The kernels replace an element outside the rows of the tensors (negative or
/// too large) by their number.
pub trait Length: sealed::Length {}

impl<T: sealed::Length> Length for T {}

/// Element type of Q, K, V and O. It overrides the element type of the problem.
pub trait Number: sealed::Number {}

impl<T: sealed::Number> Number for T {}

mod sealed {
    use super::Element;

    pub trait Sealed {}

    pub trait Number {
        const ELEMENT: Element;
    }

    impl Number for super::f16 {
        const ELEMENT: Element = Element::F16;
    }
    impl Number for super::bf16 {
        const ELEMENT: Element = Element::Bf16;
    }

    pub trait Length {}

    impl Length for i32 {}
    impl Length for u32 {}

    impl<T> Sealed for super::CudaSlice<T> {}
    impl<T> Sealed for super::CudaView<'_, T> {}
    impl<T> Sealed for super::CudaViewMut<'_, T> {}
}

/// The tensors that score modifications read ([`ScoreMod`](crate::ScoreMod)): each that the problem has must be given.
#[derive(Debug)]
pub struct ScoreTensors<'a, T> {
    /// The bias, of the type of Q. Its first element belongs to batch entry 0, head 0, query 0 and key 0.
    pub bias: Option<CudaView<'a, T>>,
    /// The ALiBi slopes, `[H]` or `[B,H]`; of packed sequences `[H]` or `[sequences,H]`.
    pub alibi_slopes: Option<CudaView<'a, f32>>,
}

impl<T> ScoreTensors<'_, T> {
    /// No tensors: for problems without score modifications, or with a softcap only.
    pub const NONE: Self = Self { bias: None, alibi_slopes: None };
}

/// Computes `O = softmax(scale · QKᵀ + mask) · V` and, if `lse` is given, LSE (`[B,H,S]`) of `problem`, asynchronously on
/// `stream`.
///
/// The stream's context becomes the calling thread's current one, as in every call of cudarc. The element type is that
/// of the slices. The problem's views count from the beginning of each slice. Where cudarc tracks the use of slices by
/// events, this call does so too.
///
/// # Errors
/// When a slice is shorter than its tensor or belongs to another context than the stream, and as for
/// [`forward`](crate::forward).
pub fn forward<T: Number>(
    problem: &Problem,
    q: &(impl DevicePtr<T> + Slice),
    k: &(impl DevicePtr<T> + Slice),
    v: &(impl DevicePtr<T> + Slice),
    o: &mut (impl DevicePtrMut<T> + Slice),
    lse: Option<&mut CudaSlice<f32>>,
    stream: &Arc<CudaStream>,
) -> Result<(), Error> {
    forward_with_options(problem, q, k, v, o, lse, stream, Options::default())
}

/// [`forward`] with other options. The driver is not asked about pointers: the slice type already guarantees device
/// memory of the slice's length. A workspace, if one is of use ([`Plan::with_workspace`]), is allocated on the stream.
///
/// # Errors
/// As for [`forward`].
#[allow(clippy::too_many_arguments, reason = "five tensors, and each may be of another type")]
pub fn forward_with_options<T: Number>(
    problem: &Problem,
    q: &(impl DevicePtr<T> + Slice),
    k: &(impl DevicePtr<T> + Slice),
    v: &(impl DevicePtr<T> + Slice),
    o: &mut (impl DevicePtrMut<T> + Slice),
    lse: Option<&mut CudaSlice<f32>>,
    stream: &Arc<CudaStream>,
    options: Options,
) -> Result<(), Error> {
    // SAFETY: there are no lengths.
    unsafe { put(problem, q, k, v, &ScoreTensors::NONE, o, lse, no_lengths(), stream, options) }
}

/// [`forward`] for a problem with score modifications ([`Problem::with_score_mod`]).
///
/// # Errors
/// As for [`forward`], and when the given tensors are not exactly those that the problem has.
#[allow(clippy::too_many_arguments, reason = "five tensors, and each may be of another type")]
pub fn forward_modified<T: Number>(
    problem: &Problem,
    q: &(impl DevicePtr<T> + Slice),
    k: &(impl DevicePtr<T> + Slice),
    v: &(impl DevicePtr<T> + Slice),
    score_tensors: &ScoreTensors<'_, T>,
    o: &mut (impl DevicePtrMut<T> + Slice),
    lse: Option<&mut CudaSlice<f32>>,
    stream: &Arc<CudaStream>,
) -> Result<(), Error> {
    // SAFETY: there are no lengths.
    unsafe { put(problem, q, k, v, score_tensors, o, lse, no_lengths(), stream, Options::default()) }
}

/// Computes attention of packed sequences ([`Problem::packed`]): sequence `s` is rows `cu_seqlens[s]` up to
/// `cu_seqlens[s + 1]` of Q, K, V and O.
///
/// Only the kernel reads `cu_seqlens`; the host does not wait for it. Whatever it holds, nothing outside the slices
/// is read or written. Rows before the first sequence and behind the last get zeros, and an LSE of −∞.
///
/// # Errors
/// As for [`forward`], and when the problem is not packed.
#[allow(clippy::too_many_arguments, reason = "six tensors, and each may be of another type")]
pub fn forward_varlen<T: Number, L: Length>(
    problem: &Problem,
    q: &(impl DevicePtr<T> + Slice),
    k: &(impl DevicePtr<T> + Slice),
    v: &(impl DevicePtr<T> + Slice),
    cu_seqlens: &(impl DevicePtr<L> + Slice),
    o: &mut (impl DevicePtrMut<T> + Slice),
    lse: Option<&mut CudaSlice<f32>>,
    stream: &Arc<CudaStream>,
) -> Result<(), Error> {
    forward_varlen_modified(problem, q, k, v, cu_seqlens, &ScoreTensors::NONE, o, lse, stream)
}

/// [`forward_varlen`] for a problem with score modifications ([`Problem::with_score_mod`]).
///
/// # Errors
/// As for [`forward_varlen`] and [`forward_modified`].
#[allow(clippy::too_many_arguments, reason = "six tensors, and each may be of another type")]
pub fn forward_varlen_modified<T: Number, L: Length>(
    problem: &Problem,
    q: &(impl DevicePtr<T> + Slice),
    k: &(impl DevicePtr<T> + Slice),
    v: &(impl DevicePtr<T> + Slice),
    cu_seqlens: &(impl DevicePtr<L> + Slice),
    score_tensors: &ScoreTensors<'_, T>,
    o: &mut (impl DevicePtrMut<T> + Slice),
    lse: Option<&mut CudaSlice<f32>>,
    stream: &Arc<CudaStream>,
) -> Result<(), Error> {
    let sequences = problem.packing().map_or(0, |packing| packing.sequences);
    check(Tensor::CuSeqlens, cu_seqlens, u64::from(sequences) + 1, stream)?;
    bind(stream)?;
    let (lengths, _lengths) = cu_seqlens.device_ptr(stream);
    let lengths = Addresses { cu_seqlens: Some(lengths), ..no_lengths() };
    // SAFETY: the slice holds one 32-bit element more than there are sequences; its guard lives until the launch was
    // queued.
    unsafe { put(problem, q, k, v, score_tensors, o, lse, lengths, stream, Options::default()) }
}

/// Where the sequences lie whose K and V have other lengths than Q: packed
/// ([`Lengths::Separate`](contract::packing::Lengths::Separate)) or padded ([`Problem::padded`]).
#[derive(Debug)]
pub struct Lengths<'a, L> {
    /// Row of Q and O at which each packed sequence begins, then the row at which the last one ends: `[sequences + 1]`.
    pub cu_seqlens: Option<CudaView<'a, L>>,
    /// The same for K and V.
    pub cu_seqlens_k: Option<CudaView<'a, L>>,
    /// Rows of Q that each sequence uses; `None`: all. Rows of O and LSE beyond them are not written.
    pub seqused_q: Option<CudaView<'a, L>>,
    /// The same for K and V.
    pub seqused_k: Option<CudaView<'a, L>>,
}

impl<L> Default for Lengths<'_, L> {
    /// None of them.
    fn default() -> Self {
        Self { cu_seqlens: None, cu_seqlens_k: None, seqused_q: None, seqused_k: None }
    }
}

/// [`forward_varlen`] for sequences whose K and V have other lengths than Q.
///
/// A row whose sequence has no key gets zeros in O and −∞ in LSE. LSE is `[H, rows]`, or `[H,B,S]` for a padded batch.
///
/// # Errors
/// As for [`forward`], and when the given lengths are not those that the problem has.
#[allow(clippy::too_many_arguments, reason = "five tensors and lengths, and each may be of another type")]
pub fn forward_lengths<T: Number, L: Length>(
    problem: &Problem,
    q: &(impl DevicePtr<T> + Slice),
    k: &(impl DevicePtr<T> + Slice),
    v: &(impl DevicePtr<T> + Slice),
    lengths: &Lengths<'_, L>,
    o: &mut (impl DevicePtrMut<T> + Slice),
    lse: Option<&mut CudaSlice<f32>>,
    stream: &Arc<CudaStream>,
) -> Result<(), Error> {
    forward_lengths_modified(problem, q, k, v, lengths, &ScoreTensors::NONE, o, lse, stream)
}

/// [`forward_lengths`] for a problem with score modifications ([`Problem::with_score_mod`]).
///
/// # Errors
/// As for [`forward_lengths`] and [`forward_modified`].
#[allow(clippy::too_many_arguments, reason = "five tensors and lengths, and each may be of another type")]
pub fn forward_lengths_modified<T: Number, L: Length>(
    problem: &Problem,
    q: &(impl DevicePtr<T> + Slice),
    k: &(impl DevicePtr<T> + Slice),
    v: &(impl DevicePtr<T> + Slice),
    lengths: &Lengths<'_, L>,
    score_tensors: &ScoreTensors<'_, T>,
    o: &mut (impl DevicePtrMut<T> + Slice),
    lse: Option<&mut CudaSlice<f32>>,
    stream: &Arc<CudaStream>,
) -> Result<(), Error> {
    let given = [
        (Tensor::CuSeqlens, lengths.cu_seqlens.as_ref()),
        (Tensor::CuSeqlensK, lengths.cu_seqlens_k.as_ref()),
        (Tensor::SequsedQ, lengths.seqused_q.as_ref()),
        (Tensor::SequsedK, lengths.seqused_k.as_ref()),
    ];
    for (tensor, array) in given {
        // Lengths that the problem does not have are refused later, with the other addresses.
        if let Some((array, elements)) = array.zip(lengths_elements(problem, tensor)) {
            check(tensor, array, elements, stream)?;
        }
    }
    bind(stream)?;
    let pointers = given.map(|(_, array)| array.map(|array| array.device_ptr(stream)));
    let [cu_seqlens, cu_seqlens_k, seqused_q, seqused_k] =
        pointers.each_ref().map(|pointer| pointer.as_ref().map(|(address, _)| *address));
    let lengths = Addresses { cu_seqlens, cu_seqlens_k, seqused_q, seqused_k, ..no_lengths() };
    // SAFETY: each slice holds as many 32-bit elements as the problem has of these lengths; the guards live until the
    // launch was queued.
    unsafe { put(problem, q, k, v, score_tensors, o, lse, lengths, stream, Options::default()) }
}

/// No lengths; the other addresses are 0.
const fn no_lengths() -> Addresses {
    Addresses::new(0, 0, 0, 0)
}

/// Checks the slices and launches.
///
/// # Safety
/// Each length array in `lengths` is memory of the stream's context that the stream may read, with as many i32 as the
/// problem has of it ([`lengths_elements`]). The other addresses in `lengths` are ignored.
#[allow(clippy::too_many_arguments, reason = "six tensors, and each may be of another type")]
unsafe fn put<T: Number>(
    problem: &Problem,
    q: &(impl DevicePtr<T> + Slice),
    k: &(impl DevicePtr<T> + Slice),
    v: &(impl DevicePtr<T> + Slice),
    score_tensors: &ScoreTensors<'_, T>,
    o: &mut (impl DevicePtrMut<T> + Slice),
    lse: Option<&mut CudaSlice<f32>>,
    lengths: Addresses,
    stream: &Arc<CudaStream>,
    options: Options,
) -> Result<(), Error> {
    let problem = problem.with_element(T::ELEMENT);
    let elements = |tensor| problem.extent(tensor).saturating_add(problem.views().of(tensor).offset);
    check(Tensor::Q, q, elements(Tensor::Q), stream)?;
    check(Tensor::K, k, elements(Tensor::K), stream)?;
    check(Tensor::V, v, elements(Tensor::V), stream)?;
    check(Tensor::O, o, elements(Tensor::O), stream)?;
    if let Some(lse) = &lse {
        check(Tensor::Lse, *lse, problem.shape().rows() as u64, stream)?;
    }
    let (score_mod, shape) = (problem.score_mod(), problem.shape());
    let ScoreTensors { bias, alibi_slopes } = score_tensors;
    if let Some(bias) = bias {
        check(Tensor::Bias, bias, score_mod.bias_extent(shape).unwrap_or(0), stream)?;
    }
    if let Some(slopes) = alibi_slopes {
        check(Tensor::Slopes, slopes, score_mod.slopes(shape, problem.packing()).unwrap_or(0), stream)?;
    }
    bind(stream)?;
    let plan = Plan::with_workspace(&problem, &Gpu::current()?)?;
    let workspace = workspace(&plan, stream)?;
    // When dropped, each guard records that the stream uses the slice.
    let (q, _q) = q.device_ptr(stream);
    let (k, _k) = k.device_ptr(stream);
    let (v, _v) = v.device_ptr(stream);
    let (o, _o) = o.device_ptr_mut(stream);
    let lse = lse.map(|lse| lse.device_ptr_mut(stream));
    let lse_address = lse.as_ref().map(|(address, _)| *address);
    let bias = bias.as_ref().map(|bias| bias.device_ptr(stream));
    let slopes = alibi_slopes.as_ref().map(|slopes| slopes.device_ptr(stream));
    let addresses = Addresses {
        q,
        k,
        v,
        o,
        lse: lse_address,
        bias: bias.as_ref().map(|(address, _)| *address),
        alibi_slopes: slopes.as_ref().map(|(address, _)| *address),
        workspace: workspace.as_ref().map(|workspace| workspace.device_ptr(stream).0),
        ..lengths
    };
    let launch = plan.bind(addresses)?.overlap(options.overlaps());
    // SAFETY: `check` made sure that the slices are device memory of the stream's context, as large as the problem's
    // views; the caller vouches for `lengths`. cudarc frees a slice, and the workspace, only after the work on it, and the
    // exclusive borrows of O and LSE order other users behind this launch.
    unsafe { launch.launch(crate::Stream::from_raw(stream.cu_stream().cast())) }
}

/// The workspace that `plan` needs, if any, from the pool of `stream`.
fn workspace(plan: &Plan, stream: &Arc<CudaStream>) -> Result<Option<CudaSlice<u8>>, Error> {
    let bytes = usize::try_from(plan.workspace_bytes()).unwrap_or(usize::MAX);
    if bytes == 0 {
        return Ok(None);
    }
    // SAFETY: kernels write what they read of a workspace.
    match unsafe { stream.alloc::<u8>(bytes) } {
        Ok(workspace) => Ok(Some(workspace)),
        Err(error) => {
            let doing = || format!("allocating a workspace of {bytes} bytes");
            Driver::get()?.check(crate::driver::Code(error.0 as u32), doing).map(|()| None)
        }
    }
}

/// Makes the context of `stream` the calling thread's current one.
fn bind(stream: &CudaStream) -> Result<(), Error> {
    let bound = stream.context().bind_to_thread();
    bound.or_else(|error| {
        Driver::get()?.check(crate::driver::Code(error.0 as u32), || "making the stream's context current")
    })
}

/// Requires `slice` to hold `elements` and to belong to the context of `stream`.
fn check<T>(tensor: Tensor, slice: &impl DeviceSlice<T>, elements: u64, stream: &Arc<CudaStream>) -> Result<(), Error> {
    let bytes = |elements: u64| elements.saturating_mul(size_of::<T>() as u64);
    let problem = if slice.stream().context() != stream.context() {
        MemoryProblem::OtherContext
    } else if (slice.len() as u64) < elements {
        MemoryProblem::TooShort { bytes: bytes(slice.len() as u64), needed: bytes(elements) }
    } else {
        return Ok(());
    };
    Err(Error::Memory { tensor, address: None, why: problem })
}

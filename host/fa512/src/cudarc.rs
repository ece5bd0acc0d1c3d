//! A safe front for those who hold their tensors in slices of cudarc.

use std::sync::Arc;

use ::cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice};
use contract::config::Element;
use contract::plan::{Addresses, lengths_elements};
use contract::problem::Problem;
use contract::refusal::Tensor;
use half::{bf16, f16};

use crate::driver::Driver;
use crate::error::{Error, MemoryProblem};
use crate::forward::{Options, forward_with};

/// cudarc's own slices. Others may implement its traits, too, and nothing says of those that their addresses are true.
pub trait Slice: sealed::Sealed {}

impl<T: sealed::Sealed> Slice for T {}

/// Elements of `cu_seqlens`. The kernels take one beyond the rows of the tensors for the last of them, be it negative or large.
pub trait Length: sealed::Length {}

impl<T: sealed::Length> Length for T {}

/// Elements of Q, K, V and O. The problem's element type is that of the slices, whatever it was before.
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

/// What changes of scores read ([`ScoreMod`](crate::ScoreMod)): a tensor for each that the problem has.
#[derive(Debug)]
pub struct ScoreTensors<'a, T> {
    /// The bias, of the type of Q; its first element is that of batch entry 0, head 0, query 0 and key 0.
    pub bias: Option<CudaView<'a, T>>,
    /// The ALiBi slopes, `[H]` or `[B,H]`.
    pub alibi_slopes: Option<CudaView<'a, f32>>,
}

impl<T> ScoreTensors<'_, T> {
    /// Those of problems that leave scores as they are, or only cap them.
    pub const NONE: Self = Self { bias: None, alibi_slopes: None };
}

/// Puts `O = softmax(scale · QKᵀ + mask) · V` and, where it is wanted, LSE (`[B,H,S]`) of `problem` on `stream`, whose
/// context becomes the calling thread's current one, as in every call of cudarc.
///
/// The element type is that of the slices. Views of the problem count from the beginning of each slice. Where cudarc follows
/// the use of slices by events, it does so here, too.
///
/// # Errors
/// When a slice is shorter than its tensor or of another context than the stream, and as for [`forward`](crate::forward).
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

/// [`forward`] with other options. Pointers need no check by the driver: that a slice is device memory of its length is what
/// its type says.
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

/// [`forward`] of a problem whose scores are changed ([`Problem::with_score_mod`]).
///
/// # Errors
/// As for [`forward`], and when the problem has a bias or slopes and no tensor of them is given, or the other way round.
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

/// Attention of packed sequences ([`Problem::packed`]): sequence `s` is the rows from `cu_seqlens[s]` up to `cu_seqlens[s + 1]`
/// of Q, K, V and O. Only the kernel reads `cu_seqlens`; the host does not wait for it. Whatever it holds, nothing outside the slices
/// is read or written; rows that belong to no sequence are not written.
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

/// [`forward_varlen`] of a problem whose scores are changed ([`Problem::with_score_mod`]).
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
    // SAFETY: the slice holds an element of 32 bits more than there are sequences, and its guard lives until the launch is on the stream.
    unsafe { put(problem, q, k, v, score_tensors, o, lse, lengths, stream, Options::default()) }
}

/// What says where the sequences of a problem are whose K and V have lengths of their own: packed
/// ([`Lengths::Separate`](contract::packed::Lengths::Separate)) or padded ([`Problem::padded`]).
#[derive(Debug)]
pub struct Lengths<'a, L> {
    /// The rows of Q and O at which packed sequences begin, and behind them where the last one ends.
    pub cu_seqlens: Option<CudaView<'a, L>>,
    /// The same of K and V.
    pub cu_seqlens_k: Option<CudaView<'a, L>>,
    /// Rows of Q that each sequence has of those that it has room for; all without. Rows of O and LSE behind them are not written.
    pub seqused_q: Option<CudaView<'a, L>>,
    /// The same of K and V.
    pub seqused_k: Option<CudaView<'a, L>>,
}

impl<L> Default for Lengths<'_, L> {
    /// None of them.
    fn default() -> Self {
        Self { cu_seqlens: None, cu_seqlens_k: None, seqused_q: None, seqused_k: None }
    }
}

/// [`forward_varlen`] for sequences whose K and V have lengths of their own. A row whose sequence has no key gets zeros in O and
/// −∞ in LSE, which is `[H, rows]`; of a padded batch `[H,B,S]`.
///
/// # Errors
/// As for [`forward`], and when the problem does not have these lengths.
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

/// [`forward_lengths`] of a problem whose scores are changed ([`Problem::with_score_mod`]).
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
        // Those that the problem does not have are refused with the other addresses.
        if let Some((array, elements)) = array.zip(lengths_elements(problem, tensor)) {
            check(tensor, array, elements, stream)?;
        }
    }
    bind(stream)?;
    let pointers = given.map(|(_, array)| array.map(|array| array.device_ptr(stream)));
    let [cu_seqlens, cu_seqlens_k, seqused_q, seqused_k] =
        pointers.each_ref().map(|pointer| pointer.as_ref().map(|(address, _)| *address));
    let lengths = Addresses { cu_seqlens, cu_seqlens_k, seqused_q, seqused_k, ..no_lengths() };
    // SAFETY: each slice holds as many elements of 32 bits as the problem has of these lengths; the guards live until the launch is
    // on the stream.
    unsafe { put(problem, q, k, v, score_tensors, o, lse, lengths, stream, Options::default()) }
}

/// Addresses of nothing.
const fn no_lengths() -> Addresses {
    Addresses::new(0, 0, 0, 0)
}

/// Checks the slices and launches.
///
/// # Safety
/// The lengths among `lengths`, whose other addresses do not matter, are in memory of the stream's context, as many i32 each as the
/// problem has of them ([`lengths_elements`]), which the stream may read.
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
        check(Tensor::Slopes, slopes, score_mod.slopes(shape).unwrap_or(0), stream)?;
    }
    bind(stream)?;
    // What comes with each address records, when it is dropped, that the stream uses the slice.
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
        ..lengths
    };
    // SAFETY: the slices are device memory of the stream's context, which is current, as long as the problem's views say:
    // all that was checked, and said by the caller of `lengths`. cudarc frees a slice when the work on it is done, and the exclusive borrows of O and LSE keep
    // other users behind this launch.
    unsafe {
        forward_with(
            &problem,
            addresses,
            crate::Stream::from_raw(stream.cu_stream().cast()),
            options.check_pointers(false),
        )
    }
}

/// Makes the context of `stream` the calling thread's current one.
fn bind(stream: &CudaStream) -> Result<(), Error> {
    let bound = stream.context().bind_to_thread();
    bound.or_else(|error| {
        Driver::get()?.check(crate::driver::Code(error.0 as u32), || "making the stream's context current")
    })
}

/// Requires `slice` to hold `elements`, in the context of `stream`.
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

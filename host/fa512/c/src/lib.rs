//! The C interface of [`attention`] (package fa512), as declared in `include/fa512.h`. The libraries export only these
//! functions.
//!
//! No panic unwinds into C: it becomes `FA512_ERROR_INTERNAL`.

mod gradient;
mod lengths;
mod problem;
mod status;
mod text;

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use attention::{Addresses, Gpu, Gradient, Plan, Problem, Stream};

use gradient::RawGradient;
use lengths::RawLengths;
use problem::{Call, RawProblem, given};
use status::{Failure, INTERNAL, OK};

/// Version of the interface.
const ABI_VERSION: u32 = 0;

/// Runs `call` and returns its status. Keeps the message of a failure for [`fa512_last_error_message`].
fn answer(call: impl FnOnce() -> Result<(), Failure>) -> i32 {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => OK,
        Ok(Err(failure)) => {
            text::keep(&failure.to_string());
            failure.status()
        }
        Err(_) => {
            text::keep("a bug of fa512: it panicked; what it wrote to stderr says where");
            INTERNAL
        }
    }
}

/// Version of the C interface.
#[unsafe(no_mangle)]
pub extern "C" fn fa512_abi_version() -> u32 {
    ABI_VERSION
}

/// Version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn fa512_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// The name of a status.
#[unsafe(no_mangle)]
pub extern "C" fn fa512_error_name(status: i32) -> *const c_char {
    status::name(status).as_ptr()
}

/// Message of the calling thread's last call that failed.
#[unsafe(no_mangle)]
pub extern "C" fn fa512_last_error_message() -> *const c_char {
    text::kept()
}

/// Writes which kernel computes a problem on a GPU, and why, or fails if none does.
///
/// # Safety
/// `problem` is null or points to `size` bytes, `size` being its first field; `text` is null or points to `text_size`
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa512_supports(
    problem: *const RawProblem,
    device: i32,
    text: *mut c_char,
    text_size: usize,
) -> i32 {
    answer(|| {
        // SAFETY: the caller's promise about `problem`.
        let words = match unsafe { problem::read(problem) }? {
            None => "nothing to compute".to_owned(),
            Some(Call { problem, .. }) => {
                let gpu = match usize::try_from(device) {
                    Ok(ordinal) => Gpu::of_device(ordinal)?,
                    Err(_) if device == -1 => Gpu::current()?,
                    Err(_) => {
                        let message = format!("device is {device}; it must be an ordinal, or -1 for the current one");
                        return Err(Failure::Invalid(message));
                    }
                };
                let support = attention::supports(&problem, &gpu)?;
                format!("{}: {}", support.entry, support.reason)
            }
        };
        // SAFETY: the caller's promise about `text`.
        unsafe { text::copy(&words, text, text_size) };
        Ok(())
    })
}

/// Loads the kernels of `count` problems.
///
/// # Safety
/// `problems` points to an array of `count` problems, each as large as the `size` of the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa512_warm_up(problems: *const RawProblem, count: usize) -> i32 {
    answer(|| {
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise; the array is not empty.
        let size = unsafe { problem::size(problems) }?;
        for index in 0..count {
            // SAFETY: `index` is less than `count`, and the problems are `size` bytes apart.
            let next = unsafe { problems.cast::<u8>().add(index * size) };
            // SAFETY: `next` points to a problem of the array.
            if let Some(Call { problem, .. }) = unsafe { problem::read(next.cast()) }? {
                attention::warm_up(&[problem])?;
            }
        }
        Ok(())
    })
}

/// Writes how large a workspace can be of use for a problem.
///
/// # Safety
/// `problem` is null or points to `size` bytes, `size` being its first field; `bytes` is null or points to a `u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa512_workspace_bytes(problem: *const RawProblem, bytes: *mut u64) -> i32 {
    answer(|| {
        // SAFETY: the caller's promise about `problem`.
        let problem = unsafe { problem::read(problem) }?;
        // SAFETY: the caller's promise about `bytes`.
        unsafe { write_bytes(bytes, problem, |problem, gpu| Ok(Plan::with_workspace(problem, gpu)?.workspace_bytes())) }
    })
}

/// The same for its gradients.
///
/// # Safety
/// As for [`fa512_workspace_bytes`]; `gradient` is null or points to `size` bytes, `size` being its first field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa512_backward_workspace_bytes(
    problem: *const RawProblem,
    gradient: *const RawGradient,
    bytes: *mut u64,
) -> i32 {
    answer(|| {
        // SAFETY: the caller's promise about `problem`.
        let problem = unsafe { problem::read(problem) }?;
        let of_gradient = |problem: &Problem, gpu: &Gpu| {
            let gradient = match gradient.is_null() {
                true => Gradient::contiguous(*problem)?,
                // SAFETY: the caller's promise about `gradient`.
                false => unsafe { gradient::read(gradient, *problem, Addresses::new(0, 0, 0, 0)) }?.0,
            };
            Ok(attention::backward_workspace_bytes(&gradient, gpu)?)
        };
        // SAFETY: the caller's promise about `bytes`.
        unsafe { write_bytes(bytes, problem, of_gradient) }
    })
}

/// Writes what `needed` says of a problem on the current GPU; 0 if there is nothing to compute.
///
/// # Safety
/// `bytes` is null or points to a `u64`.
unsafe fn write_bytes(
    bytes: *mut u64,
    call: Option<Call>,
    needed: impl FnOnce(&Problem, &Gpu) -> Result<u64, Failure>,
) -> Result<(), Failure> {
    if bytes.is_null() || !bytes.is_aligned() {
        return Err(Failure::Invalid(format!("bytes is {bytes:p}, where no uint64_t can be")));
    }
    let needed = call.map_or(Ok(0), |Call { problem, .. }| needed(&problem, &Gpu::current()?))?;
    // SAFETY: not null and aligned; the caller promises a `u64`.
    unsafe { bytes.write(needed) };
    Ok(())
}

/// Computes O and LSE of a problem, asynchronously on a stream.
///
/// # Safety
/// `problem` is null or points to `size` bytes, `size` being its first field; the rest is as for
/// [`attention::forward`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa512_forward(
    problem: *const RawProblem,
    q: *const c_void,
    k: *const c_void,
    v: *const c_void,
    o: *mut c_void,
    lse: *mut f32,
    stream: *mut c_void,
) -> i32 {
    // SAFETY: the caller's promise is the same.
    unsafe { fa512_forward_varlen(problem, q, k, v, ptr::null(), o, lse, stream) }
}

/// Computes O and LSE of packed sequences, asynchronously on a stream.
///
/// # Safety
/// As for [`fa512_forward`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa512_forward_varlen(
    problem: *const RawProblem,
    q: *const c_void,
    k: *const c_void,
    v: *const c_void,
    cu_seqlens: *const i32,
    o: *mut c_void,
    lse: *mut f32,
    stream: *mut c_void,
) -> i32 {
    let [q, k, v, o] = [q, k, v, o.cast_const()].map(|address| address.addr() as u64);
    let cu_seqlens = given(cu_seqlens.addr());
    // SAFETY: the caller's promise is the same.
    answer(|| unsafe { forward(problem, Addresses { cu_seqlens, ..Addresses::new(q, k, v, o) }, lse, stream) })
}

/// Computes O and LSE of sequences whose K and V have other lengths than Q, asynchronously on a stream.
///
/// # Safety
/// As for [`fa512_forward`]; `lengths` is null or points to `size` bytes, `size` being its first field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa512_forward_lengths(
    problem: *const RawProblem,
    q: *const c_void,
    k: *const c_void,
    v: *const c_void,
    lengths: *const RawLengths,
    o: *mut c_void,
    lse: *mut f32,
    stream: *mut c_void,
) -> i32 {
    let [q, k, v, o] = [q, k, v, o.cast_const()].map(|address| address.addr() as u64);
    answer(|| {
        // SAFETY: the caller's promise about `lengths`.
        let addresses = unsafe { lengths::read(lengths, Addresses::new(q, k, v, o)) }?;
        // SAFETY: the caller's promise is the same.
        unsafe { forward(problem, addresses, lse, stream) }
    })
}

/// Computes dQ, dK and dV of a problem, asynchronously on a stream.
///
/// # Safety
/// `problem` and `gradient` are null or point to `size` bytes, `size` being their first field, and so does `lengths`; the rest is as for
/// [`attention::backward`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa512_backward(
    problem: *const RawProblem,
    q: *const c_void,
    k: *const c_void,
    v: *const c_void,
    lengths: *const RawLengths,
    gradient: *const RawGradient,
    stream: *mut c_void,
) -> i32 {
    let [q, k, v] = [q, k, v].map(|address| address.addr() as u64);
    answer(|| {
        // SAFETY: the caller's promise about `problem`.
        let Some(call) = (unsafe { problem::read(problem) })? else { return Ok(()) };
        let Call { problem, options, bias, alibi_slopes, workspace } = call;
        // SAFETY: the caller's promise about `lengths`.
        let addresses = unsafe { lengths::read(lengths, Addresses::new(q, k, v, 0)) }?;
        let addresses = Addresses { bias, alibi_slopes, workspace, ..addresses };
        // SAFETY: the caller's promise about `gradient`.
        let (gradient, addresses) = unsafe { gradient::read(gradient, problem, addresses) }?;
        // SAFETY: the caller's promise is that of `attention::backward_with`.
        unsafe { attention::backward_with(&gradient, addresses, Stream::from_raw(stream), options) }?;
        Ok(())
    })
}

/// Loads the kernel that `fa512_backward` needs for a problem.
///
/// # Safety
/// `problem` is null or points to `size` bytes, `size` being its first field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa512_warm_up_backward(problem: *const RawProblem) -> i32 {
    answer(|| {
        // SAFETY: the caller's promise about `problem`.
        match unsafe { problem::read(problem) }? {
            None => Ok(()),
            Some(Call { problem, .. }) => Ok(attention::warm_up_backward(&Gradient::contiguous(problem)?)?),
        }
    })
}

/// # Safety
/// As for [`fa512_forward`].
unsafe fn forward(
    problem: *const RawProblem,
    addresses: Addresses,
    lse: *mut f32,
    stream: *mut c_void,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise about `problem`.
    let Some(call) = (unsafe { problem::read(problem) })? else { return Ok(()) };
    let Call { problem, options, bias, alibi_slopes, workspace } = call;
    let addresses = Addresses { lse: given(lse.addr()), bias, alibi_slopes, workspace, ..addresses };
    // SAFETY: the caller's promise is that of `attention::forward_with`.
    unsafe { attention::forward_with(&problem, addresses, Stream::from_raw(stream), options) }?;
    Ok(())
}

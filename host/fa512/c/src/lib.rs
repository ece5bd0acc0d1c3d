//! The C interface of [`attention`] (package fa512), as `include/fa512.h` declares it. These functions are all that the
//! libraries export.
//!
//! No panic crosses the border: it becomes `FA512_ERROR_INTERNAL`.

mod lengths;
mod problem;
mod status;
mod text;

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use attention::{Addresses, Gpu, Plan, Stream};

use lengths::RawLengths;
use problem::{Call, RawProblem, given};
use status::{Failure, INTERNAL, OK};

/// Version of the interface.
const ABI_VERSION: u32 = 0;

/// Runs a call: its status is returned, and what was wrong kept for [`fa512_last_error_message`].
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

/// The version of this interface that the library has.
#[unsafe(no_mangle)]
pub extern "C" fn fa512_abi_version() -> u32 {
    ABI_VERSION
}

/// The version of the library.
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

/// What was wrong with the thread's last call that failed.
#[unsafe(no_mangle)]
pub extern "C" fn fa512_last_error_message() -> *const c_char {
    text::kept()
}

/// Whether, by which kernel and why a problem is computed on a GPU.
///
/// # Safety
/// `problem` is null or points to as many bytes as it says; `text` is null or points to `text_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa512_supports(
    problem: *const RawProblem,
    device: i32,
    text: *mut c_char,
    text_size: usize,
) -> i32 {
    answer(|| {
        // SAFETY: passed on to the caller.
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
        // SAFETY: passed on to the caller.
        unsafe { text::copy(&words, text, text_size) };
        Ok(())
    })
}

/// Loads the kernels that problems take.
///
/// # Safety
/// `problems` points to `count` problems of the size that the first of them says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa512_warm_up(problems: *const RawProblem, count: usize) -> i32 {
    answer(|| {
        if count == 0 {
            return Ok(());
        }
        // SAFETY: passed on to the caller; there is a first one.
        let size = unsafe { problem::size(problems) }?;
        for index in 0..count {
            // SAFETY: passed on to the caller; the first says how far apart they are.
            let next = unsafe { problems.cast::<u8>().add(index * size) };
            // SAFETY: as above.
            if let Some(Call { problem, .. }) = unsafe { problem::read(next.cast()) }? {
                Plan::new(&problem, &Gpu::current()?)?.warm_up()?;
            }
        }
        Ok(())
    })
}

/// Puts O and LSE of a problem on a stream.
///
/// # Safety
/// `problem` is null or points to as many bytes as it says; the rest as for [`attention::forward`].
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
    // SAFETY: passed on to the caller.
    unsafe { fa512_forward_varlen(problem, q, k, v, ptr::null(), o, lse, stream) }
}

/// Puts O and LSE of packed sequences on a stream.
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
    // SAFETY: passed on to the caller.
    answer(|| unsafe { forward(problem, Addresses { cu_seqlens, ..Addresses::new(q, k, v, o) }, lse, stream) })
}

/// Puts O and LSE of sequences whose keys have lengths of their own on a stream.
///
/// # Safety
/// As for [`fa512_forward`]; `lengths` is null or points to as many bytes as it says.
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
        // SAFETY: passed on to the caller.
        let addresses = unsafe { lengths::read(lengths, Addresses::new(q, k, v, o)) }?;
        // SAFETY: passed on to the caller.
        unsafe { forward(problem, addresses, lse, stream) }
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
    // SAFETY: passed on to the caller.
    let Some(call) = (unsafe { problem::read(problem) })? else { return Ok(()) };
    let Call { problem, options, bias, alibi_slopes } = call;
    let addresses = Addresses { lse: given(lse.addr()), bias, alibi_slopes, ..addresses };
    // SAFETY: passed on to the caller.
    unsafe { attention::forward_with(&problem, addresses, Stream::from_raw(stream), options) }?;
    Ok(())
}

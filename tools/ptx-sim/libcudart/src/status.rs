//! Return values of functions, and the last error of a thread.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A `cudaError_t`; the driver's codes have the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

/// Result type of most functions here.
pub type Result<T, E = Status> = std::result::Result<T, E>;

impl Status {
    /// `cudaSuccess`.
    pub const SUCCESS: Status = Status(0);
    /// `cudaErrorInvalidValue`.
    pub const INVALID_VALUE: Status = Status(1);
    /// `cudaErrorInvalidConfiguration`.
    pub const INVALID_CONFIGURATION: Status = Status(9);
    /// `cudaErrorInvalidSymbol`.
    pub const INVALID_SYMBOL: Status = Status(13);
    /// `cudaErrorInvalidChannelDescriptor`.
    pub const INVALID_CHANNEL: Status = Status(20);
    /// `cudaErrorInvalidMemcpyDirection`.
    pub const INVALID_DIRECTION: Status = Status(21);
    /// `cudaErrorInvalidFilterSetting`.
    pub const INVALID_FILTER: Status = Status(26);
    /// `cudaErrorInvalidNormSetting`.
    pub const INVALID_NORM: Status = Status(27);
    /// `cudaErrorInsufficientDriver`.
    pub const INSUFFICIENT_DRIVER: Status = Status(35);
    /// `cudaErrorMissingConfiguration`.
    pub const MISSING_CONFIGURATION: Status = Status(52);
    /// `cudaErrorInvalidDeviceFunction`.
    pub const INVALID_FUNCTION: Status = Status(98);
    /// `cudaErrorInvalidDevice`.
    pub const INVALID_DEVICE: Status = Status(101);
    /// `cudaErrorNotReady`.
    pub const NOT_READY: Status = Status(600);
    /// `cudaErrorNotSupported`.
    pub const NOT_SUPPORTED: Status = Status(801);
    /// `cudaErrorUnknown`.
    pub const UNKNOWN: Status = Status(999);

    /// An error unless this is [`Status::SUCCESS`].
    pub fn check(self) -> Result<()> {
        if self == Self::SUCCESS { Ok(()) } else { Err(self) }
    }
}

thread_local! {
    static LAST: Cell<Status> = const { Cell::new(Status::SUCCESS) };
}

/// The last error of this thread.
pub fn last() -> Status {
    LAST.get()
}

/// Returns and clears the last error of this thread.
pub fn take_last() -> Status {
    LAST.replace(Status::SUCCESS)
}

/// Runs the body of a runtime function: errors are remembered as the last error, and a panic counts as one.
pub fn border(body: impl FnOnce() -> Result<()>) -> u32 {
    let status = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return Status::SUCCESS.0,
        Ok(Err(status)) => status,
        Err(_) => Status::UNKNOWN,
    };
    // "Not ready" is not an error.
    if status != Status::NOT_READY {
        LAST.set(status);
    }
    status.0
}

/// Writes a result to the program's pointer.
pub fn put<T>(place: *mut T, value: T) -> Result<()> {
    if place.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: not null, so the program provides room for a value.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Defines functions of the runtime API. `per_thread NAME(stream)` also defines a variant whose null stream is the thread's
/// default stream.
macro_rules! runtime_api {
    ($(fn $name:ident $arguments:tt $(per_thread $twin:ident($stream:ident))? $body:block)*) => {
        $(
            $crate::status::runtime_function! { $name $arguments $body }
            $($crate::status::runtime_function! {
                $twin $arguments { let $stream = $crate::handles::per_thread($stream); $body }
            })?
        )*
    };
}

macro_rules! runtime_function {
    ($name:ident ($($argument:ident: $kind:ty),* $(,)?) $body:block) => {
        #[doc = concat!("`", stringify!($name), "` of the CUDA runtime API.")]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> u32 {
            $crate::status::border(move || $body)
        }
    };
}

pub(crate) use {runtime_api, runtime_function};

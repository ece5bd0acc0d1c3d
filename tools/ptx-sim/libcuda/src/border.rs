//! The border between C callers and safe code.

use std::any::Any;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use sim_device::{Code, Error, NEWEST_DRIVER, Problem, Result};

use crate::{caller, driver, symbols};

/// Runs `body` for the function `name`. Errors and panics are reported and become codes.
pub fn border(name: &str, body: impl FnOnce() -> Result<()>) -> u32 {
    match catch_unwind(AssertUnwindSafe(|| refuse(name).and_then(|()| body()))) {
        Ok(Ok(())) => Code::SUCCESS.0,
        Ok(Err(error)) => {
            tell(name, &error);
            error.code.0
        }
        Err(panic) => {
            let text = format!("a fault of the simulated driver, please report it: {}", panic_text(&*panic));
            tell(name, &Error::new(Code::UNKNOWN, text));
            Code::UNKNOWN.0
        }
    }
}

/// Refuses functions that `PTX_SIM_FAIL` makes fail, and functions newer than the driver version.
fn refuse(name: &str) -> Result<()> {
    // A bad environment is reported by cuInit.
    let Ok(config) = driver::config() else { return Ok(()) };
    if let Some((_, code)) = config.failures.iter().find(|(function, _)| function == name) {
        return Err(Error::new(*code, "PTX_SIM_FAIL asks for it"));
    }
    let is_old = config.driver_version < NEWEST_DRIVER;
    if is_old && symbols::since(name).is_some_and(|since| since > config.driver_version as i32) {
        return Err(Error::unsupported("the function is newer than the driver, as PTX_SIM_DRIVER has it"));
    }
    Ok(())
}

fn tell(name: &str, error: &Error) {
    // Programs look up names that a module may lack: no message.
    if let Some(message) = error.message.as_ref().filter(|_| error.code != Code::NOT_FOUND) {
        let problem = error.problem.unwrap_or(Problem::FailedCall);
        let from = caller::line("").map_or(String::new(), |line| format!("; called from {line}"));
        driver::problem(problem, &format!("{}: {name}: {message}{from}", error.code));
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}

/// The result of a function that is not simulated; reported once per function.
pub fn not_simulated(name: &'static str) -> u32 {
    static TOLD: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    if let Ok(mut told) = TOLD.lock()
        && told.get_or_insert_default().insert(name)
    {
        driver::problem(Problem::FailedCall, &format!("{}: {name} is not simulated", Code::NOT_SUPPORTED));
    }
    Code::NOT_SUPPORTED.0
}

/// Address of a function, for `cuGetProcAddress`.
pub struct Address(pub *const ());

// SAFETY: the address of a function is the same for every thread.
unsafe impl Sync for Address {}

/// Defines functions of the driver API. `per_thread NAME(stream)` also defines a variant whose null stream is the thread's
/// default stream.
macro_rules! driver_api {
    ($(fn $name:ident $arguments:tt $(per_thread $twin:ident($stream:ident))? $body:block)*) => {
        $(
            $crate::border::driver_function! { $name $arguments $body }
            $($crate::border::driver_function! { $twin $arguments { let $stream = $stream.per_thread(); $body } })?
        )*

        /// The functions of this file.
        pub static FUNCTIONS: &[(&str, $crate::border::Address)] = &[$(
            (stringify!($name), $crate::border::Address($name as *const ())),
            $((stringify!($twin), $crate::border::Address($twin as *const ())),)?
        )*];
    };
}

macro_rules! driver_function {
    ($name:ident ($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        #[doc = concat!("`", stringify!($name), "` of the CUDA driver API.")]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
            $crate::border::border(stringify!($name), move || $body)
        }
    };
}

pub(crate) use {driver_api, driver_function};

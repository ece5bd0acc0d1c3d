//! Where in the program a function of the driver was called from.

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ptx_diagnostics::short_name;

use crate::python;

/// Frames that are looked at.
const FRAMES: usize = 64;
/// Ways of calls that are remembered at most.
const WAYS: usize = 10_000;

/// Addresses of a thread's calls, innermost first, and the function that is not meant.
type Way = (Vec<usize>, String);

/// Function, file and line of the program's innermost frame: in Python, or outside the function `except` and one of which debug
/// information tells them; `None` where there is none, as in programs built without `-g`. No lock may be held.
pub fn line(except: &str) -> Option<String> {
    if let Some(line) = python::line() {
        return Some(line);
    }
    static KNOWN: Mutex<Option<HashMap<Way, Option<String>>>> = Mutex::new(None);
    let mut addresses = Vec::new();
    backtrace::trace(|frame| {
        addresses.push(frame.ip() as usize);
        addresses.len() < FRAMES
    });
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if known.len() >= WAYS {
        known.clear();
    }
    // To look into debug information takes much longer than to walk the stack.
    let way = (addresses, except.to_owned());
    if let Some(line) = known.get(&way) {
        return line.clone();
    }
    let line = find(&way.0, except);
    known.insert(way, line.clone());
    line
}

fn find(addresses: &[usize], except: &str) -> Option<String> {
    let mut is_outside = false;
    addresses.iter().find_map(|address| {
        let mut found = None;
        backtrace::resolve(*address as *mut c_void, |symbol| {
            let name = symbol.name().map(|name| format!("{name:#}")).unwrap_or_default();
            // The driver's function itself is the last frame of ours, unless a runtime called it.
            if is_driver_function(&name) {
                is_outside = true;
            } else if is_outside && found.is_none() && name != except && !is_of_a_library(&name, symbol.filename()) {
                let place = symbol.filename().zip(symbol.lineno());
                found = place.map(|(file, line)| format!("{} ({}:{line})", short_name(&name), file.display()));
            }
        });
        found
    })
}

fn is_driver_function(name: &str) -> bool {
    let name = name.rsplit("::").next().unwrap_or(name);
    name.strip_prefix("cu").is_some_and(|rest| rest.starts_with(char::is_uppercase))
}

/// Whether a function is of the CUDA runtime, of the one beside this library, or made by nvcc for a launch; of Rust's library, or of a
/// crate from the registry: bindings, which call for somebody else; or the C library, which calls `main`.
fn is_of_a_library(name: &str, file: Option<&Path>) -> bool {
    let file = file.and_then(Path::to_str).unwrap_or_default();
    // An inlined closure has a name without its crate.
    name.contains("libcudart_sim::")
        || file.contains("/libcudart-sim/src/")
        || name.contains("__device_stub")
        || name.starts_with("cuda")
        || name.starts_with("__cuda")
        || name.starts_with("__libc_start")
        || ["/rustc/", "/rustlib/", "/.cargo/registry/"].iter().any(|folder| file.contains(folder))
}

//! Source locations of driver calls in the program.

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ptx_diagnostics::short_name;

use crate::python;

/// Maximum frames inspected.
const FRAMES: usize = 64;
/// Maximum call stacks remembered.
const WAYS: usize = 10_000;

/// Return addresses of a call, innermost first, and the name of the function to skip.
type Way = (Vec<usize>, String);

/// Function, file and line of the program's innermost frame: a Python frame, or one with debug information outside the function
/// `except`. `None` if there is none, as in programs built without `-g`. The caller must hold no lock.
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
    // Looking up debug information takes much longer than walking the stack.
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
            // The driver function is our last frame, unless a runtime called it.
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

/// Whether a function belongs to a library: the CUDA runtime (NVIDIA's or the one beside this library), nvcc's launch stubs,
/// Rust's standard library, a crate of the registry (bindings that call for other code), or the C library, which calls `main`.
fn is_of_a_library(name: &str, file: Option<&Path>) -> bool {
    let file = file.and_then(Path::to_str).unwrap_or_default();
    // An inlined closure lacks the crate in its name.
    name.contains("libcudart_sim::")
        || file.contains("/ptx-sim/libcudart/src/")
        || name.contains("__device_stub")
        || name.starts_with("cuda")
        || name.starts_with("__cuda")
        || name.starts_with("__libc_start")
        || ["/rustc/", "/rustlib/", "/.cargo/registry/"].iter().any(|folder| file.contains(folder))
}

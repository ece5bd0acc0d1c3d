//! Where in the program a function of the driver was called from.

use std::path::Path;

use ptx_diagnostics::short_name;

/// Frames that are looked at.
const FRAMES: usize = 64;

/// Function, file and line of the program's innermost frame, outside the function `except`, of which debug information tells them; `None` where there is none, as
/// in programs built without `-g`.
pub fn line(except: &str) -> Option<String> {
    let mut looked_at = 0;
    let mut is_outside = false;
    let mut found = None;
    backtrace::trace(|frame| {
        looked_at += 1;
        backtrace::resolve_frame(frame, |symbol| {
            let name = symbol.name().map(|name| format!("{name:#}")).unwrap_or_default();
            // The driver's function itself is the last frame of ours, unless a runtime called it.
            if is_driver_function(&name) {
                is_outside = true;
            } else if is_outside
                && found.is_none()
                && name != except
                && !is_of_a_runtime(&name)
                && !is_of_a_library(symbol.filename())
            {
                let place = symbol.filename().zip(symbol.lineno());
                found = place.map(|(file, line)| format!("{} ({}:{line})", short_name(&name), file.display()));
            }
        });
        found.is_none() && looked_at < FRAMES
    });
    found
}

fn is_driver_function(name: &str) -> bool {
    let name = name.rsplit("::").next().unwrap_or(name);
    name.strip_prefix("cu").is_some_and(|rest| rest.starts_with(char::is_uppercase))
}

/// Whether a function is of the CUDA runtime, of the one beside this library, or made by nvcc for a launch.
fn is_of_a_runtime(name: &str) -> bool {
    name.contains("libcudart_sim::")
        || name.contains("__device_stub")
        || name.starts_with("cuda")
        || name.starts_with("__cuda")
}

/// Whether a file is of Rust's library or of a crate from the registry: bindings, which call for somebody else.
fn is_of_a_library(file: Option<&Path>) -> bool {
    let Some(file) = file.and_then(Path::to_str) else { return false };
    ["/rustc/", "/rustlib/", "/.cargo/registry/"].iter().any(|folder| file.contains(folder))
}

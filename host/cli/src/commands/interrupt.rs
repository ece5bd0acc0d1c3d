//! Ctrl-C handling for commands that show partial results.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::error::{Error, Result};

use super::output;

/// A flag that is set by the first Ctrl-C, so that partial results can be shown. A second Ctrl-C ends the program.
pub fn stop_on_interrupt() -> Result<Arc<AtomicBool>> {
    const INTERRUPTED: i32 = 130;
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    let handler = move || {
        if set.swap(true, Relaxed) {
            std::process::exit(INTERRUPTED);
        }
        output::note("ending after what is under way; Ctrl-C again ends at once, without a result");
    };
    ctrlc::set_handler(handler)
        .map_err(|error| Error::Unavailable(format!("Ctrl-C cannot be listened for: {error}")))?;
    Ok(flag)
}

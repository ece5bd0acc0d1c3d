//! The standard streams, which may be closed or full.

use std::io::{ErrorKind, Write};

use crate::printable::printable;

/// Writes `text` to standard output. A closed pipe, as in `… | head`, is not an error.
///
/// # Errors
/// Those of the system.
pub fn print(text: &str) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Writes a line to standard error. File names and contents in it are untrusted. A write error is ignored.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", printable(text));
}

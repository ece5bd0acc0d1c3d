//! Converts errors to Python exceptions: `ValueError` for arguments, `RuntimeError` for the machine.

use attention::{Error, ErrorKind, Refusal};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// A refused problem or address, as `ValueError`.
pub fn of_refusal(refusal: Refusal) -> PyErr {
    PyValueError::new_err(refusal.to_string())
}

/// An error of the library.
pub fn of_library(error: Error) -> PyErr {
    let words = error.to_string();
    match error.kind() {
        _ if error == Error::NoContext => PyRuntimeError::new_err(words),
        ErrorKind::Invalid | ErrorKind::Memory | ErrorKind::Context => PyValueError::new_err(words),
        _ => PyRuntimeError::new_err(words),
    }
}

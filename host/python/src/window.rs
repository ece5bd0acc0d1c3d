//! Window arguments, and whole numbers.

use attention::{Alignment, Window};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// A whole number, however large: an `i64` that is the nearest.
#[derive(Clone, Copy)]
pub struct Whole(pub i64);

impl<'py> FromPyObject<'_, 'py> for Whole {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.extract() {
            Ok(number) => Ok(Self(number)),
            Err(error) if PyErr::is_instance_of::<PyOverflowError>(&error, object.py()) => {
                Ok(Self(if object.lt(0)? { i64::MIN } else { i64::MAX }))
            }
            Err(error) => Err(error),
        }
    }
}

/// The keys that a query attends to: those of `window`, keys before its own position and after it, and with `causal` none after its own
/// position. `None` means no limit, for a side or for both.
pub fn of(causal: bool, window: Option<&Bound<'_, PyAny>>) -> PyResult<Window> {
    let (left, right) = match window {
        None => (None, None),
        Some(window) => {
            let [left, right] = pair(window).ok_or_else(|| no_pair(window))?;
            (side(left, "left")?, side(right, "right")?)
        }
    };
    Ok(Window { left, right: if causal { Some(0) } else { right } })
}

/// The sides of a window, if it is a sequence of two.
fn pair(window: &Bound<'_, PyAny>) -> Option<[Option<Whole>; 2]> {
    window.extract::<Vec<Option<Whole>>>().ok()?.try_into().ok()
}

fn no_pair(window: &Bound<'_, PyAny>) -> PyErr {
    let found = window.repr().map_or_else(|_| "something else".to_owned(), |found| found.to_string());
    PyTypeError::new_err(format!(
        "window is {found}; it must be a pair (left, right) of numbers of keys, each or both None for no limit"
    ))
}

/// The alignment called `name`.
pub fn alignment_of(name: &str) -> PyResult<Alignment> {
    let alignment = Alignment::ALL.into_iter().find(|alignment| alignment.name() == name);
    alignment
        .ok_or_else(|| PyValueError::new_err(format!("align is {name:?}; it must be \"top-left\" or \"bottom-right\"")))
}

fn side(keys: Option<Whole>, name: &str) -> PyResult<Option<u32>> {
    match keys {
        Some(Whole(keys)) if keys < 0 => Err(PyValueError::new_err(format!(
            "the {name} side of window is {keys}; it must be a number of keys, or None for no limit"
        ))),
        // More than any sequence has.
        keys => Ok(keys.map(|Whole(keys)| u32::try_from(keys).unwrap_or(u32::MAX))),
    }
}

//! Window arguments.

use attention::{Alignment, Window};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Keys before a query's own position and after it; `None` means no limit, for a side or for both.
pub type Sides = Option<(Option<i64>, Option<i64>)>;

/// The keys that a query attends to: those of `window`, and with `causal` none after its own position.
pub fn of(causal: bool, window: Sides) -> PyResult<Window> {
    let (left, right) = window.unwrap_or_default();
    let (left, right) = (side(left, "left")?, side(right, "right")?);
    Ok(Window { left, right: if causal { Some(0) } else { right } })
}

/// The alignment called `name`.
pub fn alignment_of(name: &str) -> PyResult<Alignment> {
    let alignment = Alignment::ALL.into_iter().find(|alignment| alignment.name() == name);
    alignment
        .ok_or_else(|| PyValueError::new_err(format!("align is {name:?}; it must be \"top-left\" or \"bottom-right\"")))
}

fn side(keys: Option<i64>, name: &str) -> PyResult<Option<u32>> {
    match keys {
        Some(keys) if keys < 0 => Err(PyValueError::new_err(format!(
            "the {name} side of window is {keys}; it must be a number of keys, or None for no limit"
        ))),
        // More than any sequence has.
        keys => Ok(keys.map(|keys| u32::try_from(keys).unwrap_or(u32::MAX))),
    }
}

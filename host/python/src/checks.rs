//! What is required of an argument.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::array::{self, Array, BFLOAT, HALF};
use crate::dlpack::Element;

/// A size as a u32.
pub fn narrow(size: i64, name: &str) -> PyResult<u32> {
    u32::try_from(size).map_err(|_| match size < 0 {
        true => PyValueError::new_err(format!("{name} is {size}; it must not be negative")),
        false => PyValueError::new_err(format!("{name} is {size}, which is more than 32 bits count")),
    })
}

/// Requires the argument `name` to have this element type.
pub fn require_element(array: &Array, name: &str, element: Element) -> PyResult<()> {
    if array.element == element {
        return Ok(());
    }
    let (found, wanted) = (array::element_name(array.element), array::element_name(element));
    Err(PyTypeError::new_err(format!("{name} is {found}; it must be {wanted}")))
}

/// The element type of the problem, which is that of Q.
pub fn element_of(q: &Array) -> PyResult<attention::Element> {
    match q.element {
        HALF => Ok(attention::Element::F16),
        BFLOAT => Ok(attention::Element::Bf16),
        other => {
            let found = array::element_name(other);
            Err(PyTypeError::new_err(format!("q is {found}; it must be float16 or bfloat16")))
        }
    }
}

/// Requires `array` to have so many bytes in one row, or more.
pub fn require_bytes(array: &Array, name: &str, bytes: u64) -> PyResult<()> {
    let of_element = u64::from(array.element.bits) * u64::from(array.element.lanes) / 8;
    let (shape, strides) = (array.shape(), array.strides());
    match (shape, strides) {
        (&[length], &[1]) if u64::try_from(length).unwrap_or(0).saturating_mul(of_element) >= bytes => Ok(()),
        _ => Err(PyValueError::new_err(format!(
            "{name} has the shape {shape:?} and strides {strides:?}, {of_element} bytes each; it must be {bytes} bytes in a row"
        ))),
    }
}

/// Requires the argument `name` to be on the GPU of Q.
pub fn require_gpu(array: &Array, name: &str, q: &Array) -> PyResult<()> {
    match (array.gpu, q.gpu) {
        (Some(own), Some(other)) if own != other => {
            Err(PyValueError::new_err(format!("{name} is on GPU {own} and q on GPU {other}; they must be on one")))
        }
        _ => Ok(()),
    }
}

/// Requires `array` to have the shape, type and GPU of `other`.
pub fn require_like(array: &Array, name: &str, other: &Array, other_name: &str) -> PyResult<()> {
    require_element(array, name, other.element)?;
    if array.shape() != other.shape() {
        return Err(PyValueError::new_err(format!(
            "{name} has the shape {:?} and {other_name} {:?}; they must be equal",
            array.shape(),
            other.shape()
        )));
    }
    require_gpu(array, name, other)
}

/// Requires `array`, which the caller gave if `is_given`, to be writable.
pub fn require_writable(array: &Array, name: &str, is_given: bool) -> PyResult<()> {
    match array.is_read_only && is_given {
        true => Err(PyValueError::new_err(format!("{name} may only be read"))),
        false => Ok(()),
    }
}

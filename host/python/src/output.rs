//! Allocates O and LSE, with the library whose tensors Q, K and V are.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::array::{Array, Library};

/// A new tensor for O, of the shape and on the device of `q`, contiguous. Four dimensions have the memory order of Q's;
/// packed rows are `[rows, heads, head size]`.
pub fn for_o<'py>(q: &Bound<'py, PyAny>, described: &Array, library: Library) -> PyResult<Bound<'py, PyAny>> {
    let py = q.py();
    let shape = described.shape();
    match (library, <[i64; 4]>::try_from(shape)) {
        (Library::Torch, Ok(shape)) => {
            let strides = dense_strides(shape, described.strides());
            q.call_method1(intern!(py, "new_empty_strided"), (tuple(shape), tuple(strides)))
        }
        (Library::Torch, Err(_)) => q.call_method1(intern!(py, "new_empty"), (PyTuple::new(py, shape)?,)),
        (library, _) => make(q, library, shape, q.getattr(intern!(py, "dtype"))),
    }
}

/// A new tensor for LSE, f32, contiguous.
pub fn for_lse<'py>(q: &Bound<'py, PyAny>, sizes: &[i64], library: Library) -> PyResult<Bound<'py, PyAny>> {
    static SINGLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = q.py();
    if library != Library::Torch {
        return make(q, library, sizes, Ok(PyString::new(py, "float32").into_any()));
    }
    let single = SINGLE.get_or_try_init(py, || Ok::<_, PyErr>(py.import("torch")?.getattr("float32")?.unbind()))?;
    let arguments = PyDict::new(py);
    arguments.set_item(intern!(py, "dtype"), single)?;
    // `new_empty` of another type is two calls of PyTorch, and takes the host twice as long.
    let mut strides = vec![1; sizes.len()];
    for place in (1..sizes.len()).rev() {
        strides[place - 1] = strides[place] * sizes[place].max(1);
    }
    let shape = (PyTuple::new(py, sizes)?, PyTuple::new(py, strides)?);
    q.call_method(intern!(py, "new_empty_strided"), shape, Some(&arguments))
}

/// A new array of `library` with element type `element`.
fn make<'py>(
    q: &Bound<'py, PyAny>,
    library: Library,
    shape: &[i64],
    element: PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = q.py();
    match library {
        // Allocated on CuPy's current device; if Q is on another one, the call's checks will say so.
        Library::Cupy => py.import("cupy")?.call_method1("empty", (shape.to_vec(), element?)),
        Library::Jax => {
            let arguments = PyDict::new(py);
            arguments.set_item("device", q.getattr("sharding")?)?;
            py.import("jax.numpy")?.call_method("empty", (shape.to_vec(), element?), Some(&arguments))
        }
        Library::Torch | Library::Other => Err(PyTypeError::new_err(format!(
            "q is a {}, of which fa512 cannot make another for the result; give out= (and lse= where LSE is wanted)",
            q.get_type().name()?
        ))),
    }
}

fn tuple(sizes: [i64; 4]) -> (i64, i64, i64, i64) {
    (sizes[0], sizes[1], sizes[2], sizes[3])
}

/// Strides of a contiguous tensor whose second and third dimensions have the memory order of `like`.
pub fn dense_strides([_, second, third, last]: [i64; 4], like: &[i64]) -> [i64; 4] {
    match like[1] < like[2] {
        true => [second * third * last, last, second * last, 1],
        false => [second * third * last, third * last, last, 1],
    }
}

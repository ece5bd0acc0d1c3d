//! Reads array arguments: tensors of PyTorch, arrays of CuPy or JAX, and other objects that describe their memory.
//!
//! Supports three protocols, tried in this order: DLPack's C exchange API (PyTorch 2.10 and later), DLPack capsules,
//! and `__cuda_array_interface__`.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyTuple, PyType};

use crate::dlpack::{self, Element, ExchangeApi};

/// Maximum number of dimensions of an argument.
pub const MAXIMUM_RANK: usize = 4;
/// fp16.
pub const HALF: Element = Element { code: dlpack::FLOAT, bits: 16, lanes: 1 };
/// bf16.
pub const BFLOAT: Element = Element { code: dlpack::BFLOAT, bits: 16, lanes: 1 };
/// i32.
pub const INT32: Element = Element { code: dlpack::INTEGER, bits: 32, lanes: 1 };
/// u32.
pub const UINT32: Element = Element { code: dlpack::UNSIGNED, bits: 32, lanes: 1 };
/// f32.
pub const SINGLE: Element = Element { code: dlpack::FLOAT, bits: 32, lanes: 1 };

const CAPSULE: &CStr = c"dltensor";
const CAPSULE_VERSIONED: &CStr = c"dltensor_versioned";
const EXCHANGE_CAPSULE: &CStr = c"dlpack_exchange_api";

/// An array argument, read.
pub struct Array {
    /// Address of its first element.
    pub address: u64,
    /// Type of its elements.
    pub element: Element,
    rank: usize,
    shape: [i64; MAXIMUM_RANK],
    /// Strides in elements.
    strides: [i64; MAXIMUM_RANK],
    /// The driver's ordinal of its GPU; `None` if the protocol does not tell.
    pub gpu: Option<usize>,
    /// Whether it is read-only.
    pub is_read_only: bool,
    /// The stream that its producer works on, if the protocol tells.
    pub stream: Option<u64>,
}

/// The protocol by which an object is read.
#[derive(Clone, Copy)]
pub enum Protocol {
    /// DLPack's C exchange API.
    Exchange(&'static ExchangeApi),
    /// `__dlpack__`.
    Capsule,
    /// `__cuda_array_interface__`.
    Interface,
}

/// The library that an object comes from, which decides on streams and how outputs are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// PyTorch.
    Torch,
    /// CuPy.
    Cupy,
    /// JAX.
    Jax,
    /// Any other.
    Other,
}

impl Library {
    /// The library that defines the type of `object`.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let module = object.get_type().getattr(intern!(object.py(), "__module__"))?;
        let Ok(module) = module.extract::<String>() else { return Ok(Self::Other) };
        Ok(match module.split('.').next() {
            Some("torch") => Self::Torch,
            Some("cupy") => Self::Cupy,
            Some("jax" | "jaxlib") => Self::Jax,
            _ => Self::Other,
        })
    }
}

impl Protocol {
    /// The protocol of `object`, the argument `name`.
    pub fn of(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let py = object.py();
        let kind = object.get_type();
        if let Some(capsule) = kind.getattr_opt(intern!(py, "__dlpack_c_exchange_api__"))?
            && let Ok(capsule) = capsule.cast::<PyCapsule>()
            && let Ok(pointer) = capsule.pointer_checked(Some(EXCHANGE_CAPSULE))
        {
            // SAFETY: by the protocol, a capsule of this name holds this struct, which lives as long as the process.
            let api = unsafe { pointer.cast::<ExchangeApi>().as_ref() };
            if api.is_known() && api.tensor_of.is_some() && api.current_stream.is_some() {
                refuse_wrappers(&kind, name)?;
                return Ok(Self::Exchange(api));
            }
        }
        if kind.hasattr(intern!(py, "__dlpack__"))? {
            return Ok(Self::Capsule);
        }
        // Asked of the instance: arrays of some libraries have it only on a GPU.
        if object.hasattr(intern!(py, "__cuda_array_interface__"))? {
            return Ok(Self::Interface);
        }
        Err(PyTypeError::new_err(format!(
            "{name} is a {}; it must be a tensor or array on a GPU, with DLPack or __cuda_array_interface__",
            kind.name()?
        )))
    }
}

/// Refuses PyTorch tensors that only represent others (DTensor, fake tensors, …): they have no memory.
fn refuse_wrappers(kind: &Bound<'_, PyType>, name: &str) -> PyResult<()> {
    static PLAIN: PyOnceLock<Vec<Py<PyType>>> = PyOnceLock::new();
    let py = kind.py();
    if PLAIN.get(py).is_some_and(|plain| plain.iter().any(|plain| plain.is(kind))) {
        return Ok(());
    }
    let Ok(torch) = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?.get_item("torch") else {
        return Ok(());
    };
    let plain = PLAIN.get_or_try_init(py, || {
        let parameter = torch.getattr("nn")?.getattr("Parameter")?;
        [torch.getattr("Tensor")?, parameter]
            .into_iter()
            .map(|kind| Ok(kind.cast_into::<PyType>()?.unbind()))
            .collect::<PyResult<Vec<_>>>()
    })?;
    if plain.iter().any(|plain| plain.is(kind)) || !kind.is_subclass(plain[0].bind(py))? {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "{name} is a {}, which has no memory of its own; fa512.torch.attention takes it",
        kind.name()?
    )))
}

impl Array {
    /// Reads `object`, the argument `name`, for work on `stream`. `keep` keeps the result's memory alive.
    ///
    /// A producer that works on another stream makes `stream` wait for it. `None` if the call works on the producer's
    /// stream.
    pub fn read<'py>(
        object: &Bound<'py, PyAny>,
        name: &str,
        stream: Option<u64>,
        keep: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        match Protocol::of(object, name)? {
            Protocol::Exchange(api) => Self::of_exchange(object, name, api),
            Protocol::Capsule => {
                let capsule = export(object, name, stream)?;
                let array = Self::of_capsule(&capsule, name)?;
                keep.push(capsule.into_any());
                Ok(array)
            }
            Protocol::Interface => Self::of_interface(object, name),
        }
    }

    fn of_exchange(object: &Bound<'_, PyAny>, name: &str, api: &ExchangeApi) -> PyResult<Self> {
        let tensor_of = api.tensor_of.expect("Protocol::of has looked");
        let mut tensor = dlpack::Tensor::empty();
        // SAFETY: the object is of the type that has this table, and `tensor` receives the function's result.
        if unsafe { tensor_of(object.as_ptr().cast(), &mut tensor) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Self::of_tensor(&tensor, false, name)
    }

    fn of_capsule(capsule: &Bound<'_, PyCapsule>, name: &str) -> PyResult<Self> {
        if let Ok(pointer) = capsule.pointer_checked(Some(CAPSULE)) {
            // SAFETY: a capsule of this name holds this struct, which lives while it is read.
            let managed = unsafe { pointer.cast::<dlpack::Managed>().as_ref() };
            return Self::of_tensor(&managed.tensor, false, name);
        }
        let pointer = capsule.pointer_checked(Some(CAPSULE_VERSIONED)).map_err(|_| {
            PyTypeError::new_err(format!("{name}.__dlpack__() returned a capsule that is not DLPack's"))
        })?;
        // SAFETY: as above.
        let managed = unsafe { pointer.cast::<dlpack::ManagedVersioned>().as_ref() };
        let (tensor, is_read_only) = managed.tensor().ok_or_else(|| {
            PyTypeError::new_err(format!("{name}.__dlpack__() returned a version of DLPack that is not known here"))
        })?;
        Self::of_tensor(&tensor, is_read_only, name)
    }

    fn of_tensor(tensor: &dlpack::Tensor, is_read_only: bool, name: &str) -> PyResult<Self> {
        if !matches!(tensor.device.kind, dlpack::CUDA | dlpack::CUDA_MANAGED) {
            return Err(not_on_a_gpu(name, tensor.device.kind));
        }
        let rank = usize::try_from(tensor.rank).unwrap_or(usize::MAX);
        if rank > MAXIMUM_RANK {
            return Err(PyValueError::new_err(format!("{name} has {} dimensions; it must have 4", tensor.rank)));
        }
        let mut array = Self {
            address: (tensor.data.addr() as u64).wrapping_add(tensor.byte_offset),
            element: tensor.element,
            rank,
            shape: [1; MAXIMUM_RANK],
            strides: [0; MAXIMUM_RANK],
            gpu: usize::try_from(tensor.device.ordinal).ok(),
            is_read_only,
            stream: None,
        };
        if rank > 0 && tensor.shape.is_null() {
            return Err(PyTypeError::new_err(format!("{name} has {rank} dimensions and says no sizes (DLPack)")));
        }
        if rank > 0 {
            // SAFETY: by the protocol there are `rank` sizes, which live while they are read.
            array.shape[..rank].copy_from_slice(unsafe { std::slice::from_raw_parts(tensor.shape, rank) });
        }
        if tensor.strides.is_null() {
            array.strides = contiguous(&array.shape, rank);
        } else {
            // SAFETY: as above.
            array.strides[..rank].copy_from_slice(unsafe { std::slice::from_raw_parts(tensor.strides, rank) });
        }
        Ok(array)
    }

    fn of_interface(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let py = object.py();
        let wrong = |what: &str| PyTypeError::new_err(format!("{name}.__cuda_array_interface__ has no usable {what}"));
        let interface = object.getattr(intern!(py, "__cuda_array_interface__"))?;
        let interface = interface.cast::<PyDict>().map_err(|_| wrong("entries: it must be a dict"))?;
        let entry = |key: &str| interface.get_item(key).map(|entry| entry.filter(|entry| !entry.is_none()));
        let shape: Vec<i64> = entry("shape")?.ok_or_else(|| wrong("shape"))?.extract().map_err(|_| wrong("shape"))?;
        let text: String =
            entry("typestr")?.ok_or_else(|| wrong("typestr"))?.extract().map_err(|_| wrong("typestr"))?;
        let (address, is_read_only): (u64, bool) =
            entry("data")?.ok_or_else(|| wrong("data"))?.extract().map_err(|_| wrong("data"))?;
        if entry("mask")?.is_some() {
            return Err(PyValueError::new_err(format!("{name} is a masked array, which is not supported")));
        }
        let rank = shape.len();
        if rank > MAXIMUM_RANK {
            return Err(PyValueError::new_err(format!("{name} has {rank} dimensions; it must have 4")));
        }
        // NumPy (ml_dtypes) exports bf16 as two bytes without a type, unless `descr` lists fields.
        let has_parts = || entry("descr").map(|descr| descr.is_some_and(|descr| !is_one_unnamed_part(&descr)));
        let element = match text.get(1..) {
            Some("V2") if !text.starts_with('>') && !has_parts()? => BFLOAT,
            _ => element(&text).ok_or_else(|| wrong("typestr"))?,
        };
        let mut array = Self {
            address,
            element,
            rank,
            shape: [1; MAXIMUM_RANK],
            strides: [0; MAXIMUM_RANK],
            gpu: None,
            is_read_only,
            stream: None,
        };
        array.shape[..rank].copy_from_slice(&shape);
        array.strides = match entry("strides")? {
            None => contiguous(&array.shape, rank),
            Some(strides) => {
                let bytes: Vec<i64> = strides.extract().map_err(|_| wrong("strides"))?;
                let size = i64::from(element.bits / 8);
                if bytes.len() != rank || bytes.iter().any(|stride| stride % size != 0) {
                    return Err(wrong("strides"));
                }
                let mut strides = [0; MAXIMUM_RANK];
                strides.iter_mut().zip(bytes).for_each(|(stride, bytes)| *stride = bytes / size);
                strides
            }
        };
        if let Some(stream) = entry("stream")? {
            array.stream = Some(stream.extract().map_err(|_| wrong("stream"))?);
        }
        Ok(array)
    }

    /// Sizes of its dimensions.
    pub fn shape(&self) -> &[i64] {
        &self.shape[..self.rank]
    }

    /// The same of a tensor of PyTorch on GPU `gpu`, of at most `MAXIMUM_RANK` dimensions.
    pub fn of_torch(address: u64, element: Element, shape: &[i64], strides: &[i64], gpu: usize) -> Self {
        let padded = |values: &[i64]| std::array::from_fn(|place| values.get(place).copied().unwrap_or(0));
        let rank = shape.len();
        let (shape, strides) = (padded(shape), padded(strides));
        Self { address, element, rank, shape, strides, gpu: Some(gpu), is_read_only: false, stream: None }
    }

    /// Strides in elements.
    pub fn strides(&self) -> &[i64] {
        &self.strides[..self.rank]
    }
}

/// Calls `__dlpack__` of `object`, the argument `name`, which must be on a GPU.
fn export<'py>(object: &Bound<'py, PyAny>, name: &str, stream: Option<u64>) -> PyResult<Bound<'py, PyCapsule>> {
    let py = object.py();
    let (kind, _) = device(object, name)?;
    if !matches!(kind, dlpack::CUDA | dlpack::CUDA_MANAGED) {
        return Err(not_on_a_gpu(name, kind));
    }
    let arguments = PyDict::new(py);
    match stream {
        // The producer works on that stream itself: no synchronisation needed.
        None => arguments.set_item(intern!(py, "stream"), -1)?,
        // The protocol calls the legacy default stream 1.
        Some(stream) => arguments.set_item(intern!(py, "stream"), stream.max(1))?,
    }
    let capsule = object.call_method(intern!(py, "__dlpack__"), (), Some(&arguments))?;
    let capsule = capsule.cast_into::<PyCapsule>();
    capsule.map_err(|_| PyTypeError::new_err(format!("{name}.__dlpack__() returned no capsule")))
}

/// Type and ordinal of the device on which `object`, the argument `name`, lies.
pub fn device(object: &Bound<'_, PyAny>, name: &str) -> PyResult<(i32, usize)> {
    let device = object.call_method0(intern!(object.py(), "__dlpack_device__"))?;
    let device = device.cast::<PyTuple>().map_err(|_| {
        PyTypeError::new_err(format!("{name}.__dlpack_device__() returned no pair of device type and number"))
    })?;
    Ok((device.get_item(0)?.extract()?, device.get_item(1)?.extract()?))
}

/// The current stream, on GPU `gpu`, of the library behind `api`.
pub fn current_stream(py: Python<'_>, api: &ExchangeApi, gpu: usize) -> PyResult<u64> {
    let current_stream = api.current_stream.expect("Protocol::of has looked");
    let mut stream: *mut c_void = std::ptr::null_mut();
    let ordinal = i32::try_from(gpu).unwrap_or(i32::MAX);
    // SAFETY: `stream` receives the function's result.
    match unsafe { current_stream(dlpack::CUDA, ordinal, &mut stream) } {
        0 => Ok(stream.addr() as u64),
        _ => Err(PyErr::fetch(py)),
    }
}

fn not_on_a_gpu(name: &str, kind: i32) -> PyErr {
    const CPU: i32 = 1;
    const PINNED: i32 = 3;
    let place = match kind {
        CPU => "on the CPU".to_owned(),
        PINNED => "in pinned memory of the host".to_owned(),
        other => format!("on a device of DLPack's type {other}"),
    };
    PyValueError::new_err(format!("{name} is {place}; it must be on an NVIDIA GPU"))
}

fn contiguous(shape: &[i64; MAXIMUM_RANK], rank: usize) -> [i64; MAXIMUM_RANK] {
    let mut strides = [0; MAXIMUM_RANK];
    let mut next = 1i64;
    for dimension in (0..rank).rev() {
        strides[dimension] = next;
        next = next.saturating_mul(shape[dimension].max(1));
    }
    strides
}

/// Whether a `descr` contains no more than a `typestr`: `[("", typestr)]`.
fn is_one_unnamed_part(descr: &Bound<'_, PyAny>) -> bool {
    descr.extract::<Vec<(String, String)>>().is_ok_and(|parts| matches!(&parts[..], [(name, _)] if name.is_empty()))
}

/// The element type of a little-endian `typestr`.
fn element(text: &str) -> Option<Element> {
    let (order, rest) = text.split_at_checked(1)?;
    let (kind, bytes) = rest.split_at_checked(1)?;
    let bytes: u8 = bytes.parse().ok()?;
    let code = match kind {
        "f" => dlpack::FLOAT,
        "i" => dlpack::INTEGER,
        "u" => dlpack::UNSIGNED,
        _ => return None,
    };
    let is_native = order == "<" || order == "|" && bytes == 1;
    (is_native && matches!(bytes, 1 | 2 | 4 | 8)).then_some(Element { code, bits: bytes * 8, lanes: 1 })
}

/// The name of an element type in NumPy and PyTorch.
pub fn element_name(element: Element) -> String {
    let name = match element.code {
        dlpack::FLOAT => "float",
        dlpack::BFLOAT => "bfloat",
        dlpack::INTEGER => "int",
        dlpack::UNSIGNED => "uint",
        code => return format!("DLPack type {code} of {} bits", element.bits),
    };
    format!("{name}{}", element.bits)
}

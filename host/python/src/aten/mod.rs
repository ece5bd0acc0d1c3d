//! PyTorch's attentions without Python: kernels by PyTorch's stable C interface, at dispatch keys where PyTorch has none of these operators.
//!
//! A kernel finds its arguments on a stack of 64-bit values, and writes its results over them. A tensor is a handle that its holder owns; a
//! number or truth value is its bits; an optional argument is null, or a pointer, owned, to the value.
//!
//! What a forward pass does not support, or fails, leaves O undefined, which is None in Python. Python then calls the operator, which names
//! the reason. A backward calls Python itself.

mod backward;
mod call;
mod forward;
mod functions;
mod tensor;

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::{Mutex, OnceLock};

use attention::Element;
use pyo3::prelude::*;

use self::forward::Backward;
use self::functions::{Functions, Handle, Kernel, ask, loaded};
use self::tensor::{Read, Tensor};
use crate::output::dense_strides;

/// The version of the C interface that this was written for, 2.10, as `TORCH_ABI_VERSION` has it.
const VERSION: u64 = 2 << 56 | 10 << 48;

/// The operators of forward passes, and their kernels.
const FORWARD: [(&CStr, Kernel); 4] = [
    (c"_scaled_dot_product_flash_attention", forward::of_sdpa),
    (c"_flash_attention_forward", forward::of_flash),
    (c"_scaled_dot_product_cudnn_attention", forward::of_cudnn),
    (c"_efficient_attention_forward", forward::of_kept),
];

/// Those of backwards.
const BACKWARD: [(&CStr, Kernel); 3] = [
    (c"_scaled_dot_product_flash_attention_backward", backward::of_sdpa),
    (c"_flash_attention_backward", backward::of_flash),
    (c"_efficient_attention_backward", backward::of_kept),
];

/// PyTorch, if the kernels are registered.
static TORCH: OnceLock<Option<Torch>> = OnceLock::new();

struct Torch {
    call: Functions,
    /// A random state of each backward on each GPU.
    states: Mutex<BTreeMap<(Backward, i32), Tensor>>,
    own: Option<Own>,
}

/// What leads to fa512's own backward.
#[derive(FromPyObject)]
pub struct Own {
    /// The dispatch key of its random states.
    #[pyo3(item)]
    key: String,
    /// Up to this head size, forward passes return its states.
    #[pyo3(item)]
    head_dim: i64,
    /// Called with the number of a GPU: returns a handle of a state, in a capsule, which nobody else owns.
    #[pyo3(item)]
    make_state: Py<PyAny>,
    /// Called where a kernel refuses its call, with handles of dO, Q, K, V, O and LSE to take over, and the other arguments by name: returns
    /// those of the gradients.
    #[pyo3(item)]
    backward: Py<PyAny>,
}

/// Registers kernels of PyTorch's attentions at the dispatch key `key`. The first call decides, and later ones return the same.
///
/// The kernels compute what the operators do, without dropout, or leave O undefined. With `return_debug_mask`, LSE is not computed, and
/// undefined. Where no gradient is recorded, random states are undefined.
///
/// Parameters
/// ----------
/// key
///     The name of the key.
/// own
///     What leads to fa512's own backward, whose kernels are registered, too: a dictionary of `key`, the dispatch key of its random states;
///     `head_dim`, the largest head size that they are for; `make_state`, called with the number of a GPU; and `backward`, called where a
///     kernel refuses its call. Tensors are handles in capsules, which their receiver owns. If missing, all states are zeros.
/// functions
///     Addresses of functions to call in place of PyTorch's, by name, or 0 for one that is missing: for tests. They have the same
///     signatures.
///
/// Returns
/// -------
/// Whether the kernels are there. They are not if this PyTorch lacks a function.
#[pyfunction]
#[pyo3(signature = (key, own=None, functions=None))]
pub fn implement_aten(key: &str, own: Option<Own>, functions: Option<HashMap<String, usize>>) -> bool {
    let functions = functions.unwrap_or_default();
    let find = |name: &CStr| match functions.get(name.to_str().ok()?) {
        Some(&address) => (address != 0).then(|| ptr::with_exposed_provenance_mut(address)),
        None => loaded(name),
    };
    let register = || {
        let call = Functions::of(find)?;
        let of_forward = register(&call, key, &FORWARD)?;
        if let Some(own) = &own
            && register(&call, &own.key, &BACKWARD).is_none()
        {
            // SAFETY: the library was made just now, and is not used again. That takes back what is registered.
            unsafe { (call.delete_library)(of_forward) };
            return None;
        }
        Some(Torch { call, states: Mutex::default(), own })
    };
    TORCH.get_or_init(register).is_some()
}

/// The library of all `kernels`; `None`, and none is registered, if one cannot be.
fn register(call: &Functions, key: &str, kernels: &[(&CStr, Kernel)]) -> Option<Handle> {
    let key = CString::new(key).ok()?;
    let (namespace, file, line) = (c"aten".as_ptr(), c"aten".as_ptr(), 1);
    // SAFETY: the texts end in NUL and are copied.
    let library = ask(ptr::null_mut(), |new| unsafe { (call.new_library)(namespace, key.as_ptr(), file, line, new) })?;
    let are_registered = kernels.iter().all(|&(name, kernel)| {
        // SAFETY: the library is the one made above; the name ends in NUL and is copied; the kernel lives as long as the process.
        unsafe { (call.implement)(library, name.as_ptr(), kernel, VERSION) == 0 }
    });
    if !are_registered {
        // SAFETY: the library is the one made above, and not used again. That takes back what is registered.
        unsafe { (call.delete_library)(library) };
    }
    are_registered.then_some(library)
}

impl Torch {
    /// A tensor on GPU `gpu`, not initialised. There are as many sizes as strides.
    fn empty(&'static self, sizes: &[i64], strides: &[i64], dtype: i32, gpu: i32) -> Option<Tensor> {
        let (call, rank) = (&self.call, sizes.len() as i64);
        assert_eq!(sizes.len(), strides.len());
        // SAFETY: there are `rank` sizes and strides, which are alive.
        let handle = ask(ptr::null_mut(), |new| unsafe {
            (call.empty_strided)(rank, sizes.as_ptr(), strides.as_ptr(), dtype, (call.cuda)(), gpu, new)
        });
        handle.map(|handle| Tensor { call, handle })
    }

    /// A tensor of the sizes of `tensor`, without gaps, in the same order or in that of its dimensions.
    fn new_like(&'static self, tensor: &Read, is_in_order: bool) -> Option<Tensor> {
        let Read { rank, sizes, strides, dtype, gpu, .. } = tensor;
        let strides = match rank {
            4 if !is_in_order => dense_strides(*sizes, strides),
            // Beyond the rank, sizes are 0.
            _ => std::array::from_fn(|place| sizes[..*rank].iter().skip(place + 1).product()),
        };
        self.empty(&sizes[..*rank], &strides[..*rank], *dtype, *gpu)
    }

    fn element(&self, dtype: i32) -> Option<Element> {
        // SAFETY: the functions take nothing, and return numbers.
        let [float16, bfloat16] = unsafe { [(self.call.float16)(), (self.call.bfloat16)()] };
        match dtype {
            _ if dtype == float16 => Some(Element::F16),
            _ if dtype == bfloat16 => Some(Element::Bf16),
            _ => None,
        }
    }

    fn float32(&self) -> i32 {
        // SAFETY: the function takes nothing, and returns a number.
        unsafe { (self.call.float32)() }
    }

    fn uint8(&self) -> i32 {
        // SAFETY: the function takes nothing, and returns a number.
        unsafe { (self.call.uint8)() }
    }

    /// The value of a tensor that is handed over; `None` is undefined.
    fn value(&self, tensor: Option<Tensor>) -> u64 {
        let undefined = || {
            // SAFETY: the function writes a handle.
            ask(ptr::null_mut(), |new| unsafe { (self.call.new_undefined)(new) }).expect("there is memory for a handle")
        };
        tensor.map_or_else(undefined, |tensor| ManuallyDrop::new(tensor).handle).expose_provenance() as u64
    }

    /// The tensor of a value.
    ///
    /// # Safety
    /// The value is a handle that is handed over.
    unsafe fn tensor(&'static self, value: u64) -> Tensor {
        Tensor { call: &self.call, handle: ptr::with_exposed_provenance_mut(value as usize) }
    }

    /// The tensor of an optional argument; none if it is undefined, as nodes hand it over.
    ///
    /// # Safety
    /// The value is null, or a pointer to a handle, which both are handed over.
    unsafe fn optional_tensor(&'static self, value: u64) -> Option<Tensor> {
        // SAFETY: passed on to the caller.
        let tensor = unsafe { self.optional(value).map(|value| self.tensor(value)) };
        tensor.filter(Tensor::is_defined)
    }

    /// The value of an optional argument.
    ///
    /// # Safety
    /// The value is null, or a pointer that is handed over.
    unsafe fn optional(&self, value: u64) -> Option<u64> {
        let place: *mut u64 = ptr::with_exposed_provenance_mut(value as usize);
        if place.is_null() {
            return None;
        }
        // SAFETY: by the contract, PyTorch made it with `new`, and leaves it to this function to delete it.
        unsafe {
            let value = place.read();
            (self.call.operator_delete)(place.cast());
            Some(value)
        }
    }
}

/// PyTorch, in a kernel that it calls.
fn torch() -> &'static Torch {
    TORCH.get().and_then(Option::as_ref).expect("Python calls a kernel when `implement_aten` has returned")
}

/// A truth value from the stack, of which it takes one byte.
fn truth(value: u64) -> bool {
    value as u8 != 0
}

//! PyTorch's attentions at a dispatch key that no tensor of others has, without Python: kernels by PyTorch's stable C interface.
//!
//! Its functions (torch/csrc/inductor/aoti_torch/c/shim.h, torch/csrc/stable/c/shim.h) are looked up in the libraries that `import torch`
//! has loaded; nothing of PyTorch is needed to build this. Those that may fail return 0 on success.
//!
//! A kernel finds its arguments on a stack of 64-bit values, and writes its results over them. A tensor is a handle that its holder owns; a
//! number or truth value is its bits; an optional argument is null, or a pointer, owned, to the value.
//!
//! What is not supported, or fails, leaves O undefined, which is None in Python. Python then calls the operator, which names the reason.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::{ManuallyDrop, transmute};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::slice;
use std::sync::{Mutex, OnceLock, PoisonError};

use attention::{
    Addresses, Alignment, Element, Gpu, Layout, Mask, Options, Packing, Problem, Shape, Stream, Strides, View, Views,
    Window,
};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::output::dense_strides;

/// The version of the C interface that this was written for, 2.10, as `TORCH_ABI_VERSION` has it.
const VERSION: u64 = 2 << 56 | 10 << 48;

/// The libraries of PyTorch that have the functions.
const LIBRARIES: [&CStr; 2] = [c"libtorch_cpu.so", c"libtorch_cuda.so"];

/// The operators, and their kernels.
const KERNELS: [(&CStr, Kernel); 3] = [
    (c"_scaled_dot_product_flash_attention", of_sdpa),
    (c"_flash_attention_forward", of_flash),
    (c"_scaled_dot_product_cudnn_attention", of_cudnn),
];

type Kernel = unsafe extern "C" fn(stack: *mut u64, inputs: u64, outputs: u64);
type Handle = *mut c_void;

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Functions of PyTorch; the symbols name them.
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Looks every function up; `None` if one is missing.
            fn of(find: impl Fn(&CStr) -> Option<*mut c_void>) -> Option<Self> {
                Some(Self {
                    $($field: {
                        let address = find($name)?;
                        // SAFETY: this is the function of that name, which has this signature (shim.h; `operator delete` of C++).
                        unsafe { transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(address) }
                    },)*
                })
            }
        }
    };
}

functions! {
    new_library = c"aoti_torch_library_init_impl": fn(*const c_char, *const c_char, *const c_char, u32, *mut Handle) -> i32;
    implement = c"torch_library_impl": fn(Handle, *const c_char, Kernel, u64) -> i32;
    delete_library = c"aoti_torch_delete_library_object": fn(Handle) -> i32;
    new_undefined = c"aoti_torch_new_uninitialized_tensor": fn(*mut Handle) -> i32;
    new_handle = c"aoti_torch_new_tensor_handle": fn(Handle, *mut Handle) -> i32;
    empty_strided = c"aoti_torch_empty_strided": fn(i64, *const i64, *const i64, i32, i32, i32, *mut Handle) -> i32;
    zero = c"aoti_torch_zero_": fn(Handle) -> i32;
    delete_tensor = c"aoti_torch_delete_tensor_object": fn(Handle) -> i32;
    layout = c"aoti_torch_get_layout": fn(Handle, *mut i32) -> i32;
    rank = c"aoti_torch_get_dim": fn(Handle, *mut i64) -> i32;
    sizes = c"aoti_torch_get_sizes": fn(Handle, *mut *const i64) -> i32;
    strides = c"aoti_torch_get_strides": fn(Handle, *mut *const i64) -> i32;
    dtype = c"aoti_torch_get_dtype": fn(Handle, *mut i32) -> i32;
    device_type = c"aoti_torch_get_device_type": fn(Handle, *mut i32) -> i32;
    device_index = c"aoti_torch_get_device_index": fn(Handle, *mut i32) -> i32;
    address = c"torch_get_const_data_ptr": fn(Handle, *mut *const c_void) -> i32;
    current_stream = c"aoti_torch_get_current_cuda_stream": fn(i32, *mut *mut c_void) -> i32;
    strided = c"aoti_torch_layout_strided": fn() -> i32;
    cuda = c"aoti_torch_device_type_cuda": fn() -> i32;
    float16 = c"aoti_torch_dtype_float16": fn() -> i32;
    bfloat16 = c"aoti_torch_dtype_bfloat16": fn() -> i32;
    float32 = c"aoti_torch_dtype_float32": fn() -> i32;
    int32 = c"aoti_torch_dtype_int32": fn() -> i32;
    uint32 = c"aoti_torch_dtype_uint32": fn() -> i32;
    int64 = c"aoti_torch_dtype_int64": fn() -> i32;
    uint64 = c"aoti_torch_dtype_uint64": fn() -> i32;
    is_grad_enabled = c"aoti_torch_grad_mode_is_enabled": fn() -> bool;
    operator_delete = c"_ZdlPv": fn(*mut c_void);
}

/// PyTorch, if the kernels are registered.
static TORCH: OnceLock<Option<Torch>> = OnceLock::new();

struct Torch {
    call: Functions,
    /// A random state of each backward on each GPU. Without dropout, the backward takes one and does not read it. They are made where
    /// gradients are recorded, since no backward may take what was made in inference mode.
    states: Mutex<BTreeMap<(Backward, i32), Tensor>>,
    /// Makes those of FlashAttention-2's backward, in Python.
    make_state: Option<Py<PyAny>>,
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
/// state
///     Called once for each GPU, with its number: returns a handle of the random state for FlashAttention-2's backward, in a capsule, which
///     nobody else owns. If missing, it is a tensor of zeros.
/// functions
///     Addresses of functions to call in place of PyTorch's, by name, or 0 for one that is missing: for tests. They have the same
///     signatures.
///
/// Returns
/// -------
/// Whether the kernels are there. They are not if this PyTorch lacks a function.
#[pyfunction]
#[pyo3(signature = (key, state=None, functions=None))]
pub fn implement_aten(key: &str, state: Option<Py<PyAny>>, functions: Option<HashMap<String, usize>>) -> bool {
    let functions = functions.unwrap_or_default();
    let find = |name: &CStr| match functions.get(name.to_str().ok()?) {
        Some(&address) => (address != 0).then(|| ptr::with_exposed_provenance_mut(address)),
        None => loaded(name),
    };
    let register = || {
        let call = Functions::of(find)?;
        register(&call, key).then(|| Torch { call, states: Mutex::default(), make_state: state })
    };
    TORCH.get_or_init(register).is_some()
}

/// The address of a function of PyTorch's libraries, if they are loaded.
#[cfg(target_os = "linux")]
fn loaded(name: &CStr) -> Option<*mut c_void> {
    use std::ffi::c_int;

    unsafe extern "C" {
        fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    const RTLD_NOW: c_int = 2;
    /// Only a library that is loaded already.
    const RTLD_NOLOAD: c_int = 4;

    LIBRARIES.iter().find_map(|library| {
        // SAFETY: the name ends in NUL; no code runs, since nothing is loaded.
        let library = unsafe { dlopen(library.as_ptr(), RTLD_NOW | RTLD_NOLOAD) };
        if library.is_null() {
            return None;
        }
        // SAFETY: the library is open, and never closed; the name ends in NUL.
        let address = unsafe { dlsym(library, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    })
}

#[cfg(not(target_os = "linux"))]
fn loaded(_: &CStr) -> Option<*mut c_void> {
    None
}

/// Registers all kernels, or none.
fn register(call: &Functions, key: &str) -> bool {
    let Ok(key) = CString::new(key) else { return false };
    let (namespace, file, line) = (c"aten".as_ptr(), c"aten.rs".as_ptr(), 1);
    // SAFETY: the texts end in NUL and are copied.
    let library = ask(ptr::null_mut(), |new| unsafe { (call.new_library)(namespace, key.as_ptr(), file, line, new) });
    let Some(library) = library else { return false };
    let are_registered = KERNELS.iter().all(|&(name, kernel)| {
        // SAFETY: the library is the one made above; the name ends in NUL and is copied; the kernel lives as long as the process.
        unsafe { (call.implement)(library, name.as_ptr(), kernel, VERSION) == 0 }
    });
    if !are_registered {
        // SAFETY: the library is the one made above, and not used again. That takes back what is registered.
        unsafe { (call.delete_library)(library) };
    }
    are_registered
}

/// What a function writes that returns 0 on success.
fn ask<T>(before: T, function: impl FnOnce(*mut T) -> i32) -> Option<T> {
    let mut result = before;
    (function(&mut result) == 0).then_some(result)
}

/// A tensor of PyTorch: a handle, deleted when this is dropped.
struct Tensor {
    call: &'static Functions,
    handle: Handle,
}

// SAFETY: a handle is a counted reference to a tensor, which PyTorch counts atomically and lets any thread read.
unsafe impl Send for Tensor {}
// SAFETY: as above; nothing here changes a tensor.
unsafe impl Sync for Tensor {}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: the handle is owned, and not used again.
        unsafe { (self.call.delete_tensor)(self.handle) };
    }
}

impl Tensor {
    /// Another reference to the same tensor.
    fn again(&self) -> Option<Self> {
        // SAFETY: the handle is alive.
        let handle = ask(ptr::null_mut(), |new| unsafe { (self.call.new_handle)(self.handle, new) });
        handle.map(|handle| Self { handle, ..*self })
    }

    /// What the tensor holds; `None` if it is not in memory of a GPU, or has more than `MOST` dimensions.
    fn read(&self) -> Option<Read> {
        const MOST: usize = 4;
        let Self { call, handle } = *self;
        // SAFETY: the handle is alive.
        let number =
            |function: unsafe extern "C" fn(Handle, *mut i32) -> i32| ask(0, |out| unsafe { function(handle, out) });
        // SAFETY: the function takes nothing, and returns a number.
        let (strided, cuda) = unsafe { ((call.strided)(), (call.cuda)()) };
        // Other layouts have no strides, and other devices no memory to look for.
        if number(call.layout)? != strided || number(call.device_type)? != cuda {
            return None;
        }
        // SAFETY: the handle is alive.
        let rank = ask(0, |out| unsafe { (call.rank)(handle, out) })?;
        let rank = usize::try_from(rank).ok().filter(|&rank| rank <= MOST)?;
        let numbers = |function: unsafe extern "C" fn(Handle, *mut *const i64) -> i32| {
            // SAFETY: the handle is alive.
            let first = ask(ptr::null(), |out| unsafe { function(handle, out) })?;
            let mut copy = [0; MOST];
            if rank > 0 {
                // SAFETY: there are `rank` numbers, which live while nobody resizes the tensor; nobody may while a call reads it.
                copy[..rank].copy_from_slice(unsafe { slice::from_raw_parts(first, rank) });
            }
            Some(copy)
        };
        let (sizes, strides) = (numbers(call.sizes)?, numbers(call.strides)?);
        // SAFETY: the handle is alive.
        let address = ask(ptr::null(), |out| unsafe { (call.address)(handle, out) })?;
        let (dtype, gpu) = (number(call.dtype)?, number(call.device_index)?);
        // Zero tensors have elements and no memory.
        (!address.is_null()).then(|| Read { address: address.addr() as u64, dtype, gpu, rank, sizes, strides })
    }
}

/// A tensor in memory of a GPU.
struct Read {
    /// Address of the first element.
    address: u64,
    dtype: i32,
    gpu: i32,
    rank: usize,
    sizes: [i64; 4],
    /// Strides in elements.
    strides: [i64; 4],
}

/// The order of the dimensions of Q, K, V and O.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// `[batch, heads, sequence, head size]`.
    Bhsd,
    /// `[batch, sequence, heads, head size]`.
    Bshd,
    /// `[rows of all sequences, heads, head size]`.
    Packed,
}

impl Order {
    /// Sizes or strides as those of batch, heads, rows and head size; `absent` for a dimension that is not there.
    fn sort(self, rank: usize, [first, second, third, last]: [i64; 4], absent: i64) -> Option<[i64; 4]> {
        match (self, rank) {
            (Self::Bhsd, 4) => Some([first, second, third, last]),
            (Self::Bshd, 4) => Some([first, third, second, last]),
            (Self::Packed, 3) => Some([absent, second, first, third]),
            _ => None,
        }
    }

    /// Sizes of batch, heads, rows and head size.
    fn sizes(self, tensor: &Read) -> Option<[i64; 4]> {
        self.sort(tensor.rank, tensor.sizes, 1)
    }

    /// The view of a tensor whose rows have no gaps.
    fn view(self, tensor: &Read) -> Option<View> {
        let [batch, head, row, last] = self.sort(tensor.rank, tensor.strides, 0)?;
        let positive = |stride: i64| u64::try_from(stride).ok();
        let strides = Strides { batch: positive(batch)?, head: positive(head)?, row: positive(row)? };
        (last == 1).then(|| View::new(strides))
    }
}

/// The backward that results are for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Backward {
    /// FlashAttention-2's.
    Flash,
    /// cuDNN's.
    Cudnn,
}

/// The arguments of a call.
struct Call {
    /// Q, K and V.
    tensors: [Tensor; 3],
    order: Order,
    backward: Backward,
    /// Where sequences of Q, and of K and V, begin, for packed ones.
    begins: [Option<Tensor>; 2],
    /// Length of the longest sequence of Q; only packed ones need it.
    longest: i64,
    is_causal: bool,
    alignment: Alignment,
    scale: Option<f64>,
    /// Keys before a query's own position, and after it; `None`: no limit.
    sides: [Option<i64>; 2],
    wants_lse: bool,
    /// Whether there is an argument that is not supported.
    has_others: bool,
}

/// What is computed; nothing if the call is refused.
#[derive(Default)]
struct Results {
    o: Option<Tensor>,
    lse: Option<Tensor>,
    /// Random states.
    states: [Option<Tensor>; 2],
    /// Rows of Q, and of K.
    rows: [i64; 2],
}

impl Torch {
    /// Computes a call without the GIL: the driver may wait for room in the stream's queue, or compile a kernel.
    fn compute(&'static self, call: Call) -> Option<Results> {
        // Nothing unwinds into C. What a panic leaves behind is dropped.
        let attempt = || Python::try_attach(|py| py.detach(|| self.attempt(&call))).flatten();
        catch_unwind(AssertUnwindSafe(attempt)).ok().flatten()
    }

    fn attempt(&'static self, call: &Call) -> Option<Results> {
        let (order, [q, k, v]) = (call.order, &call.tensors);
        let (q, k, v) = (q.read()?, k.read()?, v.read()?);
        let (of_q, of_k) = (order.sizes(&q)?, order.sizes(&k)?);
        let ([batch, heads, rows, head_dim], [of_batch, kv_heads, kv_rows, of_head_dim]) = (of_q, of_k);
        let are_alike = [&k, &v].iter().all(|tensor| (tensor.dtype, tensor.gpu) == (q.dtype, q.gpu));
        if call.has_others || !are_alike || order.sizes(&v)? != of_k || (of_batch, of_head_dim) != (batch, head_dim) {
            return None;
        }
        let shape = Shape::new(narrow(batch)?, narrow(heads)?, narrow(rows)?).with_kv_heads(narrow(kv_heads)?);
        let shape = shape.with_kv_sequence(narrow(kv_rows)?).with_head_dim(narrow(head_dim)?);
        let [left, right] = [side(call.sides[0])?, side(call.sides[1])?];
        let window = Window { left, right: if call.is_causal { Some(0) } else { right } };
        let problem = Problem::new(shape, Mask::Full, Layout::Bshd).ok()?;
        let problem = problem.with_element(self.element(q.dtype)?).with_window(window).aligned(call.alignment);
        let problem = call.scale.map_or(Ok(problem), |scale| problem.with_scale(scale)).ok()?;

        let o_strides = match order {
            Order::Packed => [heads * head_dim, head_dim, 1, 0],
            Order::Bhsd | Order::Bshd => dense_strides(q.sizes, &q.strides),
        };
        let o_tensor = self.empty(&q.sizes[..q.rank], &o_strides[..q.rank], q.dtype, q.gpu)?;
        let o = o_tensor.read()?;
        let lse = match call.wants_lse {
            true => Some(self.new_lse(call, of_q, q.gpu)?),
            false => None,
        };
        let views = Views { q: order.view(&q)?, k: order.view(&k)?, v: order.view(&v)?, o: order.view(&o)? };
        let problem = problem.with_views(views).ok()?;
        let addresses = Addresses::new(q.address, k.address, v.address, o.address);
        let addresses = match &lse {
            Some(lse) => Addresses { lse: Some(lse.read()?.address), ..addresses },
            None => addresses,
        };
        let (problem, addresses) = match order {
            Order::Packed => self.with_lengths(call, problem, addresses, q.gpu)?,
            Order::Bhsd | Order::Bshd => (problem, addresses),
        };
        // SAFETY: the function takes nothing, and returns a truth value.
        let is_recorded = call.wants_lse && unsafe { (self.call.is_grad_enabled)() };
        let states = if is_recorded { self.states(call.backward, q.gpu)?.map(Some) } else { [None, None] };
        self.launch(&problem, addresses, q.gpu)?;
        Some(Results { o: Some(o_tensor), lse, states, rows: [rows, kv_rows] })
    }

    /// The problem and addresses of packed sequences, whose lengths are those of `call`.
    fn with_lengths(
        &self,
        call: &Call,
        problem: Problem,
        addresses: Addresses,
        gpu: i32,
    ) -> Option<(Problem, Addresses)> {
        let [Some(of_q), Some(of_k)] = &call.begins else { return None };
        let (of_q, of_k) = (of_q.read()?, of_k.read()?);
        for lengths in [&of_q, &of_k] {
            // SAFETY: the functions take nothing, and return numbers.
            let is_whole = unsafe { [(self.call.int32)(), (self.call.uint32)()] }.contains(&lengths.dtype);
            let is_like_q = (lengths.rank, lengths.gpu, lengths.sizes[0]) == (1, gpu, of_q.sizes[0]);
            if !is_whole || !is_like_q || lengths.strides[0] != 1 {
                return None;
            }
        }
        let (sequences, longest) = (narrow(of_q.sizes[0] - 1)?, narrow(call.longest)?);
        let addresses = Addresses { cu_seqlens: Some(of_q.address), ..addresses };
        if of_q.address == of_k.address && problem.shape().sequence == problem.shape().kv_sequence {
            return Some((problem.packed(Packing::new(sequences, longest)).ok()?, addresses));
        }
        let problem = problem.packed(Packing::separate(sequences, longest)).ok()?;
        Some((problem, Addresses { cu_seqlens_k: Some(of_k.address), ..addresses }))
    }

    fn launch(&self, problem: &Problem, addresses: Addresses, gpu: i32) -> Option<()> {
        // SAFETY: the function writes a stream.
        let stream = ask(ptr::null_mut(), |out| unsafe { (self.call.current_stream)(gpu, out) })?;
        let _context = Gpu::of_device(usize::try_from(gpu).ok()?).ok()?.enter().ok()?;
        let options = Options::default().check_pointers(false);
        // SAFETY: the stream is PyTorch's current one of this GPU. The caller keeps the tensors alive during this call; afterwards, as for
        // PyTorch's own kernels, frees and writes are ordered behind it on that stream. PyTorch guarantees that a tensor lies within its
        // memory, on the GPU that it names.
        unsafe { attention::forward_with(problem, addresses, Stream::from_raw(stream), options) }.ok()
    }

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

    /// A tensor for LSE of a Q of these sizes.
    fn new_lse(&'static self, call: &Call, [batch, heads, rows, _]: [i64; 4], gpu: i32) -> Option<Tensor> {
        let (sizes, strides) = ([batch, heads, rows, 1], [heads * rows, rows, 1, 1]);
        // Of packed sequences without a batch, and of cuDNN with a last dimension of 1.
        let dimensions = match (call.order, call.backward) {
            (Order::Packed, _) => 1..3,
            (_, Backward::Flash) => 0..3,
            (_, Backward::Cudnn) => 0..4,
        };
        // SAFETY: the function takes nothing, and returns a number.
        let float32 = unsafe { (self.call.float32)() };
        self.empty(&sizes[dimensions.clone()], &strides[dimensions], float32, gpu)
    }

    /// Two random states.
    fn states(&'static self, backward: Backward, gpu: i32) -> Option<[Tensor; 2]> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = match states.entry((backward, gpu)) {
            Entry::Occupied(state) => state.into_mut(),
            Entry::Vacant(place) => place.insert(self.new_state(backward, gpu)?),
        };
        Some([state.again()?, state.again()?])
    }

    fn new_state(&'static self, backward: Backward, gpu: i32) -> Option<Tensor> {
        if let (Backward::Flash, Some(make_state)) = (backward, &self.make_state) {
            return Python::try_attach(|py| {
                let capsule = make_state.bind(py).call1((gpu,)).ok()?.cast_into::<PyCapsule>().ok()?;
                let handle = capsule.pointer_checked(None).ok()?.as_ptr();
                Some(Tensor { call: &self.call, handle })
            })?;
        }
        // SAFETY: the functions take nothing, and return numbers.
        let (int64, uint64) = unsafe { ((self.call.int64)(), (self.call.uint64)()) };
        let state = match backward {
            Backward::Flash => self.empty(&[2], &[1], uint64, gpu)?,
            Backward::Cudnn => self.empty(&[], &[], int64, gpu)?,
        };
        // SAFETY: the handle is alive, and nobody else has the tensor.
        (unsafe { (self.call.zero)(state.handle) } == 0).then_some(state)
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

    /// The value of a tensor that is handed over; `None` is undefined.
    fn value(&self, tensor: Option<Tensor>) -> u64 {
        let undefined = || {
            // SAFETY: the function writes a handle.
            ask(ptr::null_mut(), |new| unsafe { (self.call.new_undefined)(new) }).expect("there is memory for a handle")
        };
        tensor.map_or_else(undefined, |tensor| ManuallyDrop::new(tensor).handle).expose_provenance() as u64
    }

    /// The results of an operator that has nine, which are handed over.
    fn nine_values(&self, results: Option<Results>) -> [u64; 9] {
        let Results { o, lse, states: [seed, offset], rows: [queries, keys] } = results.unwrap_or_default();
        let [o, lse, cum_seq_q, cum_seq_k, seed, offset, debug_mask] =
            [o, lse, None, None, seed, offset, None].map(|tensor| self.value(tensor));
        [o, lse, cum_seq_q, cum_seq_k, queries as u64, keys as u64, seed, offset, debug_mask]
    }

    /// The tensor of a value.
    ///
    /// # Safety
    /// The value is a handle that is handed over.
    unsafe fn tensor(&'static self, value: u64) -> Tensor {
        Tensor { call: &self.call, handle: ptr::with_exposed_provenance_mut(value as usize) }
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

fn narrow(size: i64) -> Option<u32> {
    u32::try_from(size).ok()
}

/// A side of a window; `None` if it is negative.
fn side(keys: Option<i64>) -> Option<Option<u32>> {
    match keys {
        Some(keys) if keys < 0 => None,
        // More than any sequence has.
        keys => Some(keys.map(|keys| u32::try_from(keys).unwrap_or(u32::MAX))),
    }
}

/// PyTorch, in a kernel that it calls.
fn torch() -> &'static Torch {
    TORCH.get().and_then(Option::as_ref).expect("Python calls a kernel when `implement_aten` has returned")
}

/// The kernel of `_scaled_dot_product_flash_attention`.
///
/// # Safety
/// The stack holds the arguments of this operator's schema, which Python has checked, and has room for its results.
unsafe extern "C" fn of_sdpa(stack: *mut u64, _: u64, _: u64) {
    let torch = torch();
    // SAFETY: there are nine results, more than arguments.
    let stack = unsafe { &mut *stack.cast::<[u64; 9]>() };
    let [q, k, v, dropout, is_causal, return_debug_mask, scale, ..] = *stack;
    // SAFETY: PyTorch hands over three tensors and an optional number.
    let (tensors, scale) = unsafe { ([q, k, v].map(|value| torch.tensor(value)), torch.optional(scale)) };
    let results = torch.compute(Call {
        tensors,
        order: Order::Bhsd,
        backward: Backward::Flash,
        begins: [None, None],
        longest: 0,
        is_causal: truth(is_causal),
        alignment: Alignment::BottomRight,
        scale: scale.map(f64::from_bits),
        sides: [None, None],
        wants_lse: !truth(return_debug_mask),
        has_others: f64::from_bits(dropout) != 0.0,
    });
    *stack = torch.nine_values(results);
}

/// The kernel of `_scaled_dot_product_cudnn_attention`, which is aligned top-left.
///
/// # Safety
/// As for [`of_sdpa`].
unsafe extern "C" fn of_cudnn(stack: *mut u64, _: u64, _: u64) {
    let torch = torch();
    // SAFETY: there are nine arguments and nine results.
    let stack = unsafe { &mut *stack.cast::<[u64; 9]>() };
    let [q, k, v, attn_bias, compute_log_sumexp, dropout, is_causal, return_debug_mask, scale] = *stack;
    // SAFETY: PyTorch hands over three tensors, an optional one and an optional number.
    let (tensors, attn_bias, scale) = unsafe {
        let attn_bias = torch.optional(attn_bias).map(|value| torch.tensor(value));
        ([q, k, v].map(|value| torch.tensor(value)), attn_bias, torch.optional(scale))
    };
    let results = torch.compute(Call {
        tensors,
        order: Order::Bhsd,
        backward: Backward::Cudnn,
        begins: [None, None],
        longest: 0,
        is_causal: truth(is_causal),
        alignment: Alignment::TopLeft,
        scale: scale.map(f64::from_bits),
        sides: [None, None],
        wants_lse: truth(compute_log_sumexp) && !truth(return_debug_mask),
        has_others: f64::from_bits(dropout) != 0.0 || attn_bias.is_some(),
    });
    *stack = torch.nine_values(results);
}

/// The kernel of `_flash_attention_forward`.
///
/// # Safety
/// As for [`of_sdpa`].
unsafe extern "C" fn of_flash(stack: *mut u64, _: u64, _: u64) {
    let torch = torch();
    // SAFETY: there are 15 arguments, more than results.
    let stack = unsafe { &mut *stack.cast::<[u64; 15]>() };
    let [
        q,
        k,
        v,
        cum_seq_q,
        cum_seq_k,
        max_q,
        _,
        dropout,
        is_causal,
        return_debug_mask,
        scale,
        left,
        right,
        seqused_k,
        alibi_slopes,
    ] = *stack;
    // SAFETY: PyTorch hands over three tensors, and optional tensors and numbers.
    let (tensors, [cum_seq_q, cum_seq_k, seqused_k, alibi_slopes], [scale, left, right]) = unsafe {
        let optional = |value| torch.optional(value);
        let lengths = [cum_seq_q, cum_seq_k, seqused_k, alibi_slopes].map(optional);
        (
            [q, k, v].map(|value| torch.tensor(value)),
            lengths.map(|value| value.map(|value| torch.tensor(value))),
            [scale, left, right].map(optional),
        )
    };
    let results = torch.compute(Call {
        tensors,
        order: if cum_seq_q.is_some() || cum_seq_k.is_some() { Order::Packed } else { Order::Bshd },
        backward: Backward::Flash,
        begins: [cum_seq_q, cum_seq_k],
        longest: max_q as i64,
        is_causal: truth(is_causal),
        alignment: Alignment::BottomRight,
        scale: scale.map(f64::from_bits),
        sides: [left, right].map(|side| side.map(|side| side as i64)),
        wants_lse: !truth(return_debug_mask),
        has_others: f64::from_bits(dropout) != 0.0 || seqused_k.is_some() || alibi_slopes.is_some(),
    });
    let Results { o, lse, states: [seed, offset], .. } = results.unwrap_or_default();
    let results = [o, lse, seed, offset, None].map(|tensor| torch.value(tensor));
    stack[..results.len()].copy_from_slice(&results);
}

/// A truth value from the stack, of which it takes one byte.
fn truth(value: u64) -> bool {
    value as u8 != 0
}

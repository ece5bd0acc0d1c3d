//! Tensors of PyTorch, and what they hold.

use std::ptr;
use std::slice;

use attention::{Strides, View};

use super::functions::{Functions, Handle, ask};

/// A tensor of PyTorch: a handle, deleted when this is dropped.
pub struct Tensor {
    /// The functions.
    pub call: &'static Functions,
    /// The handle.
    pub handle: Handle,
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
    pub fn again(&self) -> Option<Self> {
        // SAFETY: the handle is alive.
        let handle = ask(ptr::null_mut(), |new| unsafe { (self.call.new_handle)(self.handle, new) });
        handle.map(|handle| Self { handle, ..*self })
    }

    /// Writes `value` to all elements, on PyTorch's current stream. Nobody else has the tensor.
    pub fn fill(self, value: f64) -> Option<Self> {
        // SAFETY: the handle is alive, and nobody else has the tensor.
        (unsafe { (self.call.fill)(self.handle, value) } == 0).then_some(self)
    }

    /// Whether it is a tensor at all.
    pub fn is_defined(&self) -> bool {
        // SAFETY: the handle is alive.
        ask(false, |out| unsafe { (self.call.is_defined)(self.handle, out) }) == Some(true)
    }

    /// What the tensor holds; `None` if it is not in memory of a GPU, or has more than `MOST` dimensions.
    pub fn read(&self) -> Option<Read> {
        const MOST: usize = 4;
        let Self { call, handle } = *self;
        let number = |function: unsafe extern "C-unwind" fn(Handle, *mut i32) -> i32| {
            // SAFETY: the handle is alive.
            ask(0, |out| unsafe { function(handle, out) })
        };
        // SAFETY: the function takes nothing, and returns a number.
        let (strided, cuda) = unsafe { ((call.strided)(), (call.cuda)()) };
        // Other layouts have no strides, and other devices no memory to look for.
        if number(call.layout)? != strided || number(call.device_type)? != cuda {
            return None;
        }
        // SAFETY: the handle is alive.
        let rank = ask(0, |out| unsafe { (call.rank)(handle, out) })?;
        let rank = usize::try_from(rank).ok().filter(|&rank| rank <= MOST)?;
        let numbers = |function: unsafe extern "C-unwind" fn(Handle, *mut *const i64) -> i32| {
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
pub struct Read {
    /// Address of the first element.
    pub address: u64,
    /// Type of the elements, as a number of PyTorch's.
    pub dtype: i32,
    /// Number of the GPU.
    pub gpu: i32,
    /// How many dimensions there are.
    pub rank: usize,
    /// Sizes; zeros behind the last dimension.
    pub sizes: [i64; 4],
    /// Strides in elements.
    pub strides: [i64; 4],
}

/// The order of the dimensions of Q, K, V and O.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
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
    pub fn sizes(self, tensor: &Read) -> Option<[i64; 4]> {
        self.sort(tensor.rank, tensor.sizes, 1)
    }

    /// The view of a tensor whose rows have no gaps.
    pub fn view(self, tensor: &Read) -> Option<View> {
        let [batch, head, row, last] = self.sort(tensor.rank, tensor.strides, 0)?;
        let positive = |stride: i64| u64::try_from(stride).ok();
        let strides = Strides { batch: positive(batch)?, head: positive(head)?, row: positive(row)? };
        (last == 1).then(|| View::new(strides))
    }
}

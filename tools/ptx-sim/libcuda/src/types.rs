//! Types of the C interface: pointers that carry the caller's promises.
//!
//! Values of these types come from C callers only. The API documents each pointer: null, or valid for a number of values and a
//! time. Accesses here are sound because callers keep to that; null is an error.

use std::ffi::{CStr, c_char, c_void};

use sim_device::{Error, HostMemory, Result};

/// A `CUdeviceptr`.
pub type DevicePointer = u64;

/// A handle (`CUcontext`, `CUstream` …): a number that is looked up, never dereferenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Handle(pub usize);

impl Handle {
    /// The null handle; as a stream, the default stream.
    pub const NULL: Handle = Handle(0);
    /// `CU_STREAM_LEGACY`.
    pub const LEGACY: Handle = Handle(1);
    /// `CU_STREAM_PER_THREAD`.
    pub const PER_THREAD: Handle = Handle(2);

    /// The stream that this handle means for functions with per-thread default streams.
    pub fn per_thread(self) -> Handle {
        if self == Self::NULL { Self::PER_THREAD } else { self }
    }
}

/// Pointer to a result.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// A null result pointer: the result is not wanted.
    pub fn nowhere() -> Self {
        Self(std::ptr::null_mut())
    }

    /// Whether the caller wants the result.
    pub fn is_wanted(self) -> bool {
        !self.0.is_null()
    }

    /// Requires a non-null pointer.
    pub fn require(self) -> Result<()> {
        if self.0.is_null() { Err(Error::invalid("a pointer to a result is null")) } else { Ok(()) }
    }

    /// Whether the pointer is aligned to `bytes`.
    pub fn is_aligned(self, bytes: usize) -> bool {
        (self.0 as usize).is_multiple_of(bytes)
    }

    /// Writes the result.
    pub fn set(self, value: T) -> Result<()> {
        self.require()?;
        // SAFETY: not null, so the caller provides room for a value.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the result unless the pointer is null.
    pub fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as above.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Writes `values` one after another; the caller promised room for them.
    pub fn set_all(self, values: impl Iterator<Item = T>) -> Result<()> {
        self.require()?;
        values.enumerate().try_for_each(|(index, value)| self.element(index).set(value))
    }

    /// Pointer to the value at `index`.
    pub fn element(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// The same pointer for a type that is not larger.
    pub fn narrow<U>(self) -> Out<U> {
        const { assert!(size_of::<U>() <= size_of::<T>()) };
        Out(self.0.cast())
    }
}

impl<T: Copy> Out<T> {
    /// The current value.
    pub fn get(self) -> Result<T> {
        In(self.0.cast_const()).get()
    }

    /// The current value at `index`; the caller promised that many.
    pub fn at(self, index: usize) -> Result<T> {
        In(self.0.cast_const()).at(index)
    }
}

/// Pointer to an argument.
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T: Copy> In<T> {
    /// A null argument pointer.
    pub fn nowhere() -> Self {
        Self(std::ptr::null())
    }

    /// An argument at an address that another argument holds.
    pub fn at_address(address: usize) -> Self {
        Self(address as *const T)
    }

    /// Whether it is null.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The argument.
    pub fn get(self) -> Result<T> {
        self.at(0)
    }

    /// The argument at `index`; the caller promised that many.
    pub fn at(self, index: usize) -> Result<T> {
        if self.0.is_null() {
            return Err(Error::invalid("a pointer to an argument is null"));
        }
        // SAFETY: not null, so the caller provides that many values.
        Ok(unsafe { self.0.add(index).read_unaligned() })
    }

    /// `count` arguments.
    pub fn all(self, count: usize) -> Result<Vec<T>> {
        (0..count).map(|index| self.at(index)).collect()
    }
}

/// NUL-terminated text.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Text(pub *const c_char);

impl Text {
    /// The text.
    pub fn get(self) -> Result<String> {
        if self.0.is_null() {
            return Err(Error::invalid("a text is null"));
        }
        // SAFETY: not null, so the caller provides a text that ends in NUL.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}

/// Memory of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Host(pub *mut c_void);

// SAFETY: an address may be sent to other threads; the caller promised valid memory until the copy is complete.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Host {
    /// Its address as a number.
    pub fn address(self) -> u64 {
        self.0 as u64
    }

    /// Requires a non-null pointer if `bytes` is not 0.
    pub fn require(self, bytes: u64) -> Result<()> {
        match self.0.is_null() && bytes > 0 {
            true => Err(Error::invalid("the pointer to host memory is null")),
            false => Ok(()),
        }
    }

    /// The first `bytes` bytes.
    pub fn bytes(self, bytes: usize) -> Result<Vec<u8>> {
        self.require(bytes as u64)?;
        let mut data = vec![0; bytes];
        self.read(0, &mut data);
        Ok(data)
    }

    /// Writes `text` and a NUL into `bytes` bytes, truncated to fit; returns the number of bytes of the text written.
    pub fn set_text(self, text: &str, bytes: usize) -> usize {
        let Some(room) = bytes.checked_sub(1).filter(|_| !self.0.is_null()) else { return 0 };
        let text = &text.as_bytes()[..text.len().min(room)];
        self.write(0, text);
        self.write(text.len() as u64, &[0]);
        text.len()
    }
}

/// A `CUhostFn`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct HostFunction(Option<unsafe extern "C" fn(Host)>);

impl HostFunction {
    /// Calls the function with `data`.
    pub fn with(self, data: Host) -> Result<impl Fn() + Send + Sync> {
        let function = self.0.ok_or_else(|| Error::invalid("the function is null"))?;
        // SAFETY: the caller allows calls of the function with the data from any thread.
        Ok(move || unsafe { function(data) })
    }
}

/// A `CUoccupancyB2DSize`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct SharedBytes(Option<unsafe extern "C" fn(i32) -> usize>);

impl SharedBytes {
    /// Dynamic shared memory of a block of `threads` threads; `None` without a function.
    pub fn of(self, threads: u32) -> Option<u64> {
        // SAFETY: the caller allows calls of the function with a number of threads.
        self.0.map(|function| unsafe { function(threads as i32) } as u64)
    }
}

//! Launches of kernels that are not ours, such as probes and test kernels. The library launches ours.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;

use cust::stream::Stream;

use super::driver::{self, Code, Function};

/// A kernel with its grid and arguments. Grid and block are one-dimensional.
pub struct Kernel<'a> {
    /// Name of the entry.
    pub entry: &'a str,
    /// Blocks of the grid.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block in bytes.
    pub dynamic_shared_bytes: u32,
    /// One argument per parameter.
    pub arguments: &'a [Argument<'a>],
}

/// The value of one parameter.
#[derive(Clone, Copy)]
pub struct Argument<'a> {
    address: *mut c_void,
    bytes: usize,
    value: PhantomData<&'a ()>,
}

impl<'a> Argument<'a> {
    /// Passes `value` by its bytes.
    pub fn of<T>(value: &'a T) -> Self {
        Self { address: ptr::from_ref(value).cast_mut().cast(), bytes: size_of::<T>(), value: PhantomData }
    }
}

impl Kernel<'_> {
    /// Sizes of the arguments in bytes.
    pub fn argument_bytes(&self) -> Vec<usize> {
        self.arguments.iter().map(|argument| argument.bytes).collect()
    }

    /// Enqueues the launch on `stream`.
    ///
    /// # Safety
    /// `function` is this kernel, and the arguments match its parameters in number and size.
    pub unsafe fn submit(&self, function: Function<'_>, stream: &Stream) -> Result<(), Code> {
        let mut addresses: Vec<_> = self.arguments.iter().map(|argument| argument.address).collect();
        let shape = [self.blocks, self.threads, self.dynamic_shared_bytes];
        // SAFETY: the caller's promise.
        unsafe { driver::launch(function, shape, &mut addresses, stream) }
    }

    /// The launch as an operation, for messages.
    pub fn running(&self) -> String {
        running(self.entry, self.blocks, self.threads)
    }
}

/// The launch of a kernel as an operation, for messages.
pub fn running(entry: &str, blocks: u32, threads: u32) -> String {
    format!("running {entry} with {blocks} blocks of {threads} threads")
}

//! A launch in the driver's terms.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;

use cust::function::Function;
use cust::stream::Stream;

use super::driver::{self, Code};
use super::failure::cuda_error;
use crate::error::{Error, Result};
use contract::plan::Launch;

/// A kernel with its grid and arguments; grid and block have one dimension.
pub struct Kernel<'a> {
    /// Name of the entry.
    pub entry: &'a str,
    /// Blocks of the grid.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block in bytes.
    pub dynamic_shared_bytes: u32,
    /// Whether the kernel may begin while the one before it on the stream ends: it waits for it by itself.
    pub overlaps_previous: bool,
    /// One argument for each parameter.
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
    /// Passes the bytes of `value`.
    pub fn of<T>(value: &'a T) -> Self {
        Self { address: ptr::from_ref(value).cast_mut().cast(), bytes: size_of::<T>(), value: PhantomData }
    }
}

impl<'a> Kernel<'a> {
    /// The arguments of `launch`.
    pub fn arguments_of(launch: &'a Launch<'_>) -> Vec<Argument<'a>> {
        let maps = launch.encoded_tensor_maps().map(Argument::of);
        std::iter::once(Argument::of(launch.args())).chain(maps).collect()
    }

    /// The kernel of `launch`, whose [arguments](Self::arguments_of) are `arguments`.
    pub fn of(launch: &'a Launch<'_>, arguments: &'a [Argument<'a>]) -> Self {
        Self {
            entry: launch.entry(),
            blocks: launch.blocks(),
            threads: launch.threads(),
            dynamic_shared_bytes: launch.dynamic_shared_bytes(),
            overlaps_previous: launch.overlaps_previous(),
            arguments,
        }
    }

    /// Requires the sizes of the arguments to be those of the first parameters of `function`, where the driver can
    /// tell. That there are no further parameters is for the manifest to say.
    ///
    /// # Errors
    /// [`Error::Invalid`] when they are not.
    pub fn check_arguments(&self, function: &Function) -> Result<()> {
        let parameters = driver::parameter_sizes(function, self.arguments.len())
            .map_err(|code| cuda_error(format!("asking for the parameters of {}", self.entry), code, ""))?;
        let arguments: Vec<_> = self.arguments.iter().map(|argument| argument.bytes).collect();
        match parameters {
            Some(parameters) if parameters != arguments => Err(Error::Invalid(format!(
                "entry {} takes parameters of {parameters:?} bytes, but would be given {arguments:?}: its PTX was \
                 compiled from another version of this program's source",
                self.entry
            ))),
            _ => Ok(()),
        }
    }

    /// Puts the launch on `stream`.
    ///
    /// # Safety
    /// The arguments must be as many and as large as the parameters of `function`.
    pub unsafe fn submit(&self, function: &Function, stream: &Stream) -> std::result::Result<(), Code> {
        let mut addresses: Vec<_> = self.arguments.iter().map(|argument| argument.address).collect();
        if self.overlaps_previous {
            let shape = [self.blocks, self.threads, self.dynamic_shared_bytes];
            // SAFETY: the caller's promise.
            let launched = unsafe { driver::launch_overlapping(function, shape, &mut addresses, stream) };
            if launched != Err(Code::NOT_SUPPORTED) {
                return launched;
            }
        }
        // SAFETY: the caller's promise; this is what cust's `launch!` expands to.
        let launched =
            unsafe { stream.launch(function, self.blocks, self.threads, self.dynamic_shared_bytes, &addresses) };
        Ok(launched?)
    }

    /// The action for messages.
    pub fn running(&self) -> String {
        format!("running {} with {} blocks of {} threads", self.entry, self.blocks, self.threads)
    }
}

//! Kernels from PTX that the program provides, launched as the library's own are.

use std::ffi::{CStr, c_void};

use contract::backward::plan::BackwardLaunch;
use contract::plan;
use contract::variants::Variant;

use crate::error::Error;
use crate::gpu::{self, Gpu};
use crate::library::{Library, LoadedKernel};
use crate::stream::Stream;
use crate::submit::{argument_bytes, backward_argument_bytes, submit, submit_backward};

/// PTX that the program provides: from a folder, another code generator, or a tuner. It is loaded for every context and
/// GPU, and unloaded on drop without waiting for launches.
pub struct Module(Library);

impl Module {
    /// Loads `ptx` (`cuLibraryLoadData`), and loads it into the calling thread's current context if there is one.
    /// Without a context, PTX that does not compile may be refused only when a kernel is requested.
    ///
    /// # Errors
    /// When there is no driver or it refuses the PTX; [`Error::Cuda`] holds the error log of the driver's compiler.
    pub fn load(ptx: &CStr) -> Result<Self, Error> {
        let library = Library::load(ptx, "PTX".to_owned())?;
        if gpu::current_context(library.driver()).is_ok() {
            library.enter()?;
        }
        Ok(Self(library))
    }

    /// The kernel of `variant`, for the GPU of the calling thread's current context. Allows its dynamic shared memory
    /// there, and compares its parameters with the variant's arguments if the driver can report them (CUDA 12.4 and
    /// later).
    ///
    /// # Errors
    /// [`Error::NoEntry`] when the module does not have it, [`Error::OtherEntry`] when its parameters differ. Also when
    /// there is no current context, or its GPU cannot run the kernel.
    pub fn kernel<'a>(&'a self, variant: &Variant<'a>) -> Result<ModuleKernel<'a>, Error> {
        let kernel = self.ready(variant.entry, argument_bytes(variant), variant.config.most_shared_bytes())?;
        Ok(ModuleKernel { module: self, variant: *variant, kernel })
    }

    /// Encodes the tensor maps of `launch`, if its kernel copies through them, and puts it on `stream`, with the launches that have to precede and follow it.
    /// The kernel is this module's, made ready as by [`Self::kernel`].
    ///
    /// # Errors
    /// As for [`Self::kernel`]. Also when the driver refuses a map or the launch.
    ///
    /// # Safety
    /// As for [`ModuleKernel::launch`].
    pub unsafe fn launch_backward(&self, launch: &mut BackwardLaunch, stream: Stream) -> Result<(), Error> {
        let variant = launch.variant();
        let kernel = self.ready(variant.entry, backward_argument_bytes(variant), launch.shared_bytes())?;
        // SAFETY: the kernel is that of the launch's variant; the caller vouches for the rest.
        unsafe { submit_backward(self.0.driver(), kernel, launch, stream) }
    }

    /// Kernel `entry`, with parameters of the sizes `bytes`, and `shared_bytes` of dynamic shared memory allowed on the current context's GPU.
    fn ready(&self, entry: &str, bytes: &[usize], shared_bytes: u32) -> Result<LoadedKernel, Error> {
        let driver = self.0.driver();
        gpu::current_context(driver)?;
        let gpu = Gpu::of_current_context(driver)?.ordinal().ok_or(Error::OtherGpu { planned: None })?;
        let kernel = self.0.kernel(entry)?;
        self.check(kernel, entry, bytes)?;
        kernel.allow_dynamic_shared(driver, entry, shared_bytes, gpu)?;
        Ok(kernel)
    }

    /// The `CUfunction` of any kernel in the calling thread's current context (`cuKernelGetFunction`): to query its
    /// attributes, or to launch a kernel that is not a [`Variant`]. Valid as long as the module and the context.
    ///
    /// # Errors
    /// [`Error::NoEntry`] when the module does not have it. Also when there is no current context.
    pub fn function(&self, entry: &str) -> Result<*mut c_void, Error> {
        self.0.kernel(entry)?.function(self.0.driver(), entry)
    }

    /// Requires the first parameters of kernel `entry` to have the sizes `bytes`. Accepts any if the driver cannot
    /// report parameters.
    ///
    /// # Errors
    /// [`Error::NoEntry`] or [`Error::OtherEntry`]. Also when there is no current context.
    pub fn check_parameters(&self, entry: &str, bytes: &[usize]) -> Result<(), Error> {
        self.check(self.0.kernel(entry)?, entry, bytes)
    }

    fn check(&self, kernel: LoadedKernel, entry: &str, bytes: &[usize]) -> Result<(), Error> {
        match kernel.parameter_bytes(self.0.driver(), entry, bytes.len())? {
            Some(taken) if taken != bytes => {
                let why = format!(
                    "takes parameters of {taken:?} bytes, but would be given {bytes:?}: its PTX was compiled from another \
                     version of the source"
                );
                Err(Error::OtherEntry { entry: entry.to_owned(), why })
            }
            _ => Ok(()),
        }
    }
}

/// A kernel of a [`Module`], ready to launch on one GPU.
#[derive(Clone, Copy)]
pub struct ModuleKernel<'a> {
    module: &'a Module,
    variant: Variant<'a>,
    kernel: LoadedKernel,
}

impl ModuleKernel<'_> {
    /// Puts `launch` on `stream`, exactly as [`crate::Launch::launch`] does with the library's own kernels. `overlap`
    /// is as for [`crate::Launch::overlap`].
    ///
    /// # Errors
    /// [`Error::OtherEntry`] when the launch is planned for another variant. Also when the driver refuses the launch.
    ///
    /// # Safety
    /// As for [`crate::Launch::launch`], after a call of [`encode_tensor_maps`](crate::encode_tensor_maps) on `launch`.
    /// The current context is on the GPU that the kernel was made ready for. The kernel has no parameters beyond those
    /// of its variant, and executes `griddepcontrol.wait` where the variant says so. Its module lives until the launch
    /// has completed, and as long as any graph contains the launch.
    #[inline]
    pub unsafe fn launch(&self, launch: &plan::Launch<'_>, stream: Stream, overlap: bool) -> Result<(), Error> {
        if launch.variant() != self.variant {
            let why = format!("is not what the launch is for, which is {}", launch.entry());
            return Err(Error::OtherEntry { entry: self.variant.entry.to_owned(), why });
        }
        // SAFETY: the kernel is that of the launch's variant; the caller vouches for the rest.
        unsafe { submit(self.module.0.driver(), self.kernel, launch, stream, overlap) }
    }
}

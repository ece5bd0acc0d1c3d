//! Kernels of PTX that the program has by itself, launched as those of this library are.

use std::ffi::{CStr, c_void};

use contract::plan;
use contract::variants::Variant;

use crate::error::Error;
use crate::gpu::{self, Gpu};
use crate::library::{Library, LoadedKernel};
use crate::stream::Stream;
use crate::submit::{argument_bytes, submit};

/// PTX of the program's own: of a folder, of another code generator, of a tuner. It is loaded for every context and GPU, and
/// unloaded when it is dropped, which waits for nothing.
pub struct Module(Library);

impl Module {
    /// Loads `ptx` (`cuLibraryLoadData`), and into the calling thread's current context where it has one. Without a context,
    /// PTX that does not compile may only be refused when a kernel is asked for.
    ///
    /// # Errors
    /// When there is no driver or it refuses the PTX; [`Error::Cuda`] holds what the driver's compiler wrote.
    pub fn load(ptx: &CStr) -> Result<Self, Error> {
        let library = Library::load(ptx, "PTX".to_owned())?;
        if gpu::current_context(library.driver()).is_ok() {
            library.enter()?;
        }
        Ok(Self(library))
    }

    /// The kernel of `variant`, for the GPU of the calling thread's current context: allowed its dynamic shared memory there, its
    /// parameters compared with the arguments of a launch where the driver can tell (since CUDA 12.4).
    ///
    /// # Errors
    /// [`Error::NoEntry`] when the module does not have it, [`Error::OtherEntry`] when it takes other arguments; when there is
    /// no current context or its GPU cannot run the kernel.
    pub fn kernel<'a>(&'a self, variant: &Variant<'a>) -> Result<ModuleKernel<'a>, Error> {
        let driver = self.0.driver();
        gpu::current_context(driver)?;
        let gpu = Gpu::of_current_context(driver)?.ordinal().ok_or(Error::OtherGpu { planned: None })?;
        let kernel = self.0.kernel(variant.entry)?;
        self.check(kernel, variant.entry, argument_bytes(variant))?;
        kernel.allow_dynamic_shared(driver, variant.entry, variant.config.most_shared_bytes(), gpu)?;
        Ok(ModuleKernel { module: self, variant: *variant, kernel })
    }

    /// The `CUfunction` of any kernel in the calling thread's current context (`cuKernelGetFunction`), to ask for its attributes,
    /// or to launch by other means what is no kernel of a [`Variant`]. It is one as long as the module and the context live.
    ///
    /// # Errors
    /// [`Error::NoEntry`] when the module does not have it; when there is no current context.
    pub fn function(&self, entry: &str) -> Result<*mut c_void, Error> {
        self.0.kernel(entry)?.function(self.0.driver(), entry)
    }

    /// Requires the first parameters of any kernel to be as many and as large, in bytes, as said, where the driver can tell.
    ///
    /// # Errors
    /// [`Error::NoEntry`], [`Error::OtherEntry`]; when there is no current context.
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

/// A kernel of a [`Module`], ready to be launched on one GPU.
#[derive(Clone, Copy)]
pub struct ModuleKernel<'a> {
    module: &'a Module,
    variant: Variant<'a>,
    kernel: LoadedKernel,
}

impl ModuleKernel<'_> {
    /// Puts `launch` on `stream`, exactly as [`crate::Launch::launch`] does with the kernels of this library; `overlap` as for
    /// [`crate::Launch::overlap`].
    ///
    /// # Errors
    /// [`Error::OtherEntry`] when the launch is planned for another variant; when the driver refuses it.
    ///
    /// # Safety
    /// As for [`crate::Launch::launch`], with [`encode_tensor_maps`](crate::encode_tensor_maps) called on `launch` before. The
    /// current context is on the GPU that the kernel is for. The kernel takes no parameters beyond those of its variant, and
    /// waits by itself for the grids before it where the variant says so. Its module lives until the stream has come to the end
    /// of the launch, and as long as graphs hold it.
    #[inline]
    pub unsafe fn launch(&self, launch: &plan::Launch<'_>, stream: Stream, overlap: bool) -> Result<(), Error> {
        if launch.variant() != self.variant {
            let why = format!("is not what the launch is for, which is {}", launch.entry());
            return Err(Error::OtherEntry { entry: self.variant.entry.to_owned(), why });
        }
        // SAFETY: the kernel is that of the launch's variant; the rest is passed on to the caller.
        unsafe { submit(self.module.0.driver(), self.kernel, launch, stream, overlap) }
    }
}

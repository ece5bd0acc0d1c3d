//! Libraries: PTX loaded for every context, and its kernels.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::architecture::Architecture;
use crate::error::{Error, Result};
use crate::image::{Image, Images, Parameter};
use crate::module::Module;
use crate::objects::{Context, Function, Machine};
use crate::sync::lock;

/// PTX loaded for every context (`CUlibrary`).
pub struct Library {
    loaded: Arc<Loaded>,
    kernels: Mutex<HashMap<String, Arc<Kernel>>>,
}

/// State shared by a library and its kernels.
struct Loaded {
    text: String,
    file: Option<String>,
    /// The parsed PTX, or the compile error that every request for a kernel returns.
    image: Result<Arc<Image>>,
    /// The library's module in each context that has used it.
    modules: Mutex<HashMap<u64, Arc<Module>>>,
}

impl Machine {
    /// Loads PTX for every context (`cuLibraryLoadData`). `file` appears in messages.
    ///
    /// # Errors
    /// Those of captures. PTX that does not compile is an error when a kernel is requested, as with NVIDIA's driver
    /// (observed with 580); [`Library::error`] has it before.
    pub fn load_library(&self, text: &str, file: Option<&str>) -> Result<Arc<Library>> {
        self.captures.check_unsafe_call()?;
        Ok(Library::new(text, file, Images::of_process().load(text, file, None)))
    }
}

impl Library {
    pub(crate) fn new(text: &str, file: Option<&str>, image: Result<Arc<Image>>) -> Arc<Self> {
        let (text, file) = (text.to_owned(), file.map(str::to_owned));
        let loaded = Arc::new(Loaded { text, file, image, modules: Mutex::default() });
        Arc::new(Self { loaded, kernels: Mutex::default() })
    }

    /// The compile error, if the PTX does not compile.
    pub fn error(&self) -> Option<&Error> {
        self.loaded.image.as_ref().err()
    }

    /// The names of the kernels, in order; empty if the PTX does not compile.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.loaded.image.iter().flat_map(|image| &image.declarations.entries).map(|entry| entry.name.as_str())
    }

    /// The kernel called `name` (`cuLibraryGetKernel`); the same one each time.
    ///
    /// # Errors
    /// [`Code::NOT_FOUND`](crate::Code::NOT_FOUND) with the names of the existing kernels;
    /// [`Code::INVALID_PTX`](crate::Code::INVALID_PTX) if the PTX does not compile.
    pub fn kernel(&self, name: &str) -> Result<Arc<Kernel>> {
        let image = self.loaded.image.clone()?;
        image.entry(name)?;
        let new = || {
            let (loaded, name) = (self.loaded.clone(), name.to_owned());
            Arc::new(Kernel { loaded, image, name, max_dynamic_shared_bytes: Mutex::default() })
        };
        Ok(lock(&self.kernels).entry(name.to_owned()).or_insert_with(new).clone())
    }

    /// Whether `kernel` is one of its kernels.
    pub fn owns(&self, kernel: &Kernel) -> bool {
        Arc::ptr_eq(&self.loaded, &kernel.loaded)
    }

    /// Its modules in all contexts that have used it.
    pub fn modules(&self) -> Vec<Arc<Module>> {
        lock(&self.loaded.modules).values().cloned().collect()
    }

    /// The library as a module of `context`, loaded there the first time (`cuLibraryGetModule`).
    ///
    /// # Errors
    /// As [`Context::load`].
    pub fn module(&self, context: &Arc<Context>) -> Result<Arc<Module>> {
        self.loaded.module(context)
    }
}

impl Loaded {
    fn module(&self, context: &Arc<Context>) -> Result<Arc<Module>> {
        let mut modules = lock(&self.modules);
        modules.retain(|_, module| module.context().is_alive());
        if let Some(module) = modules.get(&context.id()) {
            return Ok(module.clone());
        }
        let id = Some(context.id_in_process());
        let image = Images::of_process().load(&self.text, self.file.as_deref(), id)?;
        let module = Module::new(context, image)?;
        modules.insert(context.id(), module.clone());
        Ok(module)
    }
}

/// A kernel of a library (`CUkernel`).
pub struct Kernel {
    loaded: Arc<Loaded>,
    image: Arc<Image>,
    name: String,
    /// Maximum dynamic shared memory that the program set, by GPU.
    max_dynamic_shared_bytes: Mutex<HashMap<u32, u32>>,
}

impl Kernel {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its parameters, in order.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.image.parameters(&self.name)
    }

    /// The kernel as a function of `context` (`cuKernelGetFunction`).
    ///
    /// # Errors
    /// As [`Context::load`].
    pub fn function(&self, context: &Arc<Context>) -> Result<Arc<Function>> {
        let function = self.loaded.module(context)?.function(&self.name)?;
        if let Some(bytes) = lock(&self.max_dynamic_shared_bytes).get(&context.gpu()) {
            function.allow_dynamic_shared(*bytes)?;
        }
        Ok(function)
    }

    /// As [`Function::allow_dynamic_shared`], for every context of a GPU.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`](crate::Code::INVALID_VALUE) if no block can have that much.
    pub fn allow_dynamic_shared(&self, gpu: u32, bytes: u32, architecture: &Architecture) -> Result<()> {
        let fixed = self.image.entry(&self.name)?.shared_bytes;
        let limit = architecture.shared_bytes_per_block;
        if fixed + u64::from(bytes) > u64::from(limit) {
            let name = &self.name;
            let text =
                format!("{name} cannot have {bytes} bytes of dynamic shared memory; a block has at most {limit}");
            return Err(Error::invalid(text));
        }
        lock(&self.max_dynamic_shared_bytes).insert(gpu, bytes);
        Ok(())
    }
}

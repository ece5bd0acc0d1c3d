//! PTX that was loaded: modules of a context, libraries of no context, and their functions.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::architecture::{Architecture, DEFAULT_SHARED_BYTES, REGISTERS, THREADS_PER_BLOCK, WARP};
use crate::code::Code;
use crate::context::Context;
use crate::declarations::{Declarations, EntryDeclaration};
use crate::error::{Error, Result};
use crate::sync::lock;

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the PTX.
    pub name: String,
    /// Offset in the buffer of all parameters, bytes.
    pub offset: u64,
    /// Size, bytes.
    pub bytes: u64,
}

/// Parsed PTX.
pub(crate) struct Image {
    pub module: ptx_sim::Module,
    pub declarations: Declarations,
    /// Contexts that have loaded it: their variables have been changed by kernels.
    used_in: Mutex<HashSet<u64>>,
}

/// PTX that was parsed, by file name, where there is one, and text: parsing megabytes for every context takes long.
#[derive(Default)]
pub(crate) struct Images(Mutex<HashMap<(Option<String>, Arc<str>), Vec<Arc<Image>>>>);

impl Images {
    /// The image of `text` for a context. Modules with variables of their own are parsed again for the second module of a
    /// context, as each module has its own variables.
    pub fn load(&self, text: &str, file: Option<&str>, context: Option<u64>) -> Result<Arc<Image>> {
        let mut images = lock(&self.0);
        let key = (file.map(str::to_owned), Arc::from(text));
        let known = images.get(&key).map_or(&[][..], Vec::as_slice);
        let is_free = |image: &&Arc<Image>| {
            let has_variables = image.declarations.variables.iter().any(|variable| variable.has_address());
            !has_variables || context.is_none_or(|context| !lock(&image.used_in).contains(&context))
        };
        let image = match known.iter().find(is_free) {
            Some(image) => image.clone(),
            None => {
                let first = known.first().map(|image| image.module.file().to_owned());
                let name = first.or(file.map(str::to_owned)).unwrap_or_else(next_name);
                let image = Arc::new(Image::parse(text, &name)?);
                images.entry(key).or_default().push(image.clone());
                image
            }
        };
        lock(&image.used_in).extend(context);
        Ok(image)
    }
}

/// A name for PTX that came without one.
fn next_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("module-{}.ptx", NEXT.fetch_add(1, Relaxed))
}

impl Image {
    fn parse(text: &str, file: &str) -> Result<Self> {
        let module =
            ptx_sim::Module::parse(text, file).map_err(|error| Error::new(Code::INVALID_PTX, error.to_string()))?;
        Ok(Self { module, declarations: Declarations::read(text), used_in: Mutex::default() })
    }

    fn check_target(&self, architecture: &Architecture) -> Result<()> {
        let target = self.module.target();
        if architecture.runs(target) {
            return Ok(());
        }
        let text =
            format!("{} is compiled for {target} and does not run on sm_{}", self.module.file(), architecture.number);
        Err(Error::new(Code::NO_BINARY_FOR_GPU, text))
    }

    fn entry(&self, name: &str) -> Result<&EntryDeclaration> {
        let entries = &self.declarations.entries;
        entries.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Error::new(Code::NOT_FOUND, format!("{} has no entry {name}; it has {names}", self.module.file()))
        })
    }

    fn parameters(&self, entry: &str) -> Vec<Parameter> {
        let mut end = 0;
        let parameters = self.module.parameters(entry).into_iter().flatten();
        parameters
            .map(|parameter| {
                let offset = u64::next_multiple_of(end, parameter.alignment);
                end = offset + parameter.bytes;
                Parameter { name: parameter.name.to_owned(), offset, bytes: parameter.bytes }
            })
            .collect()
    }
}

/// A module of a context (`CUmodule`).
pub struct Module {
    context: Arc<Context>,
    image: Arc<Image>,
    functions: Mutex<HashMap<String, Arc<Function>>>,
}

impl Module {
    pub(crate) fn new(context: &Arc<Context>, image: Arc<Image>) -> Result<Arc<Self>> {
        image.check_target(&context.machine().config().architecture)?;
        Ok(Arc::new(Self { context: context.clone(), image, functions: Mutex::default() }))
    }

    /// The context that it was loaded to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The names of the entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.image.declarations.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The function called `name` (`cuModuleGetFunction`); the same one each time.
    ///
    /// # Errors
    /// [`Code::NOT_FOUND`] with the names that there are.
    pub fn function(&self, name: &str) -> Result<Arc<Function>> {
        let declaration = self.image.entry(name)?;
        let new = || Arc::new(Function::new(&self.context, &self.image, declaration));
        Ok(lock(&self.functions).entry(name.to_owned()).or_insert_with(new).clone())
    }

    /// Whether the module declares a variable in global or constant memory by this name, and its size in bytes.
    pub fn variable_bytes(&self, name: &str) -> Option<u64> {
        let variables = &self.image.declarations.variables;
        variables.iter().find(|variable| variable.name == name && variable.has_address()).map(|variable| variable.bytes)
    }
}

/// An entry of a module, ready to be launched in the module's context (`CUfunction`).
pub struct Function {
    context: Arc<Context>,
    pub(crate) image: Arc<Image>,
    declaration: EntryDeclaration,
    parameters: Vec<Parameter>,
    max_dynamic_shared_bytes: AtomicU32,
}

impl Function {
    fn new(context: &Arc<Context>, image: &Arc<Image>, declaration: &EntryDeclaration) -> Self {
        let fixed = u32::try_from(declaration.shared_bytes).unwrap_or(u32::MAX);
        Self {
            context: context.clone(),
            image: image.clone(),
            parameters: image.parameters(&declaration.name),
            declaration: declaration.clone(),
            max_dynamic_shared_bytes: AtomicU32::new(DEFAULT_SHARED_BYTES.saturating_sub(fixed)),
        }
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The name of the entry.
    pub fn name(&self) -> &str {
        &self.declaration.name
    }

    /// Its parameters, in order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Bytes of the buffer of all parameters.
    pub fn parameter_bytes(&self) -> u64 {
        self.parameters.last().map_or(0, |last| last.offset + last.bytes)
    }

    /// Most threads of a block.
    pub fn max_threads(&self) -> u32 {
        let declared = self.declaration.required_threads.or(self.declaration.maximum_threads);
        declared.unwrap_or(THREADS_PER_BLOCK).min(THREADS_PER_BLOCK)
    }

    /// Static shared memory of a block, bytes.
    pub fn shared_bytes(&self) -> u64 {
        self.declaration.shared_bytes
    }

    /// Local memory of a thread, bytes.
    pub fn local_bytes(&self) -> u64 {
        self.declaration.local_bytes
    }

    /// Constant memory that it uses, bytes.
    pub fn constant_bytes(&self) -> u64 {
        self.declaration.constant_bytes
    }

    /// 32-bit registers of a thread. Registers are not allocated here: this is what the launch bounds leave to a thread, and
    /// without bounds as many as do not limit the occupancy.
    pub fn registers(&self) -> u32 {
        const WITHOUT_BOUNDS: u32 = 32;
        const MOST: u32 = 255;
        let blocks = self.declaration.minimum_blocks.unwrap_or(1).max(1);
        let declared = self.declaration.required_threads.or(self.declaration.maximum_threads);
        let bound = declared.map(|threads| {
            let threads = threads.max(1).next_multiple_of(WARP).saturating_mul(blocks);
            (REGISTERS / threads / 8 * 8).clamp(16, MOST)
        });
        self.declaration.maximum_registers.or(bound).unwrap_or(WITHOUT_BOUNDS)
    }

    /// PTX version, as in 80 for 8.0.
    pub fn ptx_version(&self) -> u32 {
        let (major, minor) = self.image.module.version();
        10 * major + minor
    }

    /// Most dynamic shared memory that a launch may ask for, bytes.
    pub fn max_dynamic_shared_bytes(&self) -> u32 {
        self.max_dynamic_shared_bytes.load(Relaxed)
    }

    /// Allows launches `bytes` of dynamic shared memory (`CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`).
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] when a block cannot have that much beside its static shared memory.
    pub fn allow_dynamic_shared(&self, bytes: u32) -> Result<()> {
        let limit = self.context.machine().config().architecture.shared_bytes_per_block;
        let fixed = self.shared_bytes();
        if fixed + u64::from(bytes) > u64::from(limit) {
            return Err(Error::invalid(format!(
                "{} cannot have {bytes} bytes of dynamic shared memory beside {fixed} static ones: a block has at most {limit}",
                self.name()
            )));
        }
        self.max_dynamic_shared_bytes.store(bytes, Relaxed);
        Ok(())
    }
}

/// PTX that serves every context (`CUlibrary`).
pub struct Library {
    text: String,
    file: Option<String>,
    image: Arc<Image>,
    modules: Mutex<HashMap<u64, Arc<Module>>>,
}

impl Library {
    pub(crate) fn new(text: &str, file: Option<&str>, image: Arc<Image>) -> Arc<Self> {
        Arc::new(Self { text: text.to_owned(), file: file.map(str::to_owned), image, modules: Mutex::default() })
    }

    /// The names of the kernels, in order.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.image.declarations.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The kernel called `name` (`cuLibraryGetKernel`).
    ///
    /// # Errors
    /// [`Code::NOT_FOUND`] with the names that there are.
    pub fn kernel(self: &Arc<Self>, name: &str) -> Result<Kernel> {
        self.image.entry(name)?;
        Ok(Kernel { library: self.clone(), name: name.to_owned(), max_dynamic_shared_bytes: Mutex::default() })
    }

    /// The library as a module of `context`, loaded there the first time (`cuLibraryGetModule`).
    ///
    /// # Errors
    /// As [`Context::load`].
    pub fn module(&self, context: &Arc<Context>) -> Result<Arc<Module>> {
        let mut modules = lock(&self.modules);
        modules.retain(|_, module| module.context.is_alive());
        if let Some(module) = modules.get(&context.id()) {
            return Ok(module.clone());
        }
        let image = context.machine().images.load(&self.text, self.file.as_deref(), Some(context.id()))?;
        let module = Module::new(context, image)?;
        modules.insert(context.id(), module.clone());
        Ok(module)
    }
}

/// A kernel of a library (`CUkernel`).
pub struct Kernel {
    library: Arc<Library>,
    name: String,
    /// What was asked for, by GPU.
    max_dynamic_shared_bytes: Mutex<HashMap<u32, u32>>,
}

impl Kernel {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The library that it belongs to.
    pub fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// Its parameters, in order.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.library.image.parameters(&self.name)
    }

    /// The kernel as a function of `context` (`cuKernelGetFunction`).
    ///
    /// # Errors
    /// As [`Context::load`].
    pub fn function(&self, context: &Arc<Context>) -> Result<Arc<Function>> {
        let function = self.library.module(context)?.function(&self.name)?;
        if let Some(bytes) = lock(&self.max_dynamic_shared_bytes).get(&context.gpu()) {
            function.allow_dynamic_shared(*bytes)?;
        }
        Ok(function)
    }

    /// As [`Function::allow_dynamic_shared`], for every context of a GPU.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] when no block can have that much.
    pub fn allow_dynamic_shared(&self, gpu: u32, bytes: u32, architecture: &Architecture) -> Result<()> {
        let fixed = self.library.image.entry(&self.name)?.shared_bytes;
        let limit = architecture.shared_bytes_per_block;
        if fixed + u64::from(bytes) > u64::from(limit) {
            let text = format!(
                "{} cannot have {bytes} bytes of dynamic shared memory; a block has at most {limit}",
                self.name
            );
            return Err(Error::invalid(text));
        }
        lock(&self.max_dynamic_shared_bytes).insert(gpu, bytes);
        Ok(())
    }
}

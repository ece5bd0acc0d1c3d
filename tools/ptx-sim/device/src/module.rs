//! Modules: PTX loaded into a context.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ptx_sim::ModuleVariable;

use crate::code::Code;
use crate::error::{Error, Result};
use crate::image::{Image, Images};
use crate::memory::memory_error;
use crate::objects::{Call, Context, Function};
use crate::sync::lock;

/// A module of a context (`CUmodule`).
pub struct Module {
    context: Arc<Context>,
    image: Arc<Image>,
    functions: Mutex<HashMap<String, Arc<Function>>>,
    /// The variables, filled on the first request.
    variables: Mutex<Vec<ModuleVariable>>,
}

/// Allocates the managed variables and maps them.
fn place_managed(context: &Context, image: &Image) -> Result<()> {
    let machine = context.machine();
    if machine.config().host_memory.is_none() || image.module.managed_variables().next().is_none() {
        return Ok(());
    }
    let mut placed = Vec::new();
    for (name, bytes) in image.module.managed_variables() {
        placed.push((name, machine.managed_variable(context, name, bytes)?));
    }
    let mut state = context.state(Call::Asynchronous)?;
    let global = &mut state.memory.global;
    placed.iter().for_each(|(name, address)| image.module.reserve_variable(name, *address, global));
    image.module.place_variables(global).map(drop).map_err(memory_error)
}

impl Context {
    /// Loads PTX (`cuModuleLoadData`). `file` appears in messages.
    ///
    /// # Errors
    /// [`Code::INVALID_PTX`] with line and column; [`Code::NO_BINARY_FOR_GPU`] for PTX of another architecture; those
    /// of [`Context::check`].
    pub fn load(self: &Arc<Self>, text: &str, file: Option<&str>) -> Result<Arc<Module>> {
        self.check(Call::Asynchronous)?;
        Module::new(self, Images::of_process().load(text, file, Some(self.id_in_process()))?)
    }
}

impl Module {
    pub(crate) fn new(context: &Arc<Context>, image: Arc<Image>) -> Result<Arc<Self>> {
        image.check_target(&context.machine().config().architecture)?;
        place_managed(context, &image)?;
        Ok(Arc::new(Self { context: context.clone(), image, functions: Mutex::default(), variables: Mutex::default() }))
    }

    /// The context into which it was loaded.
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
    /// [`Code::NOT_FOUND`] with the names of the existing functions.
    pub fn function(&self, name: &str) -> Result<Arc<Function>> {
        let declaration = self.image.entry(name)?;
        let new = || Arc::new(Function::new(&self.context, &self.image, declaration));
        Ok(lock(&self.functions).entry(name.to_owned()).or_insert_with(new).clone())
    }

    /// Whether `function` is one of its functions.
    pub fn owns(&self, function: &Function) -> bool {
        lock(&self.functions).values().any(|own| std::ptr::eq(&**own, function))
    }

    /// Address and size in bytes of a variable in global or constant memory (`cuModuleGetGlobal`).
    ///
    /// # Errors
    /// [`Code::NOT_FOUND`]; as [`Context::check`].
    pub fn variable(&self, name: &str) -> Result<(u64, u64)> {
        let Image { module, declarations, .. } = &*self.image;
        if !declarations.variables.iter().any(|variable| variable.name == name && variable.has_address()) {
            return Err(Error::new(Code::NOT_FOUND, format!("{} has no variable {name}", module.file())));
        }
        let mut known = lock(&self.variables);
        if known.is_empty() {
            let mut state = self.context.state(Call::Asynchronous)?;
            *known = module.place_variables(&mut state.memory.global).map_err(memory_error)?;
        }
        let found = known.iter().find(|known| known.name == name).map(|found| (found.address, found.bytes));
        found.ok_or_else(|| Code::NOT_FOUND.into())
    }
}

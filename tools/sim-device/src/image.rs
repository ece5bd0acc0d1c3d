//! PTX that was parsed.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::architecture::Architecture;
use crate::code::Code;
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
pub(crate) struct Images(Mutex<HashMap<Source, Vec<Arc<Image>>>>);

/// File name, where there is one, and text.
type Source = (Option<String>, Arc<str>);

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
        let declarations = Declarations::read(text);
        let parsed = ptx_sim::Module::parse(text, file);
        let module = parsed.map_err(|error| Error::new(Code::INVALID_PTX, error.to_string()))?;
        Ok(Self { module, declarations, used_in: Mutex::default() })
    }

    pub fn check_target(&self, architecture: &Architecture) -> Result<()> {
        let target = self.module.target();
        if architecture.runs(target) {
            return Ok(());
        }
        let text =
            format!("{} is compiled for {target} and does not run on sm_{}", self.module.file(), architecture.number);
        Err(Error::new(Code::NO_BINARY_FOR_GPU, text))
    }

    pub fn entry(&self, name: &str) -> Result<&EntryDeclaration> {
        let entries = &self.declarations.entries;
        entries.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Error::new(Code::NOT_FOUND, format!("{} has no entry {name}; it has {names}", self.module.file()))
        })
    }

    pub fn parameters(&self, entry: &str) -> Vec<Parameter> {
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

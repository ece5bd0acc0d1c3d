//! Parsed PTX.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

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
    /// Offset in the parameter buffer, bytes.
    pub offset: u64,
    /// Size, bytes.
    pub bytes: u64,
}

/// Parsed PTX.
pub(crate) struct Image {
    pub module: ptx_sim::Module,
    pub declarations: Declarations,
    /// Contexts that have loaded it; their kernels may have changed its variables.
    used_in: Mutex<HashSet<ContextId>>,
}

/// Total size of texts whose images are kept although no context uses them, bytes.
const KEPT_BYTES: usize = 64 << 20;

/// Cache of parsed PTX for all machines of the process: parsing megabytes for each context is slow.
pub(crate) struct Images {
    known: Mutex<Vec<Known>>,
    /// Total size of unused texts that are kept, bytes.
    kept_bytes: usize,
}

/// A text and its images. The list is in order of use, the most recent last.
struct Known {
    file: Option<String>,
    text: String,
    images: Vec<Arc<Image>>,
}

/// Identifies a context among those of all machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ContextId {
    pub machine: u64,
    pub context: u64,
}

impl Images {
    /// The cache of the process.
    pub fn of_process() -> &'static Images {
        static IMAGES: OnceLock<Images> = OnceLock::new();
        IMAGES.get_or_init(|| Images::new(KEPT_BYTES))
    }

    fn new(kept_bytes: usize) -> Images {
        Images { known: Mutex::default(), kept_bytes }
    }

    /// The image of `text` for a context. Each module has its own variables: PTX with variables is parsed again when a
    /// context loads it a second time.
    pub fn load(&self, text: &str, file: Option<&str>, context: Option<ContextId>) -> Result<Arc<Image>> {
        let mut all = lock(&self.known);
        let place = all.iter().position(|known| known.file.as_deref() == file && known.text == text);
        let mut known = match place {
            Some(place) => all.remove(place),
            None => Known { file: file.map(str::to_owned), text: text.to_owned(), images: Vec::new() },
        };
        let image = known.image(context);
        if !known.images.is_empty() {
            all.push(known);
            forget_unused(&mut all, self.kept_bytes);
        }
        let image = image?;
        lock(&image.used_in).extend(context);
        Ok(image)
    }
}

impl Known {
    /// An image that the context may use.
    fn image(&mut self, context: Option<ContextId>) -> Result<Arc<Image>> {
        let is_free = |image: &&Arc<Image>| {
            let has_variables = image.declarations.variables.iter().any(|variable| variable.has_address());
            !has_variables || context.is_none_or(|context| !lock(&image.used_in).contains(&context))
        };
        if let Some(image) = self.images.iter().find(is_free) {
            return Ok(image.clone());
        }
        let first = self.images.first().map(|image| image.module.file().to_owned());
        let name = first.or(self.file.clone()).unwrap_or_else(next_name);
        let image = Arc::new(Image::parse(&self.text, &name)?);
        self.images.push(image.clone());
        Ok(image)
    }

    fn is_used(&self) -> bool {
        self.images.iter().any(|image| Arc::strong_count(image) > 1)
    }
}

/// Drops the least recently used images until the unused ones have at most `kept_bytes`.
fn forget_unused(all: &mut Vec<Known>, kept_bytes: usize) {
    let mut kept = 0;
    let mut is_kept: Vec<bool> = Vec::with_capacity(all.len());
    for known in all.iter().rev() {
        kept += if known.is_used() { 0 } else { known.text.len() };
        is_kept.push(known.is_used() || kept <= kept_bytes);
    }
    let mut is_kept = is_kept.into_iter().rev();
    all.retain(|_| is_kept.next().unwrap_or(true));
}

/// A name for PTX without one.
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
        let instead = Architecture::first_that_runs(target);
        let instead = instead.map_or_else(String::new, |known| format!("; {}", known.option()));
        let (file, number) = (self.module.file(), architecture.number);
        let text = format!("{file} is compiled for {target} and does not run on sm_{number}{instead}");
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

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.entry e() { ret; }";

    fn load(images: &Images, text: &str, machine: u64) -> Arc<Image> {
        images.load(text, None, Some(ContextId { machine, context: 1 })).unwrap()
    }

    #[test]
    fn machines_share_what_was_parsed() {
        let images = Images::new(usize::MAX);
        let first = load(&images, PLAIN, 1);
        assert!(Arc::ptr_eq(&first, &load(&images, PLAIN, 1)));
        assert!(Arc::ptr_eq(&first, &load(&images, PLAIN, 2)));
        let named = images.load(PLAIN, Some("named.ptx"), None).unwrap();
        assert_eq!((named.module.file(), Arc::ptr_eq(&first, &named)), ("named.ptx", false));
    }

    #[test]
    fn a_context_gets_variables_of_its_own_and_another_machine_shares_them_with_nobody() {
        let images = Images::new(usize::MAX);
        let text = PLAIN.replace(".entry", ".global .u32 v;\n.entry");
        let first = load(&images, &text, 1);
        assert!(!Arc::ptr_eq(&first, &load(&images, &text, 1)));
        assert!(Arc::ptr_eq(&first, &load(&images, &text, 2)));
    }

    #[test]
    fn what_nobody_uses_is_forgotten_the_oldest_first() {
        let images = Images::new(2 * PLAIN.len() + 20);
        let texts = ["a", "b", "c", "d"].map(|name| PLAIN.replace("e()", &format!("{name}()")));
        let used = load(&images, &texts[0], 1);
        let others = [1, 2].map(|text| Arc::downgrade(&load(&images, &texts[text], 1)));
        load(&images, &texts[1], 1);
        load(&images, &texts[3], 1);
        assert!(Arc::ptr_eq(&used, &load(&images, &texts[0], 1)));
        assert_eq!(others.map(|other| other.strong_count()), [1, 0]);
    }
}

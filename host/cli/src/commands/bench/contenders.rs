//! Opens the contenders of specifications.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;

use crate::contender::Contender;
use crate::contender::cubek::{self, Strategy};
use crate::contender::library::Library;
use crate::contender::ptx::Ptx;
use crate::contender::spec::Spec;
use crate::contender::torch::{self, Backend};
use crate::error::{Error, Result};
use crate::executor::gpu::GpuExecutor;
use crate::ptx_folder::PtxFolder;

use crate::commands::output;

/// A requested contender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// `all`: our own kernels, their twins, every backend of PyTorch, and cubek-attention, if available.
    All,
    /// This one.
    One(Spec),
}

impl FromStr for Wanted {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "all" { Ok(Self::All) } else { text.parse().map(Self::One) }
    }
}

/// Opens contenders.
pub struct Sources {
    folder: Arc<PtxFolder>,
    python: Option<PathBuf>,
    torch: Option<Rc<Library>>,
    cubek: Option<Rc<Library>>,
}

impl Sources {
    /// Our own kernels come from `folder`. PyTorch is that of `python`, or of the one in `PATH`, whose wheels may also
    /// provide what cubek-attention needs.
    pub fn new(folder: PtxFolder, python: Option<PathBuf>) -> Self {
        Self { folder: Arc::new(folder), python, torch: None, cubek: None }
    }

    /// Opens the contenders in `wanted`, each once. Those of `all` that are not available are listed on standard error.
    ///
    /// # Errors
    /// When a contender requested by name is not available.
    pub fn open(&mut self, wanted: &[Wanted]) -> Result<Vec<Box<dyn Contender>>> {
        let mut contenders: Vec<Box<dyn Contender>> = Vec::new();
        for wanted in wanted {
            let (specs, named) = match wanted {
                Wanted::One(spec) => (vec![spec.clone()], true),
                Wanted::All => (every_spec(), false),
            };
            for spec in specs {
                if contenders.iter().any(|contender| contender.name() == spec.to_string()) {
                    continue;
                }
                match self.contender(&spec) {
                    Ok(contender) => contenders.push(contender),
                    Err(error) if named => return Err(error),
                    Err(error) => output::note(&format!("not measured: {spec}: {error}")),
                }
            }
        }
        Ok(contenders)
    }

    /// Versions of the libraries that were opened, by name.
    pub fn versions(&self) -> BTreeMap<String, String> {
        [&self.torch, &self.cubek].into_iter().flatten().flat_map(|library| library.versions().clone()).collect()
    }

    fn contender(&mut self, spec: &Spec) -> Result<Box<dyn Contender>> {
        let (folder, variant) = match spec {
            Spec::Preferred => (self.folder.clone(), None),
            Spec::Variant(variant) => (self.folder.clone(), Some(variant.clone())),
            Spec::CodeGenerator(name) => (Arc::new(self.of_code_generator(spec, name)?), None),
            Spec::Folder(path, variant) => (Arc::new(PtxFolder::open(path)?), variant.clone()),
            Spec::Torch(backend) => return self.torch(*backend),
            Spec::Cubek(strategy) => return self.cubek(*strategy),
        };
        if let Some(variant) = &variant {
            require(&folder, variant)?;
        }
        Ok(Box::new(Ptx::new(spec.to_string(), Box::new(GpuExecutor::open()?), folder, variant)))
    }

    /// The folder of code generator `name`, next to our own.
    fn of_code_generator(&self, spec: &Spec, name: &str) -> Result<PtxFolder> {
        self.folder.by(name).map_err(|error| Error::Unavailable(format!("{spec}: {error}")))
    }

    fn torch(&mut self, backend: Backend) -> Result<Box<dyn Contender>> {
        let library = match &self.torch {
            Some(library) => library.clone(),
            None => self.torch.insert(torch::start(self.python.as_deref())?).clone(),
        };
        match library.refusal(backend.name()) {
            Some(reason) => Err(Error::Unavailable(format!("torch:{}: {reason}", backend.name()))),
            None => Ok(Box::new(backend.contender(&library))),
        }
    }

    fn cubek(&mut self, strategy: Strategy) -> Result<Box<dyn Contender>> {
        let library = match &self.cubek {
            Some(library) => library.clone(),
            None => self.cubek.insert(cubek::start(self.python.as_deref())?).clone(),
        };
        Ok(Box::new(strategy.contender(&library)))
    }
}

fn every_spec() -> Vec<Spec> {
    let ours = [Spec::Preferred, Spec::twin()];
    ours.into_iter().chain(Backend::ALL.map(Spec::Torch)).chain([Spec::Cubek(Strategy::Accelerated)]).collect()
}

/// Checks that `folder` has an entry called `variant`.
fn require(folder: &PtxFolder, variant: &str) -> Result<()> {
    let names: Vec<_> = folder.entries().map(|(entry, _)| entry.name.as_str()).collect();
    match names.contains(&variant) {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "there is no variant {variant} in {}; there are: {}",
            folder.path().display(),
            names.join(", ")
        ))),
    }
}

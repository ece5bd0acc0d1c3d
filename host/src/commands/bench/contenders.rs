//! From specifications to contenders.

use std::path::Path;
use std::sync::Arc;

use fa512::contender::Contender;
use fa512::contender::ptx::Ptx;
use fa512::contender::spec::Spec;
use fa512::error::{Error, Result};
use fa512::executor::gpu::GpuExecutor;
use fa512::ptx_folder::PtxFolder;

/// The contenders that `specs` mean; our own kernels are those of `folder`.
pub fn open(specs: &[Spec], folder: &Arc<PtxFolder>) -> Result<Vec<Box<dyn Contender>>> {
    specs.iter().map(|spec| contender(spec, folder)).collect()
}

fn contender(spec: &Spec, folder: &Arc<PtxFolder>) -> Result<Box<dyn Contender>> {
    let (folder, variant) = match spec {
        Spec::Preferred => (folder.clone(), None),
        Spec::Variant(variant) => (folder.clone(), Some(variant.clone())),
        Spec::CodeGenerator(name) => (beside(folder, name)?, None),
        Spec::Folder(path, variant) => (Arc::new(PtxFolder::open(path)?), variant.clone()),
    };
    if let Some(variant) = &variant {
        require(&folder, variant)?;
    }
    Ok(Box::new(Ptx::new(spec.to_string(), Box::new(GpuExecutor::open()?), folder, variant)))
}

/// The folder of the code generator `name`, beside our own.
fn beside(folder: &PtxFolder, name: &str) -> Result<Arc<PtxFolder>> {
    let parent = folder.path().parent().unwrap_or(Path::new(""));
    let path = parent.join(format!("ptx-{name}"));
    let opened = PtxFolder::open(&path)
        .map_err(|error| Error::Unavailable(format!("codegen:{name}: {error} (the twins: `cargo xtask baselines`)")));
    opened.map(Arc::new)
}

/// Requires that `folder` has an entry called `variant`.
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

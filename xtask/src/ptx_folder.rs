//! Building the PTX folder: compile, post-process, ask ptxas, write the manifest.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use kernel_gpu::manifest::{Entry, FILE_NAME, FORMAT, Manifest, Module, Resources};
use kernel_gpu::variants::{VARIANTS, Variant};
use serde_json::json;

use crate::codegen::{CodeGenerator, FAMILY_TARGETS, FamilyTarget};
use crate::environment::Workspace;
use crate::files::{self, write_atomically};
use crate::postprocess::postprocess;
use crate::progress::Step;
use crate::ptxas::{Assembly, Ptxas};

/// A PTX folder, and what ptxas refused.
#[derive(Debug)]
pub struct PtxFolder {
    /// The folder.
    pub path: PathBuf,
    /// What its manifest says.
    pub manifest: Manifest,
    /// File, architecture and messages of everything ptxas refused.
    pub rejections: Vec<Rejection>,
}

/// ptxas did not accept a file for an architecture.
#[derive(Debug)]
pub struct Rejection {
    /// The PTX file's name.
    pub file: String,
    /// As in 80 for `sm_80`.
    pub architecture: u32,
    /// What ptxas said.
    pub messages: String,
}

/// Compiles every kernel family into `folder`, complete with manifest; without `ptxas` the manifest has no resources.
pub fn build(
    workspace: &Workspace,
    code_generator: &dyn CodeGenerator,
    ptxas: Option<&Ptxas>,
    folder: &Path,
) -> Result<PtxFolder> {
    let mut modules = Vec::new();
    let mut rejections = Vec::new();
    for target in &FAMILY_TARGETS {
        let mut module = build_module(code_generator, target, folder)?;
        if let Some(ptxas) = ptxas {
            let assemblies = assemble(workspace, ptxas, &module, folder)?;
            rejections.extend(add_resources(&mut module, assemblies));
        }
        modules.push(module);
    }
    let manifest = Manifest {
        format: FORMAT,
        code_generator: code_generator.identity(),
        git_commit: workspace.git_commit(),
        modules,
    };
    let mut text = serde_json::to_string_pretty(&manifest)?;
    text.push('\n');
    write_atomically(&folder.join(FILE_NAME), text.as_bytes())?;
    Ok(PtxFolder { path: folder.to_owned(), manifest, rejections })
}

fn build_module(code_generator: &dyn CodeGenerator, target: &FamilyTarget, folder: &Path) -> Result<Module> {
    let variants: Vec<&Variant> = VARIANTS.iter().filter(|variant| variant.family == target.family).collect();
    let step = Step::begin(format!("compiling {} entries to PTX for {}", variants.len(), target.cpu));
    let ptx = code_generator.compile(target)?;
    step.done();
    let ptx = match postprocess(&ptx, &variants) {
        Ok(ptx) => ptx,
        Err(refusals) => {
            let refused = folder.join(format!("{}.refused", target.file));
            write_atomically(&refused, ptx.as_bytes())?;
            let reasons: Vec<String> = refusals.iter().map(|refusal| format!("\n  {refusal}")).collect();
            bail!("the PTX for {} is refused (it is kept as {}):{}", target.cpu, refused.display(), reasons.concat());
        }
    };
    write_atomically(&folder.join(target.file), ptx.text.as_bytes())?;
    Ok(Module {
        file: target.file.to_owned(),
        sha256: files::sha256(ptx.text.as_bytes()),
        ptx_version: ptx.ptx_version,
        target: ptx.target,
        entries: variants.into_iter().map(Entry::from).collect(),
    })
}

/// What ptxas says about a module; asked again only when the PTX or ptxas changed since the last time.
fn assemble(workspace: &Workspace, ptxas: &Ptxas, module: &Module, folder: &Path) -> Result<Vec<Assembly>> {
    let cache = workspace.device_target().join("ptxas").join(format!("{}.json", module.file));
    let key = format!("{} {}", module.sha256, ptxas.version);
    if let Some(assemblies) = read_cache(&cache, &key) {
        return Ok(assemblies);
    }
    let step = Step::begin(format!("asking ptxas {} about {}", ptxas.version, module.file));
    let assemblies = ptxas.assemble_for_all(&folder.join(&module.file));
    step.done();
    write_cache(&cache, &key, &assemblies)?;
    Ok(assemblies)
}

type CachedAssemblies = Vec<(u32, Result<BTreeMap<String, Resources>, String>)>;

fn read_cache(path: &Path, key: &str) -> Option<Vec<Assembly>> {
    let mut cache: serde_json::Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    if cache["key"] != key {
        return None;
    }
    let assemblies: CachedAssemblies = serde_json::from_value(cache["assemblies"].take()).ok()?;
    Some(assemblies.into_iter().map(|(architecture, outcome)| Assembly { architecture, outcome }).collect())
}

fn write_cache(path: &Path, key: &str, assemblies: &[Assembly]) -> Result<()> {
    let assemblies: Vec<_> = assemblies.iter().map(|assembly| (assembly.architecture, &assembly.outcome)).collect();
    write_atomically(path, json!({ "key": key, "assemblies": assemblies }).to_string().as_bytes())
}

/// Puts what ptxas reported into the module's entries and returns what it refused.
fn add_resources(module: &mut Module, assemblies: Vec<Assembly>) -> Vec<Rejection> {
    let mut rejections = Vec::new();
    for Assembly { architecture, outcome } in assemblies {
        match outcome {
            Ok(mut reported) => {
                for entry in &mut module.entries {
                    entry.resources.extend(reported.remove(&entry.name));
                }
            }
            Err(messages) => rejections.push(Rejection { file: module.file.clone(), architecture, messages }),
        }
    }
    rejections
}

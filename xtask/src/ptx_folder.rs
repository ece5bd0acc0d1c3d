//! Building the PTX folder: compile, post-process, run ptxas, write the manifest.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Result, bail};
use contract::backward::variants::{BACKWARD_VARIANTS, BackwardVariant, file_of};
use contract::config::Family;
use contract::manifest::{BackwardEntry, Entry, FILE_NAME, FORMAT, Manifest, Module, Resources};
use contract::variants::{VARIANTS, Variant};
use ptx_text::lines::without_locations;
use ptx_text::postprocess::{Postprocessed, Refusal, list, postprocess, postprocess_backward};
use serde_json::json;

use crate::codegen::{CodeGenerator, Compiled, FamilyTarget, Target};
use crate::collectives::Record;
use crate::environment::Workspace;
use crate::files::{self, write_atomically};
use crate::probes;
use crate::progress::Step;
use crate::ptxas::{Assembly, Ptxas, serialises_products};

/// A PTX folder, and what ptxas refused.
#[derive(Debug)]
pub struct PtxFolder {
    /// The folder.
    pub path: PathBuf,
    /// Contents of its manifest.
    pub manifest: Manifest,
    /// File, architecture and messages of everything ptxas refused.
    pub rejections: Vec<Rejection>,
    /// Number of compiler warnings about the device code.
    pub warnings: usize,
}

/// A file that ptxas refused for an architecture.
#[derive(Debug)]
pub struct Rejection {
    /// The PTX file's name.
    pub file: String,
    /// As in 80 for `sm_80`.
    pub architecture: u32,
    /// The message of ptxas.
    pub messages: String,
}

/// Checks of a build.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checks<'a> {
    /// The ptxas that reports registers; without one the manifest has no resources.
    pub ptxas: Option<&'a Ptxas>,
    /// The collectives of its entries.
    pub collectives: Option<&'a Record>,
}

/// Compiles the kernel families `targets` into `folder`, in parallel, with a manifest.
pub fn build<'a>(
    workspace: &Workspace,
    code_generator: &dyn CodeGenerator,
    targets: impl IntoIterator<Item = &'a FamilyTarget>,
    checks: Checks<'_>,
    folder: &Path,
) -> Result<PtxFolder> {
    let build = |target| build_family(workspace, code_generator, target, checks, folder);
    let built: Vec<Result<Built>> = thread::scope(|scope| {
        let targets: Vec<_> = targets.into_iter().map(|target| scope.spawn(move || build(target))).collect();
        targets.into_iter().map(|target| target.join().expect("building a module does not panic")).collect()
    });
    let (mut modules, mut rejections, mut warnings) = (Vec::new(), Vec::new(), 0);
    for one in built {
        let one = one?;
        modules.extend(one.modules);
        rejections.extend(one.rejections);
        warnings += one.warnings;
    }
    let manifest = write_manifest(workspace, code_generator, checks.ptxas, modules, folder)?;
    Ok(PtxFolder { path: folder.to_owned(), manifest, rejections, warnings })
}

/// The modules of a kernel family, with the results of the compiler and of ptxas.
struct Built {
    modules: Vec<Module>,
    rejections: Vec<Rejection>,
    warnings: usize,
}

/// Compiles one family into `folder`.
fn build_family(
    workspace: &Workspace,
    code_generator: &dyn CodeGenerator,
    target: &FamilyTarget,
    checks: Checks<'_>,
    folder: &Path,
) -> Result<Built> {
    let of_family = VARIANTS.iter().filter(|variant| variant.family() == target.family);
    let variants: Vec<&Variant> = of_family.filter(|variant| code_generator.has(variant)).collect();
    let compiled = compile(code_generator, &target.target, &variants)?;
    let ptx = accept(postprocess(&compiled.ptx, &variants), &compiled.ptx, &target.target, target.target.file, folder)?;
    let module = write_module(&ptx, target.target.file, folder)?;
    let entries = variants.iter().map(|variant| ptx.describe(Entry::from(*variant))).collect();
    let mut written = vec![(Module { entries, ..module }, ptx)];
    if code_generator.has_probes() {
        probes::write(&compiled.ptx, target.family, folder)?;
    }
    written.extend(write_backward(code_generator, &compiled.ptx, target, folder)?);
    let mut rejections = Vec::new();
    let mut modules = Vec::new();
    for (mut module, ptx) in written {
        if let Some(record) = checks.collectives {
            record.check(&code_generator.identity(), &ptx.text)?;
        }
        let assemblies = match checks.ptxas {
            Some(ptxas) => {
                assemble(workspace, &code_generator.identity().name, ptxas, (target.family, &module.file), &ptx.text)?
            }
            None => Vec::new(),
        };
        let rejected = add_resources(&mut module, assemblies);
        if let Some(Rejection { messages, .. }) = rejected.iter().find(|one| serialises_products(&one.messages)) {
            bail!("in {} matrix products wait for each other that must not:\n{messages}", module.file);
        }
        rejections.extend(rejected);
        modules.push(module);
    }
    Ok(Built { modules, rejections, warnings: compiled.warnings })
}

/// Writes the PTX of a family's backward entries to `folder`, if there are any; `ptx` is what the compiler wrote.
fn write_backward(
    code_generator: &dyn CodeGenerator,
    ptx: &str,
    target: &FamilyTarget,
    folder: &Path,
) -> Result<Option<(Module, Postprocessed)>> {
    let of_family = BACKWARD_VARIANTS.iter().filter(|variant| variant.family() == target.family);
    let variants: Vec<&BackwardVariant> = of_family.filter(|variant| code_generator.has_backward(variant)).collect();
    if variants.is_empty() {
        return Ok(None);
    }
    let file = file_of(target.family);
    let accepted = accept(postprocess_backward(ptx, &variants), ptx, &target.target, file, folder)?;
    let module = write_module(&accepted, file, folder)?;
    let entry = |variant: &&BackwardVariant| BackwardEntry { name: variant.entry.to_owned(), resources: Vec::new() };
    Ok(Some((Module { backward: variants.iter().map(entry).collect(), ..module }, accepted)))
}

/// Writes the manifest of `modules` to `folder`, which has their PTX.
pub fn write_manifest(
    workspace: &Workspace,
    code_generator: &dyn CodeGenerator,
    ptxas: Option<&Ptxas>,
    modules: Vec<Module>,
    folder: &Path,
) -> Result<Manifest> {
    let manifest = Manifest {
        format: FORMAT,
        code_generator: code_generator.identity(),
        git_commit: workspace.git_commit(),
        ptxas: ptxas.map(|ptxas| ptxas.version.clone()),
        modules,
    };
    let mut text = serde_json::to_string_pretty(&manifest)?;
    text.push('\n');
    write_atomically(&folder.join(FILE_NAME), text.as_bytes())?;
    Ok(manifest)
}

fn compile(code_generator: &dyn CodeGenerator, target: &Target, variants: &[&Variant]) -> Result<Compiled> {
    let step = Step::begin(match variants {
        [variant] => format!("compiling {} to PTX", variant.entry),
        _ => format!("compiling the {} entries for {} to PTX", variants.len(), target.cpu),
    });
    let compiled = code_generator.compile(target)?;
    step.done();
    Ok(compiled)
}

/// The post-processed `ptx` of a family for `file`; refused PTX is saved in `folder`.
fn accept(
    postprocessed: Result<Postprocessed, Vec<Refusal>>,
    ptx: &str,
    target: &Target,
    file: &str,
    folder: &Path,
) -> Result<Postprocessed> {
    let refused = folder.join(format!("{file}.refused"));
    match postprocessed {
        Ok(ptx) => {
            files::remove(&refused)?;
            Ok(ptx)
        }
        Err(refusals) => {
            write_atomically(&refused, ptx.as_bytes())?;
            bail!("the PTX for {} is refused (it is kept as {}):{}", target.cpu, refused.display(), list(&refusals));
        }
    }
}

/// Writes PTX to `file` in `folder`. The module has no entries yet.
fn write_module(ptx: &Postprocessed, file: &str, folder: &Path) -> Result<Module> {
    write_atomically(&folder.join(file), ptx.text.as_bytes())?;
    Ok(Module {
        file: file.to_owned(),
        sha256: files::sha256(ptx.text.as_bytes()),
        ptx_version: ptx.ptx_version.clone(),
        target: ptx.target.clone(),
        entries: Vec::new(),
        backward: Vec::new(),
    })
}

/// The report of ptxas for the PTX of a family; cached until the instructions or ptxas change. Line directives, which change with
/// every comment line, do not count.
fn assemble(
    workspace: &Workspace,
    code_generator: &str,
    ptxas: &Ptxas,
    (family, file): (Family, &str),
    ptx: &str,
) -> Result<Vec<Assembly>> {
    let ptx = without_locations(ptx);
    let asked = workspace.device_target().join("ptxas").join(format!("{code_generator}-{file}"));
    let cache = asked.with_extension("json");
    let key = format!("{} {}", files::sha256(ptx.as_bytes()), ptxas.version);
    if let Some(assemblies) = read_cache(&cache, &key) {
        return Ok(assemblies);
    }
    let step = Step::begin(format!("asking ptxas {} about {file}", ptxas.version));
    write_atomically(&asked, ptx.as_bytes())?;
    let assemblies = ptxas.assemble_for_all(family, &asked);
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

/// Adds ptxas's report to the module's entries and returns what it refused.
fn add_resources(module: &mut Module, assemblies: Vec<Assembly>) -> Vec<Rejection> {
    let mut rejections = Vec::new();
    for Assembly { architecture, outcome } in assemblies {
        match outcome {
            Ok(mut reported) => {
                for entry in &mut module.entries {
                    entry.resources.extend(reported.remove(&entry.name));
                }
                for entry in &mut module.backward {
                    entry.resources.extend(reported.remove(&entry.name));
                }
            }
            Err(messages) => rejections.push(Rejection { file: module.file.clone(), architecture, messages }),
        }
    }
    rejections
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use anyhow::Result;
    use contract::backward::variants::{BACKWARD_VARIANTS, BackwardVariant};
    use contract::manifest::{self, Entry, FILE_NAME, Manifest};
    use contract::probe::{BLOCKS, PROBES, THREADS};
    use contract::variants::{VARIANTS, Variant};
    use tempfile::TempDir;

    use super::{Checks, PtxFolder, build};
    use crate::codegen::{CodeGenerator, Compiled, FAMILY_TARGETS, FamilyTarget, Target};
    use crate::cuda_tool::CudaTool;
    use crate::environment::Workspace;
    use crate::files::sha256;
    use crate::ptxas::{Ptxas, checked_architectures};

    /// A code generator that writes an empty body for every variant, and one line of its own.
    struct Stub(&'static str);

    /// The line of a [`Stub`] that has no entry for the first variant.
    const WITHOUT_FIRST: &str = "// without the first";

    impl CodeGenerator for Stub {
        fn has(&self, variant: &Variant) -> bool {
            self.0 != WITHOUT_FIRST || *variant != VARIANTS[0]
        }

        fn has_probes(&self) -> bool {
            true
        }

        fn has_backward(&self, _: &BackwardVariant) -> bool {
            true
        }

        fn identity(&self) -> manifest::CodeGenerator {
            manifest::CodeGenerator { name: "stub".into(), version: "1".into() }
        }

        fn compile(&self, target: &Target) -> Result<Compiled> {
            let mut ptx = format!(".version 8.0\n.target {}\n.address_size 64\n{}\n", target.cpu, self.0);
            let is_compiled = |one: &&FamilyTarget| one.target.file == target.file;
            let family = FAMILY_TARGETS.iter().find(is_compiled).expect("a family's target").family;
            let variants = VARIANTS.iter().filter(|variant| variant.family() == family && self.has(variant));
            let probes = PROBES.iter().filter(|probe| probe.family == family);
            let body = |variant: &Variant| match (variant.waits_for_previous_grid, variant.leaves_parts) {
                (true, _) => "\tgriddepcontrol.wait;\n",
                (_, true) => "\tmov.u32 \t%r1, %ctaid.y;\n",
                _ => "",
            };
            let variants = variants.map(|variant| (variant.entry, body(variant)));
            let backward = BACKWARD_VARIANTS.iter().filter(|variant| variant.family() == family);
            let others = probes.map(|probe| probe.entry).chain(backward.map(|variant| variant.entry));
            for (entry, body) in variants.chain(others.map(|entry| (entry, ""))) {
                write!(ptx, ".visible .entry {entry}(\n)\n{{\n{body}\tret;\n}}\n")?;
            }
            Ok(Compiled { ptx, warnings: 0 })
        }

        fn lint(&self, _: &Target) -> Result<Option<usize>> {
            Ok(None)
        }
    }

    fn build_in(folder: &Path, stub: Stub, ptxas: Option<&Ptxas>) -> Result<PtxFolder> {
        let checks = Checks { ptxas, collectives: None };
        build(&Workspace::new(folder.join("workspace")), &stub, &FAMILY_TARGETS, checks, &folder.join("ptx"))
    }

    /// A ptxas that prints `report` and ends with `status`.
    fn pretended_ptxas(folder: &Path, report: &str, status: u8) -> Ptxas {
        let path = folder.join("ptxas");
        let _ = symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/ptxas"), &path);
        fs::write(folder.join("ptxas.report"), report).unwrap();
        fs::write(folder.join("ptxas.status"), status.to_string()).unwrap();
        Ptxas::probe(&path).unwrap()
    }

    fn report() -> String {
        let entries = VARIANTS.iter().map(|variant| {
            format!(
                "ptxas info    : Compiling entry function '{}' for 'sm_80'\n    0 bytes stack frame, 0 bytes spill stores, \
                 0 bytes spill loads\nptxas info    : Used 96 registers, used 1 barriers\n",
                variant.entry
            )
        });
        entries.collect()
    }

    fn calls(folder: &Path) -> usize {
        fs::read_to_string(folder.join("ptxas.calls")).map_or(0, |calls| calls.lines().count())
    }

    #[test]
    fn the_manifest_describes_the_files_beside_it() {
        let folder = TempDir::new().unwrap();
        let built = build_in(folder.path(), Stub(""), None).unwrap();
        let text = fs::read(folder.path().join("ptx").join(FILE_NAME)).unwrap();
        let manifest: Manifest = serde_json::from_slice(&text).unwrap();
        assert_eq!(manifest, built.manifest);
        for module in &manifest.modules {
            assert_eq!(module.sha256, sha256(&fs::read(folder.path().join("ptx").join(&module.file)).unwrap()));
            assert!(module.entries.iter().all(|entry| entry.family() == module.entries[0].family()), "{module:?}");
        }
        let entries: Vec<&Entry> = manifest.modules.iter().flat_map(|module| &module.entries).collect();
        assert_eq!(entries, VARIANTS.iter().map(Entry::from).collect::<Vec<_>>().iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_code_generator_may_lack_entries() {
        let folder = TempDir::new().unwrap();
        let built = build_in(folder.path(), Stub(WITHOUT_FIRST), None).unwrap();
        let entries = built.manifest.modules.iter().flat_map(|module| &module.entries);
        assert!(entries.map(|entry| &entry.name).eq(VARIANTS[1..].iter().map(|variant| variant.entry)));
    }

    #[test]
    fn a_probe_has_a_file_of_its_own_and_its_launch_bounds() {
        let folder = TempDir::new().unwrap();
        build_in(folder.path(), Stub(""), None).unwrap();
        let bounds = format!(".reqntid {THREADS}, 1, 1\n.minnctapersm {BLOCKS}\n");
        for probe in &PROBES {
            let text = fs::read_to_string(folder.path().join("ptx").join(probe.file)).unwrap();
            assert!(text.contains(probe.entry) && text.contains(&bounds), "{text}");
            assert_eq!(text.matches(".entry").count(), 1, "no kernel is in it: {text}");
            let family = FAMILY_TARGETS.iter().find(|one| one.family == probe.family).unwrap();
            let kernels = fs::read_to_string(folder.path().join("ptx").join(family.target.file)).unwrap();
            assert!(!kernels.contains(probe.entry), "{kernels}");
        }
    }

    #[test]
    fn ptxas_is_asked_again_only_when_the_ptx_changed() {
        let folder = TempDir::new().unwrap();
        let ptxas = pretended_ptxas(folder.path(), &report(), 0);
        let first = build_in(folder.path(), Stub(""), Some(&ptxas)).unwrap();
        for entry in first.manifest.modules.iter().flat_map(|module| &module.entries) {
            let architectures: Vec<u32> = entry.resources.iter().map(|one| one.architecture).collect();
            assert_eq!(architectures, checked_architectures(entry.family()).collect::<Vec<_>>(), "{}", entry.name);
            assert!(entry.resources.iter().all(|one| one.registers == 96), "{entry:?}");
        }
        assert_eq!(calls(folder.path()), 8, "once for each file and architecture with instructions of its own");
        assert_eq!(build_in(folder.path(), Stub(""), Some(&ptxas)).unwrap().manifest, first.manifest);
        assert_eq!(calls(folder.path()), 8, "nothing changed");
        build_in(folder.path(), Stub("\t.loc\t1 2 3"), Some(&ptxas)).unwrap();
        assert_eq!(calls(folder.path()), 8, "only the source moved");
        build_in(folder.path(), Stub("// edited"), Some(&ptxas)).unwrap();
        assert_eq!(calls(folder.path()), 16, "the PTX changed");
    }

    #[test]
    fn what_ptxas_refuses_is_reported_for_each_architecture() {
        let folder = TempDir::new().unwrap();
        let ptxas = pretended_ptxas(folder.path(), "ptxas fatal   : Unsupported .version 99.0", 255);
        let built = build_in(folder.path(), Stub(""), Some(&ptxas)).unwrap();
        let rejected: Vec<u32> = built.rejections.iter().map(|rejection| rejection.architecture).collect();
        assert_eq!(
            rejected,
            [90, 90, 80, 86, 89, 90, 80, 86, 89, 90],
            "of the families' files, and of the backward entries"
        );
        assert!(built.rejections[0].messages.contains("Unsupported .version"));
    }

    #[test]
    fn products_that_ptxas_serialises_fail_the_build() {
        let folder = TempDir::new().unwrap();
        let warning = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized";
        let ptxas = pretended_ptxas(folder.path(), &format!("{warning}\n{}", report()), 0);
        let error = build_in(folder.path(), Stub(""), Some(&ptxas)).unwrap_err().to_string();
        assert!(error.contains("sm_90a.ptx") && error.contains("(C7510)"), "{error}");
    }

    #[test]
    fn refused_ptx_does_not_replace_what_was_there() {
        let folder = TempDir::new().unwrap();
        build_in(folder.path(), Stub(""), None).unwrap();
        let before = fs::read(folder.path().join("ptx/sm_90a.ptx")).unwrap();
        let error = build_in(folder.path(), Stub(".visible .entry stranger(\n)\n{\n\tret;\n}"), None).unwrap_err();
        assert!(error.to_string().contains("entry stranger, PTX line 4"), "{error}");
        assert_eq!(fs::read(folder.path().join("ptx/sm_90a.ptx")).unwrap(), before);
        let refused = folder.path().join("ptx/sm_90a.ptx.refused");
        assert!(
            fs::read_to_string(&refused).unwrap().contains("stranger"),
            "the author needs the text that was refused"
        );
        build_in(folder.path(), Stub(""), None).unwrap();
        assert!(!refused.exists(), "it must not outlive the mistake");
    }
}

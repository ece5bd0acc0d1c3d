//! PTX of a tuning plan's candidates: hundreds of entries compiled by several compilers at once, one entry per file, so that a
//! refused entry affects no other and a GPU loads only those that it measures.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;

use anyhow::{Context, Result, bail};
use contract::candidates::{Candidate, KIND, Pool, VERSION};
use contract::manifest::{Entry, Manifest, Module, Resources};

use crate::codegen::{CodeGenerator, FAMILY_TARGETS, FamilyTarget, Target};
use crate::cores;
use crate::environment::Workspace;
use crate::files::{self, write_atomically};
use crate::progress::Step;
use crate::ptx_folder::write_manifest;
use crate::ptxas::{Ptxas, Waste};
use ptx_text::postprocess::postprocess_alone;

/// Entries per compiler call: enough that its start-up does not matter, few enough that all workers end together.
const BATCH: usize = 16;

/// Result of building a plan.
#[derive(Debug)]
pub struct Built {
    /// The folder.
    pub path: PathBuf,
    /// Contents of its manifest.
    pub manifest: Manifest,
    /// Candidates that were dropped.
    pub dropped: Vec<Dropped>,
}

/// A candidate that was dropped.
#[derive(Debug)]
pub struct Dropped {
    /// Its name.
    pub name: String,
    /// Short reason, the same for all candidates dropped for the same cause.
    pub reason: &'static str,
    /// Message of the compiler or of ptxas.
    pub detail: String,
}

/// Reason for candidates that do not compile.
const REFUSED: &str = "the compiler refuses it";

/// Reads the candidates of the plan at `path`.
pub fn read(path: &Path) -> Result<Pool> {
    let text = fs::read(path).with_context(|| format!("could not read {}", path.display()))?;
    let plan: serde_json::Value =
        serde_json::from_slice(&text).with_context(|| format!("{} is no tuning plan", path.display()))?;
    if plan["kind"] != KIND || plan["version"] != VERSION {
        bail!(
            "{} is no tuning plan of version {VERSION}; `fa512 tune plan --out FILE` of this checkout writes one",
            path.display()
        );
    }
    serde_json::from_value(plan).with_context(|| format!("{} is a damaged tuning plan", path.display()))
}

/// Compiles the candidates of `pool` into `folder`, with a manifest.
pub fn build(
    workspace: &Workspace,
    code_generator: &dyn CodeGenerator,
    ptxas: Option<&Ptxas>,
    pool: &Pool,
    folder: &Path,
) -> Result<Built> {
    let mut batches: Vec<(FamilyTarget, Vec<&Candidate>)> = Vec::new();
    let mut most_batches = 0;
    for family in FAMILY_TARGETS {
        let of_family: Vec<_> =
            pool.candidates.iter().filter(|candidate| candidate.family() == family.family).collect();
        batches.extend(of_family.chunks(BATCH).map(|batch| (family, batch.to_vec())));
        most_batches = most_batches.max(of_family.chunks(BATCH).len());
    }
    let compiled = Mutex::new(BTreeMap::new());
    let waiting = Mutex::new(batches.into_iter().rev().collect::<Vec<_>>());
    let lists = workspace.device_target().join("candidates");
    let step = Step::begin(format!("compiling {} candidates", pool.candidates.len()));
    // At most one worker per batch of a family: each has target folders of its own, in which Rust's `core` is compiled first.
    let workers = cores::count().min(most_batches);
    thread::scope(|scope| {
        let work = |index| {
            let worker =
                Worker { code_generator, index, lists: &lists, folder, ptxas, architecture: pool.architecture };
            while let Some((family, batch)) = lock(&waiting).pop() {
                let outcomes = worker.build(&family, &batch)?;
                let is_refused = |(_, outcome): &Outcome| matches!(outcome, Err(one) if one.reason == REFUSED);
                if batch.len() > 1 && outcomes.iter().all(is_refused) {
                    bail!("the compiler refuses all of {} candidates: the source does not compile", batch.len());
                }
                let mut compiled = lock(&compiled);
                compiled.extend(outcomes);
                eprintln!("xtask: {} of {} candidates", compiled.len(), pool.candidates.len());
            }
            anyhow::Ok(())
        };
        let workers: Vec<_> = (0..workers).map(|index| scope.spawn(move || work(index))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    step.done();
    let mut compiled = compiled.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut modules, mut dropped) = (Vec::new(), Vec::new());
    for candidate in &pool.candidates {
        match compiled.remove(&candidate.name).with_context(|| format!("{} was not compiled", candidate.name))? {
            Ok(module) => modules.push(module),
            Err(one) => dropped.push(one),
        }
    }
    let manifest = write_manifest(workspace, code_generator, ptxas, modules, folder)?;
    Ok(Built { path: folder.to_owned(), manifest, dropped })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Outcome for a candidate.
type Outcome = (String, Result<Module, Dropped>);

/// One of several concurrent workers.
struct Worker<'a> {
    code_generator: &'a dyn CodeGenerator,
    index: usize,
    /// Folder of the generated lists.
    lists: &'a Path,
    folder: &'a Path,
    ptxas: Option<&'a Ptxas>,
    architecture: u32,
}

impl Worker<'_> {
    /// Compiles `batch`. If the compiler refuses it, compiles each half, until refused candidates are isolated.
    fn build(&self, family: &FamilyTarget, batch: &[&Candidate]) -> Result<Vec<Outcome>> {
        let ptx = match self.compile(&family.target, batch)? {
            Ok(ptx) => ptx,
            Err(detail) => {
                return match batch {
                    [candidate] => Ok(vec![dropped(candidate, REFUSED, detail)]),
                    _ => {
                        let (first, second) = batch.split_at(batch.len() / 2);
                        let mut outcomes = self.build(family, first)?;
                        outcomes.extend(self.build(family, second)?);
                        Ok(outcomes)
                    }
                };
            }
        };
        batch.iter().map(|candidate| self.finish(family, candidate, &ptx)).collect()
    }

    /// The PTX of `batch`, or the compiler's message.
    fn compile(&self, target: &Target, batch: &[&Candidate]) -> Result<Result<String, String>> {
        let list: String = batch.iter().map(|candidate| candidate.declaration()).collect();
        let path = self.lists.join(format!("{}.rs", &files::sha256(list.as_bytes())[..16]));
        write_atomically(&path, list.as_bytes())?;
        let Some(code_generator) = self.code_generator.for_candidates(&path, self.index) else {
            bail!("the code generator {} compiles no candidates", self.code_generator.identity().name);
        };
        Ok(match code_generator.compile(target) {
            Ok(compiled) => Ok(compiled.ptx),
            Err(error) => Err(format!("{error:#}")),
        })
    }

    /// Extracts a candidate from the PTX of its batch, writes it, and runs ptxas.
    fn finish(&self, family: &FamilyTarget, candidate: &Candidate, ptx: &str) -> Result<Outcome> {
        let ptx = match postprocess_alone(ptx, &candidate.name, candidate.config.into()) {
            Ok(ptx) => ptx,
            Err(refusals) => {
                let refusals: Vec<_> = refusals.iter().map(ToString::to_string).collect();
                return Ok(dropped(candidate, "its PTX is refused", refusals.join("; ")));
            }
        };
        let file = format!("{}.ptx", candidate.name);
        let path = self.folder.join(&file);
        write_atomically(&path, ptx.text.as_bytes())?;
        let mut entry = ptx.describe(Entry::from(candidate));
        if let Some(ptxas) = self.ptxas {
            match resources(ptxas, family, candidate, &path, self.architecture) {
                Ok(resources) => entry.resources.push(resources),
                Err(refused) => {
                    files::remove(&path)?;
                    return Ok((candidate.name.clone(), Err(refused)));
                }
            }
        }
        let sha256 = files::sha256(ptx.text.as_bytes());
        let module = Module {
            file,
            sha256,
            ptx_version: ptx.ptx_version,
            target: ptx.target,
            entries: vec![entry],
            backward: Vec::new(),
        };
        Ok((candidate.name.clone(), Ok(module)))
    }
}

fn dropped(candidate: &Candidate, reason: &'static str, detail: String) -> Outcome {
    (candidate.name.clone(), Err(Dropped { name: candidate.name.clone(), reason, detail }))
}

/// Resources that ptxas reports for a candidate; an error if it refuses it, or reports spills or a stack frame.
fn resources(
    ptxas: &Ptxas,
    family: &FamilyTarget,
    candidate: &Candidate,
    ptx: &Path,
    architecture: u32,
) -> Result<Resources, Dropped> {
    let refuse = |reason, detail| Dropped { name: candidate.name.clone(), reason, detail };
    let report = ptxas.assemble(family.family, ptx, architecture, 1).outcome;
    let mut reported = report.map_err(|messages| refuse("ptxas refuses it", messages))?;
    let resources = reported.remove(&candidate.name);
    let resources = resources.ok_or_else(|| refuse("ptxas says nothing of it", String::new()))?;
    match Waste::of(&candidate.name, &resources) {
        Some(waste) => Err(refuse("it spills", waste.to_string())),
        None => Ok(resources),
    }
}

impl Built {
    /// Summary: number of candidates, and number dropped per reason with an example.
    pub fn summary(&self) -> String {
        let mut text = format!("{} candidates in {}", self.manifest.modules.len(), self.path.display());
        let mut reasons: BTreeMap<&str, Vec<&Dropped>> = BTreeMap::new();
        for dropped in &self.dropped {
            reasons.entry(dropped.reason).or_default().push(dropped);
        }
        for (reason, dropped) in reasons {
            let example = dropped[0].detail.lines().next().unwrap_or_default();
            let _ = write!(text, "\n{} dropped: {reason}, as {}: {example}", dropped.len(), dropped[0].name);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use contract::config::{Element, Mask, Sequence};
    use contract::manifest;
    use contract::tile::{Configuration, Sm80, Sm90Tma};
    use tempfile::TempDir;

    use super::*;
    use crate::codegen::Compiled;
    use crate::cuda_tool::CudaTool;
    use crate::files::sha256;

    /// A compiler that writes an empty body for every candidate of a list, calls a function in those called `calls`, and
    /// refuses a list with one called `broken`.
    struct Stub(Option<PathBuf>);

    impl CodeGenerator for Stub {
        fn identity(&self) -> manifest::CodeGenerator {
            manifest::CodeGenerator { name: "stub".into(), version: "1".into() }
        }

        fn compile(&self, target: &Target) -> Result<Compiled> {
            let list = fs::read_to_string(self.0.as_ref().context("no list")?)?;
            if list.contains("broken") {
                bail!("error: broken");
            }
            let mut ptx = format!(".version 8.0\n.target {}\n.address_size 64\n", target.cpu);
            for name in list.lines().filter_map(|line| line.split([' ', ',']).nth(3)) {
                let call = if name.contains("calls") { "call.uni panic;" } else { "" };
                write!(ptx, ".visible .entry {name}(\n)\n{{\n\t{call}\n\tret;\n}}\n")?;
            }
            Ok(Compiled { ptx, warnings: 0 })
        }

        fn for_candidates(&self, list: &Path, _: usize) -> Option<Box<dyn CodeGenerator>> {
            Some(Box::new(Stub(Some(list.to_owned()))))
        }

        fn lint(&self, _: &Target) -> Result<Option<usize>> {
            Ok(None)
        }
    }

    fn pool(names: &[String]) -> Pool {
        let (portable, hopper) = (Sm80::new(64, 64, 4, 2), Sm90Tma::new(1, 4));
        let candidate = |(index, name): (usize, &String)| Candidate {
            name: name.clone(),
            config: if index % 2 == 0 { Configuration::Sm80(portable) } else { Configuration::Sm90Tma(hopper) },
            element: Element::F16,
            sequence: Sequence::Exact(512),
            mask: Mask::Full,
        };
        Pool { architecture: 90, candidates: names.iter().enumerate().map(candidate).collect() }
    }

    fn build_in(folder: &TempDir, pool: &Pool, ptxas: Option<&Ptxas>) -> Built {
        let workspace = Workspace::new(folder.path().join("workspace"));
        build(&workspace, &Stub(None), ptxas, pool, &folder.path().join("out")).unwrap()
    }

    #[test]
    fn every_candidate_is_in_a_file_of_its_own_in_the_order_of_the_plan() {
        let folder = TempDir::new().unwrap();
        let names: Vec<String> = (0..70).map(|index| format!("candidate_{index}")).collect();
        let built = build_in(&folder, &pool(&names), None);
        let modules = &built.manifest.modules;
        assert_eq!(modules.iter().map(|module| module.entries[0].name.clone()).collect::<Vec<_>>(), names);
        for module in modules {
            let text = fs::read_to_string(folder.path().join("out").join(&module.file)).unwrap();
            assert_eq!(module.sha256, sha256(text.as_bytes()));
            assert_eq!(text.matches(".entry").count(), 1, "{text}");
            assert!(text.contains(".reqntid"), "{text}");
        }
        let read: Manifest =
            serde_json::from_slice(&fs::read(folder.path().join("out").join(manifest::FILE_NAME)).unwrap()).unwrap();
        assert_eq!(read, built.manifest);
    }

    #[test]
    fn what_is_refused_takes_no_other_with_it_and_is_named_with_its_reason() {
        let folder = TempDir::new().unwrap();
        let names = ["a", "broken_1", "b", "calls_1", "c", "d", "broken_2", "e"].map(str::to_owned);
        let built = build_in(&folder, &pool(&names), None);
        let kept: Vec<_> = built.manifest.modules.iter().map(|module| module.file.as_str()).collect();
        assert_eq!(kept, ["a.ptx", "b.ptx", "c.ptx", "d.ptx", "e.ptx"]);
        let summary = built.summary();
        assert!(summary.contains("2 dropped: the compiler refuses it, as broken_1: error: broken"), "{summary}");
        assert!(summary.contains("1 dropped: its PTX is refused, as calls_1"), "{summary}");
    }

    #[test]
    fn a_source_that_does_not_compile_ends_the_build() {
        let folder = TempDir::new().unwrap();
        let names: Vec<String> = (0..100).map(|index| format!("broken_{index}")).collect();
        let workspace = Workspace::new(folder.path().join("workspace"));
        let message = build(&workspace, &Stub(None), None, &pool(&names), &folder.path().join("out")).unwrap_err();
        assert!(message.to_string().contains("the source does not compile"), "{message}");
    }

    #[test]
    fn what_ptxas_makes_spill_is_dropped() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("ptxas");
        std::os::unix::fs::symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/ptxas"), &path).unwrap();
        let report = |name: &str, spills: u32| {
            format!(
                "ptxas info    : Compiling entry function '{name}' for 'sm_90'\n    0 bytes stack frame, {spills} bytes spill \
                 stores, 0 bytes spill loads\nptxas info    : Used 96 registers, used 1 barriers\n"
            )
        };
        fs::write(folder.path().join("ptxas.report"), report("good", 0) + &report("spills", 64)).unwrap();
        fs::write(folder.path().join("ptxas.status"), "0").unwrap();
        let ptxas = Ptxas::probe(&path).unwrap();
        let names = ["good", "spills", "unknown"].map(str::to_owned);
        let built = build_in(&folder, &pool(&names), Some(&ptxas));
        let [module] = built.manifest.modules.as_slice() else { panic!("{:?}", built.manifest) };
        assert_eq!((module.file.as_str(), module.entries[0].resources[0].registers), ("good.ptx", 96));
        let summary = built.summary();
        assert!(summary.contains("1 dropped: it spills, as spills: spills on sm_90: 0 bytes of stack"), "{summary}");
        assert!(summary.contains("1 dropped: ptxas says nothing of it"), "{summary}");
        assert!(!folder.path().join("out/spills.ptx").exists());
    }

    #[test]
    fn other_files_than_plans_are_refused() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("plan.json");
        let refusal = |text: &str| {
            fs::write(&path, text).unwrap();
            format!("{:#}", read(&path).unwrap_err())
        };
        assert!(refusal("{").contains("is no tuning plan: EOF"), "{}", refusal("{"));
        assert!(refusal("{\"kind\": \"fa512-bench\", \"version\": 1}").contains("`fa512 tune plan --out FILE`"));
        let damaged = refusal(&format!("{{\"kind\": \"{KIND}\", \"version\": {VERSION}}}"));
        assert!(damaged.contains("damaged") && damaged.contains("missing field"), "{damaged}");
    }
}

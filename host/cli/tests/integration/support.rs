//! Shared parts of the integration tests: the PTX under test, a device, and the check of results.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use cli::check::{self, UnitScaleBounds};
use cli::element::{Bits, Encoding};
use cli::executor::sim::{self, SimExecutor};
use cli::executor::{DeviceChoice, Executor, open};
use cli::forward::Forward;
use cli::inputs::{Distribution, Inputs};
use cli::launch::check_accepts;
use cli::ptx_folder::PtxFolder;
use cli::ptx_module::PtxModule;
use cli::reference::Reference;
use contract::config::{Element, Scores};
use contract::manifest::{Entry, FILE_NAME, Manifest};
use contract::problem::{DEFAULT_HEAD_DIM, Problem};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::program::ptx_path;

/// Environment variable that makes the kernels be tested on a GPU instead of in the simulator: `gpu`.
const DEVICE_VARIABLE: &str = "FA512_TEST_DEVICE";
/// Environment variable: if it is set, entries are not tried in turns.
const ALL_ENTRIES_VARIABLE: &str = "FA512_ALL_ENTRIES";
/// Of the entries that take turns, one of so many is tried on a problem, and another one on the next problem.
const TURNS: usize = 3;

/// Whether it is the turn of one of many pairs of an entry and a problem, where neighbours of each have consecutive numbers. With three
/// problems or more, every entry has a turn.
pub fn is_turn(number: usize) -> bool {
    number.is_multiple_of(TURNS) || std::env::var_os(ALL_ENTRIES_VARIABLE).is_some()
}

/// Multiplies elements by `factor`.
pub fn multiply(elements: &mut [Bits], element: Element, factor: f64) {
    elements.iter_mut().for_each(|bits| *bits = element.encode(factor * element.decode(*bits)));
}

/// The PTX under test.
pub fn ptx() -> &'static PtxFolder {
    static FOLDER: OnceLock<PtxFolder> = OnceLock::new();
    FOLDER.get_or_init(|| PtxFolder::open(ptx_path().as_ref()).unwrap_or_else(|error| panic!("{error}")))
}

/// The entries under test, in the folder's order, each in a module of its own, as the library has them. The simulator reads a whole module
/// of the folder for longer than it executes most launches, and keeps less than all of it for the next executor.
pub fn ptx_entries() -> impl Iterator<Item = (&'static Entry, &'static PtxModule)> {
    static MODULES: OnceLock<BTreeMap<String, PtxModule>> = OnceLock::new();
    let modules = MODULES.get_or_init(|| {
        let texts = ptx().manifest().modules.iter().flat_map(|module| {
            let whole = std::fs::read_to_string(ptx().path().join(&module.file)).expect("the folder has the file");
            texts_of_entries(&whole)
        });
        texts.map(|(name, text)| (name.clone(), PtxModule::new(format!("{name}.ptx"), text))).collect()
    });
    ptx().entries().map(|(entry, _)| (entry, &modules[&entry.name]))
}

/// A PTX folder with the forward entries under test that `is_kept`, in modules changed by `edit`, and a manifest that matches. To read all
/// entries takes a program longer than to run one.
pub fn part_of_ptx(is_kept: impl Fn(&Entry) -> bool, edit: impl Fn(&str) -> String) -> TempDir {
    let mut manifest: Manifest = ptx().manifest().clone();
    manifest.modules.retain(|module| module.backward.is_empty());
    manifest.modules.iter_mut().for_each(|module| module.entries.retain(&is_kept));
    folder_of(manifest, edit)
}

/// A PTX folder with the entry for gradients of this name alone, changed by `edit`.
pub fn entry_for_gradients(name: &str, edit: impl Fn(&str) -> String) -> TempDir {
    let mut manifest: Manifest = ptx().manifest().clone();
    manifest.modules.iter_mut().for_each(|module| module.backward.retain(|entry| entry.name == name));
    manifest.modules.retain(|module| !module.backward.is_empty());
    folder_of(manifest, edit)
}

/// A PTX folder with the entries of `manifest`, in modules changed by `edit`.
fn folder_of(mut manifest: Manifest, edit: impl Fn(&str) -> String) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for module in &mut manifest.modules {
        let forward = module.entries.iter().map(|entry| entry.name.as_str());
        let names: Vec<_> = forward.chain(module.backward.iter().map(|entry| entry.name.as_str())).collect();
        let whole = std::fs::read_to_string(ptx().path().join(&module.file)).unwrap();
        let text = edit(&text_of(&whole, |name| names.contains(&name)));
        module.sha256 = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
        std::fs::write(folder.path().join(&module.file), text).unwrap();
    }
    std::fs::write(folder.path().join(FILE_NAME), serde_json::to_string(&manifest).unwrap()).unwrap();
    folder
}

/// Whether an entry is of the type, width and scores that most tests of the program have. Of every mask and length there are some.
pub fn is_usual(entry: &Entry) -> bool {
    (entry.element, entry.config.columns(), entry.scores) == (Element::F16, DEFAULT_HEAD_DIM, Scores::Unmodified)
}

/// A module's text without all entries but those whose names are kept.
fn text_of(module: &str, is_kept: impl Fn(&str) -> bool) -> String {
    let mut is_in_kept = true;
    let mut text = String::with_capacity(module.len() / 4);
    for line in module.lines() {
        if let Some(name) = entry_name(line) {
            is_in_kept = is_kept(name);
        }
        if is_in_kept {
            text.push_str(line);
            text.push('\n');
        }
        is_in_kept |= line.starts_with('}');
    }
    text
}

/// The name of each entry of a module, and its text behind all that stands outside of entries.
fn texts_of_entries(module: &str) -> impl Iterator<Item = (String, String)> + use<> {
    let (mut common, mut entries, mut is_in_entry) = (String::new(), Vec::new(), false);
    for line in module.lines() {
        if let Some(name) = entry_name(line) {
            entries.push((name.to_owned(), String::new()));
            is_in_entry = true;
        }
        let text = match entries.last_mut() {
            Some((_, text)) if is_in_entry => text,
            _ => &mut common,
        };
        text.push_str(line);
        text.push('\n');
        is_in_entry &= !line.starts_with('}');
    }
    entries.into_iter().map(move |(name, text)| (name, format!("{common}{text}")))
}

/// The name of the entry that begins with a line.
fn entry_name(line: &str) -> Option<&str> {
    let rest = line.split_once(".entry ")?.1;
    Some(rest.split_once('(').map_or(rest, |(name, _)| name).trim())
}

/// The device to test on.
pub fn executor() -> Box<dyn Executor> {
    executor_of(sim::MULTIPROCESSORS)
}

/// The same; a simulated GPU has so many multiprocessors.
fn executor_of(multiprocessors: u32) -> Box<dyn Executor> {
    match std::env::var(DEVICE_VARIABLE).as_deref() {
        Ok("gpu") => {
            open(DeviceChoice::Gpu, sim::DEFAULT_ARCHITECTURE).unwrap_or_else(|error| panic!("{error}")).executor
        }
        Ok("sim") | Err(_) => {
            let options = SimExecutor::default_options();
            let executor = SimExecutor::with_multiprocessors(sim::DEFAULT_ARCHITECTURE, multiprocessors, options);
            Box::new(executor.unwrap_or_else(|error| panic!("{error}")))
        }
        Ok(other) => panic!("{DEVICE_VARIABLE} is {other}; it must be gpu or sim"),
    }
}

/// The entries that accept `problem`, at least one, but for those whose tiles are twice as wide as the narrowest.
pub fn entries(problem: &Problem) -> Vec<(&'static Entry, &'static PtxModule)> {
    let accept = || ptx_entries().filter(|(entry, _)| check_accepts(entry, problem).is_ok());
    let narrowest = accept().map(|(entry, _)| entry.config.columns()).min().unwrap_or_default();
    let entries: Vec<_> = accept().filter(|(entry, _)| entry.config.columns() < 2 * narrowest).collect();
    assert!(!entries.is_empty(), "no entry accepts {problem:?}");
    entries
}

/// Inputs of `problem`, and the error bounds of its outputs.
pub struct Case {
    inputs: Inputs,
    bounds: Option<UnitScaleBounds>,
    reference: Reference,
    multiprocessors: u32,
}

impl Case {
    /// Generated inputs.
    pub fn generate(problem: Problem, distribution: Distribution) -> Self {
        let inputs = Inputs::generate(problem, distribution, 512).unwrap_or_else(|error| panic!("{error}"));
        Self::new(inputs, distribution)
    }

    /// Inputs whose values are of `distribution`.
    pub fn new(inputs: Inputs, distribution: Distribution) -> Self {
        let bounds = UnitScaleBounds::applicable(Some(distribution), inputs.problem());
        let reference = Reference::compute(&inputs, |_| ());
        Self { inputs, bounds, reference, multiprocessors: sim::MULTIPROCESSORS }
    }

    /// The same on a simulated GPU with so many multiprocessors.
    pub fn on_multiprocessors(self, multiprocessors: u32) -> Self {
        Self { multiprocessors, ..self }
    }

    /// Runs every entry that accepts the problem, with LSE if `lse`, and panics if anything is wrong with its outputs, inputs, guard
    /// bytes or execution.
    pub fn assert_right(&self, lse: bool) {
        self.assert_right_in(lse, |_| true);
    }

    /// [`Self::assert_right`] for the entries that are wanted, one at least.
    pub fn assert_right_in(&self, lse: bool, is_wanted: impl Fn(&Entry) -> bool) {
        for (entry, module) in self.wanted(is_wanted) {
            self.assert_entry_right(entry, module, lse);
        }
    }

    /// [`Self::assert_right_in`] with LSE, in turns where there are many: only for entries that another test tries all of.
    pub fn assert_right_in_turns(&self, is_wanted: impl Fn(&Entry) -> bool) {
        let wanted = self.wanted(is_wanted);
        let (number, are_few) = (self.number(), wanted.len() <= TURNS);
        for (index, (entry, module)) in wanted.into_iter().enumerate() {
            if are_few || is_turn(number + index) {
                self.assert_entry_right(entry, module, true);
            }
        }
    }

    /// The entries that accept the problem and are wanted, one at least.
    fn wanted(&self, is_wanted: impl Fn(&Entry) -> bool) -> Vec<(&'static Entry, &'static PtxModule)> {
        let wanted: Vec<_> = entries(self.inputs.problem()).into_iter().filter(|(entry, _)| is_wanted(entry)).collect();
        assert!(!wanted.is_empty(), "no entry that is wanted accepts {:?}", self.inputs.problem());
        wanted
    }

    /// Any number, the same in every run, for which others' cases have others.
    fn number(&self) -> usize {
        let [q, ..] = self.inputs.storages();
        let mut hasher = DefaultHasher::new();
        (format!("{:?}", self.inputs.problem()), &q[..q.len().min(64)]).hash(&mut hasher);
        hasher.finish() as u16 as usize
    }

    fn assert_entry_right(&self, entry: &Entry, module: &PtxModule, lse: bool) {
        let mut executor = executor_of(self.multiprocessors);
        let what = format!("{} on {:?}", entry.name, self.inputs.problem());
        let mut forward = Forward::prepare(executor.as_mut(), module, entry, &self.inputs, lse)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let outcome = forward.execute().unwrap_or_else(|error| panic!("{what}: {error}"));
        let findings: String = outcome.execution.findings.iter().map(|finding| format!("{finding}\n")).collect();
        assert!(findings.is_empty(), "{what}:\n{findings}");
        let report = check::check(&self.inputs, &self.reference, &outcome.outputs, self.bounds);
        assert!(report.passed(), "{what}: {report:#?}");
        assert_eq!(report.lse.is_some(), lse, "{what}: LSE is there exactly when it is asked for");
        assert!(outcome.changed_inputs.is_empty(), "{what}: changed {:?}", outcome.changed_inputs);
        assert!(outcome.damaged_guards.is_empty(), "{what}: damaged {:?}", outcome.damaged_guards);
    }
}

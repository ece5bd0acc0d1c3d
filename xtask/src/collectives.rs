//! How many collectives each entry has, against a record.
//!
//! A collective is an instruction that all threads of a warp, warpgroup or block execute together. A compiler that does not know
//! this copies one into both arms of a branch, and there each part of the threads waits for the other. Inline assembly says
//! nothing of it to LLVM 7, and rustc's own passes do not look: so the number of each collective in each entry is held against
//! what it was when the entry was tried ([`FILE`]), and a build with another number is refused.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use contract::manifest::{CodeGenerator, Manifest};
use serde::{Deserialize, Serialize};

use crate::environment::Workspace;
use crate::files::write_atomically;
use crate::ptx_folder::PtxFolder;
use crate::ptx_text::{entry_of_line, instruction, location, source_file};

/// Where the record is in the workspace.
pub const FILE: &str = "kernel-gpu/collectives.json";

/// The instructions that several threads execute together, by how their opcodes begin (PTX ISA, "Instruction Set").
const COLLECTIVES: [&str; 22] = [
    "bar.warp.sync",
    "bar.sync",
    "bar.arrive",
    "bar.red",
    "barrier.cta.sync",
    "barrier.cta.arrive",
    "barrier.cta.red",
    "barrier.sync",
    "shfl.sync",
    "vote.sync",
    "match",
    "redux.sync",
    "elect.sync",
    "mma.sync",
    "ldmatrix.sync",
    "stmatrix.sync",
    "wgmma.fence",
    "wgmma.mma_async",
    "wgmma.commit_group",
    "wgmma.wait_group",
    "setmaxnreg.inc",
    "setmaxnreg.dec",
];

/// Number of each collective.
type Counts = BTreeMap<String, usize>;

/// What one code generator made of the entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Recorded {
    /// The compiler, as the manifest names it.
    version: String,
    /// The collectives of each entry.
    entries: BTreeMap<String, Counts>,
    /// Entries that came after the code generator was last run: what they have is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    not_compiled_yet: Vec<String>,
}

/// The collectives of every entry, by code generator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Record(BTreeMap<String, Recorded>);

impl Record {
    /// The workspace's record; an empty one where it has none.
    pub fn read(workspace: &Workspace) -> Result<Self> {
        let path = path(workspace);
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not a record of collectives", path.display()))
    }

    /// Refuses `ptx` when one of its entries has another number of a collective than the record. By a compiler of another version
    /// than the record's, it says so and goes on: another compiler may unroll otherwise.
    ///
    /// A code generator without a record is not checked.
    pub fn check(&self, by: &CodeGenerator, ptx: &str) -> Result<()> {
        let Some(recorded) = self.0.get(&by.name) else { return Ok(()) };
        let differences = differences(&recorded.entries, ptx);
        if differences.is_empty() {
            return Ok(());
        }
        let text = format!("other collectives than {FILE} has for {}:{}", by.name, differences.concat());
        if recorded.version != by.version {
            eprintln!(
                "xtask: warning: {text}\n  The record is of {}, this is {}: `fa512 sanitize` says whether threads miss each other.",
                recorded.version, by.version
            );
            return Ok(());
        }
        bail!(
            "{text}\nA compiler that copies one makes threads wait for each other. Where the source has another number than before, \
             `cargo xtask ptx --record-collectives` writes it down."
        );
    }

    /// Whether `entry` came after the code generator `name` was last run.
    pub fn is_not_compiled_yet(&self, name: &str, entry: &str) -> bool {
        self.0.get(name).is_some_and(|recorded| recorded.not_compiled_yet.iter().any(|other| other == entry))
    }

    /// Writes down what `folder` has; of another code generator, which of its entries that has not compiled yet.
    pub fn update(workspace: &Workspace, folder: &PtxFolder) -> Result<()> {
        let mut record = Self::read(workspace)?;
        let Manifest { code_generator, modules, .. } = &folder.manifest;
        let mut entries = BTreeMap::new();
        for module in modules {
            let path = folder.path.join(&module.file);
            let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
            let counts = |places: Places| places.into_iter().map(|(opcode, places)| (opcode, places.len())).collect();
            entries.extend(collectives(&text).into_iter().map(|(entry, places)| (entry, counts(places))));
        }
        let recorded = Recorded { version: code_generator.version.clone(), entries, not_compiled_yet: Vec::new() };
        for (name, other) in &mut record.0 {
            if *name != code_generator.name {
                other.entries.retain(|entry, _| recorded.entries.contains_key(entry));
                let new = recorded.entries.keys().filter(|entry| !other.entries.contains_key(*entry));
                other.not_compiled_yet = new.cloned().collect();
            }
        }
        record.0.insert(code_generator.name.clone(), recorded);
        let mut text = serde_json::to_string_pretty(&record)?;
        text.push('\n');
        write_atomically(&path(workspace), text.as_bytes())
    }
}

fn path(workspace: &Workspace) -> PathBuf {
    workspace.root().join(FILE)
}

/// A line for each collective of which an entry of `ptx` has another number than `recorded`.
fn differences(recorded: &BTreeMap<String, Counts>, ptx: &str) -> Vec<String> {
    let mut differences = Vec::new();
    for (entry, places) in collectives(ptx) {
        let Some(counts) = recorded.get(&entry) else {
            differences.push(format!("\n  {entry}: is not on record"));
            continue;
        };
        for opcode in COLLECTIVES {
            let (found, expected) = (places.get(opcode).map_or(&[][..], Vec::as_slice), counts.get(opcode));
            let expected = expected.copied().unwrap_or(0);
            if found.len() != expected {
                let from = list(found);
                differences.push(format!("\n  {entry}: {} of `{opcode}`, {expected} on record{from}", found.len()));
            }
        }
    }
    differences
}

/// The places, each once, with the number of instructions from there.
fn list(places: &[String]) -> String {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for place in places {
        *numbers.entry(place).or_default() += 1;
    }
    let mut text = String::new();
    for (place, number) in numbers {
        write!(text, "\n    {number} from {place}").expect("a String takes everything");
    }
    text
}

/// Where in the source the instructions of each collective come from.
type Places = BTreeMap<String, Vec<String>>;

/// The collectives of every entry of a PTX module.
fn collectives(ptx: &str) -> BTreeMap<String, Places> {
    let files: BTreeMap<_, _> = ptx.lines().filter_map(source_file).collect();
    let mut entries: BTreeMap<String, Places> = BTreeMap::new();
    let (mut entry, mut place) = (None, String::new());
    for line in ptx.lines() {
        if let Some(operands) = location(line) {
            place = source(operands, &files);
            continue;
        }
        let code = line.split("//").next().unwrap_or_default();
        if let Some(name) = entry_of_line(code) {
            entries.insert(name.to_owned(), Places::new());
            (entry, place) = (Some(name.to_owned()), String::new());
        }
        let Some(places) = entry.as_ref().and_then(|entry| entries.get_mut(entry)) else { continue };
        for opcode in code.split([';', '{', '}']).filter_map(|statement| collective(instruction(statement)?.0)) {
            places.entry(opcode.to_owned()).or_default().push(place.clone());
        }
    }
    entries
}

/// The collective that the whole `opcode` begins with.
fn collective(opcode: &str) -> Option<&'static str> {
    let begins =
        |begin: &&str| opcode.strip_prefix(*begin).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    COLLECTIVES.into_iter().find(begins)
}

/// File and line that a `.loc` names, and those of the caller that it was inlined into.
fn source(operands: &str, files: &BTreeMap<&str, &str>) -> String {
    let place = |operands: &str| {
        let mut operands = operands.split_whitespace();
        let file = files.get(operands.next()?)?;
        Some(format!("{file}:{}", operands.next()?))
    };
    let caller = operands.split_once("inlined_at").and_then(|(_, caller)| place(caller));
    let caller = caller.map(|caller| format!(", called in {caller}")).unwrap_or_default();
    place(operands).map_or_else(|| "an unknown place".into(), |place| place + &caller)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use contract::manifest::CodeGenerator;
    use contract::variants::VARIANTS;

    use super::{Record, Recorded, collectives};
    use crate::environment::Workspace;

    /// An entry in which lane 0 copies and all go on together, as the compiler is to leave it, or with the barrier in both arms.
    fn ptx(copied: bool) -> String {
        let arm = if copied { "\tbar.warp.sync \t-1;\n" } else { "" };
        format!(
            ".version 8.0\n.target sm_90a\n.visible .entry one(\n)\n{{\n\t.reg .pred %p<2>;\n\t@%p1 bra $L__BB0_2;\n\
             \t.loc\t1 14 9, function_name $L__file_name1, inlined_at 2 59 13\n{arm}\
             $L__BB0_2:\n\t{{ .reg .b32 t; bar.warp.sync 0xffffffff; }} // bar.sync\n\tbar.warp.synchronous 0;\n\tbar.sync 0;\n\tret;\n}}\n\
             \t.file\t1 \"sync.rs\"\n\t.file\t2 \"storer.rs\"\n"
        )
    }

    fn by(version: &str) -> CodeGenerator {
        CodeGenerator { name: "rustc".into(), version: version.into() }
    }

    /// The record of [`ptx`] without a copy.
    fn record() -> Record {
        let counts =
            |places: super::Places| places.into_iter().map(|(opcode, places)| (opcode, places.len())).collect();
        let entries = collectives(&ptx(false)).into_iter().map(|(entry, places)| (entry, counts(places))).collect();
        Record(BTreeMap::from([(
            "rustc".into(),
            Recorded { version: "1".into(), entries, not_compiled_yet: Vec::new() },
        )]))
    }

    #[test]
    fn collectives_are_counted_whatever_surrounds_them() {
        let entries = collectives(&ptx(false));
        let counted: Vec<_> = entries["one"].iter().map(|(opcode, places)| (opcode.as_str(), places.len())).collect();
        assert_eq!(counted, [("bar.sync", 1), ("bar.warp.sync", 1)]);
    }

    #[test]
    fn a_copied_barrier_is_refused_with_its_place() {
        record().check(&by("1"), &ptx(false)).unwrap();
        let error = record().check(&by("1"), &ptx(true)).unwrap_err().to_string();
        assert!(error.contains("one: 2 of `bar.warp.sync`, 1 on record"), "{error}");
        assert!(error.contains("2 from sync.rs:14, called in storer.rs:59"), "{error}");
        assert!(!error.contains("`bar.sync`"), "{error}");
    }

    #[test]
    fn a_lost_barrier_and_a_new_entry_are_refused() {
        let error = record().check(&by("1"), &ptx(false).replace("bar.sync 0", "exit")).unwrap_err().to_string();
        assert!(error.contains("one: 0 of `bar.sync`, 1 on record"), "{error}");
        let error = record().check(&by("1"), &ptx(false).replace(" one(", " two(")).unwrap_err().to_string();
        assert!(error.contains("two: is not on record"), "{error}");
    }

    #[test]
    fn another_compiler_may_have_other_numbers_and_another_code_generator_no_record() {
        record().check(&by("2"), &ptx(true)).unwrap();
        record().check(&CodeGenerator { name: "nvcc".into(), version: "1".into() }, &ptx(true)).unwrap();
    }

    #[test]
    fn every_entry_is_on_record_by_both_code_generators_or_named_as_not_compiled_yet() {
        let record = Record::read(&Workspace::new(
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned(),
        ))
        .unwrap();
        for name in ["rustc", "rust-cuda"] {
            let Recorded { entries, not_compiled_yet, .. } = &record.0[name];
            let mut recorded: Vec<&str> = entries.keys().chain(not_compiled_yet).map(String::as_str).collect();
            recorded.sort_unstable();
            let mut variants: Vec<&str> = VARIANTS.iter().map(|variant| variant.entry).collect();
            variants.sort_unstable();
            assert_eq!(recorded, variants, "{name}");
            assert!(name == "rust-cuda" || not_compiled_yet.is_empty(), "{name} is what everybody has");
        }
    }
}

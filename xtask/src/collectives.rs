//! Checks the number of collectives in each entry against a record.
//!
//! A compiler unaware of collectives may duplicate one into both arms of a branch, where each part of the threads then waits for
//! the other. LLVM 7 sees nothing of that in inline assembly, and rustc's own passes do not check. Therefore the number of each
//! collective in each entry is compared with that of the tested entry ([`FILE`]), and a build with another number is refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use contract::manifest::{CodeGenerator, Manifest};
use ptx_text::collectives::{Counts, Places, collectives, differences};
use serde::{Deserialize, Serialize};

use crate::environment::Workspace;
use crate::files::write_atomically;

/// Path of the record in the workspace.
pub const FILE: &str = "kernel-gpu/collectives.json";

/// Record for one code generator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Recorded {
    /// The compiler's name in the manifest.
    version: String,
    /// The collectives of each entry.
    entries: BTreeMap<String, Counts>,
}

/// The collectives of every entry, by code generator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Record(BTreeMap<String, Recorded>);

impl Record {
    /// The workspace's record; empty if it has none.
    pub fn read(workspace: &Workspace) -> Result<Self> {
        let path = path(workspace);
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not a record of collectives", path.display()))
    }

    /// Refuses `ptx` if one of its entries differs from the record in the number of a collective. With another compiler version than
    /// the record's it only prints the difference, since another version may unroll differently.
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

    /// Writes down what `folder` with this manifest has, and forgets entries of other code generators that there are no more.
    pub fn update(workspace: &Workspace, folder: &Path, manifest: &Manifest) -> Result<()> {
        let mut record = Self::read(workspace)?;
        let Manifest { code_generator, modules, .. } = manifest;
        let mut entries = BTreeMap::new();
        for module in modules {
            let path = folder.join(&module.file);
            let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
            let counts = |places: Places| places.into_iter().map(|(opcode, places)| (opcode, places.len())).collect();
            entries.extend(collectives(&text).into_iter().map(|(entry, places)| (entry, counts(places))));
        }
        for other in record.0.values_mut() {
            other.entries.retain(|entry, _| entries.contains_key(entry));
        }
        record.0.insert(code_generator.name.clone(), Recorded { version: code_generator.version.clone(), entries });
        let mut text = serde_json::to_string_pretty(&record)?;
        text.push('\n');
        write_atomically(&path(workspace), text.as_bytes())
    }
}

fn path(workspace: &Workspace) -> PathBuf {
    workspace.root().join(FILE)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use contract::backward::variants::BACKWARD_VARIANTS;
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
        Record(BTreeMap::from([("rustc".into(), Recorded { version: "1".into(), entries })]))
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
    fn the_record_is_of_these_entries() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let record = Record::read(&Workspace::new(root.to_owned())).unwrap();
        let backward = BACKWARD_VARIANTS.iter().map(|variant| variant.entry);
        let entries: BTreeSet<&str> = VARIANTS.iter().map(|variant| variant.entry).chain(backward).collect();
        let recorded = |name: &str| record.0[name].entries.keys().map(String::as_str).collect::<BTreeSet<_>>();
        let none = BTreeSet::new();
        let missing = &(&entries - &recorded("rustc")) | &(&recorded("rustc") - &entries);
        assert_eq!(missing, none, "`cargo xtask ptx --record-collectives` writes down what there is");
        // Few machines have Rust-CUDA, and a new entry may come from another.
        assert_eq!(&recorded("rust-cuda") - &entries, none, "`cargo xtask bless` forgets what there is no more");
    }
}

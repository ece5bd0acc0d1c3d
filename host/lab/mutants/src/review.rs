//! Survivors that were looked at and found to be no worse than the kernel.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::json;
use crate::mutant::Mutant;
use crate::source::Source;

/// Why mutants of one kind are as right as the kernel itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Equivalence {
    /// Names of the rules.
    rules: Vec<String>,
    /// Beginning of the instruction as it was.
    #[serde(default)]
    before: String,
    /// Part of what stands there instead.
    #[serde(default)]
    after: String,
    /// Part of the name of the entry: of several, between `*`, in this order, and with `$` behind it, its end.
    #[serde(default)]
    entry: String,
    /// Part of the name of a file that one of the lines is of.
    #[serde(default)]
    file: String,
    /// Part of the Rust line with the one after it, or of one of the lines it was inlined at; empty where none of them is a line
    /// of this repository.
    code: String,
    /// The same of another of these lines.
    #[serde(default)]
    within: String,
    /// Why.
    reason: String,
}

/// The reviewed reasons, and the Rust lines they refer to.
#[derive(Clone, Debug)]
pub struct Review {
    equivalences: Vec<Equivalence>,
    root: PathBuf,
}

impl Review {
    /// The list in `equivalent.json` of this crate.
    ///
    /// # Errors
    /// When it is not what it should be.
    pub fn load() -> Result<Self> {
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let equivalences = json::read(&crate_folder.join("equivalent.json"))?;
        let root = crate_folder.ancestors().nth(3).context("the crate lies in the workspace")?.to_owned();
        Ok(Self { equivalences, root })
    }

    /// Why `mutant` is equivalent to the kernel; `None` if it is not known to be.
    pub fn reason(&self, mutant: &Mutant) -> Option<&str> {
        let code: Vec<String> = mutant.sources.iter().map(|source| self.lines(source, 2)).collect();
        let has = |part: &str| code.iter().any(|line| line.contains(part));
        let found = self.equivalences.iter().find(|known| {
            known.rules.iter().any(|rule| rule == mutant.rule.name)
                && mutant.before.starts_with(&known.before)
                && mutant.after.contains(&known.after)
                && is_named(&mutant.entry, &known.entry)
                && mutant.sources.iter().any(|source| source.file.contains(&known.file))
                && has(&known.code)
                && has(&known.within)
                && (!known.code.is_empty() || code.iter().all(String::is_empty))
        });
        found.map(|known| known.reason.as_str())
    }

    /// Text of the first of a mutant's Rust lines that lies in this repository; empty where none does.
    pub fn code(&self, mutant: &Mutant) -> String {
        let mut lines = mutant.sources.iter().map(|source| self.lines(source, 1));
        lines.find(|line| !line.is_empty()).unwrap_or_default()
    }

    /// `count` lines from `source` on, without indentation; empty where it is no line of this repository.
    fn lines(&self, source: &Source, count: usize) -> String {
        // The compiler gives line 0 to what it made of several lines, and the standard library's lines lie elsewhere.
        let Some(before) = source.line.checked_sub(1).filter(|_| !Path::new(&source.file).is_absolute()) else {
            return String::new();
        };
        let text = std::fs::read_to_string(self.root.join(&source.file)).unwrap_or_default();
        text.lines().skip(before).take(count).map(str::trim).collect::<Vec<_>>().join("\n")
    }
}

/// Whether [`Equivalence::entry`] is `pattern` for an entry of this name.
fn is_named(name: &str, pattern: &str) -> bool {
    let (parts, is_end) = pattern.strip_suffix('$').map_or((pattern, false), |parts| (parts, true));
    let mut rest = Some(name);
    for part in parts.split('*') {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, behind)| behind);
    }
    rest.is_some_and(|behind| !is_end || behind.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::RULES;

    #[test]
    fn entries_are_named_by_parts() {
        assert!(is_named("fa512_sm90a_tma_any_full_64x64_split", "tma*64x64"));
        assert!(!is_named("fa512_sm90a_tma_any_full_64x64_split", "tma*64x64$"));
        assert!(is_named("fa512_sm90a_tma_any_full_64x64", "tma*64x64$"));
        assert!(!is_named("fa512_sm80_any_full_64x64", "any*sm80"), "parts come in order");
        assert!(is_named("fa512_sm80_any_full_64x64", ""));
    }

    /// The name of every source of the kernels and its Rust lines, as [`Review::reason`] compares them.
    fn kernel_lines(folder: &Path, all: &mut String) {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("a file").path();
            if path.is_dir() {
                kernel_lines(&path, all);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                all.extend([path.to_str().expect("a name in Unicode"), "\n"]);
                let text = std::fs::read_to_string(&path).expect("a source");
                all.extend(text.lines().flat_map(|line| [line.trim(), "\n"]));
            }
        }
    }

    #[test]
    fn every_reason_belongs_to_lines_and_a_rule_that_are_there() {
        let review = Review::load().expect("it is in this repository");
        let mut lines = String::new();
        for folder in ["kernel-gpu/src", "kernel-gpu/contract/src"] {
            kernel_lines(&review.root.join(folder), &mut lines);
        }
        for Equivalence { rules, file, code, within, reason, .. } in &review.equivalences {
            assert!(!rules.is_empty(), "equivalent.json: no rule has the reason {reason}");
            for rule in rules {
                assert!(
                    RULES.iter().any(|known| known.name == rule),
                    "equivalent.json: there is no rule {rule}: {reason}"
                );
            }
            for part in [file, code, within] {
                assert!(
                    lines.contains(part),
                    "equivalent.json: the kernels have no such line or file any more: `{part}`: {reason}"
                );
            }
        }
    }

    #[test]
    fn a_mutant_belongs_to_a_line_that_somebody_wrote() {
        let source = |file: &str, line| Source { file: file.to_owned(), line };
        let own = "host/lab/mutants/Cargo.toml";
        let mutant = Mutant {
            entry: "an_entry".to_owned(),
            rule: &RULES[0],
            line: 17,
            before: "bar.sync 0;".to_owned(),
            after: String::new(),
            sources: vec![
                source(own, 0),
                source(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), 2),
                source(own, 1),
            ],
        };
        assert_eq!(Review::load().expect("it is in this repository").code(&mutant), "[package]");
    }
}

//! Reviewed survivors that are equivalent to the kernel.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::mutant::Mutant;
use crate::source::Source;

/// A reason why mutants of one kind are as correct as the kernel itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Equivalence {
    /// Name of the rule.
    rule: String,
    /// Beginning of the instruction as it was.
    #[serde(default)]
    before: String,
    /// Part of the replacement.
    #[serde(default)]
    after: String,
    /// Part of the name of the entry.
    #[serde(default)]
    entry: String,
    /// Part of the Rust line with the one after it, or of one of the lines it was inlined at; empty where none of them is a line
    /// of this repository.
    code: String,
    /// The same of another of these lines.
    #[serde(default)]
    within: String,
    /// Why.
    reason: String,
}

/// The reviewed reasons, and the sources to which they refer.
#[derive(Clone, Debug)]
pub struct Review {
    equivalences: Vec<Equivalence>,
    root: PathBuf,
}

impl Review {
    /// The list in `equivalent.json` of this crate.
    ///
    /// If the list is invalid.
    /// When it is not what it should be.
    pub fn load() -> Result<Self> {
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = crate_folder.join("equivalent.json");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let equivalences = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        let root = crate_folder.ancestors().nth(2).context("the crate lies in the workspace")?.to_owned();
        Ok(Self { equivalences, root })
    }

    /// Why `mutant` is equivalent to the kernel; `None` if it is not known to be.
    pub fn reason(&self, mutant: &Mutant) -> Option<&str> {
        let code: Vec<String> = mutant.sources.iter().map(|source| self.lines(source, 2)).collect();
        let has = |part: &str| code.iter().any(|line| line.contains(part));
        let found = self.equivalences.iter().find(|known| {
            known.rule == mutant.rule.name
                && mutant.before.starts_with(&known.before)
                && mutant.after.contains(&known.after)
                && mutant.entry.contains(&known.entry)
                && has(&known.code)
                && has(&known.within)
                && (!known.code.is_empty() || code.iter().all(String::is_empty))
        });
        found.map(|known| known.reason.as_str())
    }

    /// Text of the first of a mutant's Rust lines in this repository; empty if there is none.
    pub fn code(&self, mutant: &Mutant) -> String {
        // The compiler uses line 0 for code merged from several lines, and lines of the standard library are elsewhere.
        let is_here = |source: &&Source| source.line > 0 && !Path::new(&source.file).is_absolute();
        let mut lines = mutant.sources.iter().filter(is_here).map(|source| self.lines(source, 1));
        lines.find(|line| !line.is_empty()).unwrap_or_default()
    }

    /// `count` lines from `source` on, without indentation.
    fn lines(&self, source: &Source, count: usize) -> String {
        let text = std::fs::read_to_string(self.root.join(&source.file)).unwrap_or_default();
        let before = source.line.saturating_sub(1);
        text.lines().skip(before).take(count).map(str::trim).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::RULES;

    #[test]
    fn a_mutant_belongs_to_a_line_that_somebody_wrote() {
        let source = |file: &str, line| Source { file: file.to_owned(), line };
        let own = "tools/ptx-mutate/Cargo.toml";
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

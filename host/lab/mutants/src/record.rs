//! The recorded run, `docs/results/mutation.json`, and comparison of a new run with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::json;
use crate::report::{Report, Survivor, Tally};

/// Path of the record in the workspace.
const PATH: &str = "docs/results/mutation.json";

/// Summary of a run: the part of its [`Report`] that later runs are compared with. Rust lines are identified by their text, so that
/// edits of other lines leave it valid.
#[derive(Clone, Debug, Deserialize)]
pub struct Record {
    /// [`Report::command`].
    command: String,
    /// [`Report::rules`].
    rules: BTreeMap<String, Tally>,
    /// [`Report::noticed`].
    noticed: BTreeMap<String, BTreeSet<String>>,
}

/// Comparison of a run with the record. Its survivors are those that are executed and have no reason in `equivalent.json`.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    /// Command that made the record.
    command: &'a str,
    /// Survivors whose rule and Rust line had only detected mutants in the record.
    pub lost: Vec<&'a Survivor>,
    /// Rules whose detection rate fell.
    pub fallen: Vec<Fall<'a>>,
    /// The other survivors: their rule and Rust line are not in the record, or have survivors there.
    pub new: Vec<&'a Survivor>,
}

/// A rule whose detection rate is below that of the record, even without the survivors of the one new Rust line with the most of
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fall<'a> {
    /// Name of the rule.
    pub rule: &'a str,
    /// Detected mutants and all mutants, without those left out.
    pub share: [usize; 2],
    /// The new Rust line whose survivors are left out, and their number.
    pub left_out: Option<(&'a str, usize)>,
    /// Detected mutants and all mutants of the record.
    pub recorded: [usize; 2],
}

impl Record {
    /// The record in this repository.
    ///
    /// # Errors
    /// If the record is invalid.
    pub fn load() -> Result<Self> {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).context("the crate lies in the workspace")?;
        json::read(&root.join(PATH))
    }

    /// What `report` loses against this record, and what is new in it.
    pub fn compare<'a>(&'a self, report: &'a Report) -> Comparison<'a> {
        let (lost, new): (Vec<_>, Vec<_>) = report.unexplained().partition(|survivor| self.has_noticed(survivor));
        let falls = report.rules.iter().filter_map(|(rule, tally)| self.fall(rule, tally, &new));
        let fallen = falls.collect();
        Comparison { command: &self.command, lost, fallen, new }
    }

    fn has_noticed(&self, survivor: &Survivor) -> bool {
        self.noticed.get(survivor.mutant.rule.name).is_some_and(|lines| lines.contains(&survivor.code))
    }

    /// `None` if the rule's rate has not fallen, or the record has no mutant of it.
    fn fall<'a>(&self, rule: &'a str, tally: &Tally, new: &[&'a Survivor]) -> Option<Fall<'a>> {
        let recorded = self.rules.get(rule)?;
        let mut by_line: BTreeMap<&str, usize> = BTreeMap::new();
        for survivor in new.iter().filter(|survivor| survivor.mutant.rule.name == rule) {
            *by_line.entry(&survivor.code).or_default() += 1;
        }
        let left_out = by_line.into_iter().max_by_key(|(_, count)| *count);
        let share = [tally.noticed(), tally.worse() - left_out.map_or(0, |(_, count)| count)];
        let recorded = [recorded.noticed(), recorded.worse()];
        // Compared as products, since either count may be zero.
        let is_lower = share[0] * recorded[1] < recorded[0] * share[1];
        is_lower.then_some(Fall { rule, share, left_out, recorded })
    }
}

impl Comparison<'_> {
    /// Whether nothing is lost against the record.
    pub fn passed(&self) -> bool {
        self.lost.is_empty() && self.fallen.is_empty()
    }
}

impl Display for Comparison<'_> {
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        let mut list = |head: &str, survivors: &[&Survivor]| {
            if survivors.is_empty() {
                return Ok(());
            }
            writeln!(out, "{head}:")?;
            survivors.iter().try_for_each(|survivor| survivor.write_markdown(out))
        };
        list(&format!("Mutants of a rule and Rust line that were all noticed in {PATH} survive now"), &self.lost)?;
        list("Mutants survive of a rule and Rust line that the record does not have as noticed", &self.new)?;
        for fall in &self.fallen {
            writeln!(out, "{fall}")?;
        }
        if self.passed() && self.new.is_empty() {
            return Ok(());
        }
        write!(
            out,
            "Improve the inputs in host/lab/mutants/src/trial/ or the checks of ptx-sim; where a mutant's result is as right as \
             the kernel's, say why in host/lab/mutants/equivalent.json. When the kernels are new, make the record anew: `{} \
             --out docs/results`.",
            self.command
        )
    }
}

impl Display for Fall<'_> {
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        let Self { rule, share: [noticed, all], left_out, recorded: [recorded, of] } = self;
        write!(
            out,
            "Fewer mutants of the rule \"{rule}\" are noticed: {noticed} of {all}, in {PATH} {recorded} of {of}"
        )?;
        match left_out {
            Some((code, count)) => write!(out, "; left out: {count} of the new Rust line `{code}`"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutant::Mutant;
    use crate::rules::RULES;
    use crate::source::Source;

    /// A record of the first rule: `noticed` of `all` mutants detected, and every mutant of these Rust lines.
    fn record(noticed: usize, all: usize, lines: &[&str]) -> Record {
        let tally = Tally { mutants: all, finding: noticed, survived: all - noticed, ..Tally::default() };
        let name = RULES[0].name.to_owned();
        let lines = lines.iter().map(|&line| line.to_owned()).collect();
        Record {
            command: "cargo xtask mutate -- --sample 9 --seed 0".to_owned(),
            rules: [(name.clone(), tally)].into(),
            noticed: [(name, lines)].into(),
        }
    }

    /// A run of the first rule with `noticed` detected mutants and one survivor on each of these Rust lines.
    fn run(noticed: usize, survivors: &[&str]) -> Report {
        let survivor = |code: &&str| Survivor {
            mutant: Mutant {
                entry: "an_entry".to_owned(),
                rule: &RULES[0],
                line: 17,
                before: "bar.sync 0;".to_owned(),
                after: String::new(),
                sources: vec![Source { file: "kernel.rs".to_owned(), line: 3 }],
            },
            code: (*code).to_owned(),
            reason: None,
            executed: true,
        };
        let mutants = noticed + survivors.len();
        let tally = Tally { mutants, finding: noticed, survived: survivors.len(), ..Tally::default() };
        Report {
            command: String::new(),
            git_commit: None,
            code_generator: String::new(),
            ptx_sha256: Vec::new(),
            possible: mutants,
            total: tally,
            rules: [(RULES[0].name, tally)].into(),
            findings: BTreeMap::new(),
            noticed: BTreeMap::new(),
            survivors: survivors.iter().map(survivor).collect(),
            held_out: Vec::new(),
        }
    }

    #[test]
    fn nothing_is_said_where_nothing_survives() {
        let (record, run) = (record(4, 4, &["known()"]), run(1, &[]));
        let comparison = record.compare(&run);
        assert!(comparison.passed());
        assert_eq!(comparison.to_string(), "");
    }

    #[test]
    fn a_survivor_that_was_noticed_before_fails() {
        let (record, run) = (record(4, 4, &["known()"]), run(20, &["known()"]));
        let comparison = record.compare(&run);
        assert!(!comparison.passed());
        assert_eq!(comparison.lost.len(), 1);
        assert!(comparison.new.is_empty());
        let text = comparison.to_string();
        let facts =
            [RULES[0].name, "an_entry, PTX line 17", "`known()` (kernel.rs:3)", "equivalent.json", "--sample 9"];
        for fact in facts {
            assert!(text.contains(fact), "{fact}: {text}");
        }
    }

    #[test]
    fn one_new_line_is_reported_however_many_of_its_mutants_survive() {
        let (record, run) = (record(4, 4, &["known()"]), run(0, &["new()", "new()", "new()"]));
        let comparison = record.compare(&run);
        assert!(comparison.passed());
        assert_eq!(comparison.new.len(), 3);
        assert!(comparison.to_string().contains("`new()`"), "{comparison}");
    }

    #[test]
    fn a_rate_that_falls_by_more_than_one_new_line_fails() {
        let (record, run) = (record(4, 4, &["known()"]), run(5, &["new()", "newer()", "new()"]));
        let comparison = record.compare(&run);
        assert!(!comparison.passed());
        assert!(comparison.lost.is_empty());
        let fall = Fall { rule: RULES[0].name, share: [5, 6], left_out: Some(("new()", 2)), recorded: [4, 4] };
        assert_eq!(comparison.fallen, [fall]);
        assert!(comparison.to_string().contains("5 of 6, in docs/results/mutation.json 4 of 4; left out: 2 of"));
    }

    #[test]
    fn a_rate_as_low_as_the_recorded_one_passes() {
        let (record, run) = (record(2, 4, &[]), run(3, &["a", "b", "c", "d"]));
        assert!(record.compare(&run).passed(), "3 of 6 are as many as 2 of 4");
    }

    #[test]
    fn a_rule_that_the_record_has_not_is_reported() {
        let record = Record { rules: BTreeMap::new(), ..record(0, 0, &[]) };
        let run = run(0, &["a", "b", "c"]);
        assert!(record.compare(&run).passed());
        assert_eq!(record.compare(&run).new.len(), 3);
    }

    #[test]
    fn an_explained_survivor_is_none() {
        let record = record(4, 4, &["known()"]);
        let mut run = run(1, &["known()"]);
        run.survivors[0].reason = Some("as right".to_owned());
        let tally = run.rules.get_mut(RULES[0].name).unwrap();
        (tally.survived, tally.equivalent) = (0, 1);
        assert_eq!(record.compare(&run).to_string(), "");
    }
}

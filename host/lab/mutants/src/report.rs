//! Report of a run. The page has the rules with survivors, and the survivors without a reason; the JSON has all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::json;
use crate::mutant::Mutant;
use crate::review::Review;
use crate::rules::RULES;
use crate::source::Source;
use crate::trial::Verdict;

/// Outcomes of mutants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// All of them.
    pub mutants: usize,
    /// Detected by the simulator during the run.
    pub finding: usize,
    /// Detected only by a wrong O or LSE.
    pub wrong_result: usize,
    /// Detected only by the tiles that warps load, or their order.
    #[serde(default)]
    pub other_loads: usize,
    /// Refused before execution.
    pub refused: usize,
    /// Not detected, and known to be equivalent to the kernel.
    pub equivalent: usize,
    /// Not detected because the instruction is never executed: the compiler makes copies of code for cases that the simulator or
    /// small inputs never reach.
    pub not_executed: usize,
    /// Not detected.
    pub survived: usize,
}

/// A mutant that was not detected.
#[derive(Clone, Debug, Serialize)]
pub struct Survivor {
    /// The mutant.
    #[serde(flatten)]
    pub mutant: Mutant,
    /// [`Review::code`].
    pub code: String,
    /// Why it is equivalent to the kernel; `None` if it is not known to be.
    pub reason: Option<String>,
    /// Whether the instruction is executed.
    pub executed: bool,
}

/// Results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The command that reproduces this report.
    pub command: String,
    /// Commit the PTX was built from.
    pub git_commit: Option<String>,
    /// The compiler of the PTX.
    pub code_generator: String,
    /// SHA-256 of the PTX files.
    pub ptx_sha256: Vec<String>,
    /// Mutants before selection.
    pub possible: usize,
    /// Totals over all mutants run.
    pub total: Tally,
    /// By name of the rule.
    pub rules: BTreeMap<&'static str, Tally>,
    /// By finding class: number of mutants whose first finding has it.
    pub findings: BTreeMap<String, usize>,
    /// By rule name: the Rust lines ([`Review::code`]) of which every mutant run was detected.
    pub noticed: BTreeMap<&'static str, BTreeSet<String>>,
    /// Every survivor, equivalent or not.
    pub survivors: Vec<Survivor>,
    /// Other samples, of which no survivor led to inputs or reasons before they were run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_out: Vec<HeldOut>,
}

/// What another run came to: the part of its report that this one names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldOut {
    /// [`Report::command`].
    pub command: String,
    /// [`Report::git_commit`]; samples of before it was noted have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<String>,
    /// [`Report::total`].
    pub total: Tally,
    /// How many of those that survived were found to be equivalent afterwards.
    #[serde(default)]
    pub equivalent_since: usize,
}

/// The part of a survivor in a `mutation.json` that says which mutant it is.
#[derive(Deserialize)]
struct RecordedSurvivor {
    entry: String,
    rule: String,
    line: usize,
    before: String,
    after: String,
    sources: Vec<Source>,
    reason: Option<String>,
    executed: bool,
}

impl RecordedSurvivor {
    /// Whether it had no reason when it was recorded and has one in `review`.
    fn gained_a_reason(self, review: &Review) -> bool {
        let Self { entry, rule, line, before, after, sources, reason, executed } = self;
        let rule = RULES.iter().find(|known| known.name == rule);
        let mutant = rule.map(|rule| Mutant { entry, rule, line, before, after, sources });
        executed && reason.is_none() && mutant.is_some_and(|mutant| review.reason(&mutant).is_some())
    }
}

impl HeldOut {
    /// Reads it from a `mutation.json`; its survivors are looked up in `review`.
    ///
    /// # Errors
    /// If the file is not one.
    pub fn read(path: &Path, review: &Review) -> Result<Self> {
        #[derive(Deserialize)]
        struct File {
            #[serde(flatten)]
            held_out: HeldOut,
            #[serde(default)]
            survivors: Vec<RecordedSurvivor>,
        }
        let File { mut held_out, survivors } = json::read(path)?;
        held_out.equivalent_since +=
            survivors.into_iter().map(|survivor| usize::from(survivor.gained_a_reason(review))).sum::<usize>();
        Ok(held_out)
    }

    fn write_markdown(&self, out: &mut impl Write) -> std::fmt::Result {
        let Self { command, git_commit, total, equivalent_since } = self;
        let of_commit =
            git_commit.as_ref().map(|commit| format!(" on the PTX of commit `{commit}`")).unwrap_or_default();
        write!(
            out,
            "Of another sample, before anything was tuned to it, {:.2} % were noticed: {} of {} (`{command}`{of_commit}).",
            total.noticed_percent(),
            total.noticed(),
            total.worse(),
        )?;
        if *equivalent_since > 0 {
            write!(
                out,
                " Of the {} others, {equivalent_since} were found to be equivalent afterwards.",
                total.survived
            )?;
        }
        writeln!(out, "\n")
    }
}

impl Tally {
    fn add(&mut self, verdict: Verdict, equivalent: bool) {
        self.mutants += 1;
        *match verdict {
            Verdict::Finding(_) => &mut self.finding,
            Verdict::WrongResult => &mut self.wrong_result,
            Verdict::OtherLoads => &mut self.other_loads,
            Verdict::Refused => &mut self.refused,
            Verdict::Survived | Verdict::NotExecuted if equivalent => &mut self.equivalent,
            Verdict::NotExecuted => &mut self.not_executed,
            Verdict::Survived => &mut self.survived,
        } += 1;
    }

    /// Percentage detected among mutants whose instruction is executed and that are not known to be equivalent; 100 if there are none.
    pub fn noticed_percent(&self) -> f64 {
        match self.worse() {
            0 => 100.0,
            worse => 100.0 * self.noticed() as f64 / worse as f64,
        }
    }

    /// Mutants whose instruction is executed and that are not known to be equivalent.
    pub fn worse(&self) -> usize {
        self.noticed() + self.survived
    }

    /// Detected mutants.
    pub fn noticed(&self) -> usize {
        self.finding + self.wrong_result + self.other_loads + self.refused
    }

    fn row(&self) -> [String; 9] {
        let Self { mutants, finding, wrong_result, other_loads, refused, equivalent, not_executed, survived } = self;
        let counts = [mutants, finding, wrong_result, other_loads, refused, equivalent, not_executed, survived]
            .map(usize::to_string);
        let [mutants, finding, wrong_result, other_loads, refused, equivalent, not_executed, survived] = counts;
        let percent = format!("{:.1} %", self.noticed_percent());
        [mutants, finding, wrong_result, other_loads, refused, equivalent, not_executed, survived, percent]
    }
}

/// Head of the columns that [`Tally::row`] fills.
const COLUMNS: [&str; 9] = [
    "mutants",
    "finding",
    "wrong result",
    "other loads",
    "refused",
    "equivalent",
    "not executed",
    "survived",
    "noticed",
];

/// What the columns mean.
const COLUMNS_MEAN: &str = "\
* *finding*: the simulator reports an error.
* *wrong result*: O or LSE is wrong, or an input has changed.
* *other loads*: all is right, but a warp loads other tiles than that of the kernel, or in another order.
* *refused*: the simulator or the host refuses to run it.
* *equivalent*: not noticed, and known to be no worse than the kernel.
* *not executed*: not noticed, because the changed instruction is never executed.
* *survived*: not noticed.
";

/// Description of a run: which PTX was mutated, and how.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The command that makes the report.
    pub command: String,
    /// Manifest of the PTX.
    pub manifest: contract::manifest::Manifest,
    /// Mutants that the rules make.
    pub possible: usize,
}

impl Report {
    /// Sums up the outcomes of mutants.
    pub fn new(origin: Origin, outcomes: &[(Mutant, Verdict)], review: &Review) -> Self {
        let Origin { command, manifest, possible } = origin;
        let mut report = Self {
            command,
            git_commit: manifest.git_commit,
            code_generator: manifest.code_generator.version,
            ptx_sha256: manifest.modules.into_iter().map(|module| module.sha256).collect(),
            possible,
            total: Tally::default(),
            rules: BTreeMap::new(),
            findings: BTreeMap::new(),
            noticed: BTreeMap::new(),
            survivors: Vec::new(),
            held_out: Vec::new(),
        };
        for (mutant, verdict) in outcomes {
            report.add(mutant, *verdict, review);
        }
        for survivor in &report.survivors {
            if let Some(lines) = report.noticed.get_mut(survivor.mutant.rule.name) {
                lines.remove(&survivor.code);
            }
        }
        report.noticed.retain(|_, lines| !lines.is_empty());
        report
    }

    fn add(&mut self, mutant: &Mutant, verdict: Verdict, review: &Review) {
        let reason = review.reason(mutant);
        for tally in [&mut self.total, self.rules.entry(mutant.rule.name).or_default()] {
            tally.add(verdict, reason.is_some());
        }
        let code = review.code(mutant);
        if let Verdict::Survived | Verdict::NotExecuted = verdict {
            let (mutant, reason) = (mutant.clone(), reason.map(str::to_owned));
            self.survivors.push(Survivor { mutant, code, reason, executed: verdict == Verdict::Survived });
        } else if !code.is_empty() {
            self.noticed.entry(mutant.rule.name).or_default().insert(code);
        }
        if let Verdict::Finding(class) = verdict {
            *self.findings.entry(class.to_string()).or_default() += 1;
        }
    }

    /// The survivors that are executed and not known to be equivalent.
    pub fn unexplained(&self) -> impl Iterator<Item = &Survivor> {
        self.survivors.iter().filter(|survivor| survivor.executed && survivor.reason.is_none())
    }

    /// The report as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        self.write_markdown(&mut text).expect("a string takes any text");
        text
    }

    fn write_markdown(&self, out: &mut String) -> std::fmt::Result {
        let commit = self.git_commit.as_deref().unwrap_or("unknown");
        writeln!(
            out,
            "# Mutation\n\nDo the checks detect bugs? A *mutant* is a kernel with one small change in its PTX, made by a rule. Of {} \
             mutants, drawn from {} possible ones and run in the simulator, the checks noticed {:.2} % of those that are \
             executed and not equivalent to the kernel.\n",
            self.total.mutants,
            self.possible,
            self.total.noticed_percent()
        )?;
        self.held_out.iter().try_for_each(|held_out| held_out.write_markdown(out))?;
        writeln!(
            out,
            "`{}` on the PTX of commit `{commit}` by {}.\n\n{COLUMNS_MEAN}",
            self.command, self.code_generator
        )?;
        writeln!(out, "| rule | {} |\n|---|{}", COLUMNS.join(" | "), "--:|".repeat(COLUMNS.len()))?;
        for (rule, tally) in self.rules.iter().filter(|(_, tally)| tally.survived > 0) {
            writeln!(out, "| {rule} | {} |", tally.row().join(" | "))?;
        }
        writeln!(out, "| **all {} rules** | {} |", self.rules.len(), self.total.row().join(" | "))?;
        writeln!(out, "\n## First findings\n\n| class | mutants |\n|---|--:|")?;
        for (class, count) in &self.findings {
            writeln!(out, "| {class} | {count} |")?;
        }
        writeln!(out, "\n## Survivors\n")?;
        self.unexplained().try_for_each(|survivor| survivor.write_markdown(out))
    }
}

impl Survivor {
    /// Writes an item of a list: the mutant, its Rust line, and why it is equivalent.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn write_markdown(&self, out: &mut impl Write) -> std::fmt::Result {
        let Self { mutant: Mutant { entry, rule, line, before, after, sources }, code, reason, executed } = self;
        let after = if after.is_empty() { "nothing" } else { after };
        writeln!(out, "* **{}**, {entry}, PTX line {line}: `{before}` → `{after}`", rule.name)?;
        let places: Vec<String> = sources.iter().map(|source| format!("{}:{}", source.file, source.line)).collect();
        writeln!(out, "  * `{code}` ({})", places.join(" ← "))?;
        let unexplained = if *executed { "**not reviewed**" } else { "not executed" };
        writeln!(out, "  * {}", reason.as_deref().unwrap_or(unexplained))
    }
}

#[cfg(test)]
mod tests {
    use contract::manifest::{CodeGenerator, FORMAT, Manifest};

    use super::*;

    #[test]
    fn a_survivor_of_another_sample_may_have_a_reason_by_now() {
        let review = Review::load().unwrap();
        let file = "kernel-gpu/src/device/forward/sm80/forward.rs";
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(file)).unwrap();
        let line = text.lines().position(|line| line.contains("guess = warp.guess_shifts")).unwrap() + 1;
        let survivor = |executed, reason: Option<&str>| {
            serde_json::json!({
                "entry": "fa512_sm80_any_full_128x64", "rule": "max to min", "line": 17, "before": "max.f32 %r1, %r2, %r3;",
                "after": "min.f32 %r1, %r2, %r3;", "sources": [{"file": file, "line": line}], "reason": reason,
                "executed": executed,
            })
        };
        let survivors = [survivor(true, None), survivor(true, Some("known")), survivor(false, None)];
        let total = Tally { mutants: 9, finding: 6, survived: 3, ..Tally::default() };
        let file = serde_json::json!({"command": "a command", "total": total, "survivors": survivors});
        let path = std::env::temp_dir().join(format!("held-out-{}.json", std::process::id()));
        std::fs::write(&path, file.to_string()).unwrap();
        let held_out = HeldOut::read(&path, &review).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(held_out.equivalent_since, 1);
        let mut text = String::new();
        held_out.write_markdown(&mut text).unwrap();
        assert!(text.contains("66.67 % were noticed: 6 of 9 (`a command`). Of the 3 others, 1 were found"), "{text}");
    }

    #[test]
    fn a_rust_line_is_noticed_when_all_of_its_mutants_are() {
        let outcome = |line, verdict| {
            let source = |file: &str, line| Source { file: file.to_owned(), line };
            let sources = vec![source("not of this repository.rs", 1), source("host/lab/mutants/Cargo.toml", line)];
            let before = "bar.sync 0;".to_owned();
            (Mutant { entry: String::new(), rule: &RULES[0], line: 1, before, after: String::new(), sources }, verdict)
        };
        let finding = Verdict::Finding(ptx_sim::FindingClass::Misaligned);
        let outcomes = [
            outcome(1, Verdict::WrongResult),
            outcome(2, Verdict::Refused),
            outcome(2, Verdict::Survived),
            outcome(1, finding),
            outcome(1000, finding),
        ];
        let code_generator = CodeGenerator { name: String::new(), version: String::new() };
        let manifest = Manifest { format: FORMAT, code_generator, git_commit: None, ptxas: None, modules: Vec::new() };
        let origin = Origin { command: String::new(), manifest, possible: 9 };
        let report = Report::new(origin, &outcomes, &Review::load().unwrap());
        let noticed: Vec<_> = report.noticed[RULES[0].name].iter().collect();
        assert_eq!(noticed, ["[package]"], "neither a line with a survivor nor one without text");
        assert_eq!((report.total.noticed(), report.total.worse()), (4, 5));
    }
}

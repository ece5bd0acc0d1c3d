//! All mutants of an entry, and samples of them.

use std::collections::HashMap;
use std::ops::Range;

use ptx_text::lines::entry_of_line;
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::instruction::Instruction;
use crate::rules::{RULES, Rule};
use crate::source::{Source, sources};

/// An entry with one mistake.
#[derive(Clone, Debug, Serialize)]
pub struct Mutant {
    /// Name of the entry.
    pub entry: String,
    /// The mistake.
    #[serde(serialize_with = "serialize_name")]
    pub rule: &'static Rule,
    /// Line of the PTX, from 1.
    pub line: usize,
    /// The instruction as it was.
    pub before: String,
    /// The changed instruction; empty if it was removed.
    pub after: String,
    /// Rust line of the instruction, then the lines at which it was inlined.
    pub sources: Vec<Source>,
}

fn serialize_name<S: Serializer>(rule: &Rule, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(rule.name)
}

/// The lines of one entry of a PTX text.
#[derive(Clone, Debug)]
pub struct EntryText {
    /// Name of the entry.
    pub entry: String,
    /// The text before the entry's body, with other entries blanked so that line numbers stay.
    before: String,
    /// Lines of the entry's body.
    body: Vec<String>,
    /// Index of the first of them in the text.
    start: usize,
    /// The text behind the body, blanked in the same way.
    after: String,
    /// Source lines of each line of the body.
    sources: Vec<Vec<Source>>,
}

impl EntryText {
    /// Those of `names` that are entries of `ptx`, in its order. The text is read once for all of them: it has some hundred thousand
    /// lines.
    pub fn of(ptx: &str, names: &[&str]) -> Vec<Self> {
        let lines: Vec<&str> = ptx.lines().collect();
        let bodies: Vec<(&str, Range<usize>)> = entries(&lines).collect();
        let mut in_entry = vec![false; lines.len()];
        bodies.iter().for_each(|(_, body)| in_entry[body.clone()].fill(true));
        let blanked = |range: Range<usize>| -> String {
            let kept = |index: usize| if in_entry[index] { "" } else { lines[index] };
            range.flat_map(|index| [kept(index), "\n"]).collect()
        };
        let wanted: Vec<(&str, Range<usize>)> =
            bodies.iter().filter(|(name, _)| names.contains(name)).cloned().collect();
        let ranges: Vec<Range<usize>> = wanted.iter().map(|(_, body)| body.clone()).collect();
        let text_of = |((name, body), sources): ((&str, Range<usize>), Vec<Vec<Source>>)| Self {
            entry: name.to_owned(),
            before: blanked(0..body.start),
            body: lines[body.clone()].iter().map(|line| (*line).to_owned()).collect(),
            start: body.start,
            after: blanked(body.end..lines.len()),
            sources,
        };
        wanted.into_iter().zip(sources(&lines, &ranges)).map(text_of).collect()
    }

    /// Every mutant that the rules make, in the order of [`RULES`], then of lines.
    pub fn mutants(&self) -> Vec<Mutant> {
        let lines = self.body.iter().enumerate();
        let instructions: Vec<(usize, Instruction)> =
            lines.filter_map(|(index, line)| Some((index, Instruction::parse(line)?))).collect();
        let sites = RULES.iter().flat_map(|rule| instructions.iter().map(move |site| (rule, site)));
        sites.filter_map(|(rule, (index, instruction))| self.mutant(rule, *index, instruction)).collect()
    }

    fn mutant(&self, rule: &'static Rule, index: usize, instruction: &Instruction) -> Option<Mutant> {
        Some(Mutant {
            entry: self.entry.clone(),
            rule,
            line: self.start + index + 1,
            before: instruction.to_string(),
            after: rule.apply(instruction)?,
            sources: self.sources[index].clone(),
        })
    }

    /// The unchanged PTX.
    pub fn original(&self) -> String {
        self.with(None)
    }

    /// The PTX of a mutant.
    pub fn text(&self, mutant: &Mutant) -> String {
        self.with(Some((mutant.line, &mutant.after)))
    }

    /// The PTX with a trap instead of the mutated instruction: it fails if the instruction is executed.
    pub fn trap(&self, mutant: &Mutant) -> String {
        self.with(Some((mutant.line, "trap;")))
    }

    /// The PTX, with the line of a number replaced.
    fn with(&self, replacement: Option<(usize, &str)>) -> String {
        let mut text = self.before.clone();
        for (index, line) in self.body.iter().enumerate() {
            let replaced = replacement.filter(|(number, _)| *number == self.start + index + 1);
            text.push_str(replaced.map_or(line, |(_, replacement)| replacement));
            text.push('\n');
        }
        text + &self.after
    }
}

/// Name and lines of every entry, from `.entry` to the closing brace in the first column.
fn entries<'a>(lines: &[&'a str]) -> impl Iterator<Item = (&'a str, Range<usize>)> {
    lines.iter().enumerate().filter_map(|(start, line)| {
        let name = entry_of_line(line)?;
        let end = lines[start..].iter().position(|line| *line == "}")?;
        Some((name, start..start + end + 1))
    })
}

/// At most `count` mutants per rule name, drawn by `seed` as in [`sample`].
pub fn sample_by_rule(mutants: Vec<Mutant>, count: usize, seed: u64) -> Vec<Mutant> {
    let mut by_rule: Vec<(&str, Vec<Mutant>)> = Vec::new();
    for mutant in mutants {
        match by_rule.iter_mut().find(|(name, _)| *name == mutant.rule.name) {
            Some((_, mutants)) => mutants.push(mutant),
            None => by_rule.push((mutant.rule.name, vec![mutant])),
        }
    }
    by_rule.into_iter().flat_map(|(_, mutants)| sample(mutants, count, seed, |mutant| mutant)).collect()
}

/// `count` of `all`, drawn by `seed`, in their original order.
///
/// The rank of a mutant depends only on itself: entry, rule, the instruction without register numbers, and the number of equal
/// ones before it. An edit of the kernels therefore changes the sample only where the code changes, and not because line and
/// register numbers move.
pub fn sample<T: Clone>(all: Vec<T>, count: usize, seed: u64, mutant: impl Fn(&T) -> &Mutant) -> Vec<T> {
    let mut alike: HashMap<String, u32> = HashMap::new();
    let mut ranked: Vec<([u8; 32], usize)> = Vec::new();
    for (index, mutant) in all.iter().map(mutant).enumerate() {
        let key = format!("{seed} {} {} {}", mutant.entry, mutant.rule.name, without_register_numbers(&mutant.before));
        let number = alike.entry(key.clone()).or_default();
        ranked.push((Sha256::digest(format!("{key} {number}")).into(), index));
        *number += 1;
    }
    ranked.sort_unstable();
    ranked.truncate(count);
    let mut indices: Vec<usize> = ranked.into_iter().map(|(_, index)| index).collect();
    indices.sort_unstable();
    indices.into_iter().map(|index| all[index].clone()).collect()
}

/// `%rd12` as `%rd`: the compiler renumbers registers with every change.
fn without_register_numbers(instruction: &str) -> String {
    let mut text = String::with_capacity(instruction.len());
    let mut in_register = false;
    for character in instruction.chars() {
        in_register = character == '%' || in_register && character.is_alphanumeric();
        if !(in_register && character.is_ascii_digit()) {
            text.push(character);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
.version 8.0
.visible .entry first(.param .u64 p)
{
\tbar.sync 0;
\tret;
}
.visible .entry second(.param .u64 p)
{
\tcp.async.wait_group 0;
\tbar.sync 0;
}
";

    fn only(ptx: &str, name: &str) -> EntryText {
        EntryText::of(ptx, &[name]).pop().expect("the entry is there")
    }

    #[test]
    fn a_mutant_differs_in_one_line_of_its_entry() {
        let text = only(PTX, "second");
        let mutants = text.mutants();
        let names: Vec<_> = mutants.iter().map(|mutant| (mutant.rule.name, mutant.line)).collect();
        assert_eq!(
            names,
            [("drop bar.sync", 10), ("weaken bar.sync", 10), ("drop wait_group", 9), ("weaken wait_group", 9)]
        );
        let weakened = text.text(&mutants[3]);
        let original = text.original();
        let differing: Vec<_> = weakened.lines().zip(original.lines()).filter(|(a, b)| a != b).collect();
        assert_eq!(differing, [("cp.async.wait_group 1;", "\tcp.async.wait_group 0;")]);
        assert_eq!(text.trap(&mutants[3]), weakened.replace("cp.async.wait_group 1;", "trap;"));
        assert!(!original.contains("first"), "the other entry is left out");
        assert_eq!(original.lines().count(), PTX.lines().count(), "line numbers stay");
    }

    #[test]
    fn samples_depend_on_the_seed_only() {
        let mutants = || only(PTX, "second").mutants();
        let lines = |mutants: Vec<Mutant>| mutants.iter().map(|mutant| mutant.after.clone()).collect::<Vec<_>>();
        assert_eq!(lines(sample(mutants(), 2, 7, |mutant| mutant)), lines(sample(mutants(), 2, 7, |mutant| mutant)));
        assert_eq!(sample(mutants(), 2, 7, |mutant| mutant).len(), 2);
        assert_eq!(sample_by_rule(mutants(), 0, 7).len(), 0);
        assert_eq!(sample_by_rule(mutants(), 1, 7).len(), 4, "each rule has its share");
    }

    #[test]
    fn a_sample_stays_when_registers_and_lines_move() {
        let body = |first: usize, extra: &str| {
            let adds: String =
                (first..first + 60).map(|n| format!("\tadd.s32 \t%r{n}, %r{}, {};\n", n + 1, n - first)).collect();
            format!(".version 8.0\n.visible .entry one(.param .u64 p)\n{{\n{extra}{adds}\tbar.sync 0;\n}}\n")
        };
        let drawn = |ptx: &str| {
            let mutants = only(ptx, "one").mutants();
            let drawn = sample(mutants, 20, 1, |mutant| mutant);
            drawn.iter().map(|mutant| (mutant.rule.name, without_register_numbers(&mutant.before))).collect::<Vec<_>>()
        };
        let before = drawn(&body(1, ""));
        assert_eq!(drawn(&body(400, "// a comment\n\tmov.u32 \t%r7, %tid.x;\n")), before);
        assert!(before.len() > 3, "{before:?}");
        assert_eq!(
            without_register_numbers("@%p1 ld.shared.v4.b32 {%r12, %r3}, [%rd4+16];"),
            "@%p ld.shared.v4.b32 {%r, %r}, [%rd+16];"
        );
    }

    #[test]
    fn an_entry_that_is_not_there_has_no_mutants() {
        let found = EntryText::of(PTX, &["third", "second"]);
        assert_eq!(found.iter().map(|text| text.entry.as_str()).collect::<Vec<_>>(), ["second"]);
    }
}

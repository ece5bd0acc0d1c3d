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
    /// The lines of the text, with other entries blanked so that line numbers stay.
    lines: Vec<String>,
    /// Line range of the entry's body.
    body: Range<usize>,
    /// Source lines of the body only, since the texts of many entries are in memory at once.
    sources: Vec<Vec<Source>>,
}

impl EntryText {
    /// The entry `entry` in `ptx`; `None` if there is none.
    pub fn new(ptx: &str, entry: &str) -> Option<Self> {
        let lines: Vec<&str> = ptx.lines().collect();
        let bodies: Vec<(&str, Range<usize>)> = entries(&lines).collect();
        let (_, body) = bodies.iter().find(|(name, _)| *name == entry)?.clone();
        let others: Vec<_> = bodies.iter().filter(|(name, _)| *name != entry).map(|(_, lines)| lines.clone()).collect();
        let keep = |index: usize| !others.iter().any(|lines| lines.contains(&index));
        let lines =
            lines.iter().enumerate().map(|(index, line)| if keep(index) { (*line).to_owned() } else { String::new() });
        let sources = sources(ptx, body.clone());
        Some(Self { entry: entry.to_owned(), lines: lines.collect(), body, sources })
    }

    /// Every mutant that the rules make, in the order of [`RULES`], then of lines.
    pub fn mutants(&self) -> Vec<Mutant> {
        let instructions: Vec<(usize, Instruction)> =
            self.body.clone().filter_map(|index| Some((index, Instruction::parse(&self.lines[index])?))).collect();
        let sites = RULES.iter().flat_map(|rule| instructions.iter().map(move |site| (rule, site)));
        sites.filter_map(|(rule, (index, instruction))| self.mutant(rule, *index, instruction)).collect()
    }

    fn mutant(&self, rule: &'static Rule, index: usize, instruction: &Instruction) -> Option<Mutant> {
        Some(Mutant {
            entry: self.entry.clone(),
            rule,
            line: index + 1,
            before: instruction.to_string(),
            after: rule.apply(instruction)?,
            sources: self.sources[index - self.body.start].clone(),
        })
    }

    /// The unchanged PTX.
    pub fn original(&self) -> String {
        self.lines.join("\n") + "\n"
    }

    /// The PTX of a mutant.
    pub fn text(&self, mutant: &Mutant) -> String {
        self.with(mutant.line, &mutant.after)
    }

    /// The PTX with a trap instead of the mutated instruction: it fails if the instruction is executed.
    pub fn trap(&self, mutant: &Mutant) -> String {
        self.with(mutant.line, "trap;")
    }

    /// The PTX with one line replaced.
    fn with(&self, number: usize, replacement: &str) -> String {
        let mut text = String::with_capacity(self.lines.iter().map(|line| line.len() + 1).sum());
        for (index, line) in self.lines.iter().enumerate() {
            text.push_str(if index + 1 == number { replacement } else { line });
            text.push('\n');
        }
        text
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

    #[test]
    fn a_mutant_differs_in_one_line_of_its_entry() {
        let text = EntryText::new(PTX, "second").unwrap();
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
        let mutants = || EntryText::new(PTX, "second").unwrap().mutants();
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
            let mutants = EntryText::new(ptx, "one").unwrap().mutants();
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
        assert!(EntryText::new(PTX, "third").is_none());
    }
}

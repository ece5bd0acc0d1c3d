//! Many mutants of many entries, in parallel.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use cli::ptx_folder::PtxFolder;
use cli::ptx_module::PtxModule;
use contract::config::{Element, HEAD_DIM};
use contract::manifest::Entry;
use contract::tile::{Configuration, Overlap};

use crate::attempts::{self, Attempt};
use crate::mutant::{EntryText, Mutant, sample, sample_by_rule};
use crate::trial::{Trial, Verdict};

/// Which of all mutants are run.
#[derive(Clone, Debug)]
pub enum Selection {
    /// At most so many of each rule and entry.
    PerRule(usize),
    /// So many of all together, or of those that come from source files whose path contains a text.
    Sample(usize, Option<String>),
    /// All of a line of the PTX, counted from 1, of the entry with this name.
    Line(String, usize),
}

/// An entry: what its mutants are made from, and what they have to pass.
struct Subject {
    text: EntryText,
    trial: Trial,
}

/// Mutants that were selected but not yet run.
pub struct Campaign {
    /// Those that a mutant was selected of.
    subjects: BTreeMap<usize, Subject>,
    /// Each with the index of its subject.
    mutants: Vec<(usize, Mutant)>,
    /// Mutants there are altogether.
    total: usize,
}

impl Campaign {
    /// Makes mutants of the entries in `folder` and selects some by `seed`. A sample is of the entries of one element type, and of one
    /// width and those that overlap otherwise: those of the other type are the same but for the types in their instructions' names,
    /// those of other widths but for the number of products.
    ///
    /// # Errors
    /// When an entry cannot be read, or one that has a selected mutant cannot be tried; when the selected line has no mutants.
    pub fn prepare(folder: &PtxFolder, selection: Selection, seed: u64) -> Result<Self> {
        let has_own_code =
            |config: &Configuration| config.columns() == HEAD_DIM || config.overlap() != Overlap::default();
        let is_usual = |entry: &Entry| entry.element == Element::default() && has_own_code(&entry.config);
        let is_drawn = |entry: &Entry| match &selection {
            Selection::PerRule(_) => true,
            Selection::Sample(..) => is_usual(entry),
            Selection::Line(name, _) => entry.name == *name,
        };
        let (mut texts, mut mutants, mut total) = (Vec::new(), Vec::new(), 0);
        for (entry, module, text) in texts_of(folder, is_drawn)? {
            let of_entry = text.mutants();
            total += of_entry.len();
            let selected = match &selection {
                Selection::PerRule(count) => sample_by_rule(of_entry, *count, seed),
                Selection::Sample(_, None) => of_entry,
                Selection::Sample(_, Some(path)) => {
                    let is_from = |mutant: &Mutant| mutant.sources.iter().any(|source| source.file.contains(path));
                    of_entry.into_iter().filter(is_from).collect()
                }
                Selection::Line(_, line) => of_entry.into_iter().filter(|mutant| mutant.line == *line).collect(),
            };
            mutants.extend(selected.into_iter().map(|mutant| (texts.len(), mutant)));
            texts.push((entry, module, text));
        }
        if let Selection::Line(entry, line) = &selection {
            ensure!(
                !mutants.is_empty(),
                "no rule changes line {line} of {entry}, or there is no such entry in this PTX"
            );
        }
        if let Selection::Sample(_, Some(path)) = &selection {
            ensure!(
                !mutants.is_empty(),
                "no instruction that a rule changes comes from a file with \"{path}\" in its path"
            );
        }
        if let Selection::Sample(count, _) = selection {
            mutants = sample(mutants, count, seed, |(_, mutant)| mutant);
        }
        let has_mutant = |index: &usize| mutants.iter().any(|(subject, _)| subject == index);
        let subjects = texts.into_iter().enumerate().filter(|(index, _)| has_mutant(index));
        let subjects = subjects.map(|(index, (entry, module, text))| {
            let trial = Trial::new(entry, &module.file, &text.original())?;
            Ok((index, Subject { text, trial }))
        });
        Ok(Self { subjects: subjects.collect::<Result<_>>()?, mutants, total })
    }

    /// Mutants that the rules make of the entries.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Mutants that were selected.
    pub fn selected(&self) -> usize {
        self.mutants.len()
    }

    /// Runs the selected mutants on all cores; `progress` is called with how many of how many checks are done, and begins again where
    /// survivors are tried with a trap. The result is in order, and depends on nothing but the PTX, the selection and the seed.
    ///
    /// # Errors
    /// When the simulator fails at a mutant, which is named, or the kernel itself at a check that the mutant comes to.
    pub fn run(&self, progress: impl Fn(usize, usize) + Sync) -> Result<Vec<(Mutant, Verdict)>> {
        let mut verdicts = self.verdicts(&self.mutants.iter().collect::<Vec<_>>(), EntryText::text, &progress)?;
        let survivors: Vec<usize> = (0..verdicts.len()).filter(|place| verdicts[*place] == Verdict::Survived).collect();
        let mutants: Vec<_> = survivors.iter().map(|place| &self.mutants[*place]).collect();
        for (place, verdict) in survivors.into_iter().zip(self.verdicts(&mutants, EntryText::trap, &progress)?) {
            if verdict == Verdict::Survived {
                verdicts[place] = Verdict::NotExecuted;
            }
        }
        Ok(self.mutants.iter().map(|(_, mutant)| mutant.clone()).zip(verdicts).collect())
    }

    /// The verdicts on the `text`s of mutants.
    fn verdicts(
        &self,
        mutants: &[&(usize, Mutant)],
        text: impl Fn(&EntryText, &Mutant) -> String,
        progress: impl Fn(usize, usize) + Sync,
    ) -> Result<Vec<Verdict>> {
        let attempts = mutants.iter().map(|(subject, mutant)| {
            let subject = &self.subjects[subject];
            Attempt::new(&subject.trial, &text(&subject.text, mutant))
        });
        let verdicts = attempts::verdicts(attempts.collect(), progress).into_iter();
        let named = verdicts.zip(mutants).map(|(verdict, (_, mutant))| {
            verdict.with_context(|| format!("{} at line {}: {}", mutant.entry, mutant.line, mutant.after))
        });
        named.collect()
    }
}

/// The entries of `folder` that are drawn from, with their modules and texts.
///
/// # Errors
/// When a module lacks an entry.
fn texts_of(folder: &PtxFolder, is_drawn: impl Fn(&Entry) -> bool) -> Result<Vec<(&Entry, &PtxModule, EntryText)>> {
    let drawn: Vec<(&Entry, &PtxModule)> = folder.entries().filter(|(entry, _)| is_drawn(entry)).collect();
    let mut texts = Vec::new();
    for of_module in drawn.chunk_by(|(_, one), (_, other)| one.file == other.file) {
        let names: Vec<&str> = of_module.iter().map(|(entry, _)| entry.name.as_str()).collect();
        let mut found = EntryText::of(of_module[0].1.text()?, &names);
        for (entry, module) in of_module {
            let place = found.iter().position(|text| text.entry == entry.name);
            let place = place.with_context(|| format!("{} has no entry {}", module.file, entry.name))?;
            texts.push((*entry, *module, found.swap_remove(place)));
        }
    }
    Ok(texts)
}

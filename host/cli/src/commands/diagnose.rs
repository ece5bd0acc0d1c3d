//! `fa512 diagnose`: names a kernel's bottleneck from measurements, and the next experiment.

mod table;

use std::path::{Path, PathBuf};

use crate::diagnose::facts::Facts;
use crate::diagnose::{Judgment, judge};
use crate::document;
use crate::error::{Error, Result};
use crate::ncu::{self, Profile};
use crate::record::{self, BenchRecord, Case, Implementation, Row};
use serde::Serialize;

use super::{Verdict, output};

/// Name the bottleneck of a kernel, with the evidence and the next experiment. Works on stored data; needs no GPU.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 diagnosed, 2 could not.")]
pub struct Options {
    /// Bench records (fa512 bench --json FILE) and profiles (fa512 profile), in any order
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Diagnose this contender of the records
    #[arg(long, default_value = "fa512")]
    contender: String,
    /// Also show the rules that do not fire
    #[arg(long)]
    all: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// The diagnosis of one contender in one case.
#[derive(Serialize)]
pub struct Diagnosis {
    /// The contender; absent when only a profile is known.
    pub contender: Option<String>,
    /// The kernel, if it comes from a PTX folder.
    pub kernel: Option<String>,
    /// The case, if known.
    pub case: Option<Case>,
    /// Whether there is a profile.
    pub profiled: bool,
    /// The known facts.
    pub facts: Facts,
    /// The judgment of every rule, in order.
    pub judgments: Vec<Judgment>,
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    let mut records = Vec::new();
    let mut profiles = Vec::new();
    for path in &options.files {
        match load(path)? {
            Measured::Bench(record) => records.push((path, *record)),
            Measured::Profile(profile) => profiles.push(*profile),
        }
    }
    let mut diagnoses = Vec::new();
    for (path, record) in &records {
        diagnoses.extend(of_record(path, record, &options.contender, &profiles)?);
    }
    let known = |profile: &Profile| diagnoses.iter().any(|diagnosis| diagnosis.is_of(profile));
    let alone: Vec<_> = profiles.iter().filter(|profile| !known(profile)).map(of_profile).collect();
    diagnoses.extend(alone);
    match options.json {
        true => output::print_json(document::DIAGNOSE, &Diagnoses { diagnoses: &diagnoses })?,
        false => output::print(&table::render(&diagnoses, options.all))?,
    }
    Ok(Verdict::Pass)
}

enum Measured {
    Bench(Box<BenchRecord>),
    Profile(Box<Profile>),
}

fn load(path: &Path) -> Result<Measured> {
    match document::kind(path)?.as_str() {
        kind if kind == record::FORMAT.kind => Ok(Measured::Bench(Box::new(BenchRecord::load(path)?))),
        kind if kind == ncu::FORMAT.kind => Ok(Measured::Profile(Box::new(ncu::FORMAT.load(path)?))),
        kind => Err(Error::Invalid(format!(
            "{}: holds a {kind}; expected a {} ({}) or a {} ({})",
            path.display(),
            record::FORMAT.name,
            record::FORMAT.source,
            ncu::FORMAT.name,
            ncu::FORMAT.source
        ))),
    }
}

/// The JSON document.
#[derive(Serialize)]
struct Diagnoses<'a> {
    diagnoses: &'a [Diagnosis],
}

/// Diagnoses of `contender` in every case of `record`, each with its profile if there is one.
fn of_record(path: &Path, record: &BenchRecord, contender: &str, profiles: &[Profile]) -> Result<Vec<Diagnosis>> {
    let rows: Vec<&Row> = record.rows.iter().filter(|row| row.contender == contender).collect();
    if rows.is_empty() {
        let mut names: Vec<_> = record.rows.iter().map(|row| row.contender.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        return Err(Error::Invalid(format!(
            "{}: has no contender {contender}; it has: {}",
            path.display(),
            names.join(", ")
        )));
    }
    Ok(rows.into_iter().map(|row| of_row(record, row, profiles)).collect())
}

fn of_row(record: &BenchRecord, row: &Row, profiles: &[Profile]) -> Diagnosis {
    let kernel = row.implementation.as_ref().and_then(|implementation| match implementation {
        Implementation::Ptx { kernel, .. } => Some(kernel.entry.clone()),
        Implementation::Library { .. } => None,
    });
    let same = |profile: &&Profile| profile.case == Some(row.case) && Some(&profile.kernel) == kernel.as_ref();
    let profile = profiles.iter().find(same);
    let mut facts = Facts::default();
    facts.add_row(record, row);
    if let Some(profile) = profile {
        facts.add_profile(profile);
    }
    Diagnosis {
        contender: Some(row.contender.clone()),
        kernel,
        case: Some(row.case),
        profiled: profile.is_some(),
        judgments: judge(&facts),
        facts,
    }
}

fn of_profile(profile: &Profile) -> Diagnosis {
    let mut facts = Facts::default();
    facts.add_profile(profile);
    Diagnosis {
        contender: None,
        kernel: Some(profile.kernel.clone()),
        case: profile.case,
        profiled: true,
        judgments: judge(&facts),
        facts,
    }
}

impl Diagnosis {
    /// Whether `profile` is of the same kernel and case.
    fn is_of(&self, profile: &Profile) -> bool {
        self.profiled && self.case == profile.case && self.kernel.as_ref() == Some(&profile.kernel)
    }
}

//! What a sweep found, as data.

use std::path::PathBuf;

use fa512::executor::Device;
use ptx_sim::Finding;
use serde::Serialize;

use super::sweep::{Case, CaseRecord, VariantCases};
use crate::commands::Verdict;

/// What a sweep found.
#[derive(Serialize)]
pub struct Record {
    /// Where it ran.
    pub device: Device,
    /// Folder of the PTX.
    pub folder: PathBuf,
    /// Whether it was ended before all cases had run.
    pub interrupted: bool,
    /// The variants.
    pub variants: Vec<VariantRecord>,
}

/// A [`Record`] and what follows from it.
#[derive(Serialize)]
pub struct JudgedRecord<'a> {
    /// Whether every case ran and nothing was found.
    passed: bool,
    #[serde(flatten)]
    record: &'a Record,
}

/// What was found in one variant.
#[derive(Serialize)]
pub struct VariantRecord {
    /// Name of the entry.
    pub variant: String,
    /// Cases planned.
    pub planned_cases: usize,
    /// Cases run.
    pub cases: usize,
    /// What was found, one for each class and place.
    pub findings: Vec<Found>,
    /// Why the device does not run the variant at all.
    pub unfit: Option<String>,
    /// Why a case could not be run; those after it were not.
    pub cannot_run: Option<String>,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// A finding and where it was made.
#[derive(Serialize)]
pub struct Found {
    /// The finding, as first made.
    pub finding: Finding,
    /// The first case it was made in.
    pub first_case: CaseRecord,
    /// That case, for people.
    #[serde(skip)]
    pub first_case_text: String,
    /// Number of cases it was made in.
    pub cases: usize,
}

impl VariantRecord {
    /// A variant of which nothing has been run.
    pub fn new(variant: &VariantCases<'_>) -> Self {
        Self {
            variant: variant.entry.name.clone(),
            planned_cases: variant.cases.len(),
            cases: 0,
            findings: Vec::new(),
            unfit: variant.unfit.clone(),
            cannot_run: None,
            seconds: 0.0,
        }
    }

    /// Adds what one case found.
    pub fn add(&mut self, case: &Case, findings: Vec<Finding>) {
        self.cases += 1;
        for finding in findings {
            let key = |finding: &Finding| (finding.class, finding.ptx_line, finding.source.clone());
            match self.findings.iter_mut().find(|found| key(&found.finding) == key(&finding)) {
                Some(found) => found.cases += 1,
                None => self.findings.push(Found {
                    finding,
                    first_case: case.into(),
                    first_case_text: case.to_string(),
                    cases: 1,
                }),
            }
        }
    }
}

impl Record {
    /// How the command ends: a finding outweighs a case that could not be run.
    pub fn verdict(&self) -> Verdict {
        if self.variants.iter().any(|variant| !variant.findings.is_empty()) {
            Verdict::Fail
        } else if self.interrupted || self.variants.iter().any(|variant| variant.cannot_run.is_some()) {
            Verdict::CannotRun
        } else {
            Verdict::Pass
        }
    }

    /// The record for programs.
    pub fn with_verdict(&self) -> JudgedRecord<'_> {
        JudgedRecord { passed: self.verdict() == Verdict::Pass, record: self }
    }
}

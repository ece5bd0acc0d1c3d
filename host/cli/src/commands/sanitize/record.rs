//! The result of a sweep, as data.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::device::Device;
use ptx_sim::Finding;
use serde::Serialize;

use super::sweep::{Case, CaseRecord, VariantCases};
use crate::commands::Verdict;

/// The result of a sweep.
#[derive(Serialize)]
pub struct Record {
    /// Where it ran.
    pub device: Device,
    /// Folder of the PTX.
    pub folder: PathBuf,
    /// Number of schedules of the simulator per case; `None` on a GPU.
    pub schedules: Option<u64>,
    /// Whether it was interrupted before all cases had run.
    pub interrupted: bool,
    /// The variants.
    pub variants: Vec<VariantRecord>,
}

/// A [`Record`] with its verdict.
#[derive(Serialize)]
pub struct JudgedRecord<'a> {
    /// Whether every case ran without findings.
    passed: bool,
    #[serde(flatten)]
    record: &'a Record,
}

/// The findings in one variant.
#[derive(Serialize)]
pub struct VariantRecord {
    /// Name of the entry.
    pub variant: String,
    /// Cases planned.
    pub planned_cases: usize,
    /// Cases run.
    pub cases: usize,
    /// Findings, one per class and place.
    pub findings: Vec<Found>,
    /// Why the device cannot run the variant at all.
    pub unfit: Option<String>,
    /// Why a case could not be run; later ones were not tried.
    pub cannot_run: Option<String>,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// A finding and where it occurred.
#[derive(Serialize)]
pub struct Found {
    /// The finding, as first reported.
    pub finding: Finding,
    /// The first case in which it occurred.
    pub first_case: CaseRecord,
    /// That case, as text.
    #[serde(skip)]
    pub first_case_text: String,
    /// The first schedule under which it occurred; 0 on a GPU.
    pub first_schedule: u64,
    /// Number of cases in which it occurred.
    pub cases: usize,
    /// All schedules under which it occurred, in any case.
    pub schedules: BTreeSet<u64>,
}

impl VariantRecord {
    /// A variant before its first case.
    pub fn new(variant: &VariantCases<'_>) -> Self {
        Self {
            variant: variant.kernel.name().to_owned(),
            planned_cases: variant.cases.len(),
            cases: 0,
            findings: Vec::new(),
            unfit: variant.unfit.clone(),
            cannot_run: None,
            seconds: 0.0,
        }
    }

    /// Adds the findings of a case, one list per schedule. The case counts only if all `schedules` ran.
    pub fn add(&mut self, case: &Case, findings: Vec<Vec<Finding>>, schedules: u64) {
        self.cases += usize::from(findings.len() as u64 == schedules);
        let mut seen = BTreeSet::new();
        for (schedule, finding) in
            (0..).zip(findings).flat_map(|(schedule, list)| list.into_iter().map(move |finding| (schedule, finding)))
        {
            let key = |finding: &Finding| (finding.class, finding.at.ptx_line, finding.at.source.clone());
            let known = self.findings.iter().position(|found| key(&found.finding) == key(&finding));
            let index = known.unwrap_or(self.findings.len());
            if known.is_none() {
                self.findings.push(Found {
                    finding,
                    first_case: case.into(),
                    first_case_text: case.to_string(),
                    first_schedule: schedule,
                    cases: 0,
                    schedules: BTreeSet::new(),
                });
            }
            self.findings[index].cases += usize::from(seen.insert(index));
            self.findings[index].schedules.insert(schedule);
        }
    }
}

impl Record {
    /// The command's verdict: a finding outweighs a case that could not be run.
    pub fn verdict(&self) -> Verdict {
        if self.variants.iter().any(|variant| !variant.findings.is_empty()) {
            Verdict::Fail
        } else if self.interrupted || self.variants.iter().any(|variant| variant.cannot_run.is_some()) {
            Verdict::CannotRun
        } else {
            Verdict::Pass
        }
    }

    /// The record as output for programs.
    pub fn with_verdict(&self) -> JudgedRecord<'_> {
        JudgedRecord { passed: self.verdict() == Verdict::Pass, record: self }
    }
}

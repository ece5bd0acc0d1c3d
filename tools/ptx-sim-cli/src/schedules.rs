//! Findings of several schedules, merged.

use ptx_sim::{Finding, Report};
use serde::Serialize;

/// What was found under any schedule.
pub struct Found {
    /// Schedules run.
    pub schedules: u64,
    /// One for each launch, class and line of the PTX.
    pub findings: Vec<ScheduledFinding>,
}

/// A finding, its launch, and the schedules it was made under.
#[derive(Serialize)]
pub struct ScheduledFinding {
    /// The launch, from 1.
    pub launch: usize,
    /// The finding, as first made.
    #[serde(flatten)]
    pub finding: Finding,
    /// The schedules, in ascending order.
    pub schedules: Vec<u64>,
}

impl Found {
    /// What schedule 0 found.
    pub fn new(reports: &[Report]) -> Self {
        let mut found = Found { schedules: 0, findings: Vec::new() };
        found.add(0, reports);
        found
    }

    /// Adds what the launches found under a later schedule.
    pub fn add(&mut self, schedule: u64, reports: &[Report]) {
        self.schedules += 1;
        for (launch, report) in (1..).zip(reports) {
            for finding in &report.findings {
                let key = (launch, finding.class, finding.at.ptx_line);
                let is_known = |known: &&mut ScheduledFinding| {
                    (known.launch, known.finding.class, known.finding.at.ptx_line) == key
                };
                match self.findings.iter_mut().find(is_known) {
                    Some(known) => known.schedules.push(schedule),
                    None => {
                        let (finding, schedules) = (finding.clone(), vec![schedule]);
                        self.findings.push(ScheduledFinding { launch, finding, schedules });
                    }
                }
            }
        }
    }

    /// Those of a launch, from 1.
    pub fn of(&self, launch: usize) -> impl Iterator<Item = &ScheduledFinding> {
        self.findings.iter().filter(move |found| found.launch == launch)
    }
}

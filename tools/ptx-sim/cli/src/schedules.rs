//! Merging of findings from several schedules.

use ptx_sim::{Finding, Report};
use serde::Serialize;

/// Findings of all schedules.
pub struct Found {
    /// Number of schedules run.
    pub schedules: u64,
    /// One per launch, class and PTX line.
    pub findings: Vec<ScheduledFinding>,
}

/// A finding with its launch and schedules.
#[derive(Serialize)]
pub struct ScheduledFinding {
    /// The launch, from 1.
    pub launch: usize,
    /// The finding, from its first schedule.
    #[serde(flatten)]
    pub finding: Finding,
    /// The schedules that produced it, in ascending order.
    pub schedules: Vec<u64>,
}

impl Found {
    /// The findings of schedule 0.
    pub fn new(reports: &[Report]) -> Self {
        let mut found = Found { schedules: 0, findings: Vec::new() };
        found.add(0, reports);
        found
    }

    /// Adds the findings of the launches under a later schedule.
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

    /// The findings of a launch, numbered from 1.
    pub fn of(&self, launch: usize) -> impl Iterator<Item = &ScheduledFinding> {
        self.findings.iter().filter(move |found| found.launch == launch)
    }
}

//! Findings of several schedules, merged.

use ptx_sim::Finding;
use serde::Serialize;

/// What was found under any schedule.
pub struct Found {
    /// Schedules run.
    pub schedules: u64,
    /// One for each class and line of the PTX.
    pub findings: Vec<ScheduledFinding>,
}

/// A finding and the schedules it was made under.
#[derive(Serialize)]
pub struct ScheduledFinding {
    /// The finding, as first made.
    #[serde(flatten)]
    pub finding: Finding,
    /// The schedules, in ascending order.
    pub schedules: Vec<u64>,
}

impl Found {
    /// What schedule 0 found.
    pub fn new(findings: Vec<Finding>) -> Self {
        let mut found = Found { schedules: 0, findings: Vec::new() };
        found.add(0, findings);
        found
    }

    /// Adds what a later schedule found.
    pub fn add(&mut self, schedule: u64, findings: Vec<Finding>) {
        self.schedules += 1;
        for finding in findings {
            let key = |finding: &Finding| (finding.class, finding.at.ptx_line);
            match self.findings.iter_mut().find(|known| key(&known.finding) == key(&finding)) {
                Some(known) => known.schedules.push(schedule),
                None => self.findings.push(ScheduledFinding { finding, schedules: vec![schedule] }),
            }
        }
    }
}

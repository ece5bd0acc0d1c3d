//! The record of a tuning run. The first line says what was run where; each further line is a trial or a decision as
//! JSON, appended as soon as it is made. So whatever ends a run, a later one can continue from its measurements.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use contract::manifest::CodeGenerator;
use serde::{Deserialize, Serialize};

use super::search::Strategy;
use crate::journal::{self, Content};
use cli::document::Format;
use cli::error::{Error, Result};
use cli::record::{self, Case, Ceilings, Environment, Pair, Row, RunProtocol};

/// The file format.
pub const FORMAT: Format = Format {
    kind: "fa512-tuning-record",
    version: 2,
    oldest: 1,
    name: "tuning record",
    source: "fa512 tune run --out FILE",
};

/// The header line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The command line that created it, program first.
    pub command: Vec<String>,
    /// Start time, in seconds since 1970-01-01 UTC.
    pub started_at: u64,
    /// Digest of the plan.
    pub plan: String,
    /// Digest of the measured PTX.
    pub ptx: String,
    /// The compiler of the PTX.
    pub code_generator: CodeGenerator,
    /// Commit of its source.
    pub git_commit: Option<String>,
    /// The search strategy.
    pub strategy: Strategy,
    /// The measuring protocol, except the number of samples of a trial.
    pub protocol: RunProtocol,
    /// The machine.
    pub environment: Environment,
}

impl Header {
    /// Checks that trials of `other` are comparable with those of this record.
    fn require_like(&self, other: &Self) -> std::result::Result<(), String> {
        let gpu = |header: &Self| header.environment.device.name.clone();
        let same = [
            ("plan", self.plan == other.plan, &self.plan, &other.plan),
            ("PTX", self.ptx == other.ptx, &self.ptx, &other.ptx),
            ("GPU", gpu(self) == gpu(other), &gpu(self), &gpu(other)),
        ];
        match same.into_iter().find(|(_, same, ..)| !same) {
            Some((what, _, one, other)) => Err(format!("is of another {what}: {one}, not {other}")),
            None if !self.is_measured_like(other) => Err("was measured by another protocol".into()),
            None => Ok(()),
        }
    }

    fn is_measured_like(&self, other: &Self) -> bool {
        let one = &self.protocol;
        RunProtocol { samples: one.samples, order_seed: one.order_seed, ..other.protocol.clone() } == *one
    }
}

/// A candidate's check and measurement beside the incumbent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// Name of the candidate.
    pub candidate: String,
    /// Number of samples of it and of the incumbent, in the same turns.
    pub samples: usize,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Outcome {
    /// It was correct and was timed.
    Measured {
        /// Its median, µs.
        median_us: f64,
        /// The incumbent's median in the same turns, µs.
        incumbent_us: f64,
    },
    /// It was wrong and therefore not timed.
    Wrong {
        /// In what way.
        reason: String,
    },
    /// It could not run.
    NotRun {
        /// The reason.
        reason: String,
    },
}

impl Outcome {
    /// Its time over the incumbent's; `None` if it was not timed.
    pub fn ratio(&self) -> Option<f64> {
        match self {
            Self::Measured { median_us, incumbent_us } => Some(median_us / incumbent_us),
            Self::Wrong { .. } | Self::NotRun { .. } => None,
        }
    }
}

/// The decision which variant to launch for the problems of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// The variant launched so far.
    pub incumbent: String,
    /// The comparison of the fastest candidate with the incumbent by the full protocol; absent if the incumbent was the
    /// fastest.
    pub challenge: Option<Challenge>,
}

/// A comparison of the fastest candidate with the incumbent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Challenge {
    /// The candidate.
    pub candidate: String,
    /// Whether it replaces the incumbent.
    pub improved: bool,
    /// Its time over the incumbent's, with the interval.
    pub pair: Pair,
    /// Both measurements, the candidate's first.
    pub rows: Vec<Row>,
}

impl Decision {
    /// The variant to launch.
    pub fn winner(&self) -> &str {
        match &self.challenge {
            Some(challenge) if challenge.improved => &challenge.candidate,
            _ => &self.incumbent,
        }
    }
}

/// A line after the header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
enum Line {
    Trial(Trial),
    Decision(Box<Decision>),
}

/// The contents of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The header.
    pub header: Header,
    /// The trials, in order.
    pub trials: Vec<Trial>,
    /// The decisions, in order; for each case the last one counts.
    pub decisions: Vec<Decision>,
}

impl Record {
    /// Reads the record at `path`. Skips an incomplete last line, which a killed run may leave.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read; [`Error::Invalid`] when it is not a record or a line is damaged.
    pub fn load(path: &Path) -> Result<Self> {
        let record = journal::load(&FORMAT, path).map(Self::of)?;
        record
            .check()
            .map_err(|reason| Error::Invalid(format!("{}: a damaged tuning record: {reason}", path.display())))?;
        Ok(record)
    }

    /// Checks that the results of the challenges follow from their samples.
    fn check(&self) -> std::result::Result<(), String> {
        let mut challenges = self.decisions.iter().filter_map(|decision| decision.challenge.as_ref());
        challenges.try_for_each(|Challenge { candidate, improved, pair, rows }| {
            // Tuning does not measure ceilings.
            record::check(rows, std::slice::from_ref(pair), &Ceilings::default())?;
            if *improved && (pair.ratio >= 1.0 || pair.first != *candidate) {
                let Pair { case, first, second, ratio, .. } = pair;
                return Err(format!(
                    "{case} says that {candidate} improves, and {first} takes {ratio} of {second}'s time"
                ));
            }
            Ok(())
        })
    }

    fn of((header, lines): Content<Header, Line>) -> Self {
        let mut record = Self { header, trials: Vec::new(), decisions: Vec::new() };
        for line in lines {
            match line {
                Line::Trial(trial) => record.trials.push(trial),
                Line::Decision(decision) => record.decisions.push(*decision),
            }
        }
        record
    }

    /// The trials of all `records`, which must have the same plan, PTX and GPU model; of duplicates the first.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no record, or one differs; the message names it.
    pub fn merge(records: Vec<(PathBuf, Self)>) -> Result<Self> {
        let mut records = records.into_iter();
        let Some((_, mut merged)) = records.next() else {
            return Err(Error::Invalid("there are no records to merge".into()));
        };
        for (path, record) in records {
            let like = merged.header.require_like(&record.header);
            like.map_err(|reason| Error::Invalid(format!("{}: {reason}", path.display())))?;
            merged.trials.extend(record.trials);
            merged.decisions.extend(record.decisions);
        }
        let mut seen = HashSet::new();
        merged.trials.retain(|trial| seen.insert((trial.case.to_string(), trial.candidate.clone(), trial.samples)));
        Ok(merged)
    }

    /// Writes the record to `path`, replacing the file atomically.
    ///
    /// # Errors
    /// As [`cli::files::replace`].
    pub fn save(&self, path: &Path) -> Result<()> {
        let trials = self.trials.iter().cloned().map(Line::Trial);
        let decisions = self.decisions.iter().cloned().map(Box::new).map(Line::Decision);
        let lines: Vec<Line> = trials.chain(decisions).collect();
        journal::save(path, &FORMAT, &self.header, &lines)
    }

    /// The last decision of each case, in order of the cases.
    pub fn last_decisions(&self) -> Vec<&Decision> {
        let mut last: BTreeMap<String, &Decision> = BTreeMap::new();
        for decision in &self.decisions {
            last.insert(decision.case.to_string(), decision);
        }
        let mut cases: Vec<Case> = Vec::new();
        for case in self.decisions.iter().map(|decision| decision.case) {
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        cases.iter().filter_map(|case| last.get(&case.to_string()).copied()).collect()
    }
}

/// A record being written.
pub struct Journal {
    file: journal::Journal,
    record: Record,
}

impl Journal {
    /// Opens the record at `path` to continue it, or creates it with `header`.
    ///
    /// # Errors
    /// As [`Record::load`]; [`Error::Invalid`] when it is a record of another plan, PTX or GPU.
    pub fn open(path: &Path, header: Header) -> Result<Self> {
        let wanted = header.clone();
        let (file, content) =
            journal::Journal::open(path, &FORMAT, header, |found: &Header| found.require_like(&wanted))?;
        Ok(Self { file, record: Record::of(content) })
    }

    /// The trials and decisions so far.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Appends a trial.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be written.
    pub fn add_trial(&mut self, trial: Trial) -> Result<()> {
        self.file.add(&Line::Trial(trial.clone()))?;
        self.record.trials.push(trial);
        Ok(())
    }

    /// Appends a decision.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be written.
    pub fn add_decision(&mut self, decision: Decision) -> Result<()> {
        self.file.add(&Line::Decision(Box::new(decision.clone())))?;
        self.record.decisions.push(decision);
        Ok(())
    }
}

/// Appends a trial to the record at `path`, which a blocked thread has open.
///
/// # Errors
/// [`Error::File`] when it cannot be written.
pub fn append(path: &Path, trial: Trial) -> Result<()> {
    journal::append(path, &Line::Trial(trial))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::plan::tests::case;
    use super::*;
    use cli::files;
    use cli::inputs::Distribution;
    use cli::statistics::Bootstrap;
    use cli::timing::{L2, Protocol};
    use contract::config::Mask;

    pub fn header() -> Header {
        let mut environment = cli::stand_ins::record(vec![1.0]).environment;
        environment.device.multiprocessors = 132;
        Header {
            command: vec!["fa512".into(), "tune".into(), "run".into()],
            started_at: 1,
            plan: "p".into(),
            ptx: "x".into(),
            code_generator: CodeGenerator { name: "rustc".into(), version: "1".into() },
            git_commit: None,
            strategy: Strategy::Exhaustive,
            protocol: RunProtocol {
                timing: Protocol::new(L2::Warm),
                samples: 100,
                order_seed: 0,
                distribution: Distribution::Normal,
                input_seed: 0,
            },
            environment,
        }
    }

    pub fn trial(candidate: &str, samples: usize, median_us: f64) -> Trial {
        Trial {
            case: case(4, 8, 512, Mask::Full),
            candidate: candidate.into(),
            samples,
            outcome: Outcome::Measured { median_us, incumbent_us: 10.0 },
        }
    }

    #[test]
    fn a_ratio_that_is_not_of_its_samples_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let load = |times: [f64; 2], change: &dyn Fn(&mut Challenge)| {
            let [mut new, mut old] = times.map(|time| {
                let record::BenchRecord { mut rows, .. } = cli::stand_ins::record_without_ceilings(vec![time; 3]);
                rows.remove(0)
            });
            (new.contender, old.contender) = ("new".into(), "old".into());
            let pair = Pair::new(&new, &old, &Bootstrap::new(0)).unwrap();
            let mut challenge = Challenge { candidate: "new".into(), improved: true, pair, rows: vec![new, old] };
            change(&mut challenge);
            let decisions = vec![Decision { challenge: Some(challenge), ..decision("old") }];
            Record { header: header(), trials: vec![], decisions }.save(&path).unwrap();
            Record::load(&path).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(load([2.0, 8.0], &|_| {}), Ok(()));
        let error = load([2.0, 8.0], &|challenge| challenge.pair.ratio = 0.5).unwrap_err();
        assert!(error.contains("says a ratio of new to old of 0.5, and their samples have 0.25"), "{error}");
        assert_eq!(load([8.0, 2.0], &|challenge| challenge.improved = false), Ok(()));
        let error = load([8.0, 2.0], &|_| {}).unwrap_err();
        assert!(error.contains("says that new improves, and new takes 4 of old's time"), "{error}");
        let error = load([2.0, 8.0], &|challenge| challenge.candidate = "another".into()).unwrap_err();
        assert!(error.contains("says that another improves, and new takes 0.25"), "{error}");
    }

    fn decision(incumbent: &str) -> Decision {
        Decision { case: case(4, 8, 512, Mask::Full), incumbent: incumbent.into(), challenge: None }
    }

    #[test]
    fn a_run_that_was_killed_in_the_middle_of_a_line_is_gone_on_from() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.jsonl");
        let mut journal = Journal::open(&path, header()).unwrap();
        journal.add_trial(trial("a", 3, 9.0)).unwrap();
        journal.add_trial(trial("b", 3, 8.0)).unwrap();
        let text = files::read_text(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 20]).unwrap();
        assert_eq!(Record::load(&path).unwrap().trials, [trial("a", 3, 9.0)], "a reader passes the half line over");
        let mut journal = Journal::open(&path, Header { started_at: 2, ..header() }).unwrap();
        assert_eq!(journal.record().trials, [trial("a", 3, 9.0)]);
        assert_eq!(journal.record().header.started_at, 1, "it is the same record");
        journal.add_trial(trial("b", 3, 7.0)).unwrap();
        journal.add_decision(decision("a")).unwrap();
        let record = Record::load(&path).unwrap();
        assert_eq!(record.trials, [trial("a", 3, 9.0), trial("b", 3, 7.0)]);
        assert_eq!(record.decisions, [decision("a")]);
    }

    #[test]
    fn a_record_of_something_else_is_not_gone_on_from() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.jsonl");
        Journal::open(&path, header()).unwrap();
        let refusal = |header: Header| Journal::open(&path, header).err().expect("refused").to_string();
        let other_plan = refusal(Header { plan: "q".into(), ..header() });
        assert!(other_plan.contains("another plan") && other_plan.contains("--out"), "{other_plan}");
        assert!(refusal(Header { ptx: "y".into(), ..header() }).contains("another PTX"));
        let mut other_gpu = header();
        other_gpu.environment.device.name = "NVIDIA L4".into();
        assert!(refusal(other_gpu).contains("another GPU"));
    }

    #[test]
    fn shards_merge_into_one_record_without_doubles() {
        let record = |trials: Vec<Trial>| Record { header: header(), trials, decisions: vec![] };
        let first = record(vec![trial("a", 3, 9.0), trial("b", 3, 8.0)]);
        let second = record(vec![trial("b", 3, 7.0), trial("b", 9, 7.5), trial("c", 3, 6.0)]);
        let merged = Record::merge(vec![("one".into(), first), ("two".into(), second)]).unwrap();
        let kept = [trial("a", 3, 9.0), trial("b", 3, 8.0), trial("b", 9, 7.5), trial("c", 3, 6.0)];
        assert_eq!(merged.trials, kept);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("merged.jsonl");
        merged.save(&path).unwrap();
        assert_eq!(Record::load(&path).unwrap(), merged);
        let other = Record { header: Header { plan: "q".into(), ..header() }, ..merged.clone() };
        let refusal = Record::merge(vec![("one".into(), merged), ("two".into(), other)]).unwrap_err().to_string();
        assert!(refusal.starts_with("two: is of another plan"), "{refusal}");
    }

    #[test]
    fn files_that_are_no_records_are_refused_with_what_they_are() {
        let refusal = |text: &str| journal::parse::<Header, Line>(&FORMAT, text).unwrap_err();
        assert!(refusal("").contains("not a tuning record"));
        assert!(refusal("{}\n").contains("fa512 tune run --out FILE"));
        assert!(refusal("{\"kind\": \"fa512-bench\", \"version\": 1}\n").contains("holds a fa512-bench"));
        assert!(refusal("{\"kind\": \"fa512-tuning-record\", \"version\": 9}\n").contains("version 9"));
        assert!(refusal("{\"kind\": \"fa512-tuning-record\", \"version\": 2}\n").contains("damaged"));
        let mut text = String::from_utf8(journal::first_line(&FORMAT, &header())).unwrap();
        text += "{\"line\": \"trial\"}\n";
        assert!(refusal(&text).starts_with("line 2: missing field"), "{}", refusal(&text));
    }

    #[test]
    fn the_last_decision_of_a_case_counts() {
        let record = Record { header: header(), trials: vec![], decisions: vec![decision("a"), decision("b")] };
        let winners: Vec<_> = record.last_decisions().iter().map(|decision| decision.winner()).collect();
        assert_eq!(winners, ["b"]);
    }
}

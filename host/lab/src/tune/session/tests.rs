use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::tune::plan::tests::case;
use crate::tune::record::tests::header;
use crate::tune::record::{Outcome, Record};
use crate::tune::search::RUNGS;
use crate::tune::task::{Participant, Shard};
use cli::bench::Observer;
use cli::contender::{Answer, Contender, Prepared, Workload};
use cli::error::Error;
use cli::inputs::Distribution;
use cli::record::{Case, Ceilings, Implementation, RunProtocol};
use cli::stand_ins::{Behaviour, Stub, monitor};
use cli::timing::{Batch, L2, Protocol, Sampler};
use contract::config::Mask;
use contract::tile::Sm80;

/// A GPU with candidates `c0`, `c1`, …; `c0` is the incumbent.
struct Machine {
    behaviours: Vec<Behaviour>,
    /// Index of the candidate that makes the GPU unusable.
    deadly: Option<usize>,
    lost: Rc<Cell<bool>>,
    /// The contenders opened so far.
    opened: RefCell<Vec<String>>,
    /// Interrupts the run after this many were opened.
    patience: usize,
    stop: AtomicBool,
}

/// A contender on a shared GPU: once one makes it unusable, all others fail too.
struct Sharing {
    stub: Stub,
    deadly: bool,
    lost: Rc<Cell<bool>>,
}

struct Shared<'a, T: ?Sized> {
    inner: Box<T>,
    deadly: bool,
    lost: &'a Cell<bool>,
}

impl<T: ?Sized> Shared<'_, T> {
    fn check(&self) -> Result<()> {
        self.lost.set(self.lost.get() || self.deadly);
        if self.lost.get() { Err(Error::Unavailable("the GPU is gone".into())) } else { Ok(()) }
    }
}

impl Contender for Sharing {
    fn name(&self) -> &str {
        self.stub.name()
    }

    fn prepare<'a>(&'a mut self, workload: &'a Workload) -> Result<Box<dyn Prepared<'a> + 'a>> {
        let Self { stub, deadly, lost } = self;
        Ok(Box::new(Shared { inner: stub.prepare(workload)?, deadly: *deadly, lost }))
    }
}

impl<'a> Prepared<'a> for Shared<'a, dyn Prepared<'a> + 'a> {
    fn implementation(&self) -> Implementation {
        self.inner.implementation()
    }

    fn answer(&mut self) -> Result<Answer> {
        self.check().and_then(|()| self.inner.answer())
    }

    fn into_sampler(self: Box<Self>) -> Result<Box<dyn Sampler + 'a>> {
        let Self { inner, deadly, lost } = *self;
        Ok(Box::new(Shared { inner: inner.into_sampler()?, deadly, lost }))
    }
}

impl Sampler for Shared<'_, dyn Sampler + '_> {
    fn batch(&self) -> Batch {
        self.inner.batch()
    }

    fn sample(&mut self) -> Result<f64> {
        self.check().and_then(|()| self.inner.sample())
    }
}

struct Silent;

impl Observer for Silent {
    fn checking(&mut self, _: &Case, _: &str) {}
    fn turned(&mut self, _: &Case) {}
}

impl Listener for Silent {
    fn case(&mut self, _: &Case, _: &str, _: usize) {}
    fn begins(&mut self, _: &Case, _: usize, _: &[&str]) {}
    fn ends(&mut self, _: &[&str]) {}
}

impl Machine {
    fn new(behaviours: Vec<Behaviour>) -> Self {
        Self {
            behaviours,
            deadly: None,
            lost: Rc::default(),
            opened: RefCell::default(),
            patience: usize::MAX,
            stop: AtomicBool::new(false),
        }
    }

    /// Twenty candidates; number 13 takes half the time of the incumbent.
    fn with_a_planted_winner() -> Self {
        let time = |index: u32| if index == 13 { 5.0 } else { 10.0 + f64::from(index * 7 % 20) };
        Self::new((0..20).map(|index| Behaviour::Takes(time(index))).collect())
    }

    fn task(&self) -> Task {
        let configs = (1..).map(|block_m| Configuration::Sm80(Sm80::new(block_m, 64, 4, 2)));
        let names = (0..self.behaviours.len()).map(|index| format!("c{index}"));
        let participants = names.zip(configs).map(|(name, config)| Participant { name, config });
        Task { case: case(1, 2, 16, Mask::Full), participants: participants.collect(), incumbent: "c0".into() }
    }

    fn open(&self, name: &str) -> Result<Box<dyn Contender>> {
        let index: usize = name[1..].parse().expect("a number");
        self.opened.borrow_mut().push(name.to_owned());
        if self.opened.borrow().len() > self.patience {
            self.stop.store(true, Relaxed);
        }
        let stub = Stub { name: name.to_owned(), behaviour: self.behaviours[index] };
        Ok(Box::new(Sharing { stub, deadly: self.deadly == Some(index), lost: self.lost.clone() }))
    }

    fn run_with(&self, record: &Path, shard: Option<Shard>, change: fn(&mut Session<'_>)) -> (Result<End>, Record) {
        let protocol = RunProtocol {
            timing: Protocol::new(L2::Warm),
            samples: 30,
            order_seed: 0,
            distribution: Distribution::Normal,
            input_seed: 0,
        };
        let (ceilings, monitor) = (Ceilings::default(), monitor());
        let bench = Bench {
            protocol,
            heads_checked: 2,
            resamples: 100,
            ceilings: &ceilings,
            monitor: &monitor,
            stop: &self.stop,
        };
        let open = |name: &str| self.open(name);
        let mut session = Session {
            bench: &bench,
            open: &open,
            strategy: Strategy::Exhaustive,
            trials: None,
            seed: 0,
            group: 4,
            time: None,
            thresholds: shard.is_none().then(Thresholds::default),
        };
        change(&mut session);
        let mut journal = Journal::open(record, header()).unwrap();
        let task = self.task().part(shard.unwrap_or(Shard::WHOLE));
        let end = session.run(&[task], &mut journal, &mut Silent);
        (end, Record::load(record).unwrap())
    }

    fn run(&self, record: &Path) -> (End, Record) {
        let (end, record) = self.run_with(record, None, |_| ());
        (end.unwrap(), record)
    }
}

fn winner(record: &Record) -> &str {
    record.last_decisions().first().expect("a decision").winner()
}

#[test]
fn every_strategy_finds_the_planted_winner_and_it_takes_the_incumbents_place() {
    for strategy in [Strategy::Exhaustive, Strategy::LatinHypercube, Strategy::Tpe] {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::with_a_planted_winner();
        let change: fn(&mut Session<'_>) = match strategy {
            Strategy::Exhaustive => |_| (),
            Strategy::LatinHypercube => |session| session.strategy = Strategy::LatinHypercube,
            Strategy::Tpe => |session| session.strategy = Strategy::Tpe,
        };
        let (end, record) = machine.run_with(&folder.path().join("record"), None, change);
        assert_eq!((end.unwrap(), winner(&record)), (End::Done, "c13"), "{strategy:?}");
        let challenge = record.decisions[0].challenge.as_ref().unwrap();
        assert_eq!((challenge.pair.ratio, challenge.rows.len()), (0.5, 2));
        assert_eq!(challenge.rows[0].measurement().unwrap().samples_us.count(), 30, "the full protocol");
    }
}

#[test]
fn a_small_gain_does_not_take_the_incumbents_place() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new([10.0, 9.5, 12.0].map(Behaviour::Takes).to_vec());
    let (_, record) = machine.run(&folder.path().join("record"));
    let decision = &record.decisions[0];
    assert_eq!(decision.challenge.as_ref().map(|challenge| challenge.candidate.as_str()), Some("c1"));
    assert_eq!(decision.winner(), "c0");
}

#[test]
fn what_is_wrong_or_does_not_run_is_written_down_and_never_wins() {
    let folder = tempfile::tempdir().unwrap();
    let behaviours = vec![
        Behaviour::Takes(10.0),
        Behaviour::Wrong,
        Behaviour::Refuses,
        Behaviour::Takes(2.0),
        Behaviour::FailsWhenTimed,
    ];
    let (_, record) = Machine::new(behaviours).run(&folder.path().join("record"));
    assert_eq!(winner(&record), "c3");
    let outcome = |name: &str| &record.trials.iter().find(|trial| trial.candidate == name).unwrap().outcome;
    assert!(matches!(outcome("c1"), Outcome::Wrong { .. }), "{:?}", outcome("c1"));
    assert!(matches!(outcome("c2"), Outcome::NotRun { .. }), "{:?}", outcome("c2"));
    assert!(matches!(outcome("c4"), Outcome::NotRun { .. }), "{:?}", outcome("c4"));
}

#[test]
fn a_wrong_incumbent_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(vec![Behaviour::Wrong, Behaviour::Takes(2.0)]);
    let (end, record) = machine.run_with(&folder.path().join("record"), None, |_| ());
    let message = end.unwrap_err().to_string();
    assert!(message.starts_with("the incumbent c0: "), "{message}");
    assert_eq!(record.trials, []);
}

#[test]
fn an_interrupted_run_is_gone_on_from_without_measuring_anything_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let machine = Machine { patience: 13, ..Machine::with_a_planted_winner() };
    let (end, first) = machine.run(&path);
    assert_eq!(end, End::Interrupted);
    assert!(!first.trials.is_empty() && first.decisions.is_empty(), "{first:?}");
    let machine = Machine::with_a_planted_winner();
    let (end, record) = machine.run(&path);
    assert_eq!((end, winner(&record)), (End::Done, "c13"));
    let once: std::collections::BTreeSet<_> =
        record.trials.iter().map(|trial| (&trial.candidate, trial.samples)).collect();
    assert_eq!(once.len(), record.trials.len(), "a trial was made twice");
    let in_first_rung = record.trials.iter().filter(|trial| trial.samples == RUNGS[0]).count();
    assert_eq!(in_first_rung, 19, "everybody but the incumbent");
    let again = Machine::with_a_planted_winner();
    assert_eq!(again.run(&path).1, record);
    assert_eq!(*again.opened.borrow(), ["c0"], "all is known; the incumbent alone is looked at");
}

#[test]
fn shards_cover_every_candidate_once_and_their_merged_record_leads_to_the_same_winner() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::with_a_planted_winner();
    let mut shards = Vec::new();
    let mut covered = Vec::new();
    for index in 1..=3 {
        let shard = Shard { index, count: 3 };
        covered.extend(machine.task().part(shard).participants.into_iter().map(|one| one.name));
        let path = folder.path().join(format!("{index}"));
        let (end, record) = machine.run_with(&path, Some(shard), |_| ());
        assert_eq!((end.unwrap(), record.decisions.len()), (End::Done, 0), "a part decides nothing");
        shards.push((path, record));
    }
    covered.sort();
    let mut all: Vec<_> = machine.task().participants.into_iter().map(|one| one.name).collect();
    all.sort();
    assert_eq!(covered, all);
    let merged = folder.path().join("merged");
    Record::merge(shards).unwrap().save(&merged).unwrap();
    let last = Machine::with_a_planted_winner();
    let (_, record) = last.run(&merged);
    assert_eq!(winner(&record), "c13");
    let first_rung = record.trials.iter().filter(|trial| trial.samples == RUNGS[0]).count();
    assert_eq!(first_rung, 19, "what the parts measured is not measured again");
}

#[test]
fn a_candidate_that_takes_the_gpu_with_it_is_found_by_measuring_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let machine = || Machine { deadly: Some(6), ..Machine::with_a_planted_winner() };
    let (end, record) = machine().run(&path);
    assert_eq!(end, End::LostDevice);
    assert!(record.trials.iter().all(|trial| trial.outcome.ratio().is_some()), "nobody is blamed yet");
    let (end, record) = machine().run_with(&path, None, |session| session.group = 1);
    assert_eq!(end.unwrap(), End::LostDevice);
    let blamed: Vec<_> = record.trials.iter().filter(|trial| trial.outcome.ratio().is_none()).collect();
    assert_eq!(blamed.iter().map(|trial| trial.candidate.as_str()).collect::<Vec<_>>(), ["c6"]);
    let (end, record) = machine().run(&path);
    assert_eq!((end, winner(&record)), (End::Done, "c13"), "the next run leaves it alone");
}

#[test]
fn without_time_nothing_is_decided() {
    let folder = tempfile::tempdir().unwrap();
    let change: fn(&mut Session<'_>) = |session| session.time = Some(Duration::ZERO);
    let (end, record) = Machine::with_a_planted_winner().run_with(&folder.path().join("record"), None, change);
    assert_eq!((end.unwrap(), record.trials.len(), record.decisions.len()), (End::Done, 0, 0));
}

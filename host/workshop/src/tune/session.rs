//! A tuning run: every case is searched, and its fastest candidate meets the incumbent.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use contract::tile::Configuration;
use serde::{Deserialize, Serialize};

use super::features::Features;
use super::lab::{Experiment, Listener, Open};
use super::record::{Decision, Journal};
use super::search::{Ranked, Strategy, search};
use crate::bench::Bench;
use crate::compare::Thresholds;
use crate::error::{Error, Result};
use crate::record::Case;

/// A part of the candidates: number `index` of `count`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Which part.
    pub index: usize,
    /// Of how many.
    pub count: usize,
}

impl Shard {
    /// Everything.
    pub const WHOLE: Self = Self { index: 1, count: 1 };

    /// Whether candidate number `candidate` is in it. Neighbours, which resemble each other, go to different parts.
    pub fn contains(self, candidate: usize) -> bool {
        candidate % self.count == self.index - 1
    }
}

impl std::str::FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers = text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Self { index, count }),
            _ => Err(Error::Invalid(format!("{text:?} is no part; expected one as 1/4: the first of four"))),
        }
    }
}

/// A candidate of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// Name of its entry.
    pub name: String,
    /// Its tile configuration.
    pub config: Configuration,
}

/// A case, who takes part, and who is to be beaten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The case.
    pub case: Case,
    /// The candidates.
    pub participants: Vec<Participant>,
    /// Name of the incumbent.
    pub incumbent: String,
}

impl Task {
    /// The task with the part of the candidates that is in `shard`.
    pub fn part(mut self, shard: Shard) -> Self {
        let mut index = 0;
        self.participants.retain(|_| {
            index += 1;
            shard.contains(index - 1)
        });
        self
    }
}

/// How a run is carried out.
pub struct Session<'a> {
    /// How to measure; its number of samples is that of the final comparison.
    pub bench: &'a Bench<'a>,
    /// Where contenders come from.
    pub open: &'a Open<'a>,
    /// How candidates are searched.
    pub strategy: Strategy,
    /// Candidates of a case that are measured at most, where the strategy does not measure all; a third of them, but not too
    /// few, unless given.
    pub trials: Option<usize>,
    /// Seed of the strategy.
    pub seed: u64,
    /// Candidates that are measured in the same turns.
    pub group: usize,
    /// How long it may take.
    pub time: Option<Duration>,
    /// What a challenger must reach; `None` for no final comparison, since this is a part of a run.
    pub thresholds: Option<Thresholds>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything was searched, or the time was over.
    Done,
    /// It was interrupted.
    Interrupted,
    /// A candidate has made the GPU unusable for this process: it is written down, unless it was one of several.
    LostDevice,
}

impl Session<'_> {
    /// A third of the candidates, but not too few to learn anything from.
    fn usual_trials(candidates: usize) -> usize {
        const FEWEST: usize = 24;
        (candidates / 3).max(FEWEST)
    }

    /// Searches every task, and writes trials and decisions to `journal`. Each task has its share of the time that is left.
    ///
    /// # Errors
    /// When an incumbent is wrong or does not run, or the record cannot be written.
    pub fn run(&self, tasks: &[Task], journal: &mut Journal, listener: &mut dyn Listener) -> Result<End> {
        let end = self.time.map(|time| Instant::now() + time);
        for (index, task) in tasks.iter().enumerate() {
            let left = (tasks.len() - index) as u32;
            let now = Instant::now();
            let deadline = end.map(|end| now + end.saturating_duration_since(now) / left);
            match self.run_task(task, journal, deadline, listener)? {
                End::Done => {}
                early => return Ok(early),
            }
        }
        Ok(End::Done)
    }

    fn run_task(
        &self,
        task: &Task,
        journal: &mut Journal,
        deadline: Option<Instant>,
        listener: &mut dyn Listener,
    ) -> Result<End> {
        let names: Vec<String> = task.participants.iter().map(|participant| participant.name.clone()).collect();
        let configs: Vec<Configuration> = task.participants.iter().map(|participant| participant.config).collect();
        listener.case(&task.case, &task.incumbent, names.len());
        let prepared = self.bench.prepare(&task.case)?;
        let mut experiment = Experiment {
            bench: self.bench,
            prepared: &prepared,
            names: &names,
            incumbent: &task.incumbent,
            open: self.open,
            journal,
            group: self.group,
            deadline,
            listener,
            lost_device: false,
        };
        experiment.check_incumbent()?;
        let trials = self.trials.unwrap_or_else(|| Self::usual_trials(names.len()));
        let ranked = search(self.strategy, &Features::new(&configs), trials, self.seed, &mut experiment)?;
        if experiment.lost_device {
            return Ok(End::LostDevice);
        }
        if !self.bench.stop.load(Relaxed)
            && let Some(thresholds) = &self.thresholds
        {
            self.decide(task, &ranked, thresholds, &mut experiment)?;
        }
        Ok(if self.bench.stop.load(Relaxed) { End::Interrupted } else { End::Done })
    }

    /// Lets the fastest candidate meet the incumbent, unless it has before.
    fn decide(
        &self,
        task: &Task,
        ranked: &[Ranked],
        thresholds: &Thresholds,
        experiment: &mut Experiment<'_>,
    ) -> Result<()> {
        // Not even the first trials were made: the time was over.
        if ranked.len() < 2 && experiment.names.len() > 1 {
            return Ok(());
        }
        let fastest = ranked.first().map(|ranked| ranked.candidate);
        let challenger = fastest.filter(|&candidate| experiment.names[candidate] != task.incumbent);
        let name = challenger.map(|candidate| experiment.names[candidate].as_str());
        let known = experiment.journal.record().last_decisions().into_iter().any(|decision| {
            let challenged = decision.challenge.as_ref().map(|challenge| challenge.candidate.as_str());
            decision.case == task.case && decision.incumbent == task.incumbent && challenged == name
        });
        if known {
            return Ok(());
        }
        let challenge = match challenger {
            None => None,
            Some(candidate) => {
                let samples = self.bench.protocol.samples;
                let Some(challenge) = experiment.challenge(candidate, samples, thresholds)? else { return Ok(()) };
                Some(challenge)
            }
        };
        let decision = Decision { case: task.case, incumbent: task.incumbent.clone(), challenge };
        experiment.journal.add_decision(decision)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::path::Path;
    use std::rc::Rc;
    use std::sync::atomic::AtomicBool;

    use super::super::plan::tests::case;
    use super::super::record::tests::header;
    use super::super::record::{Outcome, Record};
    use super::super::search::RUNGS;
    use super::*;
    use crate::bench::Observer;
    use crate::bench::tests::{Behaviour, Stub, monitor};
    use crate::contender::{Answer, Contender, Prepared, Workload};
    use crate::inputs::Distribution;
    use crate::record::{Ceilings, Implementation, RunProtocol};
    use crate::timing::{Batch, L2, Protocol, Sampler};
    use contract::config::Mask;
    use contract::tile::Sm80;

    /// A GPU with candidates called `c0`, `c1`, …, of which `c0` is the incumbent.
    struct Machine {
        behaviours: Vec<Behaviour>,
        /// The candidate that makes the GPU unusable.
        deadly: Option<usize>,
        lost: Rc<Cell<bool>>,
        /// Who was opened, in order.
        opened: RefCell<Vec<String>>,
        /// Interrupts the run when so many were opened.
        patience: usize,
        stop: AtomicBool,
    }

    /// A contender on a GPU that all share: what makes it unusable makes every other fail, too.
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

        /// Twenty candidates of which number 13 takes half the time of the incumbent.
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

    #[test]
    fn parts_are_written_as_fractions() {
        assert_eq!("2/3".parse::<Shard>().unwrap(), Shard { index: 2, count: 3 });
        for text in ["0/3", "4/3", "1", "1/0", "a/b", ""] {
            let message = text.parse::<Shard>().unwrap_err().to_string();
            assert!(message.contains("1/4: the first of four"), "{text}: {message}");
        }
    }
}

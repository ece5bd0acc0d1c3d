//! Measures the points of a map.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use contract::problem::Shape;

use super::record::{Journal, Point};
use crate::journal::End;
use cli::bench::{Bench, Observer};
use cli::contender::Contender;
use cli::error::Result;
use cli::record::Case;

/// Maximum heads per point that are compared with the f64 reference.
const MOST_CHECKED: u32 = 4;
/// Approximate number of scores per point that the reference computes, if more than one head is checked.
const CHECKED_SCORES: u64 = 1 << 25;

/// Provides the contenders.
pub trait Field {
    /// The contenders of `case`, on a GPU that can still be used.
    ///
    /// # Errors
    /// When the GPU was lost.
    fn of(&mut self, case: &Case) -> Result<Vec<&mut Box<dyn Contender>>>;
}

/// The settings of a run.
pub struct Session<'a> {
    /// The bench. The number of heads that are checked is chosen per point.
    pub bench: Bench<'a>,
    /// The time limit.
    pub time: Option<Duration>,
}

impl Session<'_> {
    /// Measures those of `cases` that are not in `journal`, and records them.
    ///
    /// # Errors
    /// When the GPU is lost, a case is not accepted, or the record cannot be written.
    pub fn run(
        &mut self,
        cases: &[Case],
        field: &mut dyn Field,
        journal: &mut Journal,
        observer: &mut dyn Observer,
    ) -> Result<End> {
        let begun = Instant::now();
        let known: HashSet<String> = journal.map().points.iter().map(|point| point.case.to_string()).collect();
        for case in cases.iter().filter(|case| !known.contains(&case.to_string())) {
            if self.time.is_some_and(|time| begun.elapsed() >= time) {
                return Ok(End::Late);
            }
            let point = self.measure(case, field, observer);
            if self.bench.stop.load(Relaxed) {
                return Ok(End::Interrupted);
            }
            journal.add(point?)?;
        }
        Ok(End::Done)
    }

    fn measure(&mut self, case: &Case, field: &mut dyn Field, observer: &mut dyn Observer) -> Result<Point> {
        let begun = Instant::now();
        self.bench.heads_checked = heads_checked(case.shape);
        let prepared = self.bench.prepare(case)?;
        let rows = self.bench.measure(&prepared, field.of(case)?, observer)?;
        let results = rows.into_iter().map(Into::into).collect();
        Ok(Point { case: *case, seconds: begun.elapsed().as_secs_f64(), results })
    }
}

/// Number of heads to compare with the reference: fewer for long sequences, to bound the time of a point.
fn heads_checked(shape: Shape) -> usize {
    let scores_of_a_head = u64::from(shape.sequence) * u64::from(shape.kv_sequence);
    (CHECKED_SCORES / scores_of_a_head).clamp(1, MOST_CHECKED.into()) as usize
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::record::tests::header;
    use super::super::record::{Map, Time};
    use super::*;
    use cli::error::Error;
    use cli::record::Ceilings;
    use cli::stand_ins::{Behaviour, Stub, monitor};
    use contract::config::{Element, Mask};
    use contract::view::Layout;

    /// Contenders on the CPU, and a GPU that is lost after a number of points.
    struct Stubs {
        contenders: Vec<Box<dyn Contender>>,
        points_left: usize,
    }

    impl Field for Stubs {
        fn of(&mut self, case: &Case) -> Result<Vec<&mut Box<dyn Contender>>> {
            let lost = || Error::Unavailable("the GPU is gone".into());
            self.points_left = self.points_left.checked_sub(1).ok_or_else(lost)?;
            // Like a variant that does not accept a problem: the last one takes part in long sequences only.
            let count = if case.shape.sequence < 20 { self.contenders.len() - 1 } else { self.contenders.len() };
            Ok(self.contenders.iter_mut().take(count).collect())
        }
    }

    fn stubs(points_left: usize) -> Stubs {
        let stub = |(name, behaviour): (&str, Behaviour)| -> Box<dyn Contender> {
            Box::new(Stub { name: name.to_owned(), behaviour })
        };
        let contenders = [("fa512", Behaviour::Takes(4.0)), ("wrong", Behaviour::Wrong), ("last", Behaviour::Right)];
        Stubs { contenders: contenders.map(stub).into(), points_left }
    }

    struct Silent;

    impl Observer for Silent {
        fn checking(&mut self, _: &Case, _: &str) {}
        fn turned(&mut self, _: &Case) {}
    }

    fn cases(sequences: &[u32]) -> Vec<Case> {
        let shape = |sequence| Shape::new(1, 2, sequence);
        let case = |&sequence| Case::plain(shape(sequence), Element::F16, Mask::Causal, Layout::Bhsd);
        sequences.iter().map(case).collect()
    }

    /// Runs sequences of these lengths on the record at `path`.
    fn run(
        path: &std::path::Path,
        sequences: &[u32],
        points_left: usize,
        time: Option<Duration>,
        stop: bool,
    ) -> Result<End> {
        let (ceilings, monitor, stop) = (Ceilings::default(), monitor(), AtomicBool::new(stop));
        let protocol = header().protocol;
        let bench =
            Bench { protocol, heads_checked: 1, resamples: 1, ceilings: &ceilings, monitor: &monitor, stop: &stop };
        let mut journal = Journal::open(path, header())?;
        Session { bench, time }.run(&cases(sequences), &mut stubs(points_left), &mut journal, &mut Silent)
    }

    fn lengths(path: &std::path::Path) -> Vec<u32> {
        Map::load(path).unwrap().points.iter().map(|point| point.case.shape.sequence).collect()
    }

    #[test]
    fn every_point_is_measured_once_by_those_who_take_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.jsonl");
        assert_eq!(run(&path, &[16], 9, None, false).unwrap(), End::Done);
        assert_eq!(run(&path, &[24, 16], 1, None, false).unwrap(), End::Done, "16 is known");
        assert_eq!(lengths(&path), [16, 24]);
        let map = Map::load(&path).unwrap();
        let names = |index: usize| map.points[index].results.iter().map(|outcome| outcome.contender.as_str());
        assert_eq!(names(0).collect::<Vec<_>>(), ["fa512", "wrong"]);
        assert_eq!(names(1).collect::<Vec<_>>(), ["fa512", "wrong", "last"]);
        let results = &map.points[1].results;
        assert_eq!(results[0].median_us(), Some(4.0));
        assert!(
            matches!(&results[1].time, Time::Wrong { reason } if reason.contains("1 wrong elements")),
            "{results:?}"
        );
    }

    #[test]
    fn what_was_measured_is_kept_whatever_ends_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.jsonl");
        let error = run(&path, &[16, 17], 1, None, false).unwrap_err().to_string();
        assert_eq!((error.as_str(), lengths(&path)), ("the GPU is gone", vec![16]));
        assert_eq!(run(&path, &[17], 9, Some(Duration::ZERO), false).unwrap(), End::Late);
        assert_eq!(run(&path, &[17], 9, None, true).unwrap(), End::Interrupted);
        assert_eq!(lengths(&path), [16], "a point that was interrupted is not written down");
    }

    #[test]
    fn fewer_heads_of_long_sequences_are_checked() {
        let checked = |sequence| heads_checked(Shape::new(8, 8, sequence));
        assert_eq!([16, 2048, 4096, 8192, 100_000].map(checked), [4, 4, 2, 1, 1]);
        assert_eq!(heads_checked(Shape::new(8, 8, 2048).with_kv_sequence(16_384)), 1, "by the number of keys, too");
    }
}

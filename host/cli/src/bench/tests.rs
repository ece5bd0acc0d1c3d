use contract::config::{Element, Mask};

use super::*;
use crate::inputs::Distribution;
use crate::record::Outcome;
use crate::stand_ins::{Behaviour, Stub, monitor};
use crate::timing::{L2, Protocol};
use contract::problem::Shape;
use contract::view::Layout;

/// Counts calls.
#[derive(Default)]
struct Counter {
    checked: Vec<String>,
    turns: usize,
}

impl Observer for Counter {
    fn checking(&mut self, _: &Case, contender: &str) {
        self.checked.push(contender.to_owned());
    }

    fn turned(&mut self, _: &Case) {
        self.turns += 1;
    }
}

fn run(contenders: &[(&'static str, Behaviour)], stop: bool) -> (Result<Vec<Row>>, Counter) {
    let stub = |&(name, behaviour): &(&str, Behaviour)| Stub { name: name.to_owned(), behaviour };
    let mut contenders: Vec<Box<dyn Contender>> =
        contenders.iter().map(|one| Box::new(stub(one)) as Box<dyn Contender>).collect();
    let protocol = RunProtocol {
        timing: Protocol::new(L2::Warm),
        samples: 5,
        order_seed: 1,
        distribution: Distribution::Normal,
        input_seed: 1,
    };
    let (ceilings, monitor, stop) = (Ceilings::default(), monitor(), AtomicBool::new(stop));
    let bench =
        Bench { protocol, heads_checked: 2, resamples: 100, ceilings: &ceilings, monitor: &monitor, stop: &stop };
    let shape = Shape::new(1, 3, 16);
    let case = Case::plain(shape, Element::F16, Mask::Causal, Layout::Bhsd);
    let mut counter = Counter::default();
    let rows = bench.run(&case, &mut contenders, &mut counter);
    (rows, counter)
}

#[test]
fn every_contender_takes_one_sample_in_every_turn() {
    let (rows, counter) = run(&[("a", Behaviour::Right), ("b", Behaviour::Right)], false);
    let rows = rows.unwrap();
    assert_eq!(rows.iter().map(|row| row.contender.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    for row in &rows {
        let measurement = row.measurement().expect("it was measured");
        assert_eq!(measurement.samples_us.in_order(), [3.0, 4.0, 5.0, 6.0, 7.0], "two turns are thrown away");
        assert_eq!(measurement.correctness.heads_checked, 2);
    }
    assert_eq!((counter.checked, counter.turns), (vec!["a".into(), "b".into()], 7));
}

#[test]
fn what_is_wrong_is_never_timed_and_the_others_go_on() {
    let entered = [
        ("wrong", Behaviour::Wrong),
        ("refuses", Behaviour::Refuses),
        ("dies", Behaviour::FailsWhenTimed),
        ("right", Behaviour::Right),
    ];
    let rows = run(&entered, false).0.unwrap();
    let Outcome::Wrong { correctness } = &rows[0].outcome else { panic!("{:?}", rows[0]) };
    assert_eq!(correctness.wrong_elements, 1);
    let reason = |row: &Row| match &row.outcome {
        Outcome::NotRun { reason } => reason.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(&rows[1]), "not this one");
    assert_eq!(reason(&rows[2]), "the process died");
    assert!(rows[1].implementation.is_none() && rows[2].implementation.is_some());
    assert!(rows[3].measurement().is_some());
}

#[test]
fn a_stopped_bench_is_an_error() {
    let (rows, counter) = run(&[("a", Behaviour::Right)], true);
    assert!(rows.unwrap_err().to_string().contains("interrupted"));
    assert_eq!(counter.turns, 0);
}

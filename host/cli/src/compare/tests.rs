use super::*;
use crate::record::{Correctness, Telemetry};
use crate::stand_ins::record;
use crate::timing::L2;

/// A record with times slightly above 50 µs, multiplied by `factor`.
fn times(factor: f64) -> BenchRecord {
    record((0..100).map(|i| factor * (50.0 + f64::from(i * 37 % 101) / 100.0)).collect())
}

fn compare(new: &BenchRecord, old: &BenchRecord) -> Result<Comparison> {
    Comparison::new(new, old, &[], Thresholds::default(), &Bootstrap::new(0), || ())
}

fn refusal(new: &BenchRecord, old: &BenchRecord) -> String {
    compare(new, old).unwrap_err().to_string()
}

#[test]
fn faster_slower_and_the_same_are_told_apart() {
    for (factor, change) in [(0.8, Change::Improved), (1.05, Change::Regressed), (1.001, Change::None)] {
        let comparison = compare(&times(factor), &times(1.0)).unwrap();
        assert_eq!((comparison.overall, comparison.rows.len()), (change, 1), "{factor}");
        let Ground::Times(evidence) = &comparison.rows[0].ground else { panic!("{comparison:?}") };
        assert!((evidence.ratio - factor).abs() < 1e-9);
    }
}

#[test]
fn one_regression_outweighs_improvements() {
    let (mut new, mut old) = (times(0.8), times(1.0));
    new.rows.extend(times(1.1).rows.into_iter().map(|row| Row { contender: "other".into(), ..row }));
    old.rows.push(Row { contender: "other".into(), ..old.rows[0].clone() });
    let comparison = compare(&new, &old).unwrap();
    assert_eq!(comparison.rows.iter().map(|row| row.change).collect::<Vec<_>>(), [Change::Improved, Change::Regressed]);
    assert_eq!(comparison.overall, Change::Regressed);
    let mut seen = 0;
    let only = Comparison::new(&new, &old, &["fa512".into()], Thresholds::default(), &Bootstrap::new(0), || seen += 1)
        .unwrap();
    assert_eq!(seen, new.rows.len(), "progress counts every row");
    assert_eq!((only.overall, only.rows.len()), (Change::Improved, 1), "others are not asked for");
}

#[test]
fn what_became_wrong_regressed() {
    let correctness =
        Correctness { wrong_elements: 3, ..times(1.0).rows[0].measurement().unwrap().correctness.clone() };
    let mut new = times(0.5);
    new.rows[0].outcome = Outcome::Wrong { correctness };
    let comparison = compare(&new, &times(1.0)).unwrap();
    let Ground::Wrong { reason } = &comparison.rows[0].ground else { panic!("{comparison:?}") };
    assert!(comparison.overall == Change::Regressed && reason.contains("3 wrong elements"), "{reason}");
}

#[test]
fn unlike_things_are_not_compared() {
    let old = times(1.0);
    let mut new = times(1.0);
    new.environment.device.name = "NVIDIA L4".into();
    new.protocol.timing.l2 = L2::Warm;
    let message = refusal(&new, &old);
    assert!(message.contains("measured on NVIDIA L4 (sm_90), before NVIDIA H200 (sm_90)"), "{message}");
    assert!(message.contains("L2 warm, before cold"), "{message}");
}

#[test]
fn records_without_a_common_row_are_not_compared() {
    let old = times(1.0);
    let mut new = times(1.0);
    new.rows[0].contender = "other".into();
    let message = refusal(&new, &old);
    assert!(message.contains("32x8x512 full other: is not in the old record"), "{message}");
    assert!(message.contains("32x8x512 full fa512: is not in the new record"), "{message}");
    new.rows[0] = Row { outcome: Outcome::NotRun { reason: "no GPU memory".into() }, ..old.rows[0].clone() };
    assert!(refusal(&new, &old).contains("was not measured in the new record: no GPU memory"));
}

#[test]
fn circumstances_that_differ_are_named() {
    let old = times(1.0);
    let mut new = times(1.0);
    new.environment.telemetry = Telemetry::Nvml {
        driver_version: "580.95".into(),
        uuid: "GPU-0".into(),
        power_limit_watts: None,
        maximum_sm_clock_mhz: None,
    };
    assert_eq!(compare(&new, &old).unwrap().differences, ["driver 580.95, before unknown"]);
    assert_eq!(compare(&old, &old).unwrap().differences, Vec::<String>::new());
}

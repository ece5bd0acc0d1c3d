use super::*;
use crate::ncu::{Profile, RawPage};
use crate::record::Outcome;
use crate::stand_ins::record;

/// Names of the rules that fire.
fn fired(facts: &Facts) -> Vec<&'static str> {
    let fires = |judgment: &Judgment| matches!(judgment.verdict, Verdict::Fires { .. });
    judge(facts).iter().filter(|judgment| fires(judgment)).map(|judgment| judgment.rule.name).collect()
}

fn facts(values: &[(Fact, f64)]) -> Facts {
    let mut facts = Facts::default();
    values.iter().for_each(|&(fact, value)| facts.set(fact, Some(value)));
    facts
}

/// Profile of ncu 2025.3.1 on an H200: the sm_80 kernel for S=512, full mask.
fn profiled() -> Profile {
    Profile::new(&RawPage::parse(include_str!("../../tests/ncu/full.raw.csv")).unwrap()).unwrap()
}

#[test]
fn each_rule_fires_on_its_own_conditions_and_not_at_its_bounds() {
    for rule in RULES {
        let at = |offset: f64| {
            let value = |condition: &Condition| match condition.bound {
                rules::Bound::Below(bound) => (condition.fact, bound - offset),
                rules::Bound::Above(bound) => (condition.fact, bound + offset),
            };
            facts(&rule.conditions.iter().map(value).collect::<Vec<_>>())
        };
        assert!(fired(&at(1e-9)).contains(&rule.name), "{}", rule.name);
        assert!(!fired(&at(0.0)).contains(&rule.name), "{} at its bounds", rule.name);
    }
}

#[test]
fn rules_have_names_of_their_own_and_say_everything() {
    for (index, rule) in RULES.iter().enumerate() {
        assert!(RULES[..index].iter().all(|other| other.name != rule.name), "{} twice", rule.name);
        assert!(!rule.conditions.is_empty(), "{}", rule.name);
        for text in [rule.bottleneck, rule.experiment, rule.source] {
            assert!(!text.is_empty(), "{}", rule.name);
        }
    }
}

#[test]
fn what_is_not_known_leaves_a_rule_undecided() {
    let judgments = judge(&Facts::default());
    for judgment in &judgments {
        let conditions: Vec<_> = judgment.rule.conditions.iter().map(|condition| condition.fact).collect();
        assert_eq!(judgment.verdict, Verdict::Undecided { missing: conditions }, "{}", judgment.rule.name);
    }
}

#[test]
fn a_known_condition_that_fails_settles_a_rule() {
    let judgments = judge(&facts(&[(Fact::Dram, 0.9)]));
    let waiting = judgments.iter().find(|judgment| judgment.rule.name == "waiting for global memory").unwrap();
    assert!(matches!(&waiting.verdict, Verdict::DoesNotFire { evidence } if evidence.condition.fact == Fact::Dram));
}

#[test]
fn made_up_kernels_get_their_bottleneck() {
    let idle = [(Fact::TensorCores, 0.3), (Fact::Dram, 0.2), (Fact::L2, 0.3), (Fact::Exponentials, 0.3)];
    let with = |more: &[(Fact, f64)]| fired(&facts(&[&idle, more].concat()));
    assert_eq!(with(&[(Fact::WrongElements, 3.0), (Fact::LocalAccesses, 9.0)]), ["wrong results", "spills"]);
    assert_eq!(with(&[(Fact::MedianTime, 4.0)]), ["launch-bound"]);
    assert_eq!(with(&[(Fact::TimeOverBest, 2.1)]), ["far behind"]);
    assert_eq!(with(&[(Fact::GlobalMemoryStalls, 0.4)]), ["waiting for global memory"]);
    assert_eq!(with(&[(Fact::BarrierStalls, 0.3)]), ["waiting at barriers"]);
    assert_eq!(with(&[(Fact::WarpgroupProductStalls, 0.5)]), ["waiting for warpgroup products"]);
    assert_eq!(with(&[(Fact::Waves, 1.02), (Fact::WaveEfficiency, 0.51)]), ["partial wave"]);
    assert_eq!(with(&[(Fact::Waves, 0.48), (Fact::WaveEfficiency, 0.48)]), ["GPU not filled"]);
    assert_eq!(fired(&facts(&[(Fact::TensorCores, 0.85), (Fact::BarrierStalls, 0.3)])), ["tensor-bound"]);
    assert_eq!(fired(&facts(&[(Fact::Dram, 0.85), (Fact::GlobalMemoryStalls, 0.5)])), ["memory-bound"]);
}

#[test]
fn a_recorded_profile_of_a_kernel_with_two_blocks_of_four_warps() {
    let mut facts = Facts::default();
    facts.add_profile(&profiled());
    assert_eq!(fired(&facts), ["too few warps"], "12 % occupancy, a quarter of the time in fixed latencies");
    assert_eq!(facts.get(Fact::LocalAccesses), Some(0.0));
    assert!((facts.get(Fact::WaveEfficiency).unwrap() - 3.88 / 4.0).abs() < 1e-12);
    assert!((facts.get(Fact::OccupancyOfAllowed).unwrap() - 0.96).abs() < 0.01);
}

#[test]
fn a_record_tells_the_time_and_the_fastest_other() {
    let mut record = record(vec![100.0; 5]);
    let mut other = super::tests::record(vec![40.0; 5]).rows.remove(0);
    other.contender = "torch:cudnn".into();
    record.rows.push(other);
    let mut facts = Facts::default();
    facts.add_row(&record, &record.rows[0]);
    assert_eq!(facts.get(Fact::MedianTime), Some(100.0));
    assert_eq!(facts.get(Fact::TimeOverBest), Some(2.5));
    assert_eq!(fired(&facts)[0], "far behind");
    let mut best = Facts::default();
    best.add_row(&record, &record.rows[1]);
    assert_eq!(best.get(Fact::TimeOverBest), Some(0.4));
    assert!(!fired(&best).contains(&"far behind"));
}

#[test]
fn others_of_another_case_or_not_measured_do_not_count() {
    let mut record = record(vec![100.0; 5]);
    let template = record.rows[0].clone();
    let mut elsewhere = super::tests::record(vec![1.0; 5]).rows.remove(0);
    elsewhere.case.shape.batch = 1;
    elsewhere.contender = "torch:flash".into();
    let absent = crate::record::Row {
        contender: "torch:cudnn".into(),
        outcome: Outcome::NotRun { reason: "no Python".into() },
        ..template
    };
    record.rows.extend([elsewhere, absent]);
    let mut facts = Facts::default();
    facts.add_row(&record, &record.rows[0]);
    assert_eq!(facts.get(Fact::TimeOverBest), None);
}

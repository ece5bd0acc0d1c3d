//! From measurements to the next experiment: [`facts`] collects what a bench record and a profile say about one
//! contender in one case, [`rules`] is the decision tree, [`judge()`] applies it.

pub mod facts;
pub mod rules;

use serde::Serialize;

use facts::{Fact, Facts};
use rules::{Condition, RULES, Rule};

/// The outcome of a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// All of its conditions hold.
    Fires {
        /// The values that satisfied the conditions.
        evidence: Vec<Evidence>,
    },
    /// One of its conditions does not hold.
    DoesNotFire {
        /// That condition, and the value.
        evidence: Evidence,
    },
    /// The values of some conditions are unknown; the others hold.
    Undecided {
        /// The unknown facts.
        missing: Vec<Fact>,
    },
}

/// A condition and the value that it was evaluated on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// The condition.
    #[serde(flatten)]
    pub condition: Condition,
    /// The value.
    pub value: f64,
}

impl std::fmt::Display for Evidence {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { condition, value } = self;
        write!(formatter, "{} {} ({condition})", condition.fact.name(), condition.fact.quantity().show(*value))
    }
}

/// A rule and its outcome.
#[derive(Clone, Debug, Serialize)]
pub struct Judgment {
    /// The rule.
    #[serde(flatten)]
    pub rule: &'static Rule,
    /// The outcome.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Applies every rule to `facts`, in order. The first rule that fires is the bottleneck.
pub fn judge(facts: &Facts) -> Vec<Judgment> {
    RULES.iter().map(|rule| Judgment { rule, verdict: verdict(rule, facts) }).collect()
}

fn verdict(rule: &Rule, facts: &Facts) -> Verdict {
    let mut evidence = Vec::new();
    let mut missing = Vec::new();
    for &condition in rule.conditions {
        match facts.get(condition.fact) {
            None => missing.push(condition.fact),
            Some(value) if condition.holds(value) => evidence.push(Evidence { condition, value }),
            Some(value) => return Verdict::DoesNotFire { evidence: Evidence { condition, value } },
        }
    }
    if missing.is_empty() { Verdict::Fires { evidence } } else { Verdict::Undecided { missing } }
}

#[cfg(test)]
mod tests;

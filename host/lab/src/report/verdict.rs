//! Which contender of a record is the fastest, by how much, and in how many cases.

use super::cases;
use cli::record::{BenchRecord, Case, Pair};
use cli::statistics::{Bootstrap, CONFIDENCE, Interval};

/// The two fastest contenders of a case.
struct Lead {
    case: Case,
    first: String,
    second: String,
    /// The second's time over the first's.
    ratio: f64,
    interval: Interval,
}

impl Lead {
    /// Whether the difference is significant.
    fn decided(&self) -> bool {
        self.interval.low > 1.0
    }

    fn words(&self) -> String {
        let Self { case, second, ratio, interval: Interval { low, high }, .. } = self;
        format!(
            "{ratio:.3} times as fast as {second} in {case} ({:.0} % interval {low:.3} to {high:.3})",
            100.0 * CONFIDENCE
        )
    }
}

/// The verdict on a record.
pub struct Verdict {
    leads: Vec<Lead>,
    leader: Option<String>,
}

impl Verdict {
    /// The verdict of `record`.
    pub fn new(record: &BenchRecord) -> Self {
        let bootstrap = Bootstrap::new(record.protocol.order_seed);
        let leads: Vec<_> =
            cases::distinct(record).into_iter().filter_map(|case| lead(record, case, &bootstrap)).collect();
        let wins = |name: &str| leads.iter().filter(|lead| lead.decided() && lead.first == name).count();
        let names = record.rows.iter().map(|row| &row.contender);
        // Ties go to the first in the record: max_by_key would take the last.
        let leader = names.rev().max_by_key(|name| wins(name)).filter(|name| wins(name) > 0).cloned();
        Self { leads, leader }
    }

    /// The contender that is fastest in most cases.
    pub fn leader(&self) -> Option<&str> {
        self.leader.as_deref()
    }

    /// The verdict in a few sentences.
    pub fn words(&self) -> String {
        let Some(leader) = &self.leader else {
            return match self.leads.len() {
                0 => "No case has times of two contenders: nothing is compared.".into(),
                _ => "No contender is the fastest: in no case are the two fastest told apart.".into(),
            };
        };
        let (won, others): (Vec<&Lead>, Vec<&Lead>) =
            self.leads.iter().partition(|lead| lead.decided() && lead.first == *leader);
        let mut text = format!("{leader} is the fastest in {}: ", part(won.len(), self.leads.len()));
        let by_ratio = |a: &&&Lead, b: &&&Lead| a.ratio.total_cmp(&b.ratio);
        match (won.iter().min_by(by_ratio), won.iter().max_by(by_ratio)) {
            (Some(least), Some(most)) if won.len() > 1 => {
                text += &format!("at least {}, at most {}.", least.words(), most.words());
            }
            (Some(only), _) => text += &format!("{}.", only.words()),
            _ => {}
        }
        text + &rest(&others)
    }
}

fn lead(record: &BenchRecord, case: Case, bootstrap: &Bootstrap) -> Option<Lead> {
    let [(first, _), (second, _), ..] = cases::by_speed(record, case)[..] else { return None };
    let Pair { ratio, ratio_interval: interval, .. } = Pair::new(second, first, bootstrap)?;
    Some(Lead { case, first: first.contender.clone(), second: second.contender.clone(), ratio, interval })
}

fn part(count: usize, of: usize) -> String {
    match (count, of) {
        (1, 1) => "the one case".into(),
        _ if count == of => format!("all {of} cases"),
        _ => format!("{count} of {of} cases"),
    }
}

/// The cases in which another contender is the fastest, or none clearly is.
fn rest(others: &[&Lead]) -> String {
    let (lost, open): (Vec<&Lead>, Vec<&Lead>) = others.iter().copied().partition(|lead| lead.decided());
    let mut parts: Vec<String> = lost.iter().map(|lead| format!("{} is {}", lead.first, lead.words())).collect();
    let cases: Vec<_> = open.iter().map(|lead| lead.case.to_string()).collect();
    if !cases.is_empty() {
        parts.push(format!("the two fastest are not told apart in {}", cases.join(", ")));
    }
    if parts.is_empty() { String::new() } else { format!(" Elsewhere {}.", parts.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cli::stand_ins::record;

    fn with(times: &[(&str, f64)]) -> BenchRecord {
        let mut all = record(vec![1.0]);
        all.rows = times
            .iter()
            .map(|&(name, time)| {
                let mut row = record(vec![time; 5]).rows.remove(0);
                row.contender = name.into();
                row
            })
            .collect();
        all
    }

    #[test]
    fn the_fastest_is_named_with_its_ratio_to_the_next() {
        let verdict = Verdict::new(&with(&[("slow", 30.0), ("ours", 10.0), ("next", 15.0)]));
        assert_eq!(verdict.leader(), Some("ours"));
        let expected = "ours is the fastest in the one case: 1.500 times as fast as next in 32x8x512 full (95 % interval 1.500 to 1.500).";
        assert_eq!(verdict.words(), expected);
    }

    #[test]
    fn nobody_is_the_fastest_without_a_difference_or_another_contender() {
        let same = Verdict::new(&with(&[("a", 10.0), ("b", 10.0)]));
        assert_eq!((same.leader(), same.words().contains("told apart")), (None, true));
        assert!(Verdict::new(&with(&[("a", 10.0)])).words().contains("nothing is compared"));
        assert!(Verdict::new(&with(&[])).words().contains("nothing is compared"));
    }

    #[test]
    fn cases_that_the_leader_loses_are_named() {
        let mut record = with(&[("a", 10.0), ("b", 12.0), ("a", 10.0), ("b", 12.0), ("a", 20.0), ("b", 10.0)]);
        for (index, row) in record.rows.iter_mut().enumerate() {
            row.case.shape.batch = 1 + index as u32 / 2;
        }
        let words = Verdict::new(&record).words();
        assert!(words.starts_with("a is the fastest in 2 of 3 cases: at least 1.200 times"), "{words}");
        assert!(words.contains("Elsewhere b is 2.000 times as fast as a in 3x8x512 full"), "{words}");
    }
}

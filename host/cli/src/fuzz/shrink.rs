//! Shrinks a failing case.

mod lengths;

use contract::config::Sequence;

use super::case::{Case, View};
use crate::inputs::{Distribution, Lengths};
use crate::score_mod::{BiasForm, ScoreModForm};
use contract::limits::ROW_ALIGNMENT;
use contract::problem::{Alignment, DEFAULT_HEAD_DIM, Shape, Slopes, Window};
use contract::view::Layout;
use lengths::simpler_lengths;

/// The result of shrinking.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The simplest failing case found.
    pub case: Case,
    /// Number of simpler cases tried.
    pub tried: usize,
}

/// Repeatedly takes the first simpler case that still fails, until none does or `budget` cases were tried.
pub fn shrink(case: &Case, budget: usize, mut fails: impl FnMut(&Case) -> bool) -> Shrunk {
    let mut simplest = case.clone();
    let mut passed: Vec<Case> = Vec::new();
    let mut tried = 0;
    'simpler: loop {
        for candidate in simpler(&simplest) {
            if candidate == simplest || passed.contains(&candidate) {
                continue;
            }
            if tried == budget {
                break 'simpler;
            }
            tried += 1;
            if fails(&candidate) {
                simplest = candidate;
                continue 'simpler;
            }
            passed.push(candidate);
        }
        break;
    }
    Shrunk { case: simplest, tried }
}

/// Simpler cases for the same kernel, largest steps first.
fn simpler(case: &Case) -> Vec<Case> {
    let mut candidates = Vec::new();
    let mut add = |change: &dyn Fn(&mut Case)| {
        let mut candidate = case.clone();
        change(&mut candidate);
        candidates.push(candidate);
    };
    // The entries of a padded batch must lie one after another.
    let is_padded = matches!(case.lengths, Some(Lengths::Padded(..)));
    let contiguous = View::contiguous(if is_padded { Layout::Bshd } else { Layout::Bhsd });
    add(&|case| case.views = [contiguous; 4]);
    for (shape, lengths) in case.lengths.iter().flat_map(|lengths| simpler_lengths(case.shape, lengths)) {
        add(&|case| (case.shape, case.lengths) = (shape, Some(lengths.clone())));
    }
    for batch in smaller(case.shape.batch).into_iter().filter(|_| !is_padded) {
        add(&|case| case.shape = Shape { batch, ..case.shape });
    }
    let Shape { heads, kv_heads, sequence, kv_sequence, .. } = case.shape;
    add(&|case| case.shape = case.shape.with_kv_heads(heads));
    for groups in smaller(kv_heads) {
        add(&|case| case.shape = Shape { heads: heads / kv_heads * groups, kv_heads: groups, ..case.shape });
    }
    for group in smaller(heads / kv_heads) {
        add(&|case| case.shape = Shape { heads: group * kv_heads, ..case.shape });
    }
    if case.target.sequence == Sequence::Any {
        // Equal numbers of keys and queries are simplest, and stay equal.
        let as_many = |rows: u32| [rows, rows];
        let sizes: Vec<_> = match sequence == kv_sequence {
            true => smaller(sequence).into_iter().map(as_many).collect(),
            false => {
                let fewer_queries = smaller(sequence).into_iter().map(|rows| [rows, kv_sequence]);
                let fewer_keys = smaller(kv_sequence).into_iter().map(|keys| [sequence, keys]);
                [sequence, kv_sequence].map(as_many).into_iter().chain(fewer_queries).chain(fewer_keys).collect()
            }
        };
        for [sequence, kv_sequence] in sizes {
            add(&|case| case.shape = Shape { sequence, kv_sequence, ..case.shape });
        }
    }
    add(&|case| case.alignment = Alignment::default());
    for head_dim in simpler_head_dims(case) {
        add(&|case| case.shape = case.shape.with_head_dim(head_dim));
    }
    for distribution in simpler_distributions(case.distribution) {
        add(&|case| case.distribution = distribution);
    }
    if let Some(Window { left, right }) = case.window {
        let sides =
            |side: Option<u32>| side.map_or(vec![Some(0)], |keys| smaller(keys).into_iter().map(Some).collect());
        let windows = sides(left).into_iter().map(|left| Window { left, right });
        let windows = windows.chain(sides(right).into_iter().map(|right| Window { left, right }));
        for window in windows.filter(|window| window.left.is_some()) {
            add(&|case| case.window = Some(window));
        }
    }
    add(&|case| case.scale = None);
    for score_mod in simpler_score_mods(case) {
        add(&|case| case.score_mod = score_mod);
    }
    add(&|case| case.lse = true);
    add(&|case| case.seed = 0);
    for tensor in 0..case.views.len() {
        add(&|case| case.views[tensor] = contiguous);
        add(&|case| case.views[tensor].offset = 0);
        add(&|case| case.views[tensor].shared_heads = false);
        add(&|case| case.views[tensor].order = contiguous.order);
        for dimension in 0..3 {
            add(&|case| case.views[tensor].padding[dimension] = 0);
        }
    }
    candidates.retain(|candidate| candidate.problem().is_ok());
    candidates
}

/// 1, then `size` minus a half, a quarter … of it, down to one less.
fn smaller(size: u32) -> Vec<u32> {
    let steps = std::iter::successors(Some(size / 2), |step| Some(step / 2)).take_while(|step| *step > 0);
    let mut sizes: Vec<u32> = std::iter::once(1).chain(steps.map(|step| size - step)).collect();
    sizes.retain(|candidate| *candidate < size);
    sizes.dedup();
    sizes
}

/// The default head dimension, then fewer columns.
fn simpler_head_dims(case: &Case) -> Vec<u32> {
    const STEP: u32 = ROW_ALIGNMENT as u32;
    let head_dim = case.shape.head_dim;
    if head_dim == DEFAULT_HEAD_DIM {
        return Vec::new();
    }
    let fewer = smaller(head_dim / STEP).into_iter().map(|chunks| chunks * STEP);
    [DEFAULT_HEAD_DIM].into_iter().chain(fewer).filter(|simpler| case.target.head_dims.contains(simpler)).collect()
}

/// One modification less, or one shared by all batch entries; at least one remains, since the kernel requires it, and a bias where it computes
/// dBias.
fn simpler_score_mods(case: &Case) -> Vec<ScoreModForm> {
    let ScoreModForm { softcap, alibi, bias, .. } = case.score_mod;
    let simpler = [
        ScoreModForm { softcap: None, ..case.score_mod },
        ScoreModForm { alibi: None, ..case.score_mod },
        ScoreModForm { bias: None, padded_bias: false, ..case.score_mod },
        ScoreModForm { softcap: softcap.map(|_| 1.0), ..case.score_mod },
        ScoreModForm { alibi: alibi.map(|_| Slopes::PerHead), ..case.score_mod },
        ScoreModForm { bias: bias.map(|_| BiasForm::Qk), ..case.score_mod },
    ];
    let is_enough = |form: &ScoreModForm| !form.is_none() && (form.bias.is_some() || !case.target.needs_bias());
    simpler.into_iter().filter(is_enough).collect()
}

fn simpler_distributions(distribution: Distribution) -> Vec<Distribution> {
    match distribution {
        Distribution::Normal => Vec::new(),
        _ => [Distribution::Normal].iter().chain(distribution.parts()).copied().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::campaign::{Campaign, GRID_CASES, Limits};
    use super::super::case::Target;
    use super::*;

    /// Random cases of a kernel that accepts `sequence`.
    fn cases(sequence: Sequence) -> impl Iterator<Item = Case> {
        let target = Target { head_dims: 1..=128, ..Target::plain("kernel", sequence) };
        let campaign = Campaign::new(vec![target], Limits::GPU, 9).unwrap();
        (GRID_CASES..).map(move |index| campaign.case(index))
    }

    #[test]
    fn packed_sequences_shrink_to_the_one_that_fails() {
        let fails = |case: &Case| match &case.lengths {
            Some(Lengths::Shared(lengths)) => lengths.iter().any(|&length| length >= 17),
            _ => false,
        };
        for case in cases(Sequence::Packed).filter(fails).take(20) {
            let shrunk = shrink(&case, 10_000, fails).case;
            assert_eq!(shrunk.lengths, Some(Lengths::Shared(vec![17])), "from {:?}", case.lengths);
            assert_eq!(shrunk.shape, Shape::new(1, 1, 17));
        }
    }

    #[test]
    fn lengths_of_keys_stay_only_where_the_failure_needs_them() {
        let some = |pairs: &[(u32, u32)]| pairs.iter().any(|&(queries, keys)| queries >= 3 && keys == 0);
        let fails = |case: &Case| match &case.lengths {
            Some(Lengths::Separate(queries, keys)) => {
                some(&queries.iter().copied().zip(keys.iter().copied()).collect::<Vec<_>>())
            }
            _ => false,
        };
        for case in cases(Sequence::Packed).filter(fails).take(5) {
            let shrunk = shrink(&case, 10_000, fails).case;
            let Some(Lengths::Separate(queries, keys)) = shrunk.lengths else { panic!("{:?}", shrunk.lengths) };
            assert_eq!((queries.iter().sum::<u32>(), keys.iter().sum::<u32>()), (3, 1), "from {:?}", case.lengths);
        }
        for case in cases(Sequence::Packed).filter(fails).take(5) {
            let shrunk = shrink(&case, 10_000, |_| true).case;
            assert_eq!(shrunk.lengths, Some(Lengths::Shared(vec![1])), "from {:?}", case.lengths);
        }
    }

    #[test]
    fn a_padded_batch_keeps_the_entry_that_fails() {
        let fails = |case: &Case| match &case.lengths {
            Some(Lengths::Padded(_, Some(keys))) => keys.iter().any(|&used| used + 2 <= case.shape.kv_sequence),
            _ => false,
        };
        for case in cases(Sequence::Packed).filter(fails).take(5) {
            let shrunk = shrink(&case, 10_000, fails).case;
            assert_eq!(shrunk.lengths, Some(Lengths::Padded(None, Some(vec![0]))), "from {:?}", case.lengths);
            assert_eq!(shrunk.shape, Shape::new(1, 1, 1).with_kv_sequence(2));
            shrunk.problem().expect("an acceptable problem");
        }
    }

    #[test]
    fn what_always_fails_shrinks_to_the_plainest_case() {
        for case in cases(Sequence::Any).take(20) {
            let shrunk = shrink(&case, 1000, |_| true);
            let command = shrunk.case.run_arguments().join(" ");
            let plainest =
                "run --variant kernel --mask full --batch 1 --heads 1 --seq 1 --distribution normal --seed 0";
            assert_eq!(command, plainest, "from {case:?}");
        }
    }

    #[test]
    fn the_smallest_failing_size_is_found() {
        let fails = |case: &Case| case.shape.sequence >= 65 && case.shape.heads >= 3;
        for case in cases(Sequence::Any).filter(fails).take(20) {
            let shrunk = shrink(&case, 1000, fails);
            assert_eq!(shrunk.case.shape, Shape::new(1, 3, 65));
        }
    }

    #[test]
    fn other_numbers_of_keys_and_shared_heads_stay_only_where_the_failure_needs_them() {
        let fails = |case: &Case| case.shape.kv_sequence >= 65 && case.shape.sequence <= 10 && case.shape.group() >= 2;
        for case in cases(Sequence::Any).filter(fails).take(5) {
            let expected = Shape::new(1, 2, 1).with_kv_heads(1).with_kv_sequence(65);
            assert_eq!(shrink(&case, 1000, fails).case.shape, expected);
        }
    }

    #[test]
    fn columns_are_the_usual_or_as_few_as_fail() {
        let fails = |case: &Case| case.shape.head_dim >= 72;
        for case in cases(Sequence::Any).filter(fails).take(20) {
            assert_eq!(shrink(&case, 1000, fails).case.shape, Shape::new(1, 1, 1).with_head_dim(72));
        }
        let fails = |case: &Case| case.shape.head_dim != 128;
        for case in cases(Sequence::Any).filter(fails).take(20) {
            assert_eq!(shrink(&case, 1000, fails).case.shape, Shape::new(1, 1, 1));
        }
    }

    #[test]
    fn what_the_failure_needs_is_kept() {
        let needs = |case: &Case| {
            case.views[1].padding[0] > 0 && case.distribution == Distribution::OneHot && case.scale == Some(0.0)
        };
        let case = cases(Sequence::Exact(512)).find(needs).expect("such a case is drawn sooner or later");
        let shrunk = shrink(&case, 1000, needs).case;
        let contiguous = View::contiguous(Layout::Bhsd);
        assert_eq!(shrunk.shape, Shape::new(1, 1, 512), "the kernel accepts no other length");
        assert_eq!((shrunk.views[0], shrunk.views[1].offset), (contiguous, 0));
        assert!(needs(&shrunk));
    }

    #[test]
    fn the_budget_is_kept() {
        let case = cases(Sequence::Any).next().expect("there are cases");
        let shrunk = shrink(&case, 3, |_| false);
        assert_eq!((shrunk.tried, shrunk.case), (3, case));
    }

    #[test]
    fn sizes_come_down_in_halving_steps() {
        assert_eq!(smaller(10), [1, 5, 8, 9]);
        assert_eq!(smaller(2), [1]);
        assert!(smaller(1).is_empty());
    }
}

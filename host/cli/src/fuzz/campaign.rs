//! Draws cases from a seed. Case `i` depends only on the seed, the limits and the list of targets.

mod views;

use std::ops::RangeInclusive;

use contract::config::{Mask, Scores, Sequence};
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::case::{Case, Computes, Target, View};
use crate::error::{Error, Result};
use crate::inputs::{Distribution, Lengths};
use crate::score_mod::{BiasForm, ScoreModForm};
use contract::limits::{MAXIMUM_SCALE, MAXIMUM_SOFTCAP, MINIMUM_SOFTCAP, ROW_ALIGNMENT};
use contract::problem::{Alignment, Shape, Slopes, Window};
use contract::view::Layout;
use views::{draw_views, put_entries_together};

/// Cases at the start of every campaign: three sequence lengths × three batch sizes × three numbers of heads.
pub const GRID_CASES: u64 = 27;

/// Limits on the size of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Limits {
    /// Longest sequence.
    pub sequence: u32,
    /// Maximum number of query-key pairs, B·H·S². A kernel for one length is still run with at least one head.
    pub pairs: u64,
    /// Sequence lengths, batch sizes and numbers of heads of the grid.
    grid: [[u32; 3]; 3],
}

impl Limits {
    /// For a GPU, where the f64 reference dominates the time: up to 128 heads of 512 rows, or 8 of 2048.
    pub const GPU: Self = Self { sequence: 2048, pairs: 1 << 25, grid: [[128, 512, 1024], [1, 2, 4], [1, 4, 8]] };
    /// For the simulator, where a case should take well under a second: up to two heads of 512 rows.
    pub const SIMULATOR: Self = Self { sequence: 640, pairs: 1 << 19, grid: [[32, 64, 130], [1, 2, 3], [1, 2, 4]] };

    /// These limits, with the given values replaced.
    pub fn with(self, sequence: Option<u32>, pairs: Option<u64>) -> Self {
        Self { sequence: sequence.unwrap_or(self.sequence), pairs: pairs.unwrap_or(self.pairs), ..self }
    }
}

/// A campaign: determines which cases are drawn.
#[derive(Clone, Debug)]
pub struct Campaign {
    targets: Vec<Target>,
    limits: Limits,
    seed: u64,
}

impl Campaign {
    /// A campaign over `targets`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are none.
    pub fn new(targets: Vec<Target>, limits: Limits, seed: u64) -> Result<Self> {
        if targets.is_empty() {
            return Err(Error::Invalid("there is no variant to run".into()));
        }
        Ok(Self { targets, limits, seed })
    }

    /// Case `index`. The first [`GRID_CASES`] are the grid, with standard normal inputs and jittered sizes; in all
    /// others everything is random.
    pub fn case(&self, index: u64) -> Case {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(index);
        if index < GRID_CASES { self.grid_case(&mut random, index as usize) } else { self.random_case(&mut random) }
    }

    fn grid_case(&self, random: &mut ChaCha8Rng, index: usize) -> Case {
        let [sequences, batches, heads] = self.limits.grid;
        let batch = jittered(random, batches[index / 3 % 3]);
        let heads = jittered(random, heads[index % 3]);
        let sequence = jittered(random, sequences[index / 9]).min(self.limits.sequence);
        let accepting: Vec<_> = self.targets.iter().filter(|target| target.sequence.accepts(sequence)).collect();
        let target = accepting.choose(random).copied().or_else(|| self.targets.choose(random));
        let target = target.expect("a campaign has targets").clone();
        let (shape, lengths) = match target.sequence {
            Sequence::Packed => {
                let (shape, lengths) = self.packed(random, heads, batch);
                (shape, Some(Lengths::Shared(lengths)))
            }
            Sequence::Exact(length) => (self.batch_of_one_length(length, heads, batch), None),
            Sequence::Any => (self.batch_of_one_length(sequence, heads, batch), None),
        };
        let shape = target.fitted(shape);
        let layout = *[Layout::Bhsd, Layout::Bshd].choose(random).expect("two layouts");
        let head_dim = *target.head_dims.end();
        Case {
            window: None,
            alignment: Alignment::TopLeft,
            score_mod: draw_score_mod(random, &target),
            target,
            shape: shape.with_head_dim(head_dim),
            lengths,
            scale: None,
            views: [View::contiguous(layout); 4],
            lse: random.random(),
            distribution: Distribution::Normal,
            seed: random.random_range(0..1_000_000),
        }
    }

    fn random_case(&self, random: &mut ChaCha8Rng) -> Case {
        let target = self.targets.choose(random).expect("a campaign has targets").clone();
        let (shape, lengths) = match target.sequence {
            Sequence::Exact(length) => (self.random_batch(random, length), None),
            Sequence::Any => {
                let sequence = draw_sequence(random, self.limits.sequence);
                (self.random_batch(random, sequence), None)
            }
            Sequence::Packed => {
                let (heads, sequences) = (draw_log(random, 1, 8), draw_log(random, 1, 40));
                let (shape, lengths) = self.random_lengths(random, heads as u32, sequences as u32);
                (shape, Some(lengths))
            }
        };
        let shape = shape.with_head_dim(draw_head_dim(random, &target.head_dims));
        let shape = shape.with_kv_heads(draw_kv_heads(random, shape.heads));
        let shape = match target.sequence {
            Sequence::Any => shape.with_kv_sequence(self.draw_kv_sequence(random, shape)),
            Sequence::Exact(_) | Sequence::Packed => shape,
        };
        let shape = target.fitted(shape);
        let distributions = <Distribution as clap::ValueEnum>::value_variants().iter();
        // Gradients of infinities are not specified.
        let distributions = distributions.filter(|one| target.computes == Computes::Outputs || one.is_finite());
        let distributions: Vec<_> = distributions.copied().collect();
        let scale = draw_scale(random);
        let mut views = draw_views(random);
        views.iter_mut().for_each(|view| view.shared_heads &= target.shared_heads);
        if matches!(lengths, Some(Lengths::Padded(..))) {
            views.iter_mut().for_each(put_entries_together);
        }
        let window = (target.mask == Mask::Window).then(|| draw_window(random, shape.sequence));
        // A bottom-right aligned causal mask is a window.
        let may_be_anywhere = target.mask != Mask::Causal;
        let alignment = if may_be_anywhere && random.random() { Alignment::BottomRight } else { Alignment::TopLeft };
        Case {
            window,
            alignment,
            score_mod: draw_score_mod(random, &target),
            target,
            shape,
            lengths,
            scale,
            views,
            lse: random.random_bool(0.75),
            distribution: *distributions.choose(random).expect("there are distributions"),
            seed: random.random_range(0..1_000_000),
        }
    }

    /// A batch of sequences of one length, with fewer heads and entries if the limits require it.
    fn batch_of_one_length(&self, sequence: u32, heads: u32, batch: u32) -> Shape {
        let most = self.heads_within(sequence);
        let heads = heads.min(most);
        Shape::new(batch.min(most / heads), heads, sequence)
    }

    fn random_batch(&self, random: &mut ChaCha8Rng, sequence: u32) -> Shape {
        let most = draw_log(random, 1, u64::from(self.heads_within(sequence)));
        let heads = draw_log(random, 1, most);
        let batch = random.random_range(1..=most / heads);
        Shape::new(batch as u32, heads as u32, sequence)
    }

    /// Number of keys for the queries of `shape`: equal half of the time, else any number within the limits.
    fn draw_kv_sequence(&self, random: &mut ChaCha8Rng, Shape { batch, heads, sequence, .. }: Shape) -> u32 {
        let pairs = self.limits.pairs / u64::from(batch) / u64::from(heads) / u64::from(sequence);
        let most = (pairs as u32).clamp(1, self.limits.sequence);
        if random.random() { sequence } else { draw_sequence(random, most) }
    }

    /// Packed sequences of random lengths, some empty, and their shape.
    fn packed(&self, random: &mut ChaCha8Rng, heads: u32, sequences: u32) -> (Shape, Vec<u32>) {
        let longest = self.longest_of(heads, sequences);
        let mut length = || if random.random_range(0..8) == 0 { 0 } else { draw_sequence(random, longest) };
        let mut lengths: Vec<u32> = (0..sequences).map(|_| length()).collect();
        lengths[0] = lengths[0].max(1);
        (Shape::new(1, heads, lengths.iter().sum()), lengths)
    }

    /// Sequences like those of [`Self::packed`]; a third has other numbers of keys, a third is a padded batch.
    fn random_lengths(&self, random: &mut ChaCha8Rng, heads: u32, sequences: u32) -> (Shape, Lengths) {
        let (shape, queries) = self.packed(random, heads, sequences);
        match random.random_range(0..3) {
            0 => (shape, Lengths::Shared(queries)),
            1 => {
                let (of_keys, others) = self.packed(random, heads, sequences);
                let shape = shape.with_kv_sequence(of_keys.sequence);
                (shape, Lengths::Separate(queries, others))
            }
            _ => {
                let (_, keys) = self.packed(random, heads, sequences);
                let mut room = |used: &[u32]| {
                    let most = used.iter().copied().max().unwrap_or(1);
                    random.random_range(most..=self.longest_of(heads, sequences).max(most))
                };
                let shape = Shape::new(sequences, heads, room(&queries)).with_kv_sequence(room(&keys));
                let which = random.random_range(0..3);
                (shape, Lengths::Padded((which != 1).then_some(queries), (which != 2).then_some(keys)))
            }
        }
    }

    /// Maximum length of `sequences` sequences within the limits.
    fn longest_of(&self, heads: u32, sequences: u32) -> u32 {
        let pairs = self.limits.pairs / u64::from(heads) / u64::from(sequences);
        (pairs.isqrt() as u32).clamp(1, self.limits.sequence)
    }

    /// Maximum number of heads of that length within the limits, at least one.
    fn heads_within(&self, sequence: u32) -> u32 {
        const MOST: u64 = 1024;
        (self.limits.pairs / u64::from(sequence).pow(2)).clamp(1, MOST) as u32
    }
}

/// `size` unchanged with probability 1/4, else up to an eighth larger or smaller; at least 1.
fn jittered(random: &mut ChaCha8Rng, size: u32) -> u32 {
    let jitter = (size / 8).max(1);
    let drawn = random.random_range(size.saturating_sub(jitter).max(1)..=size + jitter);
    if random.random_range(0..4) == 0 { size } else { drawn }
}

/// A number from `low` to `high` with uniform logarithm.
fn draw_log(random: &mut ChaCha8Rng, low: u64, high: u64) -> u64 {
    // A power of two plus a uniform number below it: no logarithm, whose last bit may differ between machines.
    let (bits_low, bits_high) = (low.ilog2(), high.ilog2());
    let bits = random.random_range(bits_low..=bits_high);
    random.random_range((1 << bits).max(low)..=((2 << bits) - 1).min(high))
}

/// Heads of K and V for `heads` heads of Q: equal half of the time, else one, or a divisor.
fn draw_kv_heads(random: &mut ChaCha8Rng, heads: u32) -> u32 {
    match random.random_range(0..4) {
        0 | 1 => heads,
        2 => 1,
        _ => {
            let divisors: Vec<u32> = (1..=heads).filter(|divisor| heads.is_multiple_of(*divisor)).collect();
            *divisors.choose(random).expect("1 divides every number")
        }
    }
}

/// A multiple of 8 in `range`: the end half of the time, else often a width of whole tiles.
fn draw_head_dim(random: &mut ChaCha8Rng, range: &RangeInclusive<u32>) -> u32 {
    const STEP: u32 = ROW_ALIGNMENT as u32;
    const TILES: [u32; 3] = [32, 64, 128];
    let (least, most) = (range.start().div_ceil(STEP), range.end() / STEP);
    if least == most {
        return most * STEP;
    }
    let of_tiles: Vec<_> = TILES.into_iter().filter(|columns| range.contains(columns)).collect();
    match (random.random_range(0..4), of_tiles.choose(random)) {
        (0 | 1, _) => most * STEP,
        (2, Some(&columns)) => columns,
        _ => STEP * random.random_range(least..=most),
    }
}

/// A sequence length: edges of tiles are drawn more often, long sequences more rarely.
fn draw_sequence(random: &mut ChaCha8Rng, most: u32) -> u32 {
    const TILES: [u32; 5] = [16, 32, 64, 128, 512];
    let sequence = match random.random_range(0..4) {
        0 => {
            let tile = TILES[random.random_range(0..TILES.len())];
            let tiles = random.random_range(1..=(most / tile).clamp(1, 4));
            (tile * tiles + random.random_range(0..=2)).saturating_sub(1)
        }
        1 => random.random_range(1..=most.min(80)),
        _ => draw_log(random, 1, u64::from(most)) as u32,
    };
    sequence.clamp(1, most)
}

/// The default half of the time; else 0, tiny, small, ordinary, large or the largest.
fn draw_scale(random: &mut ChaCha8Rng) -> Option<f64> {
    let mantissa = f64::from(random.random_range(1..=1000)) / 1000.0;
    match random.random_range(0..12) {
        0..6 => None,
        6 => Some(0.0),
        7 => Some(mantissa * 1e-39),
        8 => Some(mantissa * 1e-3),
        9 => Some(mantissa),
        10 => Some(mantissa * 100.0),
        _ => Some(*[1e3, 1e4, MAXIMUM_SCALE].choose(random).expect("three scales")),
    }
}

/// A window that does not equal a simpler mask: sides of a few keys, about a tile, anything up to all, or without a
/// limit.
fn draw_window(random: &mut ChaCha8Rng, sequence: u32) -> Window {
    let mut side = || match random.random_range(0..8) {
        0 => None,
        1 => Some(0),
        2 => Some(random.random_range(1..=4)),
        3 | 4 => Some(64 * random.random_range(1..=2) + random.random_range(0..=2) - 1),
        _ => Some(draw_log(random, 1, u64::from(sequence) + 1) as u32),
    };
    match (side(), side()) {
        (None, None | Some(0)) => Window { left: Some(sequence / 2), right: Some(0) },
        (left, right) => Window { left, right },
    }
}

/// At least one score modification for a kernel that supports them, none for others.
fn draw_score_mod(random: &mut ChaCha8Rng, target: &Target) -> ScoreModForm {
    if target.scores == Scores::Unmodified {
        return ScoreModForm::default();
    }
    let is_packed = target.sequence == Sequence::Packed;
    let caps = [MINIMUM_SOFTCAP, 1.0, 30.0, 50.0, MAXIMUM_SOFTCAP];
    let softcap = random.random_bool(0.25).then(|| *caps.choose(random).expect("there are caps"));
    let per_batch = random.random();
    let slopes = if per_batch { Slopes::PerBatchAndHead } else { Slopes::PerHead };
    let has_bias = target.needs_bias() || !is_packed && random.random();
    let bias = has_bias.then(|| *BiasForm::ALL.choose(random).expect("there are forms"));
    let alibi = (random.random_bool(0.25) || softcap.is_none() && bias.is_none()).then_some(slopes);
    let padded_bias = bias.is_some() && (target.needs_aligned_bias || random.random_bool(0.25));
    ScoreModForm { softcap, alibi, bias, padded_bias }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::case::Dimension;
    use crate::launch::check_accepts;
    use contract::config::Element;
    use contract::manifest::Entry;
    use contract::variants::VARIANTS;

    fn entries() -> Vec<Entry> {
        VARIANTS.iter().map(Entry::from).collect()
    }

    fn campaign(limits: Limits, seed: u64) -> Campaign {
        Campaign::new(entries().iter().map(Target::from).collect(), limits, seed).unwrap()
    }

    fn sequence_targets() -> Vec<Target> {
        let target = |sequence, element| Target { element, ..Target::plain(format!("{sequence:?}"), sequence) };
        let of_f16 =
            [Sequence::Any, Sequence::Exact(512), Sequence::Packed].map(|sequence| target(sequence, Element::F16));
        of_f16.into_iter().chain([target(Sequence::Any, Element::Bf16)]).collect()
    }

    #[test]
    fn every_case_is_acceptable_and_within_its_limits() {
        for limits in [Limits::GPU, Limits::SIMULATOR, Limits::SIMULATOR.with(Some(512), Some(512 * 512))] {
            let campaign = campaign(limits, 3);
            for index in 0..2000 {
                let case = campaign.case(index);
                let problem = case.problem().unwrap_or_else(|error| panic!("case {index}: {error}"));
                let entry = entries().into_iter().find(|entry| entry.name == case.target.variant).unwrap();
                check_accepts(&entry, &problem).unwrap_or_else(|error| panic!("case {index}: {error}"));
                let Shape { batch, heads, sequence, .. } = case.shape;
                let lengths = match &case.lengths {
                    Some(Lengths::Shared(lengths)) => lengths.clone(),
                    Some(Lengths::Separate(queries, keys)) => {
                        queries.iter().zip(keys).map(|(&queries, &keys)| queries.max(keys)).collect()
                    }
                    Some(Lengths::Padded(..)) | None => vec![sequence; batch as usize],
                };
                let squares: u64 = lengths.iter().map(|&length| u64::from(length).pow(2)).sum();
                let longest = lengths.iter().max().expect("a sequence");
                assert!(u64::from(heads) * squares <= limits.pairs, "case {index}: {} {lengths:?}", case.shape);
                assert!(*longest <= limits.sequence, "case {index}: {} {lengths:?}", case.shape);
            }
        }
    }

    #[test]
    fn every_head_dim_of_a_target_is_drawn_and_none_beyond() {
        let target = Target { head_dims: 1..=128, ..sequence_targets().remove(0) };
        let campaign = Campaign::new(vec![target], Limits::GPU, 11).unwrap();
        let drawn = |indices: std::ops::Range<u64>| indices.map(|index| campaign.case(index).shape.head_dim);
        assert!(drawn(0..GRID_CASES).all(|head_dim| head_dim == 128));
        let random: std::collections::BTreeSet<_> = drawn(GRID_CASES..GRID_CASES + 1000).collect();
        assert!(random.into_iter().eq((8..=128).step_by(8)));
    }

    #[test]
    fn cases_depend_on_seed_and_index_alone() {
        let (one, two) = (campaign(Limits::GPU, 1), campaign(Limits::GPU, 2));
        assert_eq!(one.case(100), campaign(Limits::GPU, 1).case(100));
        assert_ne!(one.case(100), two.case(100));
        assert_ne!(one.case(100), one.case(101));
    }

    #[test]
    fn a_case_is_the_same_on_every_machine() {
        let campaign = Campaign::new(sequence_targets()[..2].to_vec(), Limits::GPU, 42).unwrap();
        let command = |index| campaign.case(index).run_arguments().join(" ");
        assert_eq!(
            command(0),
            "run --variant Any --mask full --batch 1 --heads 1 --seq 137 --distribution normal --seed 642051"
        );
        assert_eq!(
            command(1000),
            "run --variant Exact(512) --mask full --batch 5 --heads 3 --seq 512 --align bottom-right --distribution non-finite-queries --seed 615410"
        );
    }

    #[test]
    fn the_grid_has_three_jittered_sizes_of_each_kind() {
        let campaign = Campaign::new(sequence_targets()[..1].to_vec(), Limits::GPU, 5).unwrap();
        let cases: Vec<_> = (0..GRID_CASES).map(|index| campaign.case(index)).collect();
        for (index, case) in cases.iter().enumerate() {
            let near = |size: u32, of: u32| size.abs_diff(of) <= (of / 8).max(1);
            let Shape { batch, heads, sequence, .. } = case.shape;
            let [sequences, batches, head_counts] = Limits::GPU.grid;
            assert!(near(sequence, sequences[index / 9]), "{index}: {}", case.shape);
            let unlimited = batch * heads < campaign.heads_within(sequence) / 2;
            assert!(!unlimited || near(batch, batches[index / 3 % 3]), "{index}: {}", case.shape);
            assert!(!unlimited || near(heads, head_counts[index % 3]), "{index}: {}", case.shape);
            assert_eq!((case.distribution, case.scale), (Distribution::Normal, None));
        }
        assert!(cases.iter().any(|case| case.shape.sequence % 16 != 0), "sizes are jittered");
    }

    #[test]
    fn random_cases_cover_every_distribution_target_order_and_kind_of_scale() {
        let campaign = Campaign::new(sequence_targets(), Limits::GPU, 0).unwrap();
        let cases: Vec<_> = (GRID_CASES..GRID_CASES + 1000).map(|index| campaign.case(index)).collect();
        let any = |what: &str, predicate: &dyn Fn(&Case) -> bool| {
            assert!(cases.iter().any(predicate), "no case {what}");
        };
        for &distribution in <Distribution as clap::ValueEnum>::value_variants() {
            any(distribution.name(), &|case| case.distribution == distribution);
        }
        for target in sequence_targets() {
            any(&target.variant, &|case| case.target == target);
        }
        let lengths = |case: &Case| match &case.lengths {
            Some(Lengths::Shared(lengths)) => lengths.clone(),
            _ => Vec::new(),
        };
        any("with an empty packed sequence", &|case| lengths(case).contains(&0));
        any("with many packed sequences", &|case| lengths(case).len() > 30);
        let has_only_queries = |(&queries, &keys): (&u32, &u32)| queries > 0 && keys == 0;
        any("with packed queries without keys", &|case| match &case.lengths {
            Some(Lengths::Separate(queries, keys)) => queries.iter().zip(keys).any(has_only_queries),
            _ => false,
        });
        for [queries, keys] in [[true, true], [true, false], [false, true]] {
            any("that uses some of a padded batch", &|case| match &case.lengths {
                Some(Lengths::Padded(used, used_keys)) => [used.is_some(), used_keys.is_some()] == [queries, keys],
                _ => false,
            });
        }
        any("of one row", &|case| case.shape.sequence == 1);
        any("of the longest sequences", &|case| case.shape.sequence > 1500);
        any("with many heads", &|case| case.shape.heads > 100);
        any("with a large batch", &|case| case.shape.batch > 100);
        any("with scale 0", &|case| case.scale == Some(0.0));
        any("with the largest scale", &|case| case.scale == Some(MAXIMUM_SCALE));
        any("with heads of Q that share those of K", &|case| case.shape.group() > 1);
        any("with one head of K", &|case| case.shape.kv_heads == 1 && case.shape.heads > 1);
        any("with more keys", &|case| case.shape.kv_sequence > 2 * case.shape.sequence);
        any("with fewer keys", &|case| 2 * case.shape.kv_sequence < case.shape.sequence);
        any("at the last key", &|case| case.alignment == Alignment::BottomRight);
        any("with rows of K for all heads", &|case| case.views[1].shared_heads && case.shape.heads > 1);
        any("with an offset of O", &|case| case.views[3].offset > 0);
        any("with rows of O outermost", &|case| case.views[3].order[2] == Dimension::Row);
        any("without LSE", &|case| !case.lse);
    }
}

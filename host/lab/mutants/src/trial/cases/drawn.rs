//! Problems whose sizes are drawn at random from those of an entry's tiles, others for each entry and the same in every run: for
//! what no other case was made for.

use anyhow::Result;
use cli::inputs::{Distribution, Lengths, cu_seqlens};
use contract::config::Mask;
use contract::manifest::Entry;
use contract::problem::{Problem, Window};
use contract::refusal::Tensor;
use contract::view::Layout;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use sha2::{Digest, Sha256};

use super::{Case, apart, columns, contiguous, in_layout, shape};

/// Problems of each entry.
const NUMBER: usize = 4;
/// Packed batches of each entry whose arrays are partly wrong.
const BAD: usize = 8;
/// The most scores of a problem.
const MOST_SCORES: u32 = 300_000;

/// The random numbers of an entry.
fn random(entry: &Entry) -> ChaCha8Rng {
    ChaCha8Rng::from_seed(Sha256::digest(&entry.name).into())
}

/// A number of rows or keys: few, at the edges of tiles, and so many that stages are filled again.
fn length(entry: &Entry, random: &mut ChaCha8Rng) -> u32 {
    let (block_m, block_n, stages) = (entry.config.block_m(), entry.config.block_n(), entry.config.stages());
    match random.random_range(0..8) {
        0 => random.random_range(1..=16),
        1 => block_n - 1,
        2 => block_n,
        3 => block_m + random.random_range(0..=1),
        4 => random.random_range(1..=stages + 2) * block_n - random.random_range(0..16),
        _ => random.random_range(1..=2 * block_m.max(block_n)),
    }
}

/// The problem with a window, if the entry has any.
fn with_window(entry: &Entry, problem: Problem, random: &mut ChaCha8Rng) -> Problem {
    if entry.mask != Mask::Window {
        return problem;
    }
    let [left, right] = [0; 2].map(|_| random.random_range(0..2 * entry.config.block_n()));
    // Without both ends it would be the full mask, which others compute.
    let (left, right) = match random.random_range(0..3) {
        0 => (Some(left), None),
        1 => (None, Some(right)),
        _ => (Some(left), Some(right)),
    };
    problem.with_window(Window { left, right })
}

fn distribution(random: &mut ChaCha8Rng) -> Distribution {
    let all = [Distribution::Normal, Distribution::LargeLogits, Distribution::Adversarial, Distribution::NonFinite];
    *all.choose(random).expect("there are some")
}

/// Batches of sequences of one length, for entries that take any.
pub(super) fn shapes(entry: &Entry) -> Result<Vec<Case>> {
    let mut random = random(entry);
    let mut cases = Vec::new();
    for _ in 0..NUMBER {
        let (rows, keys) = (length(entry, &mut random), length(entry, &mut random));
        let (kv_heads, group) = (random.random_range(1..=3), random.random_range(1..=3));
        let most = (MOST_SCORES / (rows * keys)).max(1);
        let (kv_heads, group) = if kv_heads * group > most { (most.min(3), 1) } else { (kv_heads, group) };
        let batch = random.random_range(1..=(most / (kv_heads * group)).clamp(1, 3));
        let shape = shape(batch, kv_heads * group, rows).with_kv_heads(kv_heads).with_kv_sequence(keys);
        let problem = match random.random() {
            true => apart(shape, entry)?,
            false => in_layout(Layout::Bshd, columns(entry), shape, entry)?,
        };
        let problem = with_window(entry, problem, &mut random);
        let multiprocessors = random.random_range(1..=5);
        cases.push(Case { multiprocessors, ..Case::of(problem, distribution(&mut random)) });
    }
    Ok(cases)
}

/// Packed sequences, some of which have no rows or no keys.
pub(super) fn lengths(entry: &Entry) -> Result<Vec<Case>> {
    let mut random = random(entry);
    let mut cases = Vec::new();
    for number in 0..NUMBER {
        let count = random.random_range(2..=7);
        let mut left = MOST_SCORES;
        let (mut queries, mut keys) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let rows = if random.random_ratio(1, 6) { 0 } else { length(entry, &mut random) };
            let own = if random.random_ratio(1, 6) { 0 } else { length(entry, &mut random) };
            let of_keys = if number % 2 == 0 { own } else { rows };
            if rows * of_keys <= left {
                left -= rows * of_keys;
                queries.push(rows);
                keys.push(of_keys);
            }
        }
        queries.push(1);
        keys.push(1);
        let heads = random.random_range(1..=3);
        let rows = shape(1, heads, queries.iter().sum()).with_kv_sequence(keys.iter().sum());
        let lengths = if number % 2 == 0 { Lengths::separate(&queries, &keys)? } else { Lengths::Shared(queries) };
        let problem = with_window(entry, apart(rows, entry)?, &mut random);
        let case = Case::of(problem, distribution(&mut random));
        cases.push(Case { lengths: Some(lengths), multiprocessors: random.random_range(1..=5), ..case });
    }
    Ok(cases)
}

/// Packed sequences, most of them short, with arrays that say the same where they are held to the tensors: uses of more rows than there
/// are, negative ones of none, and ends behind all rows. The last sequences have no rows, and begin and end anywhere.
pub(super) fn bad_lengths(entry: &Entry) -> Result<Vec<Case>> {
    let mut random = random(entry);
    random.set_stream(1);
    let mut cases = Vec::new();
    for _ in 0..BAD {
        let (number, empty) = (random.random_range(2..=70), random.random_range(0..=2));
        let mut draw = |most: u32| {
            let mut lengths: Vec<u32> = (0..number).map(|_| often_short(most, &mut random)).collect();
            lengths.push(random.random_range(1..=70));
            lengths.extend(vec![0; empty]);
            let ends = ends(&lengths, empty, &mut random);
            let used: Vec<u32> = lengths.iter().map(|&rows| used(rows, &mut random)).collect();
            (lengths, ends, used)
        };
        let ((queries, ends_q, used_q), (keys, ends_k, used_k)) = (draw(200), draw(500));
        let arrays = vec![
            (Tensor::CuSeqlens, ends_q),
            (Tensor::CuSeqlensK, ends_k),
            (Tensor::SequsedQ, used_q),
            (Tensor::SequsedK, used_k),
        ];
        let heads = random.random_range(1..=2);
        let rows = shape(1, heads, queries.iter().sum()).with_kv_sequence(keys.iter().sum());
        let case = Case::of(contiguous(rows, entry)?, Distribution::Normal);
        let lengths = Some(Lengths::separate(&queries, &keys)?);
        // On a single block, more would not be sorted.
        let fewest = if number < 40 { 1 } else { 2 };
        cases.push(Case { lengths, arrays, multiprocessors: random.random_range(fewest..=3), ..case });
    }
    Ok(cases)
}

/// A number of rows or keys: up to `most` of one sequence in eight.
fn often_short(most: u32, random: &mut ChaCha8Rng) -> u32 {
    if random.random_ratio(1, 8) { random.random_range(60..=most) } else { random.random_range(0..=5) }
}

/// Where sequences of these `lengths` end: the last of those that have rows behind all rows, the `empty` ones after it anywhere before.
fn ends(lengths: &[u32], empty: usize, random: &mut ChaCha8Rng) -> Vec<u32> {
    let total: u32 = lengths.iter().sum();
    let mut ends = cu_seqlens(lengths).to_vec();
    let mut last = match random.random_range(0..4) {
        0 => total,
        1 => i32::MAX as u32,
        2 => 1 << 31,
        _ => total + random.random_range(1..=300),
    };
    for end in ends.iter_mut().rev().take(empty + 1).rev() {
        *end = last;
        // Behind all rows the next sequence may begin again; before, no row may lie between.
        last = match last >= total && random.random_ratio(1, 3) {
            true => random.random_range(1..=9_u32).wrapping_neg(),
            false => random.random_range(0..=last.min(total)),
        };
    }
    ends
}

/// A number of rows in use that says that all `rows` are.
fn used(rows: u32, random: &mut ChaCha8Rng) -> u32 {
    match random.random_range(0..6) {
        0 => i32::MAX as u32,
        1 if rows == 0 => random.random_range(1..=9_u32).wrapping_neg(),
        2 | 3 => rows + random.random_range(1..=200),
        _ => rows,
    }
}

//! Fewer heads of K and V than of Q, and other numbers of keys than of queries: every entry that has them against the reference.

use cli::inputs::{Distribution, Inputs};
use contract::config::{Element, Mask, Sequence};
use contract::cost::{self, KernelClass};
use contract::manifest::Entry;
use contract::problem::{Alignment, Problem, Shape, Window};
use contract::split_keys::{MOST_BLOCKS, Split};
use contract::view::Layout;

use crate::support::Case;

const MASKS: [Mask; 3] = [Mask::Full, Mask::Causal, Mask::Window];

fn assert_right(problem: Problem) {
    Case::generate(problem, Distribution::Normal).assert_right(true);
}

#[test]
fn heads_of_queries_share_heads_of_keys() {
    let types = || Element::ALL.into_iter().cycle();
    let shape = Shape::new(2, 6, 70).with_kv_heads(3);
    for (mask, element) in MASKS.into_iter().zip(types()) {
        assert_right(Problem::new(shape, mask, Layout::Bhsd).unwrap().with_element(element));
    }
    // The entries made for a length, which have windows of no kind.
    let shape = Shape::new(1, 2, 512).with_kv_heads(1);
    for (mask, element) in [Mask::Full, Mask::Causal].into_iter().zip(types()) {
        let problem = Problem::new(shape, mask, Layout::Bshd).unwrap().with_element(element);
        let is_made_for = |entry: &Entry| matches!(entry.sequence, Sequence::Exact(_));
        Case::generate(problem, Distribution::Normal).assert_right_in(true, is_made_for);
    }
}

#[test]
fn packed_heads_of_queries_share_heads_of_keys() {
    const LENGTHS: [u32; 4] = [70, 0, 3, 64];
    for mask in MASKS {
        let shape = Shape::new(1, 6, LENGTHS.iter().sum()).with_kv_heads(2);
        let problem = Problem::new(shape, mask, Layout::Bshd).unwrap();
        let inputs = Inputs::generate(problem, Distribution::NonFiniteValues, 512).unwrap().packed(&LENGTHS).unwrap();
        Case::new(inputs, Distribution::NonFiniteValues).assert_right(true);
    }
}

/// Rows of several heads in one tile, behind which other heads lie, and one behind another.
#[test]
fn heads_that_share_keys_may_be_rows_of_one_tile() {
    for (sequence, layout, multiple) in [(1, Layout::Bshd, 8), (1, Layout::Bhsd, 8), (19, Layout::Bhsd, 5)] {
        let shape = Shape::new(2, 2 * multiple, sequence).with_kv_heads(2).with_kv_sequence(130);
        let problem = Problem::new(shape, Mask::Full, layout).unwrap();
        assert_eq!(problem.with_groups_as_rows().shape().sequence, multiple * sequence);
        assert_right(problem);
    }
}

#[test]
fn few_rows_with_many_keys_are_split_among_as_many_blocks_as_a_cluster_may_have() {
    const KEYS: u32 = 8 * 4 * 64 - 30;
    let splits = |entry: &Entry| Split::new(entry.config, entry.mask).cluster(1, KEYS, 16) == MOST_BLOCKS;
    for element in Element::ALL {
        let shape = Shape::new(1, 1, 60).with_kv_sequence(KEYS);
        let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap().with_element(element);
        Case::generate(problem, Distribution::LargeLogits).on_multiprocessors(16).assert_right_in(true, splits);
    }
}

/// Parts in which the items of `problem` are computed.
fn parts_of(entry: &Entry, problem: &Problem, multiprocessors: u32) -> u32 {
    let class = KernelClass::of(&entry.variant());
    let parts = cost::SHIPPED[0].in_fastest_parts(&class, problem, multiprocessors).filter(|_| entry.leaves_parts);
    parts.map_or(1, |(parts, _)| parts)
}

/// Parts of all columns in one block, and of few columns in each; tiles with strips beyond the last row, and several tiles.
#[test]
fn keys_of_few_rows_are_split_in_parts() {
    const MULTIPROCESSORS: u32 = 132;
    for (heads, sequence, kv_sequence, mask) in [(2, 37, 900, Mask::Full), (1, 1040, 1040, Mask::Causal)] {
        for (element, distribution) in
            Element::ALL.into_iter().zip([Distribution::LargeLogits, Distribution::NonFiniteValues])
        {
            let shape = Shape::new(1, heads, sequence).with_kv_heads(1).with_kv_sequence(kv_sequence);
            let problem = Problem::new(shape, mask, Layout::Bshd).unwrap().with_element(element);
            let splits = |entry: &Entry| parts_of(entry, &problem, MULTIPROCESSORS) > 1;
            Case::generate(problem, distribution).on_multiprocessors(MULTIPROCESSORS).assert_right_in(true, splits);
        }
    }
}

/// Whole tiles, tails, fewer keys than a tile and than a strip's first row is behind, and one query.
#[test]
fn keys_may_be_more_than_queries_or_fewer() {
    let lengths = [(1, 300), (64, 192), (65, 130), (200, 70), (257, 1)];
    let alignments = Alignment::ALL.into_iter().cycle();
    for ((sequence, kv_sequence), first) in lengths.into_iter().zip(alignments) {
        let shape = Shape::new(1, 2, sequence).with_kv_heads(1).with_kv_sequence(kv_sequence);
        let alignments = Alignment::ALL.into_iter().cycle().skip(first as usize);
        for ((mask, element), alignment) in MASKS.into_iter().zip(Element::ALL.into_iter().cycle()).zip(alignments) {
            let problem = Problem::new(shape, mask, Layout::Bshd).unwrap().with_element(element);
            assert_right(problem.aligned(alignment));
        }
    }
}

#[test]
fn rows_that_attend_to_nothing_are_zeros() {
    let narrow = Window { left: Some(3), right: Some(0) };
    for (sequence, kv_sequence, alignment) in [(200, 20, Alignment::TopLeft), (200, 20, Alignment::BottomRight)] {
        let shape = Shape::new(1, 2, sequence).with_kv_sequence(kv_sequence);
        let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap().with_window(narrow).aligned(alignment);
        let inputs = Inputs::generate(problem, Distribution::Normal, 1).unwrap();
        let attended = (0..sequence).filter(|&row| !inputs.attended_keys(row).is_empty()).count();
        assert!(attended < 30, "of {sequence} rows {attended} attend to something");
        assert_right(problem);
    }
}

//! Which block computes which items of packed sequences, and in which order: as `kernel-gpu/contract/src/schedule/packed/longest_first.rs` says.

use std::collections::BTreeMap;

use cli::executor::sim::{self, SimExecutor};
use cli::forward::Forward;
use cli::inputs::{Distribution, Inputs, Lengths};
use cli::kernel::Kernel;
use cli::ptx_module::PtxModule;
use contract::args::ForwardArgs;
use contract::config::{Element, Mask, Sequence, WARPGROUP_ROWS};
use contract::manifest::Entry;
use contract::packed::longest_first::{Key, is_sorted};
use contract::plan::Launch;
use contract::problem::{DEFAULT_HEAD_DIM, Shape};
use contract::tile::Kind;
use contract::view::Layout;
use ptx_sim::{BoxLoad, Options};

use crate::support::ptx_entries;

/// Rows of Q and of K of each sequence.
type Sizes = Vec<[u32; 2]>;

/// An item, as far as the order says something about it.
struct Item {
    /// Row of Q of its first strip, in all sequences.
    row: u32,
    /// Tiles of keys that it attends to; fewer strips count as part of a tile.
    cost: u32,
    /// Tiles of keys of its sequence.
    tiles: u32,
}

/// The items of a head, in the order of sequences.
fn items(sizes: &Sizes, strips: u32, is_causal: bool) -> Vec<Item> {
    let (mut items, mut row) = (Vec::new(), 0);
    for [queries, keys] in sizes {
        let tiles = keys.div_ceil(64).max(1);
        let of_sequence = queries.div_ceil(WARPGROUP_ROWS);
        for first in (0..of_sequence).step_by(strips as usize) {
            let cost = match of_sequence - first {
                rest if rest < strips => (tiles * (rest + 1)).div_ceil(strips + 1),
                _ if is_causal => tiles.min(first + strips),
                _ => tiles,
            };
            items.push(Item { row: row + first * WARPGROUP_ROWS, cost, tiles });
        }
        row += queries;
    }
    items
}

/// Costs of one class, as a number that grows with them: those that differ by less than a fourth.
fn class(cost: u32) -> u32 {
    4 * cost.ilog2() + (cost << 2 >> cost.ilog2()) % 4
}

/// What each block computes: head and first row, in order. `None` for items of one strip that are not sorted, or under a causal mask: those
/// come in the order of their slots.
fn dealt(sizes: &Sizes, entry: &Entry, launch: &Launch<'_>) -> Option<BTreeMap<u32, Vec<(u32, u32)>>> {
    let (strips, is_causal) = (entry.config.block_m() / WARPGROUP_ROWS, entry.mask == Mask::Causal);
    let ForwardArgs { work_items, sequences, heads, .. } = *launch.args();
    let (number, blocks, heads) = (work_items.get(), launch.blocks(), heads.get().get());
    let mut items = items(sizes, strips, is_causal);
    let is_sorted = is_sorted(number, sequences, blocks, strips);
    if strips == 1 && (is_causal || !is_sorted) {
        return None;
    }
    let most = items.iter().map(|item| item.tiles).max()?;
    let is_equal = items.iter().all(|item| class(item.tiles) == class(most));
    let key = Key::of(number, blocks, most, is_equal, LONG).filter(|_| is_sorted);
    // A stable sort: within a class, in the order of sequences.
    items.sort_by_key(|item| match key {
        None => 0,
        Some(Key::Item) if strips > 1 => u32::MAX - class(item.cost),
        Some(_) => u32::MAX - class(item.tiles),
    });
    let mut dealt = BTreeMap::<u32, Vec<_>>::new();
    let in_order = items.iter().flat_map(|item| (0..heads).map(|head| (head, item.row)));
    for (place, item) in (0..).zip(in_order) {
        let (round, place) = (place / blocks, place % blocks);
        dealt.entry(if round % 2 == 0 { place } else { blocks - 1 - place }).or_default().push(item);
    }
    Some(dealt)
}

/// From how many tiles on the sequences here are long; none is.
const LONG: u32 = 17;

/// The first strips of items that each block loads, as [`dealt`] gives them.
fn loaded(loads: &[BoxLoad], sizes: &Sizes, strips: u32, launch: &Launch<'_>) -> BTreeMap<u32, Vec<(u32, u32)>> {
    let begins: Vec<u32> = items(sizes, strips, false).iter().map(|item| item.row).collect();
    let args = launch.args();
    let map = launch.tensor_maps().expect("its kernels load by tensor maps")[0];
    let mut loaded = BTreeMap::<u32, Vec<_>>::new();
    for load in loads.iter().filter(|load| load.tensor == map.address && load.origin[0] == 0) {
        let offset = load.origin[1..].iter().zip(map.strides).map(|(at, stride)| at * stride as i64).sum::<i64>();
        let elements = (map.address as i64 + offset - args.q as i64) as u64 / 2;
        let (row, head) = (elements / args.q_strides.row, elements % args.q_strides.row / args.q_strides.head);
        if begins.contains(&(row as u32)) {
            loaded.entry(load.block[0]).or_default().push((head as u32, row as u32));
        }
    }
    loaded
}

/// Requires of every entry for packed sequences of the usual type and width that its blocks compute what they shall, in order.
fn assert_dealt_as_told(sizes: &Sizes, multiprocessors: u32) {
    let [queries, keys]: [Vec<u32>; 2] = [0, 1].map(|tensor| sizes.iter().map(|size| size[tensor]).collect());
    let lengths = Lengths::separate(&queries, &keys).unwrap();
    let mut told = 0;
    for (entry, module) in sorted_entries() {
        let shape = Shape::new(1, 2, queries.iter().sum()).with_kv_sequence(keys.iter().sum());
        let problem = Kernel::Forward(entry).problem(shape, Layout::Bshd).unwrap();
        let inputs = Inputs::generate(problem, Distribution::Normal, 8).unwrap().with_lengths(&lengths).unwrap();
        // Other tests look for races.
        let options = Options { box_loads: true, races: false, ..SimExecutor::default_options() };
        let mut executor =
            SimExecutor::with_multiprocessors(sim::DEFAULT_ARCHITECTURE, multiprocessors, options).unwrap();
        let mut forward = Forward::prepare(&mut executor, module, entry, &inputs, false).unwrap();
        let Some(dealt) = dealt(sizes, entry, forward.launch()) else { continue };
        let outcome = forward.execute().unwrap();
        let strips = entry.config.block_m() / WARPGROUP_ROWS;
        let loaded = loaded(&outcome.execution.box_loads, sizes, strips, forward.launch());
        assert_eq!(loaded, dealt, "{} on {multiprocessors} multiprocessors, sequences of {sizes:?}", entry.name);
        told += 1;
    }
    assert!(told > 0, "no entry sorts sequences of {sizes:?}");
}

/// The entries that may sort packed sequences, of the usual type and width.
fn sorted_entries() -> impl Iterator<Item = (&'static Entry, &'static PtxModule)> {
    let is_tried = |entry: &Entry| {
        let is_usual = (entry.element, entry.config.columns()) == (Element::F16, DEFAULT_HEAD_DIM);
        is_usual && entry.config.kind() == Kind::Sm90Tma && entry.mask != Mask::Window
    };
    ptx_entries().filter(move |(entry, _)| entry.sequence == Sequence::Packed && is_tried(entry))
}

#[test]
fn blocks_of_few_items_get_the_costliest_first() {
    let lengths = [300, 10, 0, 130, 64, 520, 1, 257, 65, 191];
    assert_dealt_as_told(&lengths.map(|length| [length; 2]).to_vec(), 4);
    assert_dealt_as_told(&[[130, 10], [1, 700], [300, 64], [0, 200], [64, 0], [257, 900], [5, 65]].to_vec(), 2);
}

#[test]
fn blocks_of_many_items_get_those_of_a_sequence_together() {
    let sizes = |count: u32| (0..count).map(|index| [1 + index % 9 * 24; 2]).collect();
    assert_dealt_as_told(&sizes(40), 1);
    assert_dealt_as_told(&sizes(66), 2);
}

#[test]
fn sequences_of_one_length_come_in_their_order() {
    assert_dealt_as_told(&vec![[70; 2]; 30], 1);
}

//! Sliding windows: every entry that has them against the reference, and what lies outside a window.

use std::ops::Range;

use cli::check::Outputs;
use cli::element::Encoding;
use cli::forward::Forward;
use cli::inputs::{Distribution, Inputs};
use cli::ptx_module::PtxModule;
use contract::config::{Element, Mask, Sequence};
use contract::manifest::Entry;
use contract::problem::{DEFAULT_HEAD_DIM, Problem, Shape, Window};
use contract::view::Layout;

use crate::support::{Case, entries, executor};

const COLUMNS: usize = DEFAULT_HEAD_DIM as usize;

const fn window(left: Option<u32>, right: Option<u32>) -> Window {
    Window { left, right }
}

fn problem(heads: u32, rows: u32, window: Window, element: Element) -> Problem {
    let shape = Shape::new(1, heads, rows);
    Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap().with_window(window).with_element(element)
}

/// Narrower than a tile on one side or both, as wide as one, and wider.
const WINDOWS: [Window; 5] = [
    window(Some(10), Some(2)),
    window(Some(0), Some(0)),
    window(Some(64), Some(64)),
    window(Some(100), None),
    window(None, Some(9)),
];

#[test]
fn windows_of_one_length() {
    for (window, rows) in WINDOWS.into_iter().zip([70, 130, 300, 257, 200]) {
        for element in Element::ALL {
            Case::generate(problem(1, rows, window, element), Distribution::Normal).assert_right(true);
        }
    }
}

#[test]
fn windows_of_rows_that_are_not_finite() {
    for window in [WINDOWS[0], WINDOWS[2]] {
        for element in Element::ALL {
            Case::generate(problem(4, 200, window, element), Distribution::NonFiniteRows).assert_right(true);
        }
    }
}

#[test]
fn windows_of_packed_sequences() {
    const LENGTHS: [u32; 6] = [70, 0, 3, 129, 1, 64];
    for window in WINDOWS {
        for element in Element::ALL {
            let problem = problem(2, LENGTHS.iter().sum(), window, element);
            let inputs = Inputs::generate(problem, Distribution::Normal, 11).unwrap().packed(&LENGTHS).unwrap();
            Case::new(inputs, Distribution::Normal).assert_right(true);
        }
    }
}

const ROWS: u32 = 400;
const NEAR: Window = window(Some(20), Some(5));
/// The second of two packed sequences begins here, in the middle of a tile.
const SECOND: u32 = 100;

/// Inputs of which K or V (by its index among Q, K, V) holds NaN and infinities in the rows of `spoilt`.
fn spoil(inputs: &Inputs, tensor: usize, spoilt: &[Range<u32>]) -> Inputs {
    let poisons = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(|value| inputs.element().encode(value));
    let mut storages = inputs.storages().map(|storage| storage.to_vec());
    for (index, value) in storages[tensor].iter_mut().enumerate() {
        let row = (index / COLUMNS) as u32 % ROWS;
        if spoilt.iter().any(|rows| rows.contains(&row)) {
            // One kind in a row: infinities of both signs would make NaN of their own.
            *value = poisons[row as usize % 3];
        }
    }
    let [q, k, v] = storages;
    Inputs::new(*inputs.problem(), q, k, v).unwrap()
}

fn outputs(entry: &Entry, module: &PtxModule, inputs: Inputs, lengths: Option<&[u32]>) -> Outputs {
    let inputs = match lengths {
        None => inputs,
        Some(lengths) => inputs.packed(lengths).unwrap(),
    };
    let mut executor = executor();
    let outcome = Forward::prepare(executor.as_mut(), module, entry, &inputs, true).unwrap().execute().unwrap();
    assert!(outcome.execution.findings.is_empty(), "{}: {:?}", entry.name, outcome.execution.findings);
    outcome.outputs
}

/// Calls `check` with each entry that has windows, of one length and packed, of fp16 and bf16, and what makes outputs of inputs.
fn every_entry(check: impl Fn(&Entry, &Inputs, &dyn Fn(Inputs) -> Outputs)) {
    let mut checked = 0;
    for element in Element::ALL {
        let problem = problem(1, ROWS, NEAR, element);
        let inputs = Inputs::generate(problem, Distribution::Normal, 5).unwrap();
        for lengths in [None, Some(&[SECOND, ROWS - SECOND][..])] {
            let packed = lengths.map(|lengths| *inputs.clone().packed(lengths).unwrap().problem());
            for (entry, module) in entries(&packed.unwrap_or(problem)) {
                check(entry, &inputs, &|inputs| outputs(entry, module, inputs, lengths));
                checked += 1;
            }
        }
    }
    assert!(checked >= 8, "{checked} entries");
}

fn row_of_o(outputs: &Outputs, row: u32) -> &[u16] {
    &outputs.o[row as usize * COLUMNS..][..COLUMNS]
}

fn bits_of_lse(outputs: &Outputs, row: u32) -> u32 {
    outputs.lse.as_ref().unwrap()[row as usize].to_bits()
}

/// Of their tiles, some are loaded for the keys beside them: the mask replaces the scores. Rows of one block may share how they are
/// rounded, so that the keys of all of them are left alone.
#[test]
fn keys_outside_the_windows_of_a_block_that_are_not_finite_change_no_bit() {
    every_entry(|entry, inputs, run| {
        let (block_m, begin) = (entry.config.block_m(), if entry.sequence == Sequence::Packed { SECOND } else { 0 });
        let block = begin + block_m..begin + 2 * block_m;
        let attended = block.start - 20..block.end + 5;
        let (clean, spoilt) = (run(inputs.clone()), run(spoil(inputs, 1, &[0..attended.start, attended.end..ROWS])));
        for row in block.clone() {
            assert_eq!(row_of_o(&clean, row), row_of_o(&spoilt, row), "{}, row {row} of O", entry.name);
            assert_eq!(bits_of_lse(&clean, row), bits_of_lse(&spoilt, row), "{}, LSE {row}", entry.name);
        }
        let next = block.end;
        assert_ne!(
            row_of_o(&clean, next),
            row_of_o(&spoilt, next),
            "{}: row {next} attends to spoilt keys",
            entry.name
        );
    });
}

/// A masked element of V in a loaded tile is multiplied by 0, which leaves NaN of it: that is the contract of every mask. LSE
/// does not depend on V, and tiles that no row of a query tile attends to are not loaded.
#[test]
fn values_that_are_not_finite_reach_no_lse_and_no_tile_far_away() {
    every_entry(|entry, inputs, run| {
        let beginning = 0..30;
        let (clean, spoilt) = (run(inputs.clone()), run(spoil(inputs, 2, &[beginning])));
        for row in 0..ROWS {
            assert_eq!(bits_of_lse(&clean, row), bits_of_lse(&spoilt, row), "{}, LSE {row}", entry.name);
        }
        // Behind a query tile and a key tile of at most 128 rows each, and the window.
        for row in 30 + 128 + 128 + 20..ROWS {
            assert_eq!(row_of_o(&clean, row), row_of_o(&spoilt, row), "{}, row {row} of O", entry.name);
        }
        assert_ne!(row_of_o(&clean, 10), row_of_o(&spoilt, 10), "{}: nothing was spoilt", entry.name);
    });
}

//! The tensor maps that a launch hands to a kernel are those of its Q, K and V.

use cli::executor::Executor;
use cli::forward::Forward;
use cli::inputs::{Distribution, Inputs};
use cli::launch::check_fits;
use cli::ptx_module::PtxModule;
use contract::args::{FORWARD_ARGS_LAYOUT, Strides};
use contract::config::{Element, Mask, Scores, Sequence};
use contract::manifest::Entry;
use contract::problem::{Problem, Shape};
use contract::tile::sm90_tma::TENSOR_MAP_ROWS;
use contract::tile::{Configuration, Sm90Tma};
use contract::variants::Variant;
use contract::view::{Layout, View, Views};

use crate::support::executor;

/// Two heads of two batch entries; a box is longer than the sequence.
const SHAPE: Shape = Shape::new(2, 2, 48);

/// An entry with room for three boxes and an mbarrier.
fn entry() -> Entry {
    let config = Configuration::Sm90Tma(Sm90Tma::new(2, 2));
    let (element, sequence, mask) = (Element::F16, Sequence::Any, Mask::Full);
    let scores = Scores::Unmodified;
    Entry::from(&Variant {
        entry: "copy_boxes",
        config,
        element,
        sequence,
        mask,
        scores,
        waits_for_previous_grid: false,
        leaves_parts: false,
    })
}

/// Where chunk `chunk` of row `row` of a box lies with the 128-byte swizzle, in elements.
fn swizzled(row: usize, chunk: usize) -> usize {
    row * 64 + (chunk ^ (row % 8)) * 8
}

/// Requires that the boxes of Q, K and V hold their rows where K has these strides.
fn check_boxes(executor: &mut dyn Executor, k: Strides) {
    let problem = Problem::new(SHAPE, Mask::Full, Layout::Bshd).unwrap();
    let contiguous = *problem.views();
    let (shifted, v) = (View { offset: 8, strides: k }, View { offset: 640, ..contiguous.v });
    let problem = problem.with_views(Views { k: shifted, v, ..contiguous }).unwrap();
    let inputs = Inputs::generate(problem, Distribution::Normal, 1).unwrap();
    let bytes = FORWARD_ARGS_LAYOUT.size().to_string();
    let text = include_str!("../tensor_maps/copy_boxes.ptx").replace("ARGUMENT_BYTES", &bytes);
    let module = PtxModule::new("copy_boxes.ptx", text);
    let entry = entry();
    let outcome = Forward::prepare(executor, &module, &entry, &inputs, false).unwrap().execute().unwrap();

    assert!(outcome.execution.findings.is_empty(), "{k:?}: {:?}", outcome.execution.findings);
    assert!(outcome.changed_inputs.is_empty() && outcome.damaged_guards.is_empty(), "{k:?}");
    let boxes = outcome.outputs.o.chunks(TENSOR_MAP_ROWS as usize * 64);
    let rows = [Inputs::q_row, Inputs::k_row, Inputs::v_row];
    for ((name, row_of), copied) in ["Q", "K", "V"].into_iter().zip(rows).zip(boxes) {
        for row in 0..TENSOR_MAP_ROWS {
            let within = row < SHAPE.sequence;
            let expected = if within { row_of(&inputs, 1, 1, row) } else { &[0; 64] };
            for (chunk, expected) in expected.chunks(8).enumerate() {
                let place = swizzled(row as usize, chunk);
                assert_eq!(copied[place..place + 8], *expected, "{name} with {k:?}, row {row}, chunk {chunk}");
            }
        }
    }
}

#[test]
fn boxes_hold_the_rows_of_their_tensor_and_zeros_beyond() {
    let mut executor = executor();
    if check_fits(&entry(), executor.device()).is_err() {
        return; // a GPU other than Hopper
    }
    for k in [
        Strides { batch: 2 * 80 * 48, head: 80 * 48, row: 80 },
        Strides { batch: 80 * 48, head: 0, row: 80 },
        Strides { batch: 0, head: 64, row: 0 },
    ] {
        check_boxes(&mut *executor, k);
    }
}

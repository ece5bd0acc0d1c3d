//! Writes fitted constants as the Rust source that the library ships.

use std::fmt::Write;

use contract::cost::{Constants, KernelClass, Placement};
use contract::variants::VARIANTS;

use super::{Fit, of_variants};

const HEAD: &str = "\
//! The shipped constants. Written by `fa512 map fit` (docs/results/map.md).

use super::LastRound::{self, Spread, Together};
use super::{Constants, Costs, KernelClass, Placement};
use crate::schedule::tile::Grid::{self, OneShot, Persistent, SplitKeys};
use crate::schedule::tile::Kind::{self, Sm80, Sm90Tma};
use crate::schedule::tile::Overlap::{self, AcrossStrips, BetweenWarpgroups, WithinStrip};
use crate::spec::config::Mask::{self, Causal, Full};

/// The GPU models.
#[rustfmt::skip]
#[allow(clippy::approx_constant, reason = \"a fitted number may come near any other\")]
pub const SHIPPED: &[Costs<'static>] = &[
";

const TAIL: &str = "\
];

/// Kind, rows, keys, key groups, columns, blocks, grid, overlap, mask.
type Class = (Kind, u32, u32, u32, u32, u32, Grid, Overlap, Mask);

const fn kernel(class: Class, (resident, last): (u32, LastRound), constants: [f64; 7]) -> (KernelClass, Constants) {
    let (kind, rows, keys, key_groups, columns, blocks, grid, overlap, mask) = class;
    let placement = Placement { resident, last };
    let [launch_us, block_us, item_us, step_us, shared_step_us, megabyte_us, exposed] = constants;
    (
        KernelClass { kind, rows, keys, key_groups, columns, blocks, grid, overlap, mask },
        Constants { placement, launch_us, block_us, item_us, step_us, shared_step_us, megabyte_us, exposed },
    )
}
";

/// The contents of the contract's `cost/shipped.rs`, with constants for its variants.
pub fn source(fits: &[Fit]) -> String {
    let mut text = HEAD.to_owned();
    for Fit { gpu, architecture, kernels, .. } in fits {
        let _ = writeln!(text, "    Costs {{ gpu: {gpu:?}, architecture: {architecture}, kernels: &[");
        for (class, constants) in of_variants(kernels, VARIANTS) {
            let KernelClass { kind, rows, keys, key_groups, columns, blocks, grid, overlap, mask } = class;
            let Constants { placement, launch_us, block_us, item_us, step_us, shared_step_us, megabyte_us, exposed } =
                constants;
            let Placement { resident, last } = placement;
            let numbers = [launch_us, block_us, item_us, step_us, shared_step_us, megabyte_us, exposed];
            let numbers = numbers.map(|number| format!("{number:.4}")).join(", ");
            let _ = writeln!(
                text,
                "        kernel(({kind:?}, {rows}, {keys}, {key_groups}, {columns}, {blocks}, {grid:?}, {overlap:?}, {mask:?}), ({resident}, {last:?}), [{numbers}]),"
            );
        }
        text += "    ] },\n";
    }
    text + TAIL
}

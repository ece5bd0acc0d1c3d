//! Kernels that are not shipped but reachable for the tuner: each variant with other values on the axes of its search space.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use contract::candidates::{Candidate, Pool};
use contract::config::{Element, HEAD_DIM};
use contract::tile::{Configuration, Epilogue, Overlap, Queries, Rescale, Sm80, Sm90CpAsync, Sm90Tma};
use contract::variants::{VARIANTS, Variant};

use crate::candidates;
use crate::codegen;
use crate::environment::{Environment, Workspace};
use crate::process;

/// Architecture on which all kernels run.
const ARCHITECTURE: u32 = 90;
/// The overlap levels, assigned to variants in turn, two of one kind each.
const OVERLAPS: [Overlap; 3] = [Overlap::AcrossStrips, Overlap::WithinStrip, Overlap::BetweenWarpgroups];
/// Random cases for the comparison with the reference, in addition to its grid.
const CASES: &str = "12";

/// Compiles the kernels and has the program `fa512` compare them with the reference in the simulator, with all its checks.
///
/// # Errors
/// If a kernel does not compile, or fails.
pub fn check(environment: &Environment, workspace: &Workspace, fa512: &Path) -> Result<()> {
    let folder = workspace.axes_ptx();
    let code_generator = codegen::choose(environment, workspace)?;
    let pool = Pool { architecture: ARCHITECTURE, candidates: kernels() };
    // Spills only matter for speed.
    let built = candidates::build(workspace, code_generator.as_ref(), None, &pool, &folder)?;
    if let Some(dropped) = built.dropped.first() {
        bail!("{} does not compile: {}: {}", dropped.name, dropped.reason, dropped.detail);
    }
    let arguments = ["fuzz", "--device", "sim", "--cases", CASES, "--ptx"];
    process::run(Command::new(fa512).args(arguments).arg(&folder))
}

fn kernels() -> Vec<Candidate> {
    // One element type and width only: the axes have the same effect for the others.
    let of_one_type =
        VARIANTS.iter().filter(|variant| variant.element == Element::F16 && variant.config.columns() == HEAD_DIM);
    let changed = of_one_type.enumerate().map(|(index, variant)| changed(index, variant));
    changed.chain(of_sm_80()).collect()
}

/// A variant with the other epilogue, where it has one, with a softmax that rescales in every step or, every second one that can, more
/// often than it must, and that overlaps in each way.
fn changed(index: usize, variant: &Variant) -> Candidate {
    let epilogue = Epilogue::Exchange;
    let config = match variant.config {
        Configuration::Sm80(tile) => Configuration::Sm80(Sm80 { epilogue, rescale: Rescale::EveryStep, ..tile }),
        Configuration::Sm90CpAsync(tile) => {
            Configuration::Sm90CpAsync(Sm90CpAsync { epilogue, rescale_threshold: 4, ..tile })
        }
        Configuration::Sm90Tma(tile) => {
            let rescale_threshold = if index.is_multiple_of(2) { 0 } else { 4 };
            // Blocks that split keys have an epilogue of their own.
            let epilogue = if tile.splits_keys() { tile.epilogue } else { epilogue };
            let overlap = OVERLAPS[index / 2 % OVERLAPS.len()];
            Configuration::Sm90Tma(Sm90Tma { epilogue, rescale_threshold, overlap, ..tile })
        }
    };
    candidate(variant, "changed", config)
}

/// What else the sm_80 family has axes for.
fn of_sm_80() -> impl Iterator<Item = Candidate> {
    let of_family = |variant: &'static Variant<'static>| match variant.config {
        Configuration::Sm80(tile) if tile.rescale == Rescale::OnOverflow && tile.columns == HEAD_DIM => {
            Some((variant, tile))
        }
        _ => None,
    };
    let (variant, tile) = VARIANTS.iter().rev().find_map(of_family).expect("there is one");
    [
        ("shared_queries", Sm80 { queries: Queries::Shared, ..tile }),
        ("fma_exponentials", Sm80 { fma_exponentials: 2, unroll: 1, ..tile }),
    ]
    .into_iter()
    .map(move |(change, tile)| candidate(variant, change, Configuration::Sm80(tile)))
}

fn candidate(variant: &Variant, change: &str, config: Configuration) -> Candidate {
    Candidate { name: format!("{}_{change}", variant.entry), config, ..Candidate::from(variant) }
}

#[cfg(test)]
mod tests {
    use contract::architecture::ARCHITECTURES;
    use contract::config::Sequence;

    use super::*;

    #[test]
    fn the_kernels_can_work_and_are_not_shipped() {
        let limits = ARCHITECTURES.into_iter().find(|limits| limits.architecture == ARCHITECTURE).expect("it is known");
        for candidate in kernels() {
            let Candidate { name, config, sequence, .. } = &candidate;
            assert_eq!(config.check(*sequence, limits), Ok(()), "{name}");
            assert!(VARIANTS.iter().all(|variant| variant.config != *config), "{name} is shipped");
        }
    }

    #[test]
    fn every_softmax_meets_every_kind_of_sequence() {
        for exact in [true, false] {
            let of_kind = |candidate: &Candidate| matches!(candidate.sequence, Sequence::Exact(_)) == exact;
            let mut thresholds: Vec<u32> =
                kernels().iter().filter(|one| of_kind(one)).map(|one| one.config.rescale_threshold()).collect();
            thresholds.sort_unstable();
            thresholds.dedup();
            assert!(thresholds.starts_with(&[0, 4]), "{thresholds:?}");
        }
    }
}

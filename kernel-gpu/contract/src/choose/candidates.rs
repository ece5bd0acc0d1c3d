//! Candidates of a tuning run: variants compiled to be measured, in addition to the shipped ones.
//!
//! `fa512 tune plan` writes them, `cargo xtask ptx --variants` compiles them, `fa512 tune run` measures them.

extern crate alloc;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::launch::backward::variants::{BackwardTile, BackwardVariant};
use crate::launch::manifest::Entry;
use crate::launch::variants::Variant;
use crate::schedule::architecture::MOST_GENEROUS;
use crate::schedule::tile::{BiasTiles, Configuration, Epilogue, Grid, Keys, Rejection, Rescale, Sm80, Sm90Tma};
use crate::spec::config::{Element, Family, HEAD_DIM, Mask, Scores, Sequence};

/// File type that a [`Pool`] declares.
pub const KIND: &str = "fa512-tuning-plan";
/// Version of the file format; a reader refuses any other.
pub const VERSION: u32 = 2;

/// The part of a tuning plan that the compiler needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// Architecture that the candidates are meant for, such as 90 for `sm_90`.
    pub architecture: u32,
    /// The entries to compile.
    pub candidates: Vec<Candidate>,
}

/// An entry to compile. One read from a file passes its gate on some architecture.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Candidate {
    /// Name of the `.entry`.
    pub name: String,
    /// Tile configuration.
    pub config: Configuration,
    /// Element type of its tensors; absent in plans from before bf16 was added.
    #[serde(default)]
    pub element: Element,
    /// Sequence lengths the entry accepts.
    pub sequence: Sequence,
    /// Mask the entry applies.
    pub mask: Mask,
}

/// A [`Candidate`] as read, before its gate.
#[derive(Deserialize)]
struct Unchecked {
    name: String,
    config: Configuration,
    #[serde(default)]
    element: Element,
    sequence: Sequence,
    mask: Mask,
}

impl TryFrom<Unchecked> for Candidate {
    type Error = Rejection;

    fn try_from(Unchecked { name, config, element, sequence, mask }: Unchecked) -> Result<Self, Rejection> {
        config.check(sequence, MOST_GENEROUS)?;
        Ok(Self { name, config, element, sequence, mask })
    }
}

impl Candidate {
    /// Instruction family.
    pub const fn family(&self) -> Family {
        self.config.family()
    }

    /// Source text for the device, by [`declaration`].
    pub fn declaration(&self) -> String {
        declaration(&Entry::from(self).variant())
    }

    /// What follows the names of the entries in the line of `variants.rs` that would ship its tile.
    pub fn listing(&self) -> String {
        let Self { config, sequence, mask, .. } = self;
        let tile = match config {
            Configuration::Sm80(tile) => of_sm80(tile),
            Configuration::Sm90Tma(tile) => of_sm90_tma(tile),
        };
        format!("{tile}, {sequence:?}, {mask:?};")
    }
}

/// [`declaration`] of a backward entry. Nothing is declared where another family is compiled.
pub fn declaration_of_backward(variant: &BackwardVariant) -> String {
    let BackwardVariant { entry, tile, element, sequence, mask, scores, computes_d_bias } = variant;
    let scores = match scores {
        _ if *computes_d_bias => "[Modified, DBias]",
        Scores::Unmodified => "[]",
        Scores::Modified => "[Modified]",
    };
    let (kind, tile) = match tile {
        BackwardTile::Sm80(tile) => ("Sm80", format!("{tile:?}")),
        BackwardTile::Sm90(tile) => ("Sm90", format!("{tile:?}")),
    };
    format!(
        "backward_entry! {{ {kind} {entry}, {element:?}, {tile}, sequence::{sequence:?}, mask::{mask:?}, {scores} }}\n"
    )
}

/// The declaration of an entry that kernel-gpu's `entries.rs` includes for the device.
///
/// Relies on `Debug` of a tile printing an expression that constructs it.
pub fn declaration(variant: &Variant<'_>) -> String {
    let sequence = match variant.sequence {
        Sequence::Exact(length) => format!("Exact<{length}>"),
        Sequence::Any => "Any".into(),
        Sequence::Packed => "Packed".into(),
    };
    let (kind, tile) = match variant.config {
        Configuration::Sm80(tile) => ("Sm80", format!("{tile:?}")),
        Configuration::Sm90Tma(tile) => ("Sm90Tma", format!("{tile:?}")),
    };
    let scores = match variant.scores {
        Scores::Unmodified => "[]",
        Scores::Modified => "[Modified]",
    };
    let Variant { entry, element, mask, .. } = variant;
    format!("entry! {{ {kind} {entry}, {element:?}, sequence::{sequence}, mask::{mask:?}, {scores}, {tile} }}\n")
}

fn of_sm80(tile: &Sm80) -> String {
    let Sm80 { block_m, block_n, warps, stages, min_blocks, unroll, .. } = *tile;
    let Sm80 { rescale, epilogue, columns, key_groups, keys, .. } = *tile;
    let options = [
        of_columns(columns),
        option(min_blocks != 1, format!("{min_blocks} blocks")),
        option(key_groups != 1, format!("{key_groups} key groups")),
        option(keys == Keys::InParts, "parts"),
        option(unroll > 0, format!("unroll {unroll}")),
        option(rescale == Rescale::EveryStep, "rescale every step"),
        option(epilogue == Epilogue::Exchange, "exchange epilogue"),
    ];
    format!("Sm80 {{ {block_m} x {block_n}, {warps} warps, {stages} stages{} }}", options.concat())
}

fn of_sm90_tma(tile: &Sm90Tma) -> String {
    let Sm90Tma { warpgroups, stages, min_blocks, passes, grid, overlap, columns, bias_tiles } = *tile;
    let options = [
        of_columns(columns),
        option(min_blocks != 1, format!("{min_blocks} blocks")),
        option(passes != 1, format!("{passes} passes")),
        option(grid == Grid::Persistent, "persistent"),
        option(grid == Grid::SplitKeys, "split keys"),
        overlap.words().map_or_else(String::new, |words| option(true, words)),
        option(bias_tiles == BiasTiles::OnePerWarpgroup, "bias tiles"),
    ];
    format!("Sm90Tma {{ {warpgroups} warpgroups, {stages} stages{} }}", options.concat())
}

fn of_columns(columns: u32) -> String {
    option(columns != HEAD_DIM, format!("{columns} columns"))
}

/// The words of an option, if it differs from the kind's default.
fn option(differs: bool, words: impl Into<String>) -> String {
    if differs { format!(", {}", words.into()) } else { String::new() }
}

impl From<&Variant<'_>> for Candidate {
    fn from(variant: &Variant<'_>) -> Self {
        let Variant { entry, config, element, sequence, mask, .. } = *variant;
        Self { name: entry.to_string(), config, element, sequence, mask }
    }
}

impl From<&Candidate> for Entry {
    fn from(candidate: &Candidate) -> Self {
        Entry::new(&candidate.name, candidate.config, candidate.element, candidate.sequence, candidate.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::variants::VARIANTS;
    use crate::schedule::tile::Overlap;

    fn candidate(config: Configuration) -> Candidate {
        Candidate { name: "x".into(), config, element: Element::F16, sequence: Sequence::Exact(512), mask: Mask::Full }
    }

    #[test]
    fn a_declaration_is_the_source_of_an_entry() {
        let tile = Sm90Tma { passes: 2, grid: Grid::Persistent, ..Sm90Tma::new(4, 8) };
        let tma = candidate(Configuration::Sm90Tma(tile));
        let source = tma.declaration();
        assert!(
            source.starts_with(
                "entry! { Sm90Tma x, F16, sequence::Exact<512>, mask::Full, [], Sm90Tma { warpgroups: 4, "
            ),
            "{source}"
        );
        assert!(source.contains("passes: 2") && source.contains("grid: Persistent"), "{source}");
        let any = Candidate { sequence: Sequence::Any, mask: Mask::Causal, ..tma };
        assert!(any.declaration().contains("sequence::Any, mask::Causal"), "{}", any.declaration());
        let source = candidate(Configuration::Sm80(Sm80::new(64, 64, 4, 2))).declaration();
        assert!(source.contains("{ Sm80 x,") && source.contains("Sm80 { block_m: 64,"), "{source}");
        let modified = Variant { scores: Scores::Modified, ..VARIANTS[0] };
        assert!(declaration(&modified).contains("mask::Full, [Modified], Sm90Tma {"), "{}", declaration(&modified));
    }

    #[test]
    fn a_listing_is_a_line_of_the_variant_list() {
        let cases = [
            (
                Configuration::Sm90Tma(Sm90Tma { passes: 2, grid: Grid::Persistent, ..Sm90Tma::new(4, 8) }),
                "Sm90Tma { 4 warpgroups, 8 stages, 2 passes, persistent }, Exact(512), Full;",
            ),
            (
                Configuration::Sm90Tma(Sm90Tma { columns: 128, overlap: Overlap::AcrossStrips, ..Sm90Tma::new(2, 5) }),
                "Sm90Tma { 2 warpgroups, 5 stages, 128 columns, overlap across strips }, Exact(512), Full;",
            ),
            (
                Configuration::Sm90Tma(Sm90Tma { bias_tiles: BiasTiles::OnePerWarpgroup, ..Sm90Tma::new(4, 7) }),
                "Sm90Tma { 4 warpgroups, 7 stages, bias tiles }, Exact(512), Full;",
            ),
            (
                Configuration::Sm80(Sm80 { unroll: 1, key_groups: 2, keys: Keys::InParts, ..Sm80::new(64, 32, 4, 2) }),
                "Sm80 { 64 x 32, 4 warps, 2 stages, 2 key groups, parts, unroll 1 }, Exact(512), Full;",
            ),
            (
                Configuration::Sm80(Sm80 {
                    rescale: Rescale::EveryStep,
                    epilogue: Epilogue::Exchange,
                    ..Sm80::new(64, 32, 4, 2)
                }),
                "Sm80 { 64 x 32, 4 warps, 2 stages, rescale every step, exchange epilogue }, Exact(512), Full;",
            ),
        ];
        for (config, line) in cases {
            assert_eq!(candidate(config).listing(), line);
        }
    }
}

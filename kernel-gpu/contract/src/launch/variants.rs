//! The list of variants: every entry of the PTX, its name, and what it is specialised for.

use crate::schedule::architecture::MOST_GENEROUS;
use crate::schedule::tile::{Configuration, Sm80, Sm90Tma};
use crate::spec::config::{Element, Family, Mask, Scores, Sequence};

/// One entry of the PTX: a kernel monomorphised for a tile configuration, an element type, a sequence length and a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant<'a> {
    /// Name of the `.entry`.
    pub entry: &'a str,
    /// Tile configuration.
    pub config: Configuration,
    /// Element type of its tensors.
    pub element: Element,
    /// Sequence lengths the entry accepts.
    pub sequence: Sequence,
    /// Mask the entry applies.
    pub mask: Mask,
    /// Whether it supports score modifications.
    pub scores: Scores,
    /// Whether it executes `griddepcontrol.wait` before it accesses the tensors, so that its launch may begin before the
    /// previous one ends (programmatic dependent launch).
    pub waits_for_previous_grid: bool,
    /// Whether its blocks leave [parts](crate::schedule::parts) of an item if the launch says so.
    pub leaves_parts: bool,
}

/// The tile configuration of a variant: `tile!(Sm80, 64 x 128, 4 warps, 2 stages, …)`. Omitted options have the defaults of the
/// kind's `new`; options that the kind does not have do not compile.
macro_rules! tile {
    (Sm80, $block_m:literal x $block_n:literal, $warps:literal warps, $stages:literal stages $($rest:tt)*) => {
        tile!(@ Sm80 { ..Sm80::new($block_m, $block_n, $warps, $stages) } $($rest)*)
    };
    (Sm90Tma, $warpgroups:literal warpgroups, $stages:literal stages $($rest:tt)*) => {
        tile!(@ Sm90Tma { ..Sm90Tma::new($warpgroups, $stages) } $($rest)*)
    };
    (@ $kind:ident $tile:tt) => { $kind $tile };
    (@ $kind:ident $tile:tt, $columns:literal columns $($rest:tt)*) => {
        tile!(@ $kind { columns: $columns, ..$kind $tile } $($rest)*)
    };
    (@ $kind:ident $tile:tt, $blocks:literal blocks $($rest:tt)*) => {
        tile!(@ $kind { min_blocks: $blocks, ..$kind $tile } $($rest)*)
    };
    (@ $kind:ident $tile:tt, $groups:literal key groups $($rest:tt)*) => {
        tile!(@ $kind { key_groups: $groups, ..$kind $tile } $($rest)*)
    };
    (@ $kind:ident $tile:tt, parts $($rest:tt)*) => {
        tile!(@ $kind { keys: crate::schedule::tile::Keys::InParts, ..$kind $tile } $($rest)*)
    };
    (@ $kind:ident $tile:tt, $passes:literal passes $($rest:tt)*) => {
        tile!(@ $kind { passes: $passes, ..$kind $tile } $($rest)*)
    };
    (@ $kind:ident $tile:tt, unroll $steps:literal $($rest:tt)*) => {
        tile!(@ $kind { unroll: $steps, ..$kind $tile } $($rest)*)
    };
    (@ $kind:ident $tile:tt, rescale every step $($rest:tt)*) => {
        tile!(@ $kind { rescale: crate::schedule::tile::Rescale::EveryStep, ..$kind $tile } $($rest)*)
    };
    (@ $kind:ident $tile:tt, exchange epilogue $($rest:tt)*) => {
        tile!(@ $kind { epilogue: crate::schedule::tile::Epilogue::Exchange, ..$kind $tile } $($rest)*)
    };
    (@ $kind:ident $tile:tt, persistent $($rest:tt)*) => {
        tile!(@ $kind { grid: crate::schedule::tile::Grid::Persistent, ..$kind $tile } $($rest)*)
    };
    (@ $kind:ident $tile:tt, split keys $($rest:tt)*) => {
        tile!(@ $kind { grid: crate::schedule::tile::Grid::SplitKeys, ..$kind $tile } $($rest)*)
    };
    (@ $kind:ident $tile:tt, overlap within strips $($rest:tt)*) => {
        tile!(@ $kind { overlap: crate::schedule::tile::Overlap::WithinStrip, ..$kind $tile } $($rest)*)
    };
    (@ $kind:ident $tile:tt, overlap across strips $($rest:tt)*) => {
        tile!(@ $kind { overlap: crate::schedule::tile::Overlap::AcrossStrips, ..$kind $tile } $($rest)*)
    };
    (@ $kind:ident $tile:tt, bias tiles $($rest:tt)*) => {
        tile!(@ $kind { bias_tiles: crate::schedule::tile::BiasTiles::OnePerWarpgroup, ..$kind $tile } $($rest)*)
    };
}

impl Variant<'_> {
    /// Instruction family.
    pub const fn family(&self) -> Family {
        self.config.family()
    }
}

/// Calls `$callback!` with every tile, one per line: `entry for F16, entry for Bf16: Kind { configuration }, sequence, mask;`, with
/// `, Modified` after the mask of those with score modifications. Each line is two variants.
///
/// Both the list below and the entries of kernel-gpu are generated from it.
#[macro_export]
macro_rules! for_every_variant {
    // A new tile is a line here: `its two entries: Kind { tile, options that differ from the kind's defaults }, sequence, mask;`. The kind
    // is a type of `crate::schedule::tile`; the arms of `tile!` define the syntax of tile and options. A test derives the names from the rest.
    ($callback:ident) => {
        $callback! {
            fa512_sm90a_tma_s512_full_512x64, fa512_sm90a_tma_bf16_s512_full_512x64: Sm90Tma { 4 warpgroups, 8 stages, 2 passes, persistent }, Exact(512), Full;
            fa512_sm90a_tma_s512_causal_512x64, fa512_sm90a_tma_bf16_s512_causal_512x64: Sm90Tma { 4 warpgroups, 8 stages, 2 passes, persistent }, Exact(512), Causal;
            fa512_sm90a_tma_s512_full_64x64, fa512_sm90a_tma_bf16_s512_full_64x64: Sm90Tma { 1 warpgroups, 4 stages }, Exact(512), Full;
            fa512_sm90a_tma_s512_causal_64x64, fa512_sm90a_tma_bf16_s512_causal_64x64: Sm90Tma { 1 warpgroups, 4 stages }, Exact(512), Causal;
            fa512_sm90a_tma_any_full_256x64, fa512_sm90a_tma_bf16_any_full_256x64: Sm90Tma { 4 warpgroups, 8 stages, persistent }, Any, Full;
            fa512_sm90a_tma_any_causal_256x64, fa512_sm90a_tma_bf16_any_causal_256x64: Sm90Tma { 4 warpgroups, 8 stages, persistent }, Any, Causal;
            fa512_sm90a_tma_any_full_64x64, fa512_sm90a_tma_bf16_any_full_64x64: Sm90Tma { 1 warpgroups, 4 stages }, Any, Full;
            fa512_sm90a_tma_any_causal_64x64, fa512_sm90a_tma_bf16_any_causal_64x64: Sm90Tma { 1 warpgroups, 4 stages }, Any, Causal;
            fa512_sm90a_tma_any_full_64x64_persistent, fa512_sm90a_tma_bf16_any_full_64x64_persistent: Sm90Tma { 1 warpgroups, 3 stages, 3 blocks, persistent }, Any, Full;
            fa512_sm90a_tma_any_causal_64x64_persistent, fa512_sm90a_tma_bf16_any_causal_64x64_persistent: Sm90Tma { 1 warpgroups, 3 stages, 3 blocks, persistent }, Any, Causal;
            fa512_sm90a_tma_any_full_64x64_split, fa512_sm90a_tma_bf16_any_full_64x64_split: Sm90Tma { 1 warpgroups, 4 stages, 2 blocks, split keys }, Any, Full;
            fa512_sm90a_tma_any_causal_64x64_split, fa512_sm90a_tma_bf16_any_causal_64x64_split: Sm90Tma { 1 warpgroups, 4 stages, 2 blocks, split keys }, Any, Causal;
            fa512_sm90a_tma_packed_full_256x64, fa512_sm90a_tma_bf16_packed_full_256x64: Sm90Tma { 4 warpgroups, 8 stages, persistent }, Packed, Full;
            fa512_sm90a_tma_packed_causal_256x64, fa512_sm90a_tma_bf16_packed_causal_256x64: Sm90Tma { 4 warpgroups, 8 stages, persistent }, Packed, Causal;
            fa512_sm90a_tma_packed_full_64x64, fa512_sm90a_tma_bf16_packed_full_64x64: Sm90Tma { 1 warpgroups, 3 stages, 3 blocks, persistent }, Packed, Full;
            fa512_sm90a_tma_packed_causal_64x64, fa512_sm90a_tma_bf16_packed_causal_64x64: Sm90Tma { 1 warpgroups, 3 stages, 3 blocks, persistent }, Packed, Causal;
            fa512_sm90a_tma_any_window_64x64, fa512_sm90a_tma_bf16_any_window_64x64: Sm90Tma { 1 warpgroups, 3 stages, 3 blocks, persistent }, Any, Window;
            fa512_sm90a_tma_any_modified_256x64, fa512_sm90a_tma_bf16_any_modified_256x64: Sm90Tma { 4 warpgroups, 7 stages, persistent, bias tiles }, Any, Window, Modified;
            fa512_sm90a_tma_any_modified_64x64, fa512_sm90a_tma_bf16_any_modified_64x64: Sm90Tma { 1 warpgroups, 3 stages, 3 blocks, persistent, bias tiles }, Any, Window, Modified;
            fa512_sm90a_tma_any_modified_64x64_pairs, fa512_sm90a_tma_bf16_any_modified_64x64_pairs: Sm90Tma { 1 warpgroups, 3 stages, 3 blocks, persistent }, Any, Window, Modified;
            fa512_sm90a_tma_packed_window_64x64, fa512_sm90a_tma_bf16_packed_window_64x64: Sm90Tma { 1 warpgroups, 3 stages, 3 blocks, persistent }, Packed, Window;
            fa512_sm90a_tma_packed_modified_64x64, fa512_sm90a_tma_bf16_packed_modified_64x64: Sm90Tma { 1 warpgroups, 3 stages, 3 blocks, persistent }, Packed, Window, Modified;

            fa512_sm90a_tma_d32_any_full_256x64, fa512_sm90a_tma_bf16_d32_any_full_256x64: Sm90Tma { 4 warpgroups, 8 stages, 32 columns, persistent }, Any, Full;
            fa512_sm90a_tma_d32_any_causal_256x64, fa512_sm90a_tma_bf16_d32_any_causal_256x64: Sm90Tma { 4 warpgroups, 8 stages, 32 columns, persistent }, Any, Causal;
            fa512_sm90a_tma_d32_any_full_64x64, fa512_sm90a_tma_bf16_d32_any_full_64x64: Sm90Tma { 1 warpgroups, 4 stages, 32 columns, 4 blocks, persistent }, Any, Full;
            fa512_sm90a_tma_d32_any_causal_64x64, fa512_sm90a_tma_bf16_d32_any_causal_64x64: Sm90Tma { 1 warpgroups, 4 stages, 32 columns, 4 blocks, persistent }, Any, Causal;
            fa512_sm90a_tma_d32_any_full_64x64_split, fa512_sm90a_tma_bf16_d32_any_full_64x64_split: Sm90Tma { 1 warpgroups, 4 stages, 32 columns, 2 blocks, split keys }, Any, Full;
            fa512_sm90a_tma_d32_any_causal_64x64_split, fa512_sm90a_tma_bf16_d32_any_causal_64x64_split: Sm90Tma { 1 warpgroups, 4 stages, 32 columns, 2 blocks, split keys }, Any, Causal;
            fa512_sm90a_tma_d32_packed_full_256x64, fa512_sm90a_tma_bf16_d32_packed_full_256x64: Sm90Tma { 4 warpgroups, 8 stages, 32 columns, persistent }, Packed, Full;
            fa512_sm90a_tma_d32_packed_causal_256x64, fa512_sm90a_tma_bf16_d32_packed_causal_256x64: Sm90Tma { 4 warpgroups, 8 stages, 32 columns, persistent }, Packed, Causal;
            fa512_sm90a_tma_d32_packed_full_64x64, fa512_sm90a_tma_bf16_d32_packed_full_64x64: Sm90Tma { 1 warpgroups, 4 stages, 32 columns, 4 blocks, persistent }, Packed, Full;
            fa512_sm90a_tma_d32_packed_causal_64x64, fa512_sm90a_tma_bf16_d32_packed_causal_64x64: Sm90Tma { 1 warpgroups, 4 stages, 32 columns, 4 blocks, persistent }, Packed, Causal;
            fa512_sm90a_tma_d32_any_window_64x64, fa512_sm90a_tma_bf16_d32_any_window_64x64: Sm90Tma { 1 warpgroups, 4 stages, 32 columns, 4 blocks, persistent }, Any, Window;
            fa512_sm90a_tma_d32_any_modified_256x64, fa512_sm90a_tma_bf16_d32_any_modified_256x64: Sm90Tma { 4 warpgroups, 8 stages, 32 columns, persistent, bias tiles }, Any, Window, Modified;
            fa512_sm90a_tma_d32_any_modified_64x64, fa512_sm90a_tma_bf16_d32_any_modified_64x64: Sm90Tma { 1 warpgroups, 4 stages, 32 columns, 3 blocks, persistent, bias tiles }, Any, Window, Modified;
            fa512_sm90a_tma_d32_any_modified_64x64_pairs, fa512_sm90a_tma_bf16_d32_any_modified_64x64_pairs: Sm90Tma { 1 warpgroups, 4 stages, 32 columns, 3 blocks, persistent }, Any, Window, Modified;
            fa512_sm90a_tma_d32_packed_window_64x64, fa512_sm90a_tma_bf16_d32_packed_window_64x64: Sm90Tma { 1 warpgroups, 4 stages, 32 columns, 4 blocks, persistent }, Packed, Window;
            fa512_sm90a_tma_d32_packed_modified_64x64, fa512_sm90a_tma_bf16_d32_packed_modified_64x64: Sm90Tma { 1 warpgroups, 4 stages, 32 columns, 3 blocks, persistent }, Packed, Window, Modified;
            fa512_sm90a_tma_d96_any_full_192x64, fa512_sm90a_tma_bf16_d96_any_full_192x64: Sm90Tma { 3 warpgroups, 6 stages, 96 columns, persistent }, Any, Full;
            fa512_sm90a_tma_d96_any_causal_192x64, fa512_sm90a_tma_bf16_d96_any_causal_192x64: Sm90Tma { 3 warpgroups, 6 stages, 96 columns, persistent, overlap within strips }, Any, Causal;
            fa512_sm90a_tma_d96_any_full_128x64, fa512_sm90a_tma_bf16_d96_any_full_128x64: Sm90Tma { 2 warpgroups, 6 stages, 96 columns, persistent, overlap across strips }, Any, Full;
            fa512_sm90a_tma_d96_any_causal_128x64, fa512_sm90a_tma_bf16_d96_any_causal_128x64: Sm90Tma { 2 warpgroups, 6 stages, 96 columns, persistent, overlap across strips }, Any, Causal;
            fa512_sm90a_tma_d96_any_full_64x64, fa512_sm90a_tma_bf16_d96_any_full_64x64: Sm90Tma { 1 warpgroups, 2 stages, 96 columns, 2 blocks, persistent }, Any, Full;
            fa512_sm90a_tma_d96_any_causal_64x64, fa512_sm90a_tma_bf16_d96_any_causal_64x64: Sm90Tma { 1 warpgroups, 2 stages, 96 columns, 2 blocks, persistent }, Any, Causal;
            fa512_sm90a_tma_d96_any_full_64x64_split, fa512_sm90a_tma_bf16_d96_any_full_64x64_split: Sm90Tma { 1 warpgroups, 4 stages, 96 columns, 2 blocks, split keys }, Any, Full;
            fa512_sm90a_tma_d96_any_causal_64x64_split, fa512_sm90a_tma_bf16_d96_any_causal_64x64_split: Sm90Tma { 1 warpgroups, 4 stages, 96 columns, 2 blocks, split keys }, Any, Causal;
            fa512_sm90a_tma_d96_any_full_128x64_split, fa512_sm90a_tma_bf16_d96_any_full_128x64_split: Sm90Tma { 2 warpgroups, 6 stages, 96 columns, split keys, overlap across strips }, Any, Full;
            fa512_sm90a_tma_d96_any_causal_128x64_split, fa512_sm90a_tma_bf16_d96_any_causal_128x64_split: Sm90Tma { 2 warpgroups, 6 stages, 96 columns, split keys, overlap across strips }, Any, Causal;
            fa512_sm90a_tma_d96_packed_full_128x64, fa512_sm90a_tma_bf16_d96_packed_full_128x64: Sm90Tma { 2 warpgroups, 6 stages, 96 columns, persistent, overlap across strips }, Packed, Full;
            fa512_sm90a_tma_d96_packed_causal_128x64, fa512_sm90a_tma_bf16_d96_packed_causal_128x64: Sm90Tma { 2 warpgroups, 6 stages, 96 columns, persistent, overlap across strips }, Packed, Causal;
            fa512_sm90a_tma_d96_any_window_64x64, fa512_sm90a_tma_bf16_d96_any_window_64x64: Sm90Tma { 1 warpgroups, 2 stages, 96 columns, 2 blocks, persistent }, Any, Window;
            fa512_sm90a_tma_d96_any_modified_64x64, fa512_sm90a_tma_bf16_d96_any_modified_64x64: Sm90Tma { 1 warpgroups, 2 stages, 96 columns, 2 blocks, persistent, bias tiles }, Any, Window, Modified;
            fa512_sm90a_tma_d96_any_modified_64x64_pairs, fa512_sm90a_tma_bf16_d96_any_modified_64x64_pairs: Sm90Tma { 1 warpgroups, 2 stages, 96 columns, 2 blocks, persistent }, Any, Window, Modified;
            fa512_sm90a_tma_d96_packed_window_64x64, fa512_sm90a_tma_bf16_d96_packed_window_64x64: Sm90Tma { 1 warpgroups, 2 stages, 96 columns, 2 blocks, persistent }, Packed, Window;
            fa512_sm90a_tma_d96_packed_modified_64x64, fa512_sm90a_tma_bf16_d96_packed_modified_64x64: Sm90Tma { 1 warpgroups, 2 stages, 96 columns, 2 blocks, persistent }, Packed, Window, Modified;
            fa512_sm90a_tma_d128_any_full_128x64, fa512_sm90a_tma_bf16_d128_any_full_128x64: Sm90Tma { 2 warpgroups, 5 stages, 128 columns, persistent, overlap across strips }, Any, Full;
            fa512_sm90a_tma_d128_any_causal_128x64, fa512_sm90a_tma_bf16_d128_any_causal_128x64: Sm90Tma { 2 warpgroups, 5 stages, 128 columns, persistent, overlap across strips }, Any, Causal;
            fa512_sm90a_tma_d128_any_full_64x64, fa512_sm90a_tma_bf16_d128_any_full_64x64: Sm90Tma { 1 warpgroups, 2 stages, 128 columns, 2 blocks, persistent }, Any, Full;
            fa512_sm90a_tma_d128_any_causal_64x64, fa512_sm90a_tma_bf16_d128_any_causal_64x64: Sm90Tma { 1 warpgroups, 2 stages, 128 columns, 2 blocks, persistent }, Any, Causal;
            fa512_sm90a_tma_d128_any_full_64x64_split, fa512_sm90a_tma_bf16_d128_any_full_64x64_split: Sm90Tma { 1 warpgroups, 3 stages, 128 columns, 2 blocks, split keys }, Any, Full;
            fa512_sm90a_tma_d128_any_causal_64x64_split, fa512_sm90a_tma_bf16_d128_any_causal_64x64_split: Sm90Tma { 1 warpgroups, 3 stages, 128 columns, 2 blocks, split keys }, Any, Causal;
            fa512_sm90a_tma_d128_any_full_128x64_split, fa512_sm90a_tma_bf16_d128_any_full_128x64_split: Sm90Tma { 2 warpgroups, 5 stages, 128 columns, split keys, overlap across strips }, Any, Full;
            fa512_sm90a_tma_d128_any_causal_128x64_split, fa512_sm90a_tma_bf16_d128_any_causal_128x64_split: Sm90Tma { 2 warpgroups, 5 stages, 128 columns, split keys, overlap across strips }, Any, Causal;
            fa512_sm90a_tma_d128_packed_full_128x64, fa512_sm90a_tma_bf16_d128_packed_full_128x64: Sm90Tma { 2 warpgroups, 5 stages, 128 columns, persistent, overlap across strips }, Packed, Full;
            fa512_sm90a_tma_d128_packed_causal_128x64, fa512_sm90a_tma_bf16_d128_packed_causal_128x64: Sm90Tma { 2 warpgroups, 5 stages, 128 columns, persistent, overlap across strips }, Packed, Causal;
            fa512_sm90a_tma_d128_packed_full_64x64, fa512_sm90a_tma_bf16_d128_packed_full_64x64: Sm90Tma { 1 warpgroups, 2 stages, 128 columns, 2 blocks, persistent }, Packed, Full;
            fa512_sm90a_tma_d128_packed_causal_64x64, fa512_sm90a_tma_bf16_d128_packed_causal_64x64: Sm90Tma { 1 warpgroups, 2 stages, 128 columns, 2 blocks, persistent }, Packed, Causal;
            fa512_sm90a_tma_d128_any_window_64x64, fa512_sm90a_tma_bf16_d128_any_window_64x64: Sm90Tma { 1 warpgroups, 2 stages, 128 columns, 2 blocks, persistent }, Any, Window;
            fa512_sm90a_tma_d128_any_modified_64x64, fa512_sm90a_tma_bf16_d128_any_modified_64x64: Sm90Tma { 1 warpgroups, 2 stages, 128 columns, 2 blocks, persistent, bias tiles }, Any, Window, Modified;
            fa512_sm90a_tma_d128_any_modified_64x64_pairs, fa512_sm90a_tma_bf16_d128_any_modified_64x64_pairs: Sm90Tma { 1 warpgroups, 2 stages, 128 columns, 2 blocks, persistent }, Any, Window, Modified;
            fa512_sm90a_tma_d128_packed_window_64x64, fa512_sm90a_tma_bf16_d128_packed_window_64x64: Sm90Tma { 1 warpgroups, 2 stages, 128 columns, 2 blocks, persistent }, Packed, Window;
            fa512_sm90a_tma_d128_packed_modified_64x64, fa512_sm90a_tma_bf16_d128_packed_modified_64x64: Sm90Tma { 1 warpgroups, 2 stages, 128 columns, 2 blocks, persistent }, Packed, Window, Modified;
            fa512_sm90a_tma_d192_any_full_64x64, fa512_sm90a_tma_bf16_d192_any_full_64x64: Sm90Tma { 1 warpgroups, 3 stages, 192 columns, persistent, overlap across strips }, Any, Full;
            fa512_sm90a_tma_d192_any_causal_64x64, fa512_sm90a_tma_bf16_d192_any_causal_64x64: Sm90Tma { 1 warpgroups, 3 stages, 192 columns, persistent, overlap across strips }, Any, Causal;
            fa512_sm90a_tma_d192_any_modified_64x64, fa512_sm90a_tma_bf16_d192_any_modified_64x64: Sm90Tma { 1 warpgroups, 3 stages, 192 columns, persistent, overlap across strips }, Any, Window, Modified;
            fa512_sm90a_tma_d192_packed_full_64x64, fa512_sm90a_tma_bf16_d192_packed_full_64x64: Sm90Tma { 1 warpgroups, 3 stages, 192 columns, persistent, overlap across strips }, Packed, Full;
            fa512_sm90a_tma_d192_packed_causal_64x64, fa512_sm90a_tma_bf16_d192_packed_causal_64x64: Sm90Tma { 1 warpgroups, 3 stages, 192 columns, persistent, overlap across strips }, Packed, Causal;
            fa512_sm90a_tma_d192_packed_modified_64x64, fa512_sm90a_tma_bf16_d192_packed_modified_64x64: Sm90Tma { 1 warpgroups, 3 stages, 192 columns, persistent, overlap across strips }, Packed, Window, Modified;
            fa512_sm90a_tma_d256_any_full_64x64, fa512_sm90a_tma_bf16_d256_any_full_64x64: Sm90Tma { 1 warpgroups, 2 stages, 256 columns, persistent, overlap across strips }, Any, Full;
            fa512_sm90a_tma_d256_any_causal_64x64, fa512_sm90a_tma_bf16_d256_any_causal_64x64: Sm90Tma { 1 warpgroups, 2 stages, 256 columns, persistent, overlap across strips }, Any, Causal;
            fa512_sm90a_tma_d256_any_modified_64x64, fa512_sm90a_tma_bf16_d256_any_modified_64x64: Sm90Tma { 1 warpgroups, 2 stages, 256 columns, persistent, overlap across strips }, Any, Window, Modified;
            fa512_sm90a_tma_d256_packed_full_64x64, fa512_sm90a_tma_bf16_d256_packed_full_64x64: Sm90Tma { 1 warpgroups, 2 stages, 256 columns, persistent, overlap across strips }, Packed, Full;
            fa512_sm90a_tma_d256_packed_causal_64x64, fa512_sm90a_tma_bf16_d256_packed_causal_64x64: Sm90Tma { 1 warpgroups, 2 stages, 256 columns, persistent, overlap across strips }, Packed, Causal;
            fa512_sm90a_tma_d256_packed_modified_64x64, fa512_sm90a_tma_bf16_d256_packed_modified_64x64: Sm90Tma { 1 warpgroups, 2 stages, 256 columns, persistent, overlap across strips }, Packed, Window, Modified;

            fa512_sm80_s512_full_128x64, fa512_sm80_bf16_s512_full_128x64: Sm80 { 128 x 64, 4 warps, 2 stages, 2 blocks }, Exact(512), Full;
            fa512_sm80_s512_causal_128x32, fa512_sm80_bf16_s512_causal_128x32: Sm80 { 128 x 32, 4 warps, 3 stages, 2 blocks }, Exact(512), Causal;
            fa512_sm80_any_full_128x64, fa512_sm80_bf16_any_full_128x64: Sm80 { 128 x 64, 4 warps, 2 stages, 2 blocks, parts }, Any, Full;
            fa512_sm80_any_causal_128x32, fa512_sm80_bf16_any_causal_128x32: Sm80 { 128 x 32, 4 warps, 3 stages, 2 blocks, parts }, Any, Causal;
            fa512_sm80_any_full_32x32, fa512_sm80_bf16_any_full_32x32: Sm80 { 32 x 32, 2 warps, 3 stages, 3 blocks }, Any, Full;
            fa512_sm80_any_causal_32x32, fa512_sm80_bf16_any_causal_32x32: Sm80 { 32 x 32, 2 warps, 3 stages, 3 blocks }, Any, Causal;
            fa512_sm80_any_full_16x128, fa512_sm80_bf16_any_full_16x128: Sm80 { 16 x 128, 8 warps, 3 stages, 8 key groups }, Any, Full;
            fa512_sm80_any_causal_16x128, fa512_sm80_bf16_any_causal_16x128: Sm80 { 16 x 128, 8 warps, 3 stages, 8 key groups }, Any, Causal;
            fa512_sm80_any_full_32x192, fa512_sm80_bf16_any_full_32x192: Sm80 { 32 x 192, 8 warps, 2 stages, 4 key groups }, Any, Full;
            fa512_sm80_any_causal_32x192, fa512_sm80_bf16_any_causal_32x192: Sm80 { 32 x 192, 8 warps, 2 stages, 4 key groups }, Any, Causal;
            fa512_sm80_any_causal_48x192, fa512_sm80_bf16_any_causal_48x192: Sm80 { 48 x 192, 12 warps, 2 stages, 4 key groups }, Any, Causal;
            fa512_sm80_any_full_48x192, fa512_sm80_bf16_any_full_48x192: Sm80 { 48 x 192, 12 warps, 2 stages, 4 key groups, exchange epilogue }, Any, Full;
            fa512_sm80_any_full_96x192, fa512_sm80_bf16_any_full_96x192: Sm80 { 96 x 192, 12 warps, 2 stages, 2 key groups }, Any, Full;
            fa512_sm80_any_full_32x128, fa512_sm80_bf16_any_full_32x128: Sm80 { 32 x 128, 4 warps, 2 stages, 4 key groups, parts }, Any, Full;
            fa512_sm80_any_causal_32x128, fa512_sm80_bf16_any_causal_32x128: Sm80 { 32 x 128, 4 warps, 2 stages, 4 key groups, parts }, Any, Causal;
            fa512_sm80_any_causal_64x128, fa512_sm80_bf16_any_causal_64x128: Sm80 { 64 x 128, 8 warps, 2 stages, 2 key groups }, Any, Causal;
            fa512_sm80_packed_full_128x64, fa512_sm80_bf16_packed_full_128x64: Sm80 { 128 x 64, 4 warps, 2 stages, 2 blocks }, Packed, Full;
            fa512_sm80_packed_causal_128x32, fa512_sm80_bf16_packed_causal_128x32: Sm80 { 128 x 32, 4 warps, 3 stages, 2 blocks }, Packed, Causal;
            fa512_sm80_packed_full_64x32, fa512_sm80_bf16_packed_full_64x32: Sm80 { 64 x 32, 2 warps, 3 stages, 3 blocks }, Packed, Full;
            fa512_sm80_packed_causal_64x32, fa512_sm80_bf16_packed_causal_64x32: Sm80 { 64 x 32, 2 warps, 3 stages, 3 blocks }, Packed, Causal;
            fa512_sm80_any_window_64x32, fa512_sm80_bf16_any_window_64x32: Sm80 { 64 x 32, 2 warps, 3 stages, 3 blocks, rescale every step }, Any, Window;
            fa512_sm80_any_modified_64x32, fa512_sm80_bf16_any_modified_64x32: Sm80 { 64 x 32, 2 warps, 3 stages, 3 blocks, rescale every step }, Any, Window, Modified;
            fa512_sm80_packed_window_64x32, fa512_sm80_bf16_packed_window_64x32: Sm80 { 64 x 32, 2 warps, 3 stages, 3 blocks, rescale every step }, Packed, Window;
            fa512_sm80_packed_modified_64x32, fa512_sm80_bf16_packed_modified_64x32: Sm80 { 64 x 32, 2 warps, 3 stages, 3 blocks, rescale every step }, Packed, Window, Modified;

            fa512_sm80_d32_any_full_128x64, fa512_sm80_bf16_d32_any_full_128x64: Sm80 { 128 x 64, 4 warps, 2 stages, 32 columns, 3 blocks }, Any, Full;
            fa512_sm80_d32_any_causal_128x64, fa512_sm80_bf16_d32_any_causal_128x64: Sm80 { 128 x 64, 4 warps, 2 stages, 32 columns, 3 blocks }, Any, Causal;
            fa512_sm80_d32_any_full_32x128, fa512_sm80_bf16_d32_any_full_32x128: Sm80 { 32 x 128, 4 warps, 3 stages, 32 columns, 2 key groups, parts }, Any, Full;
            fa512_sm80_d32_any_causal_32x128, fa512_sm80_bf16_d32_any_causal_32x128: Sm80 { 32 x 128, 4 warps, 3 stages, 32 columns, 2 key groups, parts }, Any, Causal;
            fa512_sm80_d32_any_window_64x32, fa512_sm80_bf16_d32_any_window_64x32: Sm80 { 64 x 32, 2 warps, 3 stages, 32 columns, 3 blocks, rescale every step }, Any, Window;
            fa512_sm80_d32_any_modified_64x32, fa512_sm80_bf16_d32_any_modified_64x32: Sm80 { 64 x 32, 2 warps, 3 stages, 32 columns, 5 blocks, rescale every step }, Any, Window, Modified;
            fa512_sm80_d32_packed_full_128x64, fa512_sm80_bf16_d32_packed_full_128x64: Sm80 { 128 x 64, 4 warps, 2 stages, 32 columns, 3 blocks }, Packed, Full;
            fa512_sm80_d32_packed_causal_128x64, fa512_sm80_bf16_d32_packed_causal_128x64: Sm80 { 128 x 64, 4 warps, 2 stages, 32 columns, 3 blocks }, Packed, Causal;
            fa512_sm80_d32_packed_window_64x32, fa512_sm80_bf16_d32_packed_window_64x32: Sm80 { 64 x 32, 2 warps, 3 stages, 32 columns, 3 blocks, rescale every step }, Packed, Window;
            fa512_sm80_d32_packed_modified_64x32, fa512_sm80_bf16_d32_packed_modified_64x32: Sm80 { 64 x 32, 2 warps, 3 stages, 32 columns, 5 blocks, rescale every step }, Packed, Window, Modified;
            fa512_sm80_d96_any_full_128x32, fa512_sm80_bf16_d96_any_full_128x32: Sm80 { 128 x 32, 4 warps, 3 stages, 96 columns }, Any, Full;
            fa512_sm80_d96_any_causal_128x32, fa512_sm80_bf16_d96_any_causal_128x32: Sm80 { 128 x 32, 4 warps, 3 stages, 96 columns }, Any, Causal;
            fa512_sm80_d96_any_full_96x96, fa512_sm80_bf16_d96_any_full_96x96: Sm80 { 96 x 96, 12 warps, 2 stages, 96 columns, 2 key groups }, Any, Full;
            fa512_sm80_d96_any_full_64x32, fa512_sm80_bf16_d96_any_full_64x32: Sm80 { 64 x 32, 4 warps, 3 stages, 96 columns, 2 blocks, parts }, Any, Full;
            fa512_sm80_d96_any_causal_64x32, fa512_sm80_bf16_d96_any_causal_64x32: Sm80 { 64 x 32, 4 warps, 3 stages, 96 columns, 2 blocks, parts }, Any, Causal;
            fa512_sm80_d96_any_causal_48x192, fa512_sm80_bf16_d96_any_causal_48x192: Sm80 { 48 x 192, 12 warps, 2 stages, 96 columns, 4 key groups }, Any, Causal;
            fa512_sm80_d96_any_full_16x128, fa512_sm80_bf16_d96_any_full_16x128: Sm80 { 16 x 128, 8 warps, 3 stages, 96 columns, 8 key groups, parts }, Any, Full;
            fa512_sm80_d96_any_causal_16x128, fa512_sm80_bf16_d96_any_causal_16x128: Sm80 { 16 x 128, 8 warps, 3 stages, 96 columns, 8 key groups }, Any, Causal;
            fa512_sm80_d96_any_full_32x192, fa512_sm80_bf16_d96_any_full_32x192: Sm80 { 32 x 192, 8 warps, 2 stages, 96 columns, 4 key groups }, Any, Full;
            fa512_sm80_d96_any_full_64x128, fa512_sm80_bf16_d96_any_full_64x128: Sm80 { 64 x 128, 8 warps, 2 stages, 96 columns, 4 key groups, unroll 1 }, Any, Full;
            fa512_sm80_d96_any_full_32x32, fa512_sm80_bf16_d96_any_full_32x32: Sm80 { 32 x 32, 2 warps, 2 stages, 96 columns, 2 blocks }, Any, Full;
            fa512_sm80_d96_any_causal_32x32, fa512_sm80_bf16_d96_any_causal_32x32: Sm80 { 32 x 32, 2 warps, 2 stages, 96 columns, 2 blocks }, Any, Causal;
            fa512_sm80_d96_packed_full_128x32, fa512_sm80_bf16_d96_packed_full_128x32: Sm80 { 128 x 32, 4 warps, 3 stages, 96 columns }, Packed, Full;
            fa512_sm80_d96_packed_causal_64x32, fa512_sm80_bf16_d96_packed_causal_64x32: Sm80 { 64 x 32, 4 warps, 3 stages, 96 columns, 2 blocks }, Packed, Causal;
            fa512_sm80_d96_packed_full_32x32, fa512_sm80_bf16_d96_packed_full_32x32: Sm80 { 32 x 32, 2 warps, 2 stages, 96 columns, 2 blocks }, Packed, Full;
            fa512_sm80_d96_packed_causal_32x32, fa512_sm80_bf16_d96_packed_causal_32x32: Sm80 { 32 x 32, 2 warps, 2 stages, 96 columns, 2 blocks }, Packed, Causal;
            fa512_sm80_d128_any_full_128x32, fa512_sm80_bf16_d128_any_full_128x32: Sm80 { 128 x 32, 4 warps, 3 stages, 128 columns, exchange epilogue, unroll 1 }, Any, Full;
            fa512_sm80_d128_any_causal_128x32, fa512_sm80_bf16_d128_any_causal_128x32: Sm80 { 128 x 32, 4 warps, 3 stages, 128 columns, unroll 1 }, Any, Causal;
            fa512_sm80_d128_any_full_64x64, fa512_sm80_bf16_d128_any_full_64x64: Sm80 { 64 x 64, 4 warps, 2 stages, 128 columns, parts }, Any, Full;
            fa512_sm80_d128_any_causal_64x64, fa512_sm80_bf16_d128_any_causal_64x64: Sm80 { 64 x 64, 4 warps, 2 stages, 128 columns, parts }, Any, Causal;
            fa512_sm80_d128_any_full_64x32, fa512_sm80_bf16_d128_any_full_64x32: Sm80 { 64 x 32, 4 warps, 3 stages, 128 columns, 2 blocks }, Any, Full;
            fa512_sm80_d128_any_full_48x96, fa512_sm80_bf16_d128_any_full_48x96: Sm80 { 48 x 96, 3 warps, 2 stages, 128 columns }, Any, Full;
            fa512_sm80_d128_any_full_96x96, fa512_sm80_bf16_d128_any_full_96x96: Sm80 { 96 x 96, 6 warps, 2 stages, 128 columns }, Any, Full;
            fa512_sm80_d128_any_causal_48x96, fa512_sm80_bf16_d128_any_causal_48x96: Sm80 { 48 x 96, 6 warps, 2 stages, 128 columns, 2 key groups }, Any, Causal;
            fa512_sm80_d128_any_full_32x32, fa512_sm80_bf16_d128_any_full_32x32: Sm80 { 32 x 32, 2 warps, 2 stages, 128 columns, 2 blocks }, Any, Full;
            fa512_sm80_d128_any_causal_32x32, fa512_sm80_bf16_d128_any_causal_32x32: Sm80 { 32 x 32, 2 warps, 2 stages, 128 columns, 2 blocks }, Any, Causal;
            fa512_sm80_d128_any_full_16x128, fa512_sm80_bf16_d128_any_full_16x128: Sm80 { 16 x 128, 8 warps, 3 stages, 128 columns, 8 key groups, parts }, Any, Full;
            fa512_sm80_d128_any_causal_16x128, fa512_sm80_bf16_d128_any_causal_16x128: Sm80 { 16 x 128, 8 warps, 3 stages, 128 columns, 8 key groups }, Any, Causal;
            fa512_sm80_d128_any_full_32x128, fa512_sm80_bf16_d128_any_full_32x128: Sm80 { 32 x 128, 8 warps, 2 stages, 128 columns, 4 key groups, parts }, Any, Full;
            fa512_sm80_d128_any_causal_32x128, fa512_sm80_bf16_d128_any_causal_32x128: Sm80 { 32 x 128, 8 warps, 2 stages, 128 columns, 4 key groups }, Any, Causal;
            fa512_sm80_d128_any_causal_64x96, fa512_sm80_bf16_d128_any_causal_64x96: Sm80 { 64 x 96, 8 warps, 2 stages, 128 columns, 2 key groups }, Any, Causal;
            fa512_sm80_d128_any_window_64x32, fa512_sm80_bf16_d128_any_window_64x32: Sm80 { 64 x 32, 4 warps, 2 stages, 128 columns, 2 blocks, rescale every step }, Any, Window;
            fa512_sm80_d128_any_modified_64x32, fa512_sm80_bf16_d128_any_modified_64x32: Sm80 { 64 x 32, 4 warps, 2 stages, 128 columns, 2 blocks, rescale every step }, Any, Window, Modified;
            fa512_sm80_d128_packed_full_128x32, fa512_sm80_bf16_d128_packed_full_128x32: Sm80 { 128 x 32, 4 warps, 3 stages, 128 columns, unroll 1 }, Packed, Full;
            fa512_sm80_d128_packed_causal_64x32, fa512_sm80_bf16_d128_packed_causal_64x32: Sm80 { 64 x 32, 4 warps, 3 stages, 128 columns }, Packed, Causal;
            fa512_sm80_d128_packed_full_32x32, fa512_sm80_bf16_d128_packed_full_32x32: Sm80 { 32 x 32, 2 warps, 2 stages, 128 columns, 2 blocks }, Packed, Full;
            fa512_sm80_d128_packed_causal_32x32, fa512_sm80_bf16_d128_packed_causal_32x32: Sm80 { 32 x 32, 2 warps, 2 stages, 128 columns, 2 blocks }, Packed, Causal;
            fa512_sm80_d128_packed_window_64x32, fa512_sm80_bf16_d128_packed_window_64x32: Sm80 { 64 x 32, 4 warps, 2 stages, 128 columns, 2 blocks, rescale every step }, Packed, Window;
            fa512_sm80_d128_packed_modified_64x32, fa512_sm80_bf16_d128_packed_modified_64x32: Sm80 { 64 x 32, 4 warps, 2 stages, 128 columns, 2 blocks, rescale every step }, Packed, Window, Modified;
            fa512_sm80_d192_any_full_128x32, fa512_sm80_bf16_d192_any_full_128x32: Sm80 { 128 x 32, 8 warps, 2 stages, 192 columns }, Any, Full;
            fa512_sm80_d192_any_causal_128x32, fa512_sm80_bf16_d192_any_causal_128x32: Sm80 { 128 x 32, 8 warps, 2 stages, 192 columns }, Any, Causal;
            fa512_sm80_d192_any_modified_128x32, fa512_sm80_bf16_d192_any_modified_128x32: Sm80 { 128 x 32, 8 warps, 2 stages, 192 columns, rescale every step }, Any, Window, Modified;
            fa512_sm80_d192_packed_full_128x32, fa512_sm80_bf16_d192_packed_full_128x32: Sm80 { 128 x 32, 8 warps, 2 stages, 192 columns }, Packed, Full;
            fa512_sm80_d192_packed_causal_128x32, fa512_sm80_bf16_d192_packed_causal_128x32: Sm80 { 128 x 32, 8 warps, 2 stages, 192 columns }, Packed, Causal;
            fa512_sm80_d192_packed_modified_128x32, fa512_sm80_bf16_d192_packed_modified_128x32: Sm80 { 128 x 32, 8 warps, 2 stages, 192 columns, rescale every step }, Packed, Window, Modified;
            fa512_sm80_d256_any_full_128x16, fa512_sm80_bf16_d256_any_full_128x16: Sm80 { 128 x 16, 8 warps, 2 stages, 256 columns }, Any, Full;
            fa512_sm80_d256_any_causal_128x16, fa512_sm80_bf16_d256_any_causal_128x16: Sm80 { 128 x 16, 8 warps, 2 stages, 256 columns }, Any, Causal;
            fa512_sm80_d256_any_modified_128x16, fa512_sm80_bf16_d256_any_modified_128x16: Sm80 { 128 x 16, 8 warps, 2 stages, 256 columns, rescale every step }, Any, Window, Modified;
            fa512_sm80_d256_packed_full_128x16, fa512_sm80_bf16_d256_packed_full_128x16: Sm80 { 128 x 16, 8 warps, 2 stages, 256 columns }, Packed, Full;
            fa512_sm80_d256_packed_causal_128x16, fa512_sm80_bf16_d256_packed_causal_128x16: Sm80 { 128 x 16, 8 warps, 2 stages, 256 columns }, Packed, Causal;
            fa512_sm80_d256_packed_modified_128x16, fa512_sm80_bf16_d256_packed_modified_128x16: Sm80 { 128 x 16, 8 warps, 2 stages, 256 columns, rescale every step }, Packed, Window, Modified;
        }
    };
}

/// Whether a variant supports score modifications: `scores!(Modified)`; without them its line says `scores!()`.
macro_rules! scores {
    () => {
        Scores::Unmodified
    };
    ($scores:ident) => {
        Scores::$scores
    };
}

/// A variant of a line.
macro_rules! variant {
    ($entry:ident, $element:ident: $kind:ident $tile:ident, $sequence:ident $(($length:literal))?, $mask:ident, [$($scores:ident)?]) => {{
        const CONFIG: Configuration = Configuration::$kind(tiles::$tile);
        // One constant each: all in the body of one constant take the compiler six seconds.
        const VARIANT: Variant<'static> = Variant {
            entry: stringify!($entry),
            config: CONFIG,
            element: Element::$element,
            sequence: Sequence::$sequence $(($length))?,
            mask: Mask::$mask,
            scores: scores!($($scores)?),
            waits_for_previous_grid: CONFIG.uses_tensor_maps(),
            leaves_parts: CONFIG.leaves_parts(),
        };
        VARIANT
    }};
}

/// Declares the list.
macro_rules! list {
    ($($f16:ident, $bf16:ident: $kind:ident { $($config:tt)* }, $sequence:ident $(($length:literal))?, $mask:ident $(, $scores:ident)?;)*) => {
        /// The variants of this build, in order of preference among those that accept a problem and run on a device.
        pub const VARIANTS: &[Variant<'static>] = &[$(
            variant!($f16, F16: $kind $f16, $sequence $(($length))?, $mask, [$($scores)?]),
            variant!($bf16, Bf16: $kind $f16, $sequence $(($length))?, $mask, [$($scores)?]),
        )*];

        /// The tile of each line, under the name of its fp16 entry. To look them up by name in [`VARIANTS`] takes the compiler
        /// 2.4 seconds per family.
        #[allow(non_upper_case_globals, reason = "they are named as the entries are")]
        pub mod tiles {
            use super::*;

            $(
                #[doc = concat!("The tile of `", stringify!($f16), "` and `", stringify!($bf16), "`.")]
                pub const $f16: $kind = tile!($kind, $($config)*);
            )*
        }
    };
}
for_every_variant!(list);

/// Checks that every variant fits the largest architecture.
const _: () = {
    let mut index = 0;
    while index < VARIANTS.len() {
        let variant = VARIANTS[index];
        assert!(variant.config.check(variant.sequence, MOST_GENEROUS).is_ok());
        index += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::tile::{BiasTiles, Epilogue, Grid, Keys, Rescale};
    use crate::spec::config::HEAD_DIM;

    #[test]
    fn where_a_variant_does_not_fit_another_of_its_family_computes_the_same() {
        let computes = |Variant { config, element, sequence, mask, scores, .. }: Variant<'static>| {
            (config.family(), config.columns(), element, sequence, mask, scores)
        };
        for variant in VARIANTS {
            let mut others = VARIANTS.iter().filter(|other| computes(**other) == computes(*variant));
            let fits = others.any(|other| other.config.check_everywhere(other.sequence).is_ok());
            assert!(fits, "some architecture has nothing that computes what {} does", variant.entry);
        }
    }

    #[test]
    fn a_name_says_what_the_rest_of_its_line_says() {
        extern crate std;
        use std::format;

        for Variant { entry, config, element, sequence, mask, scores, .. } in VARIANTS {
            let family = match config.family() {
                Family::Sm80 => "sm80",
                Family::Sm90a => "sm90a_tma",
            };
            let element = if *element == Element::Bf16 { "_bf16" } else { "" };
            let columns = if config.columns() == HEAD_DIM { "".into() } else { format!("_d{}", config.columns()) };
            let sequence = match sequence {
                Sequence::Exact(length) => format!("s{length}"),
                Sequence::Any => "any".into(),
                Sequence::Packed => "packed".into(),
            };
            let mask = if *scores == Scores::Modified { "modified" } else { mask.name() };
            let (rows, keys) = (config.block_m(), config.block_n());
            let name = format!("fa512_{family}{element}{columns}_{sequence}_{mask}_{rows}x{keys}");
            let behind = entry.strip_prefix(name.as_str());
            let is_told_apart = behind.is_some_and(|behind| ["", "_persistent", "_split", "_pairs"].contains(&behind));
            assert!(is_told_apart, "{entry} should be called {name}, with a word behind it if that is taken");
        }
    }

    #[test]
    fn only_kernels_that_may_add_a_bias_have_room_for_it() {
        for variant in VARIANTS.iter().filter(|variant| variant.config.has_bias_tiles()) {
            assert_eq!((variant.scores, variant.sequence), (Scores::Modified, Sequence::Any), "{}", variant.entry);
        }
    }

    #[test]
    fn what_a_line_does_not_say_is_as_its_kind_has_it() {
        let usual = Sm80::new(128, 64, 4, 2);
        assert_eq!(tile!(Sm80, 128 x 64, 4 warps, 2 stages), usual);
        assert_eq!(
            tile!(Sm80, 128 x 64, 4 warps, 2 stages, 3 blocks, 2 key groups, parts),
            Sm80 { min_blocks: 3, key_groups: 2, keys: Keys::InParts, ..usual }
        );
        assert_eq!(tile!(Sm80, 128 x 64, 4 warps, 2 stages, unroll 1), Sm80 { unroll: 1, ..usual });
        assert_eq!(
            tile!(Sm80, 128 x 64, 4 warps, 2 stages, rescale every step, exchange epilogue),
            Sm80 { rescale: Rescale::EveryStep, epilogue: Epilogue::Exchange, ..usual }
        );
        assert_eq!(
            tile!(Sm90Tma, 2 warpgroups, 8 stages, 2 passes, persistent),
            Sm90Tma { passes: 2, grid: Grid::Persistent, ..Sm90Tma::new(2, 8) }
        );
        assert_eq!(
            tile!(Sm90Tma, 4 warpgroups, 7 stages, bias tiles),
            Sm90Tma { bias_tiles: BiasTiles::OnePerWarpgroup, ..Sm90Tma::new(4, 7) }
        );
    }
}

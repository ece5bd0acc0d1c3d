//! The list of variants: every entry of the PTX, what it was specialised for, and its name.

use crate::config::{ARCHITECTURES, Family, Mask, Sequence, TileConfig};

/// One entry of the PTX: a kernel monomorphised for a tile configuration, a sequence length and a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant<'a> {
    /// Name of the `.entry`.
    pub entry: &'a str,
    /// Instruction family.
    pub family: Family,
    /// Tile configuration.
    pub config: TileConfig,
    /// Sequence lengths the entry accepts.
    pub sequence: Sequence,
    /// Mask the entry applies.
    pub mask: Mask,
    /// Whether it waits by itself for the grids before it until it accesses the tensors, so that its launch may let it begin
    /// while they end (`griddepcontrol.wait`).
    pub waits_for_previous_grid: bool,
}

/// What the kind of a variant stands for: its family, and the configuration that its line begins with.
macro_rules! kind {
    (family Sm80) => {
        Family::Sm80
    };
    (family Sm90a) => {
        Family::Sm90a
    };
    (family Sm90aTma) => {
        Family::Sm90a
    };
    (waits Sm90aTma) => {
        true
    };
    (waits $other:ident) => {
        false
    };
    (config Sm80) => {
        TileConfig::SM_80
    };
    (config Sm90a) => {
        TileConfig::SM_90A
    };
    (config Sm90aTma) => {
        TileConfig::SM_90A_TMA
    };
}

/// The configuration of a variant: `config!(Kind, 64 x 128, 4 warps, 2 stages, …)`. What is not said is as `Kind` has it.
macro_rules! config {
    ($kind:ident, $block_m:literal x $block_n:literal, $warps:literal warps, $stages:literal stages $($rest:tt)*) => {
        config!(@ {
            block_m: $block_m,
            block_n: $block_n,
            warps: $warps,
            stages: $stages,
            ..kind!(config $kind)
        } $($rest)*)
    };
    (@ $config:tt) => { TileConfig $config };
    (@ $config:tt, $blocks:literal blocks $($rest:tt)*) => {
        config!(@ { min_blocks: $blocks, ..TileConfig $config } $($rest)*)
    };
    (@ $config:tt, $passes:literal passes $($rest:tt)*) => {
        config!(@ { passes: $passes, ..TileConfig $config } $($rest)*)
    };
    (@ $config:tt, $exponentials:literal of 8 exponentials $($rest:tt)*) => {
        config!(@ { fma_exponentials: $exponentials, ..TileConfig $config } $($rest)*)
    };
    (@ $config:tt, unroll $steps:literal $($rest:tt)*) => {
        config!(@ { unroll: $steps, ..TileConfig $config } $($rest)*)
    };
    (@ $config:tt, rescale threshold $threshold:literal $($rest:tt)*) => {
        config!(@ { rescale_threshold: $threshold, ..TileConfig $config } $($rest)*)
    };
    (@ $config:tt, exchange epilogue $($rest:tt)*) => {
        config!(@ { epilogue: crate::config::Epilogue::Exchange, ..TileConfig $config } $($rest)*)
    };
    (@ $config:tt, persistent $($rest:tt)*) => {
        config!(@ { grid: crate::config::Grid::Persistent, ..TileConfig $config } $($rest)*)
    };
    (@ $config:tt, shared queries $($rest:tt)*) => {
        config!(@ { queries: crate::config::Queries::Shared, ..TileConfig $config } $($rest)*)
    };
}

/// Calls `$callback!` with every variant, a line each: `entry: Kind { configuration }, sequence, mask;`.
///
/// The list below and the entries of kernel-gpu are made from it.
#[macro_export]
macro_rules! for_every_variant {
    // A new variant is a line here: `entry: Kind { tile, what differs from the kind's defaults }, sequence, mask;`, where
    // the kind is a word of `kind!` and what may differ are the arms of `config!`.
    ($callback:ident) => {
        $callback! {
            fa512_sm90a_tma_s512_full_512x64: Sm90aTma { 512 x 64, 16 warps, 8 stages, 2 passes, persistent }, Exact(512), Full;
            fa512_sm90a_tma_s512_causal_512x64: Sm90aTma { 512 x 64, 16 warps, 8 stages, 2 passes, persistent }, Exact(512), Causal;
            fa512_sm90a_tma_s512_full_64x64: Sm90aTma { 64 x 64, 4 warps, 4 stages }, Exact(512), Full;
            fa512_sm90a_tma_s512_causal_64x64: Sm90aTma { 64 x 64, 4 warps, 4 stages }, Exact(512), Causal;
            fa512_sm90a_tma_any_full_256x64: Sm90aTma { 256 x 64, 16 warps, 8 stages, persistent }, Any, Full;
            fa512_sm90a_tma_any_causal_256x64: Sm90aTma { 256 x 64, 16 warps, 8 stages, persistent }, Any, Causal;
            fa512_sm90a_tma_any_full_64x64: Sm90aTma { 64 x 64, 4 warps, 4 stages }, Any, Full;
            fa512_sm90a_tma_any_causal_64x64: Sm90aTma { 64 x 64, 4 warps, 4 stages }, Any, Causal;

            fa512_sm90a_s512_full_64x64: Sm90a { 64 x 64, 4 warps, 2 stages, 4 blocks }, Exact(512), Full;
            fa512_sm90a_s512_causal_64x64: Sm90a { 64 x 64, 4 warps, 2 stages, 4 blocks }, Exact(512), Causal;

            fa512_sm80_s512_full_128x64: Sm80 { 128 x 64, 4 warps, 2 stages, 2 blocks }, Exact(512), Full;
            fa512_sm80_s512_causal_128x32: Sm80 { 128 x 32, 4 warps, 3 stages, 2 blocks }, Exact(512), Causal;
            fa512_sm80_any_full_128x64: Sm80 { 128 x 64, 4 warps, 2 stages, 2 blocks }, Any, Full;
            fa512_sm80_any_causal_128x32: Sm80 { 128 x 32, 4 warps, 3 stages, 2 blocks }, Any, Causal;
        }
    };
}

/// Declares the list.
macro_rules! list {
    ($($entry:ident: $kind:ident { $($config:tt)* }, $sequence:ident $(($length:literal))?, $mask:ident;)*) => {
        /// The variants of this build, in order of preference among those that accept a problem and run on a device.
        pub const VARIANTS: &[Variant<'static>] = &[$(Variant {
            entry: stringify!($entry),
            family: kind!(family $kind),
            config: config!($kind, $($config)*),
            sequence: Sequence::$sequence $(($length))?,
            mask: Mask::$mask,
            waits_for_previous_grid: kind!(waits $kind),
        }),*];
    };
}
for_every_variant!(list);

/// The configuration of the variant `entry`.
///
/// # Panics
/// Where there is none of this name: a compiler's error, as constants are made of it.
pub const fn config_of(entry: &str) -> TileConfig {
    let mut index = 0;
    while index < VARIANTS.len() {
        if same(VARIANTS[index].entry, entry) {
            return VARIANTS[index].config;
        }
        index += 1;
    }
    panic!("there is no variant of this name")
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut index = 0;
    while index < a.len() && index < b.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    a.len() == b.len()
}

/// Every variant fits every architecture that its family runs on.
const _: () = {
    let mut index = 0;
    while index < VARIANTS.len() * ARCHITECTURES.len() {
        let variant = VARIANTS[index / ARCHITECTURES.len()];
        let limits = ARCHITECTURES[index % ARCHITECTURES.len()];
        assert!(
            !variant.family.runs_on(limits.architecture)
                || variant.config.check(variant.family, variant.sequence, limits).is_ok()
        );
        index += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Epilogue, Grid, Queries};

    #[test]
    fn what_a_line_does_not_say_is_as_its_kind_has_it() {
        let tile = TileConfig { block_m: 128, block_n: 64, warps: 4, stages: 2, ..TileConfig::SM_80 };
        assert_eq!(config!(Sm80, 128 x 64, 4 warps, 2 stages), tile);
        assert_eq!(
            config!(Sm80, 128 x 64, 4 warps, 2 stages, 3 blocks, shared queries),
            TileConfig { min_blocks: 3, queries: Queries::Shared, ..tile }
        );
        assert_eq!(
            config!(Sm80, 128 x 64, 4 warps, 2 stages, 2 of 8 exponentials, unroll 1),
            TileConfig { fma_exponentials: 2, unroll: 1, ..tile }
        );
        assert_eq!(
            config!(Sm80, 128 x 64, 4 warps, 2 stages, rescale threshold 0, exchange epilogue),
            TileConfig { rescale_threshold: 0, epilogue: Epilogue::Exchange, ..tile }
        );
        assert_eq!(
            config!(Sm90aTma, 256 x 64, 8 warps, 8 stages, 2 passes, persistent),
            TileConfig {
                block_m: 256,
                block_n: 64,
                warps: 8,
                stages: 8,
                passes: 2,
                grid: Grid::Persistent,
                ..TileConfig::SM_90A_TMA
            }
        );
    }
}

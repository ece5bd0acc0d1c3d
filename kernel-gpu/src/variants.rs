//! The list of variants: every entry of the PTX, what it was specialised for, and its name.

use crate::config::{ARCHITECTURES, Family, Mask, Sequence, TileConfig};

/// One entry of the PTX: a kernel monomorphised for a tile configuration, a sequence length and a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Name of the `.entry`.
    pub entry: &'static str,
    /// Instruction family.
    pub family: Family,
    /// Tile configuration.
    pub config: TileConfig,
    /// Sequence lengths the entry accepts.
    pub sequence: Sequence,
    /// Mask the entry applies.
    pub mask: Mask,
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

/// Declares variants: the list for every target, and on the device the entries themselves.
macro_rules! variants {
    ($($entry:ident: $kind:ident { $($config:tt)* }, $sequence:ident $(($length:literal))?, $mask:ident;)*) => {
        /// The variants of this build, in order of preference among those that accept a problem and run on a device.
        pub const VARIANTS: &[Variant] = &[$(Variant {
            entry: stringify!($entry),
            family: kind!(family $kind),
            config: config!($kind, $($config)*),
            sequence: Sequence::$sequence $(($length))?,
            mask: Mask::$mask,
        }),*];

        #[cfg(all(
            target_arch = "nvptx64",
            any(feature = "sm_80", feature = "sm_90a"),
            not(feature = "candidates")
        ))]
        mod entries {
            use crate::args::ForwardArgs;
            #[allow(unused_imports, reason = "what no variant of this list asks for")]
            use crate::config::{Epilogue, Grid, Queries, TileConfig};
            use crate::device::attention::{mask, sequence};
            use crate::device::codegen::kernel;

            // A module for each, so that each is a codegen unit of its own, and an edit compiles those again that it touches.
            $(mod $entry {
                #[allow(unused_imports, reason = "the entries of the other families are left out")]
                use super::*;

                entry! { $kind $entry, sequence::$sequence $(<$length>)?, mask::$mask, config!($kind, $($config)*) }
            })*
        }
    };
}

/// Declares the entry of one variant, by its kind, where its family is compiled.
#[cfg(all(target_arch = "nvptx64", any(feature = "sm_80", feature = "sm_90a")))]
macro_rules! entry {
    (Sm80 $entry:ident, $sequence:ty, $mask:ty, $config:expr) => {
        #[cfg(feature = "sm_80")]
        kernel! {
            fn $entry(args: ForwardArgs) {
                const CONFIG: TileConfig = $config;
                crate::device::sm80::forward::<
                    { CONFIG.block_m },
                    { CONFIG.block_n },
                    { CONFIG.m_tiles() },
                    { CONFIG.k_steps() },
                    { CONFIG.stages },
                    { CONFIG.unrolled() as usize },
                    { CONFIG.fma_exponentials },
                    { matches!(CONFIG.queries, crate::config::Queries::Shared) },
                    { CONFIG.rescale_threshold },
                    { matches!(CONFIG.epilogue, crate::config::Epilogue::Exchange) },
                    $sequence,
                    $mask,
                >(&args);
            }
        }
    };
    (Sm90a $entry:ident, $sequence:ty, $mask:ty, $config:expr) => {
        #[cfg(feature = "sm_90a")]
        kernel! {
            fn $entry(args: ForwardArgs) {
                const CONFIG: TileConfig = $config;
                crate::device::sm90::forward::<
                    { CONFIG.block_m },
                    { CONFIG.block_n },
                    { CONFIG.n_tiles() },
                    { CONFIG.k_steps() },
                    { CONFIG.stages },
                    { CONFIG.rescale_threshold },
                    { matches!(CONFIG.epilogue, crate::config::Epilogue::Exchange) },
                    $sequence,
                    $mask,
                >(&args);
            }
        }
    };
    (Sm90aTma $entry:ident, $sequence:ty, $mask:ty, $config:expr) => {
        // Rust-CUDA's LLVM 7 takes `setmaxnreg` into both arms of the branch behind it, and lanes miss each other there.
        #[cfg(all(feature = "sm_90a", not(feature = "rust_cuda")))]
        kernel! {
            fn $entry(args: ForwardArgs) {
                const CONFIG: TileConfig = $config;
                crate::device::sm90::tma::forward::<
                    { CONFIG.warpgroups() },
                    { CONFIG.stages },
                    { CONFIG.consumer_registers() },
                    { CONFIG.producer_registers() },
                    { CONFIG.rescale_threshold },
                    { matches!(CONFIG.epilogue, crate::config::Epilogue::Exchange) },
                    $sequence,
                    $mask,
                    <crate::device::sm90::tma::Passes<{ CONFIG.passes }> as crate::device::sm90::tma::InOrder>::Order,
                >(&args);
            }
        }
    };
}

/// The entries of a tuning run in the place of the variants': `cargo xtask ptx --variants` writes their declarations.
#[cfg(all(target_arch = "nvptx64", feature = "candidates"))]
mod candidates {
    use crate::args::ForwardArgs;
    #[allow(unused_imports, reason = "what no candidate of this list asks for")]
    use crate::config::{Epilogue::*, Grid::*, Loads::*, Queries::*, TileConfig};
    use crate::device::attention::{mask, sequence};
    use crate::device::codegen::kernel;

    include!(env!("FA512_CANDIDATES"));
}

// A new variant is a line here: `entry: Kind { tile, what differs from the kind's defaults }, sequence, mask;`, where the
// kind is a word of `kind!` and what may differ are the arms of `config!`.
variants! {
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

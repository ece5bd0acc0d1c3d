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

/// Declares variants: the list for every target, and on the device the entries themselves.
macro_rules! variants {
    ($($entry:ident:
        $family:ident { $block_m:literal x $block_n:literal, $warps:literal warps, $stages:literal stages, $min_blocks:literal blocks },
        $sequence:ident $(($length:literal))?, $mask:ident;)*) => {
        /// The variants of this build, in order of preference among those that accept a problem and run on a device.
        pub const VARIANTS: &[Variant] = &[$(Variant {
            entry: stringify!($entry),
            family: Family::$family,
            config: TileConfig {
                block_m: $block_m,
                block_n: $block_n,
                warps: $warps,
                stages: $stages,
                min_blocks: $min_blocks,
            },
            sequence: Sequence::$sequence $(($length))?,
            mask: Mask::$mask,
        }),*];

        #[cfg(all(target_arch = "nvptx64", not(any(feature = "planted", feature = "probe"))))]
        mod entries {
            use crate::args::ForwardArgs;
            use crate::config::TileConfig;
            use crate::device::attention::{mask, sequence};
            use crate::device::codegen::kernel;

            $(entry! {
                $family $entry, sequence::$sequence $(<$length>)?, mask::$mask, TileConfig {
                    block_m: $block_m,
                    block_n: $block_n,
                    warps: $warps,
                    stages: $stages,
                    min_blocks: $min_blocks,
                }
            })*
        }
    };
}

/// Declares the entry of one variant, where its family is compiled.
#[cfg(all(target_arch = "nvptx64", not(any(feature = "planted", feature = "probe"))))]
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
                    { CONFIG.n_tiles() },
                    { CONFIG.stages },
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
                    $sequence,
                    $mask,
                >(&args);
            }
        }
    };
}

variants! {
    fa512_sm90a_s512_full_64x128: Sm90a { 64 x 128, 4 warps, 2 stages, 3 blocks }, Exact(512), Full;
    fa512_sm90a_s512_causal_64x64: Sm90a { 64 x 64, 4 warps, 2 stages, 4 blocks }, Exact(512), Causal;
    fa512_sm90a_any_full_64x128: Sm90a { 64 x 128, 4 warps, 2 stages, 3 blocks }, Any, Full;
    fa512_sm90a_any_causal_64x64: Sm90a { 64 x 64, 4 warps, 2 stages, 4 blocks }, Any, Causal;

    fa512_sm80_s512_full_128x64: Sm80 { 128 x 64, 4 warps, 2 stages, 2 blocks }, Exact(512), Full;
    fa512_sm80_s512_causal_64x64: Sm80 { 64 x 64, 4 warps, 2 stages, 2 blocks }, Exact(512), Causal;
    fa512_sm80_any_full_64x64: Sm80 { 64 x 64, 4 warps, 2 stages, 2 blocks }, Any, Full;
    fa512_sm80_any_causal_64x64: Sm80 { 64 x 64, 4 warps, 2 stages, 2 blocks }, Any, Causal;
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

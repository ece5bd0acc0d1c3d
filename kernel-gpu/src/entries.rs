//! The entries of the PTX: one for each variant of the contract, or for each candidate of a tuning run.

/// Declares the entry of one variant, by its kind, where its family is compiled.
macro_rules! entry {
    (Sm80 $entry:ident, $element:ident, $sequence:ty, $mask:ty, $tile:expr) => {
        #[cfg(feature = "sm_80")]
        kernel! {
            fn $entry(args: ForwardArgs) {
                const TILE: Sm80 = $tile;
                crate::device::sm80::forward::<
                    { TILE.block_m },
                    { TILE.block_n },
                    { TILE.m_tiles() },
                    { TILE.k_steps() },
                    { TILE.stages },
                    { TILE.unrolled() as usize },
                    { TILE.fma_exponentials },
                    { matches!(TILE.queries, contract::tile::Queries::Shared) },
                    { TILE.rescale.threshold() },
                    { matches!(TILE.epilogue, contract::tile::Epilogue::Exchange) },
                    $sequence,
                    $mask,
                >(&args);
            }
        }
    };
    (Sm90CpAsync $entry:ident, $element:ident, $sequence:ty, $mask:ty, $tile:expr) => {
        #[cfg(feature = "sm_90a")]
        kernel! {
            fn $entry(args: ForwardArgs) {
                const TILE: Sm90CpAsync = $tile;
                crate::device::sm90::forward::<
                    { TILE.block_m() },
                    { TILE.block_n },
                    { TILE.n_tiles() },
                    { TILE.k_steps() },
                    { TILE.stages },
                    { TILE.rescale_threshold },
                    { matches!(TILE.epilogue, contract::tile::Epilogue::Exchange) },
                    $sequence,
                    $mask,
                >(&args);
            }
        }
    };
    (Sm90Tma $entry:ident, $element:ident, $sequence:ty, $mask:ty, $tile:expr) => {
        #[cfg(feature = "sm_90a")]
        kernel! {
            fn $entry(args: ForwardArgs, maps: TensorMaps) {
                const TILE: Sm90Tma = $tile;
                crate::device::sm90::tma::forward::<
                    { TILE.warpgroups },
                    { TILE.stages },
                    { TILE.consumer_registers() },
                    { TILE.producer_registers() },
                    { TILE.rescale_threshold },
                    { matches!(TILE.epilogue, contract::tile::Epilogue::Exchange) },
                    $sequence,
                    $mask,
                    <crate::device::sm90::tma::Passes<{ TILE.passes }> as crate::device::sm90::tma::InOrder<$sequence>>::Order,
                >(&args, maps);
            }
        }
    };
}

/// Declares the entries of the variants.
#[cfg(not(feature = "candidates"))]
macro_rules! entries {
    ($($entry:ident: $kind:ident { $($config:tt)* }, $element:ident, $sequence:ident $(($length:literal))?, $mask:ident;)*) => {
        // A module for each, so that each is a codegen unit of its own, and an edit compiles those again that it touches.
        $(mod $entry {
            #[allow(unused_imports, reason = "the entries of the other families are left out")]
            use super::shipped::*;

            entry! {
                $kind $entry, $element, sequence::$sequence $(<$length>)?, mask::$mask,
                match contract::variants::config_of(stringify!($entry)) {
                    contract::tile::Configuration::$kind(tile) => tile,
                    _ => panic!("the variant list says another kind"),
                }
            }
        })*
    };
}
#[cfg(not(feature = "candidates"))]
contract::for_every_variant!(entries);

/// What the declarations of the variants' entries name.
#[cfg(not(feature = "candidates"))]
mod shipped {
    pub use contract::args::ForwardArgs;
    #[allow(unused_imports, reason = "each architecture's entries are of its own kinds")]
    pub use contract::tile::{Sm80, Sm90CpAsync, Sm90Tma};

    pub use crate::device::attention::{mask, sequence};
    pub(crate) use crate::device::codegen::kernel;
}

/// The entries of a tuning run in the place of the variants': `cargo xtask ptx --variants` writes their declarations.
#[cfg(feature = "candidates")]
mod candidates {
    use crate::device::attention::{mask, sequence};
    use crate::device::codegen::kernel;
    use contract::args::ForwardArgs;
    #[allow(unused_imports, reason = "what no candidate of this list asks for")]
    use contract::tile::{Epilogue::*, Grid::*, Queries::*, Rescale::*, Sm80, Sm90CpAsync, Sm90Tma};

    include!(env!("FA512_CANDIDATES"));
}

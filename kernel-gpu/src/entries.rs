//! The entries of the PTX: one for each variant of the contract, or for each candidate of a tuning run.

/// Declares the entry of one variant, by its kind, where its family is compiled.
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
                    { matches!(CONFIG.queries, contract::config::Queries::Shared) },
                    { CONFIG.rescale_threshold },
                    { matches!(CONFIG.epilogue, contract::config::Epilogue::Exchange) },
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
                    { matches!(CONFIG.epilogue, contract::config::Epilogue::Exchange) },
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
            fn $entry(args: ForwardArgs, maps: TensorMaps) {
                const CONFIG: TileConfig = $config;
                crate::device::sm90::tma::forward::<
                    { CONFIG.warpgroups() },
                    { CONFIG.stages },
                    { CONFIG.consumer_registers() },
                    { CONFIG.producer_registers() },
                    { CONFIG.rescale_threshold },
                    { matches!(CONFIG.epilogue, contract::config::Epilogue::Exchange) },
                    $sequence,
                    $mask,
                    <crate::device::sm90::tma::Passes<{ CONFIG.passes }> as crate::device::sm90::tma::InOrder>::Order,
                >(&args, maps);
            }
        }
    };
}

/// Declares the entries of the variants.
#[cfg(not(feature = "candidates"))]
macro_rules! entries {
    ($($entry:ident: $kind:ident { $($config:tt)* }, $sequence:ident $(($length:literal))?, $mask:ident;)*) => {
        // A module for each, so that each is a codegen unit of its own, and an edit compiles those again that it touches.
        $(mod $entry {
            #[allow(unused_imports, reason = "the entries of the other families are left out")]
            use super::shipped::*;

            entry! {
                $kind $entry, sequence::$sequence $(<$length>)?, mask::$mask,
                contract::variants::config_of(stringify!($entry))
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
    pub use contract::config::TileConfig;

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
    use contract::config::{Epilogue::*, Grid::*, Loads::*, Queries::*, TileConfig};

    include!(env!("FA512_CANDIDATES"));
}

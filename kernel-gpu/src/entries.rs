//! The entries of the PTX: one per variant of the contract, or per candidate of a tuning run.

/// Declares the type that specialises an entry.
macro_rules! kernel_of {
    ($kind:ident: $value:expr, $element:ident, $sequence:ty, $mask:ty, $scores:tt) => {
        const TILE: $kind = $value;

        #[derive(Clone, Copy)]
        struct Entry;

        impl Kernel for Entry {
            type Element = shared_tile::$element;
            type HeadDim = head_dim::Columns<{ TILE.columns() }>;
            type Sequence = $sequence;
            type Mask = $mask;
            type ScoreMod = score_mod_of!($scores, $kind, $sequence);
        }
    };
}

/// The score modifications of an entry, from the text after the mask in its variant's line.
macro_rules! score_mod_of {
    ([], $kind:ident, $sequence:ty) => {
        scores::Unmodified
    };
    ([Modified], Sm90Tma, $sequence:ty) => {
        scores::Modified<
            <bias::Tiles<
                { TILE.bias_bytes() > 0 },
                { TILE.behind_items() },
                { <$sequence as sequence::Sequence>::HAS_BIAS },
            > as bias::Waiting>::Bias,
        >
    };
    ([Modified $(, DBias)?], $kind:ident, $sequence:ty) => {
        scores::Modified<bias::InRegisters<{ <$sequence as sequence::Sequence>::HAS_BIAS }>>
    };
}

/// Declares the entry of one variant, according to its kind, if its family is being compiled.
macro_rules! entry {
    (Sm80 $entry:ident, $element:ident, $sequence:ty, $mask:ty, $scores:tt, $tile:expr) => {
        #[cfg(feature = "sm_80")]
        kernel! {
            fn $entry(args: ForwardArgs) {
                kernel_of!(Sm80: $tile, $element, $sequence, $mask, $scores);

                impl sm80::Sm80Kernel for Entry {
                    const TILE: Sm80 = TILE;
                }

                sm80::forward::<
                    Entry,
                    { TILE.block_m },
                    { TILE.block_n },
                    { TILE.m_tiles() },
                    { TILE.k_steps() },
                    { TILE.k_steps_together() },
                    { TILE.stages },
                >(&args);
            }
        }
    };
    (Sm90Tma $entry:ident, $element:ident, $sequence:ty, $mask:ty, $scores:tt, $tile:expr) => {
        #[cfg(feature = "sm_90a")]
        kernel! {
            fn $entry(args: ForwardArgs, maps: TensorMaps) {
                kernel_of!(Sm90Tma: $tile, $element, $sequence, $mask, $scores);

                impl tma::kernel::TmaKernel for Entry {
                    const TILE: Sm90Tma = TILE;
                }

                impl sm90::ComposedKernel for Entry {
                    type Order = <sm90::Passes<{ TILE.passes }, { TILE.splits_keys() }> as sm90::InOrder<$sequence>>::Order;
                    type Softmax = <sm90::SumsByProduct<{ <Entry as tma::kernel::TmaKernel>::SUMS_BY_PRODUCT }> as sm90::WithSoftmax<Entry>>::Softmax;
                    type Consumer = <sm90::Overlaps<{ <Entry as tma::kernel::TmaKernel>::OVERLAPS }> as sm90::WithConsumer>::Consumer;
                }

                sm90::forward::<Entry, { TILE.consumer_registers() }, { TILE.producer_registers() }>(&args, tma::context::Maps::at(maps));
            }
        }
    };
}

/// Declares the entries of the variants, two for each line.
#[cfg(not(feature = "candidates"))]
macro_rules! entries {
    ($($f16:ident, $bf16:ident: $kind:ident { $($config:tt)* }, $sequence:ident $(($length:literal))?, $mask:ident $(, $scores:ident)?;)*) => {
        $(
            in_module! { $kind $f16, F16, $f16, sequence::$sequence $(<$length>)?, mask::$mask, [$($scores)?] }
            in_module! { $kind $bf16, Bf16, $f16, sequence::$sequence $(<$length>)?, mask::$mask, [$($scores)?] }
        )*
    };
}

/// Declares an entry in a module of its own, so that each entry is a codegen unit, and an edit recompiles only the entries that it affects.
#[cfg(not(feature = "candidates"))]
macro_rules! in_module {
    ($kind:ident $entry:ident, $element:ident, $tile:ident, $sequence:ty, $mask:ty, $scores:tt) => {
        mod $entry {
            #[allow(unused_imports, reason = "the entries of the other families are left out")]
            use super::shipped::*;

            entry! { $kind $entry, $element, $sequence, $mask, $scores, contract::variants::tiles::$tile }
        }
    };
}
#[cfg(not(feature = "candidates"))]
contract::for_every_variant!(entries);

/// Whether a backward entry computes dBias, from the text after the mask in its variant's line.
#[cfg(feature = "sm_80")]
macro_rules! computes_d_bias {
    ([Modified, DBias]) => {
        true
    };
    ($scores:tt) => {
        false
    };
}

/// Declares a backward entry, if its family is being compiled.
macro_rules! backward_entry {
    (Sm80 $entry:ident, $element:ident, $tile:expr, $sequence:ty, $mask:ty, $scores:tt) => {
        #[cfg(feature = "sm_80")]
        kernel! {
            fn $entry(args: BackwardArgs) {
                kernel_of!(Tile: $tile, $element, $sequence, $mask, $scores);

                impl backward::sm80::Sm80Backward for Entry {
                    const TILE: Tile = TILE;
                    const COMPUTES_D_BIAS: bool = computes_d_bias!($scores);
                }

                type Division = backward::sm80::Paired<{ TILE.is_paired() }>;
                backward::sm80::backward::<Entry, Division, { TILE.rows }, { TILE.step }, { TILE.m_tiles() }>(&args);
            }
        }
    };
    (Sm90 $entry:ident, $element:ident, $tile:expr, $sequence:ty, $mask:ty, $scores:tt) => {
        #[cfg(feature = "sm_90a")]
        kernel! {
            fn $entry(args: BackwardArgs, maps: BackwardMaps) {
                kernel_of!(TmaTile: $tile, $element, $sequence, $mask, $scores);

                impl backward::sm90::Sm90Backward for Entry {
                    const TILE: TmaTile = TILE;
                }

                backward::sm90::backward::<
                    Entry,
                    { TILE.consumer_registers() },
                    { TILE.dq_registers() },
                    { TILE.producer_registers() },
                >(&args, tma::context::Maps::at(maps));
            }
        }
    };
}

/// Declares the backward entries, two for each line, each in a module of its own.
#[cfg(not(feature = "candidates"))]
macro_rules! backward_entries {
    ($($f16:ident, $bf16:ident: $kind:ident $tile:expr, $sequence:ident, $mask:ident $(, $scores:ident $(, $d_bias:ident)?)?;)*) => {
        $(
            mod $f16 {
                #[allow(unused_imports, reason = "the entries of the other families are left out")]
                use super::shipped::*;
                backward_entry! { $kind $f16, F16, $tile, sequence::$sequence, mask::$mask, [$($scores $(, $d_bias)?)?] }
            }
            mod $bf16 {
                #[allow(unused_imports, reason = "the entries of the other families are left out")]
                use super::shipped::*;
                backward_entry! { $kind $bf16, Bf16, $tile, sequence::$sequence, mask::$mask, [$($scores $(, $d_bias)?)?] }
            }
        )*
    };
}
#[cfg(not(feature = "candidates"))]
contract::for_every_backward_variant!(backward_entries);

/// Names that the declarations of the variants' entries use.
#[cfg(not(feature = "candidates"))]
mod shipped {
    pub use contract::args::ForwardArgs;
    #[cfg(feature = "sm_90a")]
    pub use contract::args::TensorMaps;
    pub use contract::backward::args::BackwardArgs;
    #[cfg(feature = "sm_90a")]
    pub use contract::backward::args::BackwardMaps;
    #[allow(unused_imports, reason = "each architecture's entries are of its own kinds")]
    pub use contract::backward::variants::{Dq, Tile, TmaTile};
    #[allow(unused_imports, reason = "each architecture's entries are of its own kinds")]
    pub use contract::tile::{Sm80, Sm90Tma};

    pub(crate) use crate::device::backward;
    pub(crate) use crate::device::codegen::kernel;
    #[cfg(feature = "sm_80")]
    pub(crate) use crate::device::forward::sm80;
    pub(crate) use crate::device::kernel::Kernel;
    pub use crate::device::scores::{self, bias};
    pub use crate::device::tile::head_dim;
    #[cfg(feature = "sm_90a")]
    pub(crate) use crate::device::{forward::sm90, tma};
    pub use crate::device::{mask, sequence};
    pub(crate) use crate::shared_tile;
}

/// The entries of a tuning run, in place of the variants'; `cargo xtask ptx --variants` writes their declarations.
#[cfg(feature = "candidates")]
mod candidates {
    #[allow(unused_imports, reason = "what no candidate of this list asks for")]
    use crate::device::backward;
    use crate::device::codegen::kernel;
    #[cfg(feature = "sm_80")]
    use crate::device::forward::sm80;
    use crate::device::kernel::Kernel;
    #[cfg(feature = "sm_90a")]
    #[allow(unused_imports, reason = "what no candidate of this list asks for")]
    use crate::device::{forward::sm90, tma};
    #[allow(unused_imports, reason = "what no candidate of this list asks for")]
    use crate::device::{
        mask,
        scores::{self, bias},
        sequence,
        tile::head_dim,
    };
    use crate::shared_tile;
    #[allow(unused_imports, reason = "what no candidate of this list asks for")]
    use contract::args::{ForwardArgs, TensorMaps};
    #[allow(unused_imports, reason = "what no candidate of this list asks for")]
    use contract::backward::{
        args::{BackwardArgs, BackwardMaps},
        variants::{Dq::*, Tile, TmaTile},
    };
    #[allow(unused_imports, reason = "what no candidate of this list asks for")]
    use contract::tile::{BiasTiles::*, Epilogue::*, Grid::*, Keys::*, Overlap::*, Rescale::*, Sm80, Sm90Tma};

    include!(env!("FA512_CANDIDATES"));
}

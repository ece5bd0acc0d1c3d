//! The work of the calling thread's block: its query rows, and the keys that they attend to.

use core::marker::PhantomData;

use crate::device::codegen::thread;
use crate::device::copy::Copiers;
#[cfg(feature = "sm_80")]
use crate::device::hidden;
use crate::device::kernel::Kernel;
use crate::device::mask::Mask;
#[cfg(feature = "sm_80")]
use crate::device::scores::ScoreMod;
use crate::device::sequence::Sequence;
use crate::device::tile::head_rows::HeadRows;
use contract::args::ForwardArgs;
use contract::geometry::BlockWork;
use contract::packed::{Rows, SequenceTile};

/// `rows` query rows of one head of a sequence.
#[derive(Clone, Copy)]
pub struct Block<'a, K> {
    /// The arguments of the launch.
    pub args: &'a ForwardArgs,
    /// The head and query tile.
    work: BlockWork,
    /// The query tile.
    tile: SequenceTile,
    /// Query rows of the block; those from [`Self::length`] on do not exist.
    rows: u32,
    /// Threads of the block.
    pub threads: u32,
    _kernel: PhantomData<K>,
}

impl<'a, K: Kernel> Block<'a, K> {
    /// The calling thread's block, with `rows` rows and `threads` threads; `None` if it has nothing to compute.
    #[inline(always)]
    pub fn current(args: &'a ForwardArgs, rows: u32, threads: u32) -> Option<Self> {
        let work = K::Sequence::only_work(args, K::Mask::ORDER, thread::block_idx_x());
        Self::of(args, work, rows, threads)
    }

    /// The block of work item `work`, a query tile of `rows` rows, if that exists.
    #[inline(always)]
    fn of(args: &'a ForwardArgs, work: BlockWork, rows: u32, threads: u32) -> Option<Self> {
        let tile = K::Sequence::first_tile(args, work, rows, threads)?;
        Some(Self { args, work, tile, rows, threads, _kernel: PhantomData })
    }

    /// The same block, with its work recomputed ([`hidden::recompute`]).
    #[cfg(feature = "sm_80")]
    #[inline(always)]
    pub fn recomputed(&self) -> Self {
        let work = K::Sequence::work(self.args, K::Mask::ORDER, hidden::recompute(thread::block_idx_x()));
        // The tile exists, as before. An `Option` of a block would be placed in local memory.
        let tile = K::Sequence::tile(self.args, work, self.rows).unwrap_or(SequenceTile::EMPTY);
        Self { work, tile, ..*self }
    }

    /// First query row of the block.
    #[inline(always)]
    pub fn first_row(&self) -> u32 {
        self.tile.first_row
    }

    /// Rows of Q of the sequence.
    #[inline(always)]
    pub fn length(&self) -> u32 {
        self.tile.length
    }

    /// Q of the head.
    #[inline(always)]
    pub fn queries(&self) -> HeadRows {
        HeadRows::new::<K::Element>(self.args.q, &self.args.q_strides, self.work, self.tile.begin)
    }

    /// O of the head.
    #[inline(always)]
    pub fn output(&self) -> HeadRows {
        HeadRows::new::<K::Element>(self.args.o, &self.args.o_strides, self.work, self.tile.begin)
    }

    /// The keys and values that it attends to.
    #[inline(always)]
    pub fn attended(&self) -> Attended<'a, K> {
        let Rows { begin, length } = K::Sequence::keys(self.args, self.tile);
        let first = K::Sequence::first_position(self.args, self.tile.length, length);
        Attended { block: *self, begin, length, position: self.tile.first_row.wrapping_add(first) }
    }

    /// The score modifications of the head and its sequence.
    #[cfg(feature = "sm_80")]
    #[inline(always)]
    pub fn score_mod(&self) -> K::ScoreMod {
        K::ScoreMod::of_head(self.args, self.work, self.tile.sequence)
    }

    /// Address of LSE of the head's row 0; `None` if not requested.
    #[inline(always)]
    pub fn lse(&self) -> Option<u64> {
        let elements = K::Sequence::lse_row(self.args, self.work, self.tile);
        (self.args.lse != 0).then(|| self.args.lse + elements * size_of::<f32>() as u64)
    }
}

impl<K> Copiers for Block<'_, K> {
    #[inline(always)]
    fn threads(&self) -> u32 {
        self.threads
    }

    #[inline(always)]
    fn head_dim(&self) -> u32 {
        self.args.head_dim
    }
}

/// The keys and values of a block's sequence.
#[derive(Clone, Copy)]
pub struct Attended<'a, K> {
    // By value: a reference that the compiler cannot resolve would force it into local memory.
    block: Block<'a, K>,
    /// First row of the sequence in K and V.
    begin: u32,
    /// Number of keys.
    pub length: u32,
    /// Position of the block's first query row among the keys ([`Sequence::first_position`]), as masks take it.
    pub position: u32,
}

impl<K: Kernel> Attended<'_, K> {
    /// First key of the first step (of `keys` keys) with a key that any of the block's rows attends to.
    #[inline(always)]
    pub fn first_key(&self, keys: u32) -> u32 {
        if K::Mask::HAS_BEGIN { K::Mask::keys_begin(self.block.args, self.position) / keys * keys } else { 0 }
    }

    /// Number of steps of `keys` keys from there to the last key that any of the block's rows attends to; at least one.
    #[inline(always)]
    pub fn steps(&self, keys: u32) -> u32 {
        let positions_end = self.position.wrapping_add(self.block.rows);
        let (begin, end) = (self.first_key(keys), K::Mask::keys_end(self.block.args, positions_end, self.length));
        // Rows that attend to nothing get one step, fully masked.
        let may_be_none = K::Mask::HAS_BEGIN || K::Sequence::MAY_HAVE_NO_KEY;
        let end = if may_be_none { end.max(begin + 1) } else { end };
        (end - begin).div_ceil(keys)
    }

    /// K that the head attends to.
    #[inline(always)]
    pub fn keys(&self) -> HeadRows {
        let Block { args, work, .. } = self.block;
        HeadRows::new::<K::Element>(args.k, &args.k_strides, args.of_keys(work), self.begin)
    }

    /// V that the head attends to.
    #[inline(always)]
    pub fn values(&self) -> HeadRows {
        let Block { args, work, .. } = self.block;
        HeadRows::new::<K::Element>(args.v, &args.v_strides, args.of_keys(work), self.begin)
    }
}

//! What the calling thread's block computes.

use core::marker::PhantomData;

use super::copy::HeadRows;
use super::kernel::Kernel;
use super::mask::Mask;
#[cfg(feature = "sm_80")]
use super::score_mod::ScoreMod;
use super::sequence::Sequence;
use crate::device::codegen::thread;
#[cfg(feature = "sm_80")]
use crate::device::hidden;
use contract::args::ForwardArgs;
use contract::geometry::BlockWork;
use contract::packed::SequenceTile;

/// `rows` query rows of one head of a sequence.
pub struct Block<'a, K> {
    /// The arguments of the launch.
    pub args: &'a ForwardArgs,
    /// The head and query tile.
    work: BlockWork,
    /// Row of the tensors at which the sequence begins.
    begin: u32,
    /// Rows of Q of the sequence.
    pub length: u32,
    /// Rows of its K and V.
    pub kv_length: u32,
    /// First query row of the block.
    pub first_row: u32,
    /// Query rows of the block; those at or beyond `length` are not there.
    rows: u32,
    /// Threads of the block.
    pub threads: u32,
    _kernel: PhantomData<K>,
}

impl<'a, K: Kernel> Block<'a, K> {
    /// The calling thread's block, of `rows` rows and `threads` threads; `None` where it has nothing to compute.
    #[inline(always)]
    pub fn current(args: &'a ForwardArgs, rows: u32, threads: u32) -> Option<Self> {
        let work = K::Sequence::only_work(args, thread::block_idx_x());
        Self::of(args, work, rows, threads)
    }

    /// The query tile of `rows` rows that `work` is, if there is one.
    #[inline(always)]
    fn of(args: &'a ForwardArgs, work: BlockWork, rows: u32, threads: u32) -> Option<Self> {
        let SequenceTile { begin, length, first_row } = K::Sequence::tile(args, work, rows)?;
        let kv_length = K::Sequence::kv_length(args, length);
        Some(Self { args, work, begin, length, kv_length, first_row, rows, threads, _kernel: PhantomData })
    }

    /// The same block, whose work is computed again ([`hidden::again`]).
    #[cfg(feature = "sm_80")]
    #[inline(always)]
    pub fn again(&self) -> Option<Self> {
        let work = K::Sequence::work(self.args, hidden::again(thread::block_idx_x()));
        Self::of(self.args, work, self.rows, self.threads)
    }

    /// The first key of the step of `keys` keys in which the first is that any of the block's rows attends to.
    #[inline(always)]
    pub fn first_key(&self, keys: u32) -> u32 {
        if K::Mask::HAS_BEGIN { K::Mask::keys_begin(self.args, self.first_row) / keys * keys } else { 0 }
    }

    /// Steps of `keys` keys from there on until none is left that any of the block's rows attends to; one at least.
    #[inline(always)]
    pub fn steps(&self, keys: u32) -> u32 {
        let (begin, end) =
            (self.first_key(keys), K::Mask::keys_end(self.args, self.first_row + self.rows, self.kv_length));
        // Rows that attend to nothing have a step that is masked.
        let end = if K::Mask::HAS_BEGIN { end.max(begin + 1) } else { end };
        (end - begin).div_ceil(keys)
    }

    /// Q of the head.
    #[inline(always)]
    pub fn queries(&self) -> HeadRows {
        HeadRows::new::<K::Element>(self.args.q, &self.args.q_strides, self.work, self.begin)
    }

    /// K that the head attends to.
    #[inline(always)]
    pub fn keys(&self) -> HeadRows {
        HeadRows::new::<K::Element>(self.args.k, &self.args.k_strides, self.args.of_keys(self.work), self.begin)
    }

    /// V that the head attends to.
    #[inline(always)]
    pub fn values(&self) -> HeadRows {
        HeadRows::new::<K::Element>(self.args.v, &self.args.v_strides, self.args.of_keys(self.work), self.begin)
    }

    /// O of the head.
    #[inline(always)]
    pub fn output(&self) -> HeadRows {
        HeadRows::new::<K::Element>(self.args.o, &self.args.o_strides, self.work, self.begin)
    }

    /// What is done to the head's scores.
    #[cfg(feature = "sm_80")]
    #[inline(always)]
    pub fn score_mod(&self) -> K::ScoreMod {
        K::ScoreMod::of_head(self.args, self.work)
    }

    /// Address of the LSE of the head's row 0; `None` when it is not wanted.
    #[inline(always)]
    pub fn lse(&self) -> Option<u64> {
        let tile = SequenceTile { begin: self.begin, length: self.length, first_row: self.first_row };
        let elements = K::Sequence::lse_row(self.args, self.work, tile);
        (self.args.lse != 0).then(|| self.args.lse + elements * size_of::<f32>() as u64)
    }
}

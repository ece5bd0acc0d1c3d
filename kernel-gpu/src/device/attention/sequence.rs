//! Sequence lengths as types: a compile-time constant, the launch's argument, or those of packed sequences; the last two with
//! masked tails.

use crate::device::ptx::memory;
use contract::args::ForwardArgs;
use contract::geometry::BlockWork;
use contract::packed::{self, SequenceTile};

/// The sequences of a kernel.
pub trait Sequence {
    /// Whether the last tile of rows or keys may be partly beyond the end.
    const HAS_TAIL: bool;
    /// Whether a bias may have a row for each of their queries.
    const HAS_BIAS: bool;

    /// Rows of Q of all sequences; of packed ones, their rows together.
    fn length(args: &ForwardArgs) -> u32;

    /// Rows of K and V of a sequence that has `length` rows of Q.
    fn kv_length(args: &ForwardArgs, length: u32) -> u32;

    /// The work item `item` of the launch.
    #[inline(always)]
    fn work(args: &ForwardArgs, item: u32) -> BlockWork {
        args.block_work(item)
    }

    /// [`Self::work`] for a block that has no other item ([`ForwardArgs::only_block_work`]).
    #[inline(always)]
    fn only_work(args: &ForwardArgs, item: u32) -> BlockWork {
        args.only_block_work(item)
    }

    /// The query tile of `rows` rows that `work` is; `None` where there is none, which nothing is computed for.
    fn tile(args: &ForwardArgs, work: BlockWork, rows: u32) -> Option<SequenceTile>;

    /// Element of LSE that is row 0 of the head, whose sequence `tile` is of.
    fn lse_row(args: &ForwardArgs, work: BlockWork, tile: SequenceTile) -> u64;
}

/// Exactly `LENGTH`, a multiple of every tile: trip counts are constants and nothing is masked at the end.
pub struct Exact<const LENGTH: u32>;

impl<const LENGTH: u32> Sequence for Exact<LENGTH> {
    const HAS_TAIL: bool = false;
    const HAS_BIAS: bool = true;

    #[inline(always)]
    fn length(_args: &ForwardArgs) -> u32 {
        LENGTH
    }

    #[inline(always)]
    fn kv_length(_args: &ForwardArgs, _length: u32) -> u32 {
        LENGTH
    }

    #[inline(always)]
    fn tile(args: &ForwardArgs, work: BlockWork, rows: u32) -> Option<SequenceTile> {
        tile_of_batch::<Self>(args, work, rows)
    }

    #[inline(always)]
    fn lse_row(args: &ForwardArgs, work: BlockWork, _: SequenceTile) -> u64 {
        lse_row_of_batch::<Self>(args, work)
    }
}

/// Any length from 1 up.
pub struct Any;

impl Sequence for Any {
    const HAS_TAIL: bool = true;
    const HAS_BIAS: bool = true;

    #[inline(always)]
    fn length(args: &ForwardArgs) -> u32 {
        args.sequence
    }

    #[inline(always)]
    fn kv_length(args: &ForwardArgs, _length: u32) -> u32 {
        args.kv_sequence
    }

    #[inline(always)]
    fn tile(args: &ForwardArgs, work: BlockWork, rows: u32) -> Option<SequenceTile> {
        tile_of_batch::<Self>(args, work, rows)
    }

    #[inline(always)]
    fn lse_row(args: &ForwardArgs, work: BlockWork, _: SequenceTile) -> u64 {
        lse_row_of_batch::<Self>(args, work)
    }
}

#[inline(always)]
fn tile_of_batch<S: Sequence>(args: &ForwardArgs, work: BlockWork, rows: u32) -> Option<SequenceTile> {
    Some(SequenceTile { begin: 0, length: S::length(args), first_row: work.query_tile * rows })
}

#[inline(always)]
fn lse_row_of_batch<S: Sequence>(args: &ForwardArgs, work: BlockWork) -> u64 {
    let head = work.batch as u64 * args.heads.get().get() as u64 + work.head as u64;
    head * S::length(args) as u64
}

/// Sequences of any lengths, packed: a work item's query tile is a slot of [`contract::packed`].
pub struct Packed;

impl Sequence for Packed {
    const HAS_TAIL: bool = true;
    const HAS_BIAS: bool = false;

    #[inline(always)]
    fn length(args: &ForwardArgs) -> u32 {
        args.sequence
    }

    #[inline(always)]
    fn kv_length(_args: &ForwardArgs, length: u32) -> u32 {
        length
    }

    #[inline(always)]
    fn work(args: &ForwardArgs, item: u32) -> BlockWork {
        args.packed_work(item)
    }

    #[inline(always)]
    fn only_work(args: &ForwardArgs, item: u32) -> BlockWork {
        args.packed_work(item)
    }

    #[inline(always)]
    fn tile(args: &ForwardArgs, work: BlockWork, tile_rows: u32) -> Option<SequenceTile> {
        let ForwardArgs { cu_seqlens, sequence: rows, sequences, .. } = *args;
        // SAFETY: the launch's cu_seqlens has an element for each sequence and one more, 4-byte aligned.
        let load = |index: u32| unsafe { memory::load_global_4(cu_seqlens + index as u64 * 4) };
        packed::tile_of_slot(work.query_tile, tile_rows, rows, sequences, load)
    }

    #[inline(always)]
    fn lse_row(args: &ForwardArgs, work: BlockWork, tile: SequenceTile) -> u64 {
        work.head as u64 * args.sequence as u64 + tile.begin as u64
    }
}

//! Sequence lengths as types: a constant, an argument of the launch, or packed sequences. The last two have masked tails.

pub mod other_rows;

#[cfg(feature = "sm_80")]
use crate::device::codegen::thread;
use crate::device::hidden;
#[cfg(feature = "sm_90a")]
use crate::device::lane::Lane;
use crate::device::ptx::memory;
use contract::args::ForwardArgs;
#[cfg(feature = "sm_80")]
use contract::backward::args::BackwardArgs;
use contract::geometry::BlockWork;
use contract::longest_first::WorkOrder;
use contract::packed::{Bounds, Rows, SequenceTile, Sequences};
#[cfg(feature = "sm_80")]
use other_rows::Share;

/// Tensors of the same rows.
#[cfg(feature = "sm_80")]
#[derive(Clone, Copy)]
pub enum Of {
    /// Q, O and their gradients.
    Queries,
    /// K, V and theirs.
    Keys,
}

/// The sequences of a kernel.
pub trait Sequence {
    /// Whether the last tile of rows or keys may extend beyond the end.
    const HAS_TAIL: bool;
    /// Whether a sequence may have no keys.
    const MAY_HAVE_NO_KEY: bool = false;
    /// Whether a bias, with a row for each query, is supported.
    const HAS_BIAS: bool;
    /// Whether the rows of a head may be contiguous in memory. Between those of packed sequences there are the other heads.
    #[cfg(feature = "sm_80")]
    const MAY_BE_CONTIGUOUS: bool = true;

    /// Rows of Q per sequence; for packed sequences the total.
    fn length(args: &ForwardArgs) -> u32;

    /// Rows of K and V, likewise.
    fn kv_length(args: &ForwardArgs) -> u32;

    /// Work item `item` of the launch, in `order`, unless the sequences have their own order.
    #[inline(always)]
    fn work(args: &ForwardArgs, order: WorkOrder, item: u32) -> BlockWork {
        args.work_in(order, item, hidden::number)
    }

    /// [`Self::work`] for a block with a single item ([`ForwardArgs::only_work_in`]).
    #[inline(always)]
    fn only_work(args: &ForwardArgs, order: WorkOrder, item: u32) -> BlockWork {
        args.only_work_in(order, item, hidden::number)
    }

    /// The query tile of `work`, with `rows` rows; `None` if it does not exist, and nothing is computed.
    fn tile(args: &ForwardArgs, work: BlockWork, rows: u32) -> Option<SequenceTile>;

    /// [`Self::tile`] for a block of `threads` threads that calls this first. With it, the block clears its share of the rows that belong to
    /// no sequence.
    #[cfg(feature = "sm_80")]
    #[inline(always)]
    fn first_tile(args: &ForwardArgs, work: BlockWork, rows: u32, _threads: u32) -> Option<SequenceTile> {
        Self::tile(args, work, rows)
    }

    /// The rows of K and V of the tile's sequence.
    #[inline(always)]
    fn keys(args: &ForwardArgs, _: SequenceTile) -> Rows {
        Rows { begin: 0, length: Self::kv_length(args) }
    }

    /// Position of the first of `length` queries among `kv_length` keys, for masks with a begin; modulo 2³², negative before the
    /// first key. The mask's arguments are relative to it.
    #[inline(always)]
    fn first_position(_: &ForwardArgs, _length: u32, _kv_length: u32) -> u32 {
        0
    }

    /// The head of K and V and the tile of keys of block `block` of those that compute the gradients of keys, one each.
    #[cfg(feature = "sm_80")]
    #[inline(always)]
    fn key_work(args: &BackwardArgs, block: u32) -> BlockWork {
        let (of_batch, query_tile) = args.key_tiles.divide(block);
        let (batch, head) = args.kv_heads.divide(of_batch);
        BlockWork { batch, head, query_tile }
    }

    /// The tile of keys of `work`, whose head is one of K and V, with `rows` rows; `None` if it does not exist.
    #[inline(always)]
    fn key_tile(problem: &ForwardArgs, work: BlockWork, rows: u32) -> Option<SequenceTile> {
        let length = Self::kv_length(problem);
        Some(SequenceTile { sequence: 0, begin: 0, length, first_row: work.query_tile * rows })
    }

    /// The rows of all sequences in some tensors, if there are others, whose gradients are 0.
    #[cfg(feature = "sm_80")]
    #[inline(always)]
    fn rows_beside_others(_: &ForwardArgs, _of: Of) -> Option<Bounds> {
        None
    }

    /// The rows of Q of the sequence of a tile of keys.
    #[inline(always)]
    fn queries(args: &ForwardArgs, _: SequenceTile) -> Rows {
        Rows { begin: 0, length: Self::length(args) }
    }

    /// Index in LSE of row 0 of the head, in the sequence of `tile`.
    fn lse_row(args: &ForwardArgs, work: BlockWork, tile: SequenceTile) -> u64;
}

/// Exactly `LENGTH` rows, a multiple of every tile: trip counts are constants and no tail is masked.
pub struct Exact<const LENGTH: u32>;

impl<const LENGTH: u32> Sequence for Exact<LENGTH> {
    const HAS_TAIL: bool = false;
    const HAS_BIAS: bool = true;

    #[inline(always)]
    fn length(_args: &ForwardArgs) -> u32 {
        LENGTH
    }

    #[inline(always)]
    fn kv_length(_args: &ForwardArgs) -> u32 {
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

/// Any length from 1.
pub struct Any;

impl Sequence for Any {
    const HAS_TAIL: bool = true;
    const HAS_BIAS: bool = true;

    #[inline(always)]
    fn length(args: &ForwardArgs) -> u32 {
        args.sequence
    }

    #[inline(always)]
    fn kv_length(args: &ForwardArgs) -> u32 {
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
    Some(SequenceTile { sequence: 0, begin: 0, length: S::length(args), first_row: work.query_tile * rows })
}

#[inline(always)]
fn lse_row_of_batch<S: Sequence>(args: &ForwardArgs, work: BlockWork) -> u64 {
    let head = work.batch as u64 * args.heads.get().get() as u64 + work.head as u64;
    head * S::length(args) as u64
}

/// Packed sequences of any lengths: the query tile of a work item is a slot ([`contract::packed`]).
pub struct Packed;

impl Packed {
    /// The sequences of Q.
    #[inline(always)]
    fn queries(args: &ForwardArgs) -> Sequences<impl Fn(u32) -> u32, impl Fn(u32) -> i32> {
        let ForwardArgs { cu_seqlens, seqused_q, room, .. } = *args;
        // SAFETY: the addresses are the launch's length arrays for Q.
        unsafe { sequences(args.sequence, cu_seqlens, seqused_q, room) }
    }

    /// The sequences of K and V.
    #[inline(always)]
    fn all_keys(args: &ForwardArgs) -> Sequences<impl Fn(u32) -> u32, impl Fn(u32) -> i32> {
        let ForwardArgs { cu_seqlens_k, seqused_k, kv_room, .. } = *args;
        // SAFETY: lengths of the launch for K and V.
        unsafe { sequences(args.kv_sequence, cu_seqlens_k, seqused_k, kv_room) }
    }

    /// The rows of all sequences of Q and O.
    #[inline(always)]
    pub fn rows_of_all(args: &ForwardArgs) -> Bounds {
        Self::queries(args).all(args.sequences)
    }

    /// The rows of a sequence in Q and O, and in K and V.
    #[cfg(feature = "sm_90a")]
    #[inline(always)]
    pub fn rows(args: &ForwardArgs, sequence: u32) -> (Rows, Rows) {
        (Self::queries(args).of(sequence), Self::all_keys(args).of(sequence))
    }

    /// [`Self::rows`], and whether those of Q [ascend](Sequences::of_ascending) up to at most `last`.
    #[cfg(feature = "sm_90a")]
    #[inline(always)]
    pub fn ascending_rows(args: &ForwardArgs, sequence: u32, last: u32) -> ((Rows, Rows), bool) {
        let (rows, ascends) = Self::queries(args).of_ascending(sequence, last);
        ((rows, Self::all_keys(args).of(sequence)), ascends)
    }

    /// Prefetches the lengths of the first sequences into L2. The previous grid may still be writing them.
    ///
    /// # Safety
    /// Warp together.
    #[cfg(feature = "sm_90a")]
    #[inline(always)]
    pub unsafe fn prefetch_lengths(args: &ForwardArgs, lane: Lane) {
        // A sector of L2 has 32 bytes.
        let element = lane.index * 8;
        for array in [args.cu_seqlens, args.cu_seqlens_k, args.seqused_q, args.seqused_k] {
            if array != 0 && element < args.sequences {
                // SAFETY: each array has an element for each sequence.
                unsafe { memory::prefetch_global(array + u64::from(element) * 4) };
            }
        }
    }
}

/// The sequences of a tensor of `rows` rows that begin as `cu_seqlens` says; if that is null, with equal room.
///
/// # Safety
/// Each address is a length array of the launch, or null.
#[inline(always)]
unsafe fn sequences(
    rows: u32,
    cu_seqlens: u64,
    seqused: u64,
    room: u32,
) -> Sequences<impl Fn(u32) -> u32, impl Fn(u32) -> i32> {
    let (has_begins, has_used) = (is_given(cu_seqlens), is_given(seqused));
    // SAFETY: `cu_seqlens` has one element more than there are sequences, `seqused` one per sequence, both 4-byte aligned.
    let load = |array: u64, index: u32| unsafe { memory::load_global_4(array + index as u64 * 4) };
    Sequences {
        rows,
        begin: move |index| if has_begins { load(cu_seqlens, index) } else { index * room },
        used: move |sequence| if has_used { load(seqused, sequence) as i32 } else { i32::MAX },
    }
}

/// Whether an address is not null. Re-evaluated each time, so that the result does not occupy a register throughout a loop.
#[inline(always)]
fn is_given(address: u64) -> bool {
    hidden::recompute(address as u32 | (address >> 32) as u32) != 0
}

impl Sequence for Packed {
    const HAS_TAIL: bool = true;
    const MAY_HAVE_NO_KEY: bool = true;
    const HAS_BIAS: bool = false;
    #[cfg(feature = "sm_80")]
    const MAY_BE_CONTIGUOUS: bool = false;

    #[inline(always)]
    fn length(args: &ForwardArgs) -> u32 {
        args.sequence
    }

    #[inline(always)]
    fn kv_length(args: &ForwardArgs) -> u32 {
        args.kv_sequence
    }

    #[inline(always)]
    fn work(args: &ForwardArgs, _: WorkOrder, item: u32) -> BlockWork {
        args.packed_work(item)
    }

    #[inline(always)]
    fn only_work(args: &ForwardArgs, _: WorkOrder, item: u32) -> BlockWork {
        args.packed_work(item)
    }

    #[inline(always)]
    fn tile(args: &ForwardArgs, work: BlockWork, tile_rows: u32) -> Option<SequenceTile> {
        Self::queries(args).tile_of_slot(work.query_tile, tile_rows, args.sequences, Self::rows_of_all(args))
    }

    #[cfg(feature = "sm_80")]
    #[inline(always)]
    fn first_tile(args: &ForwardArgs, work: BlockWork, tile_rows: u32, threads: u32) -> Option<SequenceTile> {
        let all = Self::rows_of_all(args);
        let tile = Self::queries(args).tile_of_slot(work.query_tile, tile_rows, args.sequences, all);
        // Behind the search, which does not wait for what is looked at here.
        if other_rows::are_there(args, all) {
            // Recomputed, since what is kept for this would occupy registers.
            let work = args.packed_work(hidden::recompute(thread::block_idx_x()));
            let share = Share { number: work.query_tile, of: args.query_tiles.get().get() };
            // SAFETY: the blocks of a head have its tiles, each once.
            unsafe { other_rows::clear(args, all, work.head, share, (thread::thread_idx_x(), threads)) };
        }
        tile
    }

    #[inline(always)]
    fn keys(args: &ForwardArgs, tile: SequenceTile) -> Rows {
        Self::all_keys(args).of(tile.sequence)
    }

    #[inline(always)]
    fn first_position(args: &ForwardArgs, length: u32, kv_length: u32) -> u32 {
        kv_length.wrapping_sub(length) & args.bottom_right
    }

    #[cfg(feature = "sm_80")]
    #[inline(always)]
    fn key_work(args: &BackwardArgs, block: u32) -> BlockWork {
        let (slot, head) = args.kv_heads.divide(block);
        BlockWork { batch: 0, head, query_tile: slot }
    }

    #[inline(always)]
    fn key_tile(problem: &ForwardArgs, work: BlockWork, rows: u32) -> Option<SequenceTile> {
        let keys = Self::all_keys(problem);
        keys.tile_of_slot(work.query_tile, rows, problem.sequences, keys.all(problem.sequences))
    }

    #[cfg(feature = "sm_80")]
    #[inline(always)]
    fn rows_beside_others(args: &ForwardArgs, of: Of) -> Option<Bounds> {
        let (all, rows) = match of {
            Of::Queries => (Self::rows_of_all(args), args.sequence),
            Of::Keys => (Self::all_keys(args).all(args.sequences), args.kv_sequence),
        };
        (all.begin > 0 || all.end < rows).then_some(all)
    }

    #[inline(always)]
    fn queries(args: &ForwardArgs, tile: SequenceTile) -> Rows {
        Self::queries(args).of(tile.sequence)
    }

    #[inline(always)]
    fn lse_row(args: &ForwardArgs, work: BlockWork, tile: SequenceTile) -> u64 {
        work.head as u64 * args.sequence as u64 + tile.begin as u64
    }
}

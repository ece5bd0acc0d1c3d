//! The work items of a block, and their steps.
//!
//! The items of a head of K and V follow one another, so that they find its rows in L2: its key tiles, then the query tiles of the heads of Q
//! that share it. Under a mask they have different costs: each head begins with another one, so that no block has the same ones of all heads
//! ([`BackwardArgs::turn`]). If dQ is kept in shared memory, a head has key tiles alone, and one block takes all of them. If it is summed in a
//! workspace, a head has key tiles alone, too. Under a mask, blocks draw the items one by one in the order of
//! [`SumsArgs`](contract::backward::args::SumsArgs). Without one, the items of a head that run at once begin at different queries ([`Ring`]).

use core::marker::PhantomData;

use super::kernel::{STEP, Sm90Backward};
use super::memory::Memory;
use super::ring::Place;
use crate::device::backward::bounds;
use crate::device::codegen::thread;
use crate::device::hidden;
use crate::device::mask::Mask;
use crate::device::ptx::{mbarrier, memory};
use crate::device::sequence::Sequence;
use contract::backward::args::BackwardArgs;
use contract::backward::ring::Ring;
use contract::divisor::Divisor;
use contract::geometry::BlockWork;
use contract::packed::{Rows, SequenceTile};

/// The number of the block's first item. Where items add to sums, it is the one that the block draws.
#[inline(always)]
pub fn first<K: Sm90Backward>(args: &BackwardArgs, draw: impl FnOnce() -> u32) -> u32 {
    if K::DRAWS {
        return draw();
    }
    let items = if K::KEEPS_DQ { args.head_items.get().get() } else { 1 };
    thread::block_idx_x() * items
}

/// The number of the block's item after item `number`, likewise.
#[inline(always)]
pub fn next<K: Sm90Backward>(args: &BackwardArgs, number: u32, draw: impl FnOnce() -> u32) -> u32 {
    if K::DRAWS {
        return draw();
    }
    if !K::KEEPS_DQ {
        return number + thread::grid_dim_x();
    }
    let next = number + 1;
    let (_, place) = divide(&args.head_items, next);
    // Behind the last item of a head, over the heads of the other blocks.
    if place == 0 { next + (thread::grid_dim_x() - 1) * args.head_items.get().get() } else { next }
}

/// The number of the item at a place, which the producer drew.
///
/// # Safety
/// The calling thread signals later that the place is empty.
#[inline(always)]
pub unsafe fn drawn<K: Sm90Backward>(memory: Memory<K>, place: Place) -> u32 {
    // SAFETY: the number is written before the own rows arrive, and stays until the place is empty.
    unsafe {
        mbarrier::wait(memory.own_full(place), place.parity);
        memory::load_shared_4(memory.number(place))
    }
}

/// Quotient and remainder. The divisor's numbers are read for every item: kept, they would occupy registers.
#[inline(always)]
fn divide(divisor: &Divisor, number: u32) -> (u32, u32) {
    Divisor::either(false, divisor, divisor, hidden::recompute).divide(number)
}

/// A work item.
pub enum Item<K> {
    /// dK and dV of keys.
    Keys(KeyItem<K>),
    /// dQ of queries.
    Queries(QueryItem<K>),
}

/// The keys of an item, and the queries that may attend to them.
#[derive(Clone, Copy)]
pub struct KeyItem<K> {
    /// A head of K and V.
    pub work: BlockWork,
    /// The keys.
    pub tile: SequenceTile,
    /// The queries.
    pub queries: bounds::Queries,
    /// The items of its head that run at once.
    ring: Ring,
    _kernel: PhantomData<K>,
}

/// The queries of an item, and the keys that they may attend to.
#[derive(Clone, Copy)]
pub struct QueryItem<K> {
    /// A head of Q.
    pub work: BlockWork,
    /// The queries.
    pub tile: SequenceTile,
    /// The keys.
    pub keys: bounds::Keys,
    _kernel: PhantomData<K>,
}

/// Where an item is.
#[derive(Clone, Copy)]
struct Position {
    /// The head of K and V.
    batch: u32,
    kv_head: u32,
    /// Which of the head's items it is.
    place: u32,
}

impl Position {
    /// That of item `number`.
    #[inline(always)]
    fn of<K: Sm90Backward>(args: &BackwardArgs, number: u32) -> Self {
        if K::DRAWS {
            return Self::of_interleaved(args, number);
        }
        let (of_batch, place) = divide(&args.head_items, number);
        let (batch, kv_head) = divide(&args.kv_heads, of_batch);
        let (_, turns) = divide(&args.head_items, of_batch);
        // No overflow: the number of heads before, or of the items of one, is below 2^16, and a turn of few items.
        let (_, place) = divide(&args.head_items, place + turns * args.turn);
        Self { batch, kv_head, place }
    }

    /// That of item `number` of interleaved heads: of each its first item, then of each its second.
    #[inline(always)]
    fn of_interleaved(args: &BackwardArgs, number: u32) -> Self {
        let sums = &args.workspace;
        let (interleaving, rest) = divide(&args.head_items, number);
        let is_last = interleaving == sums.interleavings;
        let heads = Divisor::either(is_last, &sums.interleaved_last, &sums.interleaved, hidden::recompute);
        let (place, head) = heads.divide(rest);
        let (batch, kv_head) = divide(&args.kv_heads, interleaving * sums.interleaved.get().get() + head);
        Self { batch, kv_head, place }
    }
}

impl<K: Sm90Backward> Item<K> {
    /// Item `number` of the launch, if there are so many.
    #[inline(always)]
    pub fn of(args: &BackwardArgs, number: u32) -> Option<Self> {
        if number >= args.problem.work_items.get() {
            return None;
        }
        let position = Position::of::<K>(args, number);
        if !K::HAS_QUERY_ITEMS || position.place < args.key_tiles.get().get() {
            KeyItem::at(args, number, position).map(Self::Keys)
        } else {
            QueryItem::at(args, position).map(Self::Queries)
        }
    }
}

impl<K: Sm90Backward> KeyItem<K> {
    #[inline(always)]
    fn at(args: &BackwardArgs, number: u32, Position { batch, kv_head, place }: Position) -> Option<Self> {
        let (problem, rows) = (&args.problem, const { K::TILE.rows() });
        let work = BlockWork { batch, head: kv_head, query_tile: place };
        let tile = K::Sequence::key_tile(problem, work, rows)?;
        let queries = bounds::Queries::of::<K>(problem, tile, rows, STEP);
        let ring = if K::ROTATES {
            let (blocks, items) = (&args.workspace.at_once, args.head_items.get().get());
            Ring::new((place, items), (divide(blocks, number).1, blocks.get().get()))
        } else {
            Ring::NONE
        };
        Some(Self { work, tile, queries, ring, _kernel: PhantomData })
    }

    /// Item `number`, which is one of keys, found again: kept, it would occupy registers beside the accumulators.
    #[inline(always)]
    pub fn again(args: &BackwardArgs, number: u32) -> Option<Self> {
        let number = hidden::recompute(number);
        Self::at(args, number, Position::of::<K>(args, number))
    }

    /// The steps of the item: queries of all heads that share the keys.
    #[inline(always)]
    pub fn steps(&self, args: &BackwardArgs) -> Steps {
        let Self { queries, .. } = self;
        let members = args.problem.group.get().get();
        if !K::ROTATES {
            return Steps::new(queries.begin, queries.end, members, const { K::SUMS_IN_WORKSPACE });
        }
        let first = self.ring.first_tile(args.workspace.tiles.get().get());
        let (member, tile) = divide(&args.problem.query_tiles, first);
        Steps::around(queries.end, members, Step { row: tile * STEP, member })
    }

    /// The number of the first tile of dQ of the heads that share the keys, of those of the workspace.
    #[inline(always)]
    pub fn first_tile(&self, args: &BackwardArgs) -> u32 {
        let BlockWork { batch, head, .. } = self.work;
        let heads_before = (batch * args.kv_heads.get().get() + head) * args.problem.group.get().get();
        heads_before * args.problem.query_tiles.get().get()
    }

    /// How many items add to the sum of a step's queries before it.
    #[inline(always)]
    pub fn before(&self, args: &BackwardArgs, step: Step) -> u32 {
        if !K::ROTATES {
            let position = step.row.wrapping_add(self.queries.first_position);
            let first_key = if K::Mask::HAS_BEGIN { K::Mask::keys_begin(&args.problem, position) } else { 0 };
            return self.work.query_tile - first_key / const { K::TILE.rows() };
        }
        // No overflow: `BackwardVariant::takes_rows`.
        self.ring.before(step.dq_tile(args), |number| divide(&args.workspace.tiles, number).0)
    }

    /// Whether no item contributes to dQ of a step's queries after it.
    #[inline(always)]
    pub fn ends(&self, args: &BackwardArgs, step: Step) -> bool {
        if K::ROTATES {
            return self.before(args, step) + 1 == args.head_items.get().get();
        }
        // A window may give an item a step in which only rows behind the last attend to its keys.
        let last = if K::Mask::HAS_BEGIN { u32::MAX } else { self.queries.rows.length };
        let rows_end = (step.row + STEP).min(last);
        let position = rows_end.wrapping_add(self.queries.first_position);
        let end = K::Mask::keys_end(&args.problem, position, self.tile.length);
        end <= self.tile.first_row + const { K::TILE.rows() }
    }

    /// The sequence of the queries, as that of a tile.
    #[inline(always)]
    pub fn sequence_of_queries(&self) -> SequenceTile {
        let Rows { begin, length } = self.queries.rows;
        SequenceTile { begin, length, ..self.tile }
    }

    /// Whether it is the first item of its head of K and V.
    #[inline(always)]
    pub const fn is_first(&self) -> bool {
        self.work.query_tile == 0
    }

    /// Whether it is the last one.
    #[inline(always)]
    pub fn is_last(&self, args: &BackwardArgs) -> bool {
        self.work.query_tile + 1 == args.head_items.get().get()
    }

    /// The head of Q with number `member` among those that share the keys.
    #[inline(always)]
    pub fn query_head(&self, args: &BackwardArgs, member: u32) -> BlockWork {
        BlockWork { head: self.work.head * args.problem.group.get().get() + member, ..self.work }
    }
}

impl<K: Sm90Backward> QueryItem<K> {
    #[inline(always)]
    fn at(args: &BackwardArgs, Position { batch, kv_head, place }: Position) -> Option<Self> {
        let (problem, rows) = (&args.problem, const { K::TILE.rows() });
        let (member, query_tile) = divide(&problem.query_tiles, place - args.key_tiles.get().get());
        let work = BlockWork { batch, head: kv_head * problem.group.get().get() + member, query_tile };
        let tile = K::Sequence::tile(problem, work, rows)?;
        let keys = bounds::Keys::of::<K>(problem, tile, rows, STEP);
        Some(Self { work, tile, keys, _kernel: PhantomData })
    }

    /// Item `number`, which is one of queries, likewise.
    #[inline(always)]
    pub fn again(args: &BackwardArgs, number: u32) -> Option<Self> {
        Self::at(args, Position::of::<K>(args, hidden::recompute(number)))
    }

    /// The steps of the item.
    #[inline(always)]
    pub fn steps(&self) -> Steps {
        Steps::new(self.keys.begin, self.keys.end, 1, false)
    }
}

/// A step: 64 rows.
#[derive(Clone, Copy)]
pub struct Step {
    /// Its first row.
    pub row: u32,
    /// The number of its head, of those of the item.
    pub member: u32,
}

/// The steps of an item in order.
#[derive(Clone, Copy)]
pub struct Steps {
    begin: u32,
    end: u32,
    /// How many are left. Where no row decides anything, the compiler keeps nothing else. If they descend, the heads' number instead.
    left: u32,
    /// The next one; if they descend, the one before, which says whether it is the last: so that one is kept.
    next: Step,
    /// From the last to the first of a head, so that under a causal mask blocks that begin together wait for each other as shortly as without; a
    /// compile-time constant.
    descends: bool,
    /// Heads, if the first one follows the last one.
    around: Option<u32>,
}

impl Step {
    /// Its tile of dQ, of those of all heads that share the keys.
    #[inline(always)]
    pub fn dq_tile(self, args: &BackwardArgs) -> u32 {
        self.member * args.problem.query_tiles.get().get() + self.row / STEP
    }
}

impl Steps {
    /// Rows `begin` to `end` of each of `members` heads.
    #[inline(always)]
    const fn new(begin: u32, end: u32, members: u32, descends: bool) -> Self {
        let of_head = if begin < end { (end - begin).div_ceil(STEP) } else { 0 };
        let end = if descends { begin + of_head * STEP } else { end };
        let row = if descends { end } else { begin };
        let left = if descends { members } else { of_head * members };
        let member = if descends && of_head == 0 { members - 1 } else { 0 };
        Self { begin, end, left, next: Step { row, member }, descends, around: None }
    }

    /// Rows 0 to `end` of each of `members` heads, from the step `first` on and around to it.
    #[inline(always)]
    const fn around(end: u32, members: u32, first: Step) -> Self {
        Self { next: first, around: Some(members), ..Self::new(0, end, members, false) }
    }

    /// Whether none is left.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        if self.descends { self.next.row == self.begin && self.next.member + 1 == self.left } else { self.left == 0 }
    }

    /// The next step, if there is one.
    #[inline(always)]
    pub fn next(&mut self) -> Option<Step> {
        if self.is_empty() {
            return None;
        }
        let step = self.next;
        if self.descends {
            let row = if step.row == self.begin { self.end } else { step.row };
            let member = step.member + u32::from(step.row == self.begin);
            self.next = Step { row: row - STEP, member };
            return Some(self.next);
        }
        self.left -= 1;
        self.next.row += STEP;
        if self.next.row >= self.end {
            let member = match self.around {
                Some(members) if step.member + 1 == members => 0,
                _ => step.member + 1,
            };
            self.next = Step { row: self.begin, member };
        }
        Some(step)
    }
}

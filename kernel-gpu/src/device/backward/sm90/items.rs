//! The work items of a block, and their steps.
//!
//! The items of a head of K and V follow one another, so that they find its rows in L2: its key tiles, then the query tiles of the heads of Q
//! that share it. Under a mask they have different costs: each head begins with another one, so that no block has the same ones of all heads
//! ([`BackwardArgs::turn`]). If dQ is kept in shared memory, a head has key tiles alone, and one block takes all of them.

use core::marker::PhantomData;

use super::kernel::{STEP, Sm90Backward};
use crate::device::backward::bounds;
use crate::device::codegen::thread;
use crate::device::hidden;
use crate::device::sequence::Sequence;
use contract::backward::args::BackwardArgs;
use contract::divisor::Divisor;
use contract::geometry::BlockWork;
use contract::packed::{Rows, SequenceTile};

/// The number of the block's first item.
#[inline(always)]
pub fn first<K: Sm90Backward>(args: &BackwardArgs) -> u32 {
    let items = if K::KEEPS_DQ { args.head_items.get().get() } else { 1 };
    thread::block_idx_x() * items
}

/// The number of the block's item after item `number`.
#[inline(always)]
pub fn next<K: Sm90Backward>(args: &BackwardArgs, number: u32) -> u32 {
    if !K::KEEPS_DQ {
        return number + thread::grid_dim_x();
    }
    let next = number + 1;
    let (_, place) = divide(&args.head_items, next);
    // Behind the last item of a head, over the heads of the other blocks.
    if place == 0 { next + (thread::grid_dim_x() - 1) * args.head_items.get().get() } else { next }
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
    fn of(args: &BackwardArgs, number: u32) -> Self {
        let (of_batch, place) = divide(&args.head_items, number);
        let (batch, kv_head) = divide(&args.kv_heads, of_batch);
        let (_, turns) = divide(&args.head_items, of_batch);
        // No overflow: the number of heads before, or of the items of one, is below 2^16, and a turn of few items.
        let (_, place) = divide(&args.head_items, place + turns * args.turn);
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
        let position = Position::of(args, number);
        if K::KEEPS_DQ || position.place < args.key_tiles.get().get() {
            KeyItem::at(args, position).map(Self::Keys)
        } else {
            QueryItem::at(args, position).map(Self::Queries)
        }
    }
}

impl<K: Sm90Backward> KeyItem<K> {
    #[inline(always)]
    fn at(args: &BackwardArgs, Position { batch, kv_head, place }: Position) -> Option<Self> {
        let (problem, rows) = (&args.problem, const { K::TILE.rows() });
        let work = BlockWork { batch, head: kv_head, query_tile: place };
        let tile = K::Sequence::key_tile(problem, work, rows)?;
        let queries = bounds::Queries::of::<K>(problem, tile, rows, STEP);
        Some(Self { work, tile, queries, _kernel: PhantomData })
    }

    /// Item `number`, which is one of keys, found again: kept, it would occupy registers beside the accumulators.
    #[inline(always)]
    pub fn again(args: &BackwardArgs, number: u32) -> Option<Self> {
        Self::at(args, Position::of(args, hidden::recompute(number)))
    }

    /// The steps of the item: queries of all heads that share the keys.
    #[inline(always)]
    pub fn steps(&self, args: &BackwardArgs) -> Steps {
        Steps::new(self.queries.begin, self.queries.end, args.problem.group.get().get())
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
        Self::at(args, Position::of(args, hidden::recompute(number)))
    }

    /// The steps of the item.
    #[inline(always)]
    pub fn steps(&self) -> Steps {
        Steps::new(self.keys.begin, self.keys.end, 1)
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
    /// How many are left. Where no row decides anything, the compiler keeps nothing else.
    left: u32,
    next: Step,
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
    const fn new(begin: u32, end: u32, members: u32) -> Self {
        let of_head = if begin < end { (end - begin).div_ceil(STEP) } else { 0 };
        Self { begin, end, left: of_head * members, next: Step { row: begin, member: 0 } }
    }

    /// Whether none is left.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// The next step, if there is one.
    #[inline(always)]
    pub fn next(&mut self) -> Option<Step> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let step = self.next;
        self.next.row += STEP;
        if self.next.row >= self.end {
            self.next = Step { row: self.begin, member: step.member + 1 };
        }
        Some(step)
    }
}

//! In which order warpgroups go through strips of queries and tiles of keys.

use super::memory::Memory;
use super::producer::Loader;
use super::storer::Storer;
use super::{Context, KEYS, ROWS, Rows};
use crate::device::attention::Lane;
use crate::device::attention::mask::Mask;
use crate::device::codegen::thread;
use crate::device::ptx::mbarrier;
use crate::device::ptx::wgmma::{Descriptor, KMajor, NMajor};

/// A step of a warpgroup: a strip of query rows against a tile of keys.
#[derive(Clone, Copy)]
pub struct Step {
    /// Work items that the block has done before.
    pub round: u32,
    /// First query row of the strip.
    pub first_row: u32,
    /// Where Q of the strip is in shared memory.
    pub strip: u32,
    /// Q of the strip.
    pub queries: Descriptor<KMajor>,
    /// The tile of keys.
    pub tile: u32,
    /// The last tile of the strip.
    pub last_tile: u32,
    /// Tiles of the item behind that one, of which this strip has no use.
    pub idle_tiles: u32,
    /// Where K and V of the tile are in shared memory.
    pub stage: u32,
    /// K of the tile.
    pub keys: Descriptor<KMajor>,
    /// Parity of the phase that says that the stage is full.
    pub stage_parity: u32,
    /// Parity of the phase that says that the strip is full.
    pub strip_parity: u32,
}

impl Step {
    /// Whether it is the first of its strip.
    #[inline(always)]
    pub fn is_first(self) -> bool {
        self.tile == 0
    }

    /// Whether it is the last of its strip.
    #[inline(always)]
    pub fn is_last(self) -> bool {
        self.tile == self.last_tile
    }

    /// V of the tile.
    #[inline(always)]
    pub fn values(self) -> Descriptor<NMajor> {
        self.keys.after(Rows::BYTES)
    }
}

/// An order of strips and tiles under a mask.
pub trait Order<M: Mask> {
    /// The first step of a warpgroup; `None` where the block has no work item.
    fn first<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        warpgroup: u32,
    ) -> Option<Step>;

    /// The step after `step`, the last of its strip.
    fn next_strip<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        step: Step,
    ) -> Option<Step>;

    /// The step after `step`, which is not the last of its strip.
    fn next_tile<const WARPGROUPS: u32, const STAGES: u32>(memory: Memory<WARPGROUPS, STAGES>, step: Step) -> Step;

    /// Gives back the stages that the warpgroup does not need after the step.
    ///
    /// # Safety
    /// All lanes of the warp call this together when the products of the step are complete, once for each step in order.
    unsafe fn leave<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        step: Step,
        lane: Lane,
    );

    /// Warpgroups that use a stage before it is refilled.
    fn users(stage: u32, warpgroups: u32) -> u32;

    /// Starts the copies of the block behind [`Loader::load_first`], in the order in which they are needed.
    ///
    /// # Safety
    /// One thread of the block calls this once, after that.
    unsafe fn load<const WARPGROUPS: u32, const STAGES: u32>(loader: &Loader<'_, WARPGROUPS, STAGES>);

    /// Stores every strip of the block, in the order in which they are computed.
    ///
    /// # Safety
    /// One warp of the block calls this together, once.
    unsafe fn store<const WARPGROUPS: u32, const STAGES: u32>(storer: &Storer<'_, WARPGROUPS, STAGES>);
}

/// The work item of the block in a round.
#[inline(always)]
pub fn work_item<const WARPGROUPS: u32, const STAGES: u32>(
    context: &Context<'_, WARPGROUPS, STAGES>,
    round: u32,
) -> Option<u32> {
    context.args.work_item(round, thread::block_idx_x(), thread::grid_dim_x())
}

/// A work item is a whole head, with two strips for each warpgroup and a stage for each tile of its K and V, through which
/// a warpgroup goes once for each strip. Warpgroup w computes strip w and then the w-th from the end: under a causal mask
/// the one has w + 1 tiles and the other w fewer than all, so that all warpgroups have the same number of steps.
///
/// A stage is refilled for the next head as soon as the second strips have left it, long before it is needed.
pub struct WholeHead;

impl WholeHead {
    /// The other strip of the warpgroup that computes `strip`.
    #[inline(always)]
    fn other(strip: u32, warpgroups: u32) -> u32 {
        2 * warpgroups - 1 - strip
    }

    /// Tiles of a strip.
    #[inline(always)]
    fn tiles<M: Mask>(strip: u32, warpgroups: u32) -> u32 {
        M::keys_end((strip + 1) * ROWS, 2 * warpgroups * ROWS).div_ceil(KEYS)
    }

    /// The first step of a strip of the head of a round.
    #[inline(always)]
    fn start<M: Mask, const WARPGROUPS: u32, const STAGES: u32>(
        memory: Memory<WARPGROUPS, STAGES>,
        round: u32,
        strip: u32,
    ) -> Step {
        Step {
            round,
            first_row: strip * ROWS,
            strip,
            queries: Descriptor::new(memory.strip(strip).chunk(0, 0)),
            tile: 0,
            last_tile: Self::tiles::<M>(strip, WARPGROUPS) - 1,
            idle_tiles: 0,
            stage: 0,
            keys: Descriptor::new(memory.keys(0).chunk(0, 0)),
            stage_parity: round % 2,
            strip_parity: round % 2,
        }
    }
}

impl<M: Mask> Order<M> for WholeHead {
    #[inline(always)]
    fn first<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        warpgroup: u32,
    ) -> Option<Step> {
        const { assert!(STAGES == 2 * WARPGROUPS, "a stage for each tile of a head") };
        work_item(context, 0).map(|_| Self::start::<M, _, _>(context.memory, 0, warpgroup))
    }

    #[inline(always)]
    fn next_strip<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        step: Step,
    ) -> Option<Step> {
        let strip = Self::other(step.strip, WARPGROUPS);
        if strip >= WARPGROUPS {
            return Some(Self::start::<M, _, _>(context.memory, step.round, strip));
        }
        let round = step.round + 1;
        work_item(context, round).map(|_| Self::start::<M, _, _>(context.memory, round, strip))
    }

    #[inline(always)]
    fn next_tile<const WARPGROUPS: u32, const STAGES: u32>(_: Memory<WARPGROUPS, STAGES>, step: Step) -> Step {
        let keys = step.keys.after(Memory::<WARPGROUPS, STAGES>::STAGE_BYTES);
        Step { tile: step.tile + 1, stage: step.stage + 1, keys, ..step }
    }

    #[inline(always)]
    unsafe fn leave<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        step: Step,
        lane: Lane,
    ) {
        if step.strip >= WARPGROUPS && lane.index == 0 {
            // SAFETY: the warp's one arrival for the stage; it does not read it again.
            unsafe { mbarrier::arrive(context.memory.stage_empty(step.stage)) };
        }
    }

    #[inline(always)]
    fn users(stage: u32, warpgroups: u32) -> u32 {
        let (mut strip, mut users) = (warpgroups, 0);
        while strip < 2 * warpgroups {
            users += u32::from(Self::tiles::<M>(strip, warpgroups) > stage);
            strip += 1;
        }
        users
    }

    /// For each head what [`Loader::load_first`] loads of the first one, as many tiles more as there are warpgroups, the
    /// second strips, which the warpgroup with the shortest first strip needs soonest, and the other tiles; where all strips
    /// are as long, all tiles first, as no warpgroup needs a second strip before it has been through them.
    #[inline(always)]
    unsafe fn load<const WARPGROUPS: u32, const STAGES: u32>(loader: &Loader<'_, WARPGROUPS, STAGES>) {
        let mut round = 0;
        while let Some(item) = work_item(loader.context, round) {
            let work = loader.context.args.block_work(item);
            let parity = round % 2;
            // SAFETY: passed on to the caller; every strip and every stage is loaded once in a round.
            let strip = |strip| unsafe { loader.load_strip(strip, parity, work, strip * ROWS) };
            // SAFETY: as above.
            let tile = |tile| unsafe { loader.load_stage(tile, parity, work, tile * KEYS) };
            let mut load = if round == 0 { WARPGROUPS + 1 } else { 0 };
            while load < 2 * STAGES {
                match load {
                    0 => strip(0),
                    1 => tile(0),
                    _ if load <= WARPGROUPS => strip(load - 1),
                    _ if load <= 2 * WARPGROUPS => tile(load - WARPGROUPS),
                    _ if M::ALL_KEYS && load < STAGES + WARPGROUPS => tile(load - WARPGROUPS),
                    _ if M::ALL_KEYS => strip(Self::other(load - STAGES - WARPGROUPS, WARPGROUPS)),
                    _ if load <= 3 * WARPGROUPS => strip(Self::other(load - 2 * WARPGROUPS - 1, WARPGROUPS)),
                    _ => tile(load - 2 * WARPGROUPS),
                }
                load += 1;
            }
            round += 1;
        }
    }

    #[inline(always)]
    unsafe fn store<const WARPGROUPS: u32, const STAGES: u32>(storer: &Storer<'_, WARPGROUPS, STAGES>) {
        let mut round = 0;
        while let Some(item) = work_item(storer.context, round) {
            let work = storer.context.args.block_work(item);
            let mut number = 0;
            while number < 2 * WARPGROUPS {
                let is_first = number < WARPGROUPS;
                let strip = if is_first { number } else { Self::other(number - WARPGROUPS, WARPGROUPS) };
                // SAFETY: passed on to the caller; every strip is computed once in a round.
                unsafe { storer.store_strip(strip, round % 2, work, strip * ROWS) };
                number += 1;
            }
            round += 1;
        }
    }
}

/// A work item is as many strips as there are warpgroups, and its tiles of K and V stream through the stages in a ring. The
/// next strip of Q arrives in the other half of the strips.
///
/// A warpgroup computes only the tiles that its own strip attends to, and lets the others of the item pass. Under a causal
/// mask the strips of an item differ in length, so in every other round they are dealt out in the opposite order.
pub struct Streamed;

impl Streamed {
    /// First row of an item.
    #[inline(always)]
    fn first_row<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        item: u32,
    ) -> u32 {
        context.args.block_work(item).query_tile * WARPGROUPS * ROWS
    }

    /// Which strip of an item a warpgroup computes.
    #[inline(always)]
    fn place(warpgroup: u32, warpgroups: u32, round: u32) -> u32 {
        if round.is_multiple_of(2) { warpgroup } else { warpgroups - 1 - warpgroup }
    }

    /// Tiles that the rows before a row attend to.
    #[inline(always)]
    fn tiles<M: Mask>(rows_end: u32, length: u32) -> u32 {
        M::keys_end(rows_end, length).div_ceil(KEYS)
    }

    /// The first step of a warpgroup's strip of `item`, with its first tile at a stage.
    #[inline(always)]
    fn start<M: Mask, const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        item: u32,
        round: u32,
        warpgroup: u32,
        (stage, stage_parity): (u32, u32),
    ) -> Step {
        let item_row = Self::first_row(context, item);
        let first_row = item_row + Self::place(warpgroup, WARPGROUPS, round) * ROWS;
        let tiles = Self::tiles::<M>(first_row + ROWS, context.length);
        let strip = round % 2 * WARPGROUPS + warpgroup;
        Step {
            round,
            first_row,
            strip,
            queries: Descriptor::new(context.memory.strip(strip).chunk(0, 0)),
            tile: 0,
            last_tile: tiles - 1,
            idle_tiles: Self::tiles::<M>(item_row + WARPGROUPS * ROWS, context.length) - tiles,
            stage,
            keys: Descriptor::new(context.memory.keys(stage).chunk(0, 0)),
            stage_parity,
            strip_parity: round / 2 % 2,
        }
    }

    /// The stage and parity `tiles` tiles on, at most once around the ring.
    #[inline(always)]
    fn advance<const STAGES: u32>((stage, parity): (u32, u32), tiles: u32) -> (u32, u32) {
        let stage = stage + tiles;
        if stage >= STAGES { (stage - STAGES, parity ^ 1) } else { (stage, parity) }
    }
}

impl<M: Mask> Order<M> for Streamed {
    #[inline(always)]
    fn first<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        warpgroup: u32,
    ) -> Option<Step> {
        const { assert!(WARPGROUPS <= STAGES, "an idle warpgroup would let more than a ring pass") };
        work_item(context, 0).map(|item| Self::start::<M, WARPGROUPS, STAGES>(context, item, 0, warpgroup, (0, 0)))
    }

    #[inline(always)]
    fn next_strip<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        step: Step,
    ) -> Option<Step> {
        let (round, warpgroup) = (step.round + 1, step.strip % WARPGROUPS);
        let next = Self::advance::<STAGES>((step.stage, step.stage_parity), step.idle_tiles + 1);
        work_item(context, round)
            .map(|item| Self::start::<M, WARPGROUPS, STAGES>(context, item, round, warpgroup, next))
    }

    #[inline(always)]
    fn next_tile<const WARPGROUPS: u32, const STAGES: u32>(memory: Memory<WARPGROUPS, STAGES>, step: Step) -> Step {
        let (stage, stage_parity) = Self::advance::<STAGES>((step.stage, step.stage_parity), 1);
        let keys = Descriptor::<KMajor>::new(memory.keys(stage).chunk(0, 0)).after(0);
        Step { tile: step.tile + 1, stage, stage_parity, keys, ..step }
    }

    #[inline(always)]
    unsafe fn leave<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        step: Step,
        lane: Lane,
    ) {
        let memory = context.memory;
        let mut place = (step.stage, step.stage_parity);
        let mut idle = if step.is_last() { step.idle_tiles } else { 0 };
        // SAFETY: the warp's one arrival for each stage, which it does not read again. Where it has not read it at all it
        // waits first: until the tile has arrived, the mbarrier may still count those who leave the one before.
        unsafe {
            if lane.index == 0 {
                mbarrier::arrive(memory.stage_empty(place.0));
            }
            while idle > 0 {
                place = Self::advance::<STAGES>(place, 1);
                mbarrier::wait(memory.stage_full(place.0), place.1);
                if lane.index == 0 {
                    mbarrier::arrive(memory.stage_empty(place.0));
                }
                idle -= 1;
            }
        }
    }

    #[inline(always)]
    fn users(_stage: u32, warpgroups: u32) -> u32 {
        warpgroups
    }

    /// For each item what [`Loader::load_first`] loads of the first one, then the other tiles.
    #[inline(always)]
    unsafe fn load<const WARPGROUPS: u32, const STAGES: u32>(loader: &Loader<'_, WARPGROUPS, STAGES>) {
        let (mut round, mut place) = (0, Self::advance::<STAGES>((0, 0), 1));
        while let Some(item) = work_item(loader.context, round) {
            let work = loader.context.args.block_work(item);
            let first_row = Self::first_row(loader.context, item);
            let tiles = Self::tiles::<M>(first_row + WARPGROUPS * ROWS, loader.context.length);
            // SAFETY: passed on to the caller; strips and stages are loaded in turn.
            let strip = |warpgroup| unsafe {
                let strip = round % 2 * WARPGROUPS + warpgroup;
                let row = first_row + Self::place(warpgroup, WARPGROUPS, round) * ROWS;
                loader.load_strip(strip, round / 2 % 2, work, row);
            };
            let mut tile = |tile| {
                // SAFETY: as above.
                unsafe { loader.load_stage(place.0, place.1, work, tile * KEYS) };
                place = Self::advance::<STAGES>(place, 1);
            };
            let mut load = if round == 0 { WARPGROUPS + 1 } else { 0 };
            while load < WARPGROUPS + tiles {
                match load {
                    0 => strip(0),
                    1 => tile(0),
                    _ if load <= WARPGROUPS => strip(load - 1),
                    _ => tile(load - WARPGROUPS),
                }
                load += 1;
            }
            round += 1;
        }
    }

    #[inline(always)]
    unsafe fn store<const WARPGROUPS: u32, const STAGES: u32>(storer: &Storer<'_, WARPGROUPS, STAGES>) {
        let mut round = 0;
        while let Some(item) = work_item(storer.context, round) {
            let work = storer.context.args.block_work(item);
            let first_row = Self::first_row(storer.context, item);
            let mut place = 0;
            while place < WARPGROUPS {
                // The order of the warpgroups is its own inverse.
                let strip = round % 2 * WARPGROUPS + Self::place(place, WARPGROUPS, round);
                // SAFETY: passed on to the caller; strips are computed in turn.
                unsafe { storer.store_strip(strip, round / 2 % 2, work, first_row + place * ROWS) };
                place += 1;
            }
            round += 1;
        }
    }
}

//! Strips of packed sequences.

use super::{Order, Step, StripCopy, TileCopy, work_item};
use crate::device::attention::Lane;
use crate::device::attention::mask::Mask;
use crate::device::attention::sequence::{Packed, Sequence};
use crate::device::ptx::mbarrier;
use crate::device::ptx::wgmma::{Descriptor, KMajor};
use crate::device::sm90::tma::memory::Memory;
use crate::device::sm90::tma::{Context, KEYS, ROWS};
use contract::geometry::BlockWork;
use contract::packed::SequenceTile;

/// A work item is one strip of a sequence, whose tiles of K and V stream through the stages in a ring, and there is one
/// warpgroup. Items whose slot no tile has are passed over. The next strip of Q arrives in the other half of the strips.
pub struct PackedStrips;

/// A work item that is there.
#[derive(Clone, Copy)]
struct Item {
    /// The round that it is dealt out in.
    round: u32,
    work: BlockWork,
    tile: SequenceTile,
}

impl PackedStrips {
    /// The block's next item from `round` on.
    #[inline(always)]
    fn find<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        mut round: u32,
    ) -> Option<Item> {
        const { assert!(WARPGROUPS == 1, "a strip has one warpgroup") };
        loop {
            let work = context.args.block_work(work_item(context, round)?);
            if let Some(tile) = Packed::tile(context.args, work, ROWS) {
                return Some(Item { round, work, tile });
            }
            round += 1;
        }
    }

    /// Tiles that a strip attends to.
    #[inline(always)]
    fn tiles<M: Mask>(tile: SequenceTile) -> u32 {
        M::keys_end(tile.first_row + ROWS, tile.length).div_ceil(KEYS)
    }

    /// The first step of the strip `number` of the block, which is `item`, with its first tile at a stage.
    #[inline(always)]
    fn start<M: Mask, const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        item: Item,
        number: u32,
        (stage, stage_parity): (u32, u32),
    ) -> Step {
        let strip = number % 2;
        Step {
            number,
            round: item.round,
            length: item.tile.length,
            strips: 0,
            first_row: item.tile.first_row,
            strip,
            queries: Descriptor::new(context.memory.strip(strip).chunk(0, 0)),
            tile: 0,
            last_tile: Self::tiles::<M>(item.tile) - 1,
            idle_tiles: 0,
            stage,
            keys: Descriptor::new(context.memory.keys(stage).chunk(0, 0)),
            stage_parity,
            strip_parity: number / 2 % 2,
            gives_back: true,
        }
    }

    /// Strip `number` of the block.
    #[inline(always)]
    fn strip_of(Item { work, tile, .. }: Item, number: u32) -> StripCopy {
        StripCopy { strip: number % 2, parity: number / 2 % 2, work, tile }
    }

    /// The stage and parity of the next tile.
    #[inline(always)]
    fn advance<const STAGES: u32>((stage, parity): (u32, u32)) -> (u32, u32) {
        if stage + 1 == STAGES { (0, parity ^ 1) } else { (stage + 1, parity) }
    }
}

impl<M: Mask> Order<M> for PackedStrips {
    const KNOWS_FIRST: bool = false;

    #[inline(always)]
    fn first_item<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
    ) -> Option<(BlockWork, u32, u32)> {
        let Item { work, tile, .. } = Self::find(context, 0)?;
        Some((work, tile.begin, tile.begin + tile.first_row))
    }

    #[inline(always)]
    fn first<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        _warpgroup: u32,
    ) -> Option<Step> {
        Self::find(context, 0).map(|item| Self::start::<M, WARPGROUPS, STAGES>(context, item, 0, (0, 0)))
    }

    #[inline(always)]
    fn copy_of<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        step: Step,
    ) -> StripCopy {
        // The step is of an item that is there.
        let work = context.args.block_work(work_item(context, step.round).unwrap_or_default());
        let nothing = SequenceTile { begin: 0, length: 0, first_row: 0 };
        let tile = Packed::tile(context.args, work, ROWS).unwrap_or(nothing);
        Self::strip_of(Item { round: step.round, work, tile }, step.number)
    }

    #[inline(always)]
    fn next_strip<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        step: Step,
    ) -> Option<Step> {
        let next = Self::advance::<STAGES>((step.stage, step.stage_parity));
        Self::find(context, step.round + 1)
            .map(|item| Self::start::<M, WARPGROUPS, STAGES>(context, item, step.number + 1, next))
    }

    #[inline(always)]
    fn next_tile<const WARPGROUPS: u32, const STAGES: u32>(memory: Memory<WARPGROUPS, STAGES>, step: Step) -> Step {
        let (stage, stage_parity) = Self::advance::<STAGES>((step.stage, step.stage_parity));
        let keys = Descriptor::<KMajor>::new(memory.keys(stage).chunk(0, 0)).after(0);
        Step { tile: step.tile + 1, stage, stage_parity, keys, ..step }
    }

    #[inline(always)]
    unsafe fn leave<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        step: Step,
        lane: Lane,
    ) {
        if lane.index == 0 {
            // SAFETY: the warp's one arrival for the stage; it does not read it again.
            unsafe { mbarrier::arrive(context.memory.stage_empty(step.stage)) };
        }
    }

    #[inline(always)]
    fn last_in_turn_from<const WARPGROUPS: u32, const STAGES: u32>(_: &Context<'_, WARPGROUPS, STAGES>, _: u32) -> u32 {
        u32::MAX
    }

    #[inline(always)]
    fn users(_stage: u32, warpgroups: u32) -> u32 {
        warpgroups
    }

    #[inline(always)]
    fn for_each_strip<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        mut action: impl FnMut(StripCopy),
    ) {
        let (mut round, mut number) = (0, 0);
        while let Some(item) = Self::find(context, round) {
            action(Self::strip_of(item, number));
            (round, number) = (item.round + 1, number + 1);
        }
    }

    #[inline(always)]
    fn for_each_load<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        mut load_strip: impl FnMut(StripCopy),
        mut load_tile: impl FnMut(TileCopy),
    ) {
        // The first strip and tile are loaded already.
        let (mut round, mut number, mut tile) = (0, 0, 1);
        let (mut stage, mut is_first) = (Self::advance::<STAGES>((0, 0)), true);
        while let Some(item) = Self::find(context, round) {
            if number > 0 {
                load_strip(Self::strip_of(item, number));
            }
            while tile < Self::tiles::<M>(item.tile) {
                let first_key = item.tile.begin + tile * KEYS;
                load_tile(TileCopy { stage: stage.0, parity: stage.1, is_first, work: item.work, first_key });
                stage = Self::advance::<STAGES>(stage);
                is_first &= stage.0 != 0;
                tile += 1;
            }
            tile = 0;
            (round, number) = (item.round + 1, number + 1);
        }
    }
}

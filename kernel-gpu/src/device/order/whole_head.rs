//! Whole heads, whose K and V stay in shared memory.

use super::{Items, Order, Step, Streamed, Strip, Tiles, all_keys, whole, work_item};
use crate::device::codegen::thread;
use crate::device::lane::Lane;
use crate::device::mask::Mask;
use crate::device::ptx::wgmma::Descriptor;
use crate::device::scores::ScoreMod;
use crate::device::tma::context::Context;
use crate::device::tma::copies::StripCopy;
use crate::device::tma::kernel::{KEYS, ROWS, TmaKernel};
use crate::device::tma::ring::Ring;
use crate::device::tma::turns::Turns;
use contract::config::WARPGROUP_WARPS;
use contract::geometry::BlockWork;
use contract::last_round::Share;
use contract::longest_first::WorkOrder;

/// A work item is a whole head, with two strips per warpgroup and a stage per tile of its K and V. A warpgroup goes through
/// all tiles once per strip. Warpgroup w computes strip w, then the w-th from the end: under a causal mask the first has w + 1
/// tiles and the second w fewer than all, so all warpgroups have the same number of steps.
///
/// A stage is refilled for the next head as soon as the second strips have released it, long before it is needed.
///
/// If all strips are equally long, a block may have parts of two heads in the last round ([`contract::last_round`]): its first
/// strips belong to one and its second strips, possibly fewer, to the other.
pub struct WholeHead;

impl WholeHead {
    /// The other strip of the warpgroup that computes `strip`.
    #[inline(always)]
    fn other(strip: u32, warpgroups: u32) -> u32 {
        2 * warpgroups - 1 - strip
    }

    /// Number of tiles of a strip.
    #[inline(always)]
    fn tiles<K: TmaKernel>(context: &Context<'_, K>, strip: u32, warpgroups: u32) -> u32 {
        K::Mask::keys_end(context.args, (strip + 1) * ROWS, 2 * warpgroups * ROWS).div_ceil(KEYS)
    }

    /// Whether a round is distributed in strips.
    #[inline(always)]
    fn is_split<K: TmaKernel>(context: &Context<'_, K>, round: u32) -> bool {
        K::Mask::ALL_KEYS && round == context.args.last_round.split_round()
    }

    /// The block's share in pass 0 or 1 of the last round, which is distributed in strips.
    #[inline(always)]
    fn last_share<K: TmaKernel>(context: &Context<'_, K>, pass: u32) -> Share {
        context.args.last_share(pass, thread::block_idx_x(), thread::grid_dim_x())
    }

    /// The block's share in pass 0 or 1 of a round.
    #[inline(always)]
    fn share<K: TmaKernel>(context: &Context<'_, K>, round: u32, pass: u32) -> Share {
        if Self::is_split::<K>(context, round) {
            return Self::last_share(context, pass);
        }
        match work_item(context, WorkOrder::HeadByHead, round) {
            Some(item) => Share { item, first: pass * K::WARPGROUPS, strips: K::WARPGROUPS },
            None => Share::NONE,
        }
    }

    /// Index in shared memory of the strip that warpgroup `warpgroup` computes in a pass.
    #[inline(always)]
    fn strip(pass: u32, warpgroup: u32, warpgroups: u32) -> u32 {
        if pass == 0 { warpgroup } else { Self::other(warpgroup, warpgroups) }
    }

    /// Number of tiles of K and V loaded by the end of a pass: all in the first pass, except under a mask that leaves the first
    /// strips few of them.
    #[inline(always)]
    const fn tiles_end<K: TmaKernel>(pass: u32) -> u32 {
        if K::Mask::ALL_KEYS || pass == 1 { K::STAGES } else { K::WARPGROUPS + 1 }
    }

    /// Number of strips of a warpgroup.
    #[inline(always)]
    fn strips<K: TmaKernel>(context: &Context<'_, K>, warpgroup: u32) -> u32 {
        let mut strips = context.args.whole_passes(thread::block_idx_x(), thread::grid_dim_x());
        if K::Mask::ALL_KEYS && context.args.last_round.is_split() {
            strips += u32::from(warpgroup < Self::last_share(context, 0).strips);
            strips += u32::from(warpgroup < Self::last_share(context, 1).strips);
        }
        strips
    }

    /// The first step of a warpgroup's strip `number` of `strips`, whose Q is at `place`.
    #[inline(always)]
    fn start<K: TmaKernel>(
        context: &Context<'_, K>,
        (number, strips): (u32, u32),
        place: u32,
        stage_parity: u32,
    ) -> Step<K> {
        let is_split = K::Mask::ALL_KEYS && number >= 2 * context.args.last_round.split_round();
        let strip = Strip {
            number,
            work: BlockWork::default(),
            sequence: 0,
            kv_length: context.kv_length,
            first_row: place * ROWS,
            place,
            parity: number / 2 % 2,
            queries: Descriptor::new(context.memory.strip(place).address()),
            first_tile: 0,
            last_tile: Self::tiles(context, place, K::WARPGROUPS) - 1,
            idle_tiles: 0,
            strips,
            releases: u32::from(place >= K::WARPGROUPS || is_split),
        };
        strip.begin(context.memory, Ring::at(0, 0, stage_parity))
    }

    /// [`super::users`] of a stage.
    #[inline(always)]
    pub fn users<K: TmaKernel>(context: &Context<'_, K>, stage: u32) -> u32 {
        let warpgroups = K::WARPGROUPS;
        let (mut strip, mut users) = (warpgroups, 0);
        while strip < 2 * warpgroups {
            users += u32::from(Self::tiles(context, strip, warpgroups) > stage);
            strip += 1;
        }
        users
    }

    /// [`super::last_in_turn_from`] of a warpgroup.
    #[inline(always)]
    pub fn last_in_turn_from<K: TmaKernel>(context: &Context<'_, K>, warpgroup: u32) -> u32 {
        let strips = |warpgroup| Self::strips::<K>(context, warpgroup);
        if K::Mask::ALL_KEYS && strips(warpgroup + 1) < strips(warpgroup) { strips(0) - 1 } else { u32::MAX }
    }
}

impl<K: TmaKernel> Order<K> for WholeHead {
    type Items = Passes;

    #[inline(always)]
    fn first_item(context: &Context<'_, K>) -> Option<(BlockWork, u32)> {
        <Streamed as Order<K>>::first_item(context)
    }

    #[inline(always)]
    unsafe fn first_strip(context: &Context<'_, K>, lane: Lane, _: Turns) -> Option<Step<K>> {
        const {
            assert!(K::STAGES == 2 * K::WARPGROUPS, "a stage for each tile of a head");
            assert!(!K::Mask::HAS_BEGIN, "each strip begins with the head's first tile");
            assert!(!K::ScoreMod::MODIFIES, "no strip says which head it belongs to");
        }
        let warpgroup = lane.warp / WARPGROUP_WARPS;
        let strips = Self::strips::<K>(context, warpgroup);
        (strips > 0).then(|| Self::start::<K>(context, (0, strips), warpgroup, 0))
    }

    #[inline(always)]
    unsafe fn next_strip(context: &Context<'_, K>, Step { strip, ring, .. }: Step<K>) -> Option<Step<K>> {
        let number = strip.number + 1;
        // K and V belong to the next head if those of this one were released.
        let stage_parity = ring.parity ^ strip.releases;
        let place = Self::other(strip.place, K::WARPGROUPS);
        let next = Self::start::<K>(context, (number, strip.strips), place, stage_parity);
        (number < strip.strips).then_some(next)
    }

    #[inline(always)]
    fn idle_tiles(_: &Context<'_, K>, _: Step<K>, _: bool) -> u32 {
        0
    }
}

/// The passes of the block through its heads, each with the tiles that are loaded in it.
pub struct Passes;

impl<K: TmaKernel> Items<K> for Passes {
    type Item = (Share, BlockWork);

    #[inline(always)]
    fn new() -> Self {
        Self
    }

    #[inline(always)]
    fn next(&mut self, context: &Context<'_, K>, number: u32) -> Option<(Share, BlockWork)> {
        let share = WholeHead::share::<K>(context, number / 2, number % 2);
        (share.strips > 0).then(|| (share, context.args.block_work(share.item)))
    }

    #[inline(always)]
    fn strips((share, _): (Share, BlockWork)) -> u32 {
        share.strips
    }

    #[inline(always)]
    fn strip(
        context: &Context<'_, K>,
        (Share { first, strips, .. }, work): (Share, BlockWork),
        number: u32,
        index: u32,
    ) -> StripCopy {
        let pass = number % 2;
        StripCopy {
            place: WholeHead::strip(pass, index, K::WARPGROUPS),
            parity: number / 2 % 2,
            work,
            tile: whole(context, (first + if pass == 0 { index } else { strips - 1 - index }) * ROWS),
            kv_length: context.kv_length,
        }
    }

    #[inline(always)]
    fn tiles(context: &Context<'_, K>, (_, work): (Share, BlockWork), number: u32) -> Tiles {
        let (round, pass) = (number / 2, number % 2);
        let is_second = pass == 1 && !WholeHead::is_split::<K>(context, round);
        let first = if is_second { const { WholeHead::tiles_end::<K>(0) } } else { 0 };
        Tiles { work, keys: all_keys(context), first, count: WholeHead::tiles_end::<K>(pass) - first }
    }
}

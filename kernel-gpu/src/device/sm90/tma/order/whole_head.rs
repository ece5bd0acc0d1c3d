//! Whole heads, whose K and V stay in shared memory.

use super::{Order, Step, Streamed, whole, work_item};
use crate::device::attention::Lane;
use crate::device::attention::mask::Mask;
use crate::device::codegen::thread;
use crate::device::ptx::mbarrier;
use crate::device::ptx::wgmma::Descriptor;
use crate::device::sm90::tma::context::Context;
use crate::device::sm90::tma::copies::{StripCopy, TileCopy};
use crate::device::sm90::tma::kernel::{KEYS, ROWS, TmaKernel};
use crate::device::sm90::tma::mapped::in_maps_of_batch;
use crate::device::sm90::tma::memory::Memory;
use crate::device::sm90::tma::turns::Turns;
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

    /// First row of the strip that warpgroup `warpgroup` computes of a share.
    #[inline(always)]
    fn first_row(share: Share, pass: u32, warpgroup: u32) -> u32 {
        (share.first + if pass == 0 { warpgroup } else { share.strips - 1 - warpgroup }) * ROWS
    }

    /// Number of tiles of K and V loaded by the end of a pass: all in the first pass, except under a mask that leaves the first
    /// strips few of them.
    #[inline(always)]
    const fn tiles_end<K: TmaKernel>(pass: u32) -> u32 {
        if K::Mask::ALL_KEYS || pass == 1 { K::STAGES } else { K::WARPGROUPS + 1 }
    }

    /// The strip that warpgroup `warpgroup` computes of a share.
    #[inline(always)]
    fn strip_of<K: TmaKernel>(
        context: &Context<'_, K>,
        share: Share,
        work: BlockWork,
        (round, pass): (u32, u32),
        warpgroup: u32,
    ) -> StripCopy {
        StripCopy {
            strip: Self::strip(pass, warpgroup, K::WARPGROUPS),
            parity: round % 2,
            work,
            tile: whole(context, Self::first_row(share, pass, warpgroup)),
            kv_length: context.kv_length,
        }
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

    /// The first step of a warpgroup's strip `number` of `strips`, whose Q is at `strip`.
    #[inline(always)]
    fn start<K: TmaKernel>(
        context: &Context<'_, K>,
        (number, strips): (u32, u32),
        strip: u32,
        stage_parity: u32,
    ) -> Step<K> {
        let is_split = K::Mask::ALL_KEYS && number >= 2 * context.args.last_round.split_round();
        Step {
            number,
            kv_length: context.kv_length,
            strips,
            first_row: strip * ROWS,
            strip,
            queries: Descriptor::new(context.memory.strip(strip).address()),
            tile: 0,
            first_tile: 0,
            last_tile: Self::tiles(context, strip, K::WARPGROUPS) - 1,
            idle_tiles: 0,
            stage: 0,
            keys: Descriptor::new(context.memory.keys(0).address()),
            stage_parity,
            strip_parity: number / 2 % 2,
            gives_back: u32::from(strip >= K::WARPGROUPS || is_split),
        }
    }
}

impl<K: TmaKernel> Order<K> for WholeHead {
    #[inline(always)]
    fn first_item(context: &Context<'_, K>) -> Option<(BlockWork, u32)> {
        <Streamed as Order<K>>::first_item(context)
    }

    #[inline(always)]
    unsafe fn first(context: &Context<'_, K>, lane: Lane, _turns: Turns) -> Option<Step<K>> {
        const {
            assert!(K::STAGES == 2 * K::WARPGROUPS, "a stage for each tile of a head");
            assert!(!K::Mask::HAS_BEGIN, "each strip begins with the head's first tile");
        }
        let warpgroup = lane.warp / WARPGROUP_WARPS;
        let strips = Self::strips::<K>(context, warpgroup);
        (strips > 0).then(|| Self::start::<K>(context, (0, strips), warpgroup, 0))
    }

    #[inline(always)]
    fn copy_of(context: &Context<'_, K>, step: Step<K>) -> StripCopy {
        let (round, pass) = (step.number / 2, step.number % 2);
        let warpgroup = if pass == 0 { step.strip } else { Self::other(step.strip, K::WARPGROUPS) };
        let share = Self::share::<K>(context, round, pass);
        Self::strip_of(context, share, context.args.block_work(share.item), (round, pass), warpgroup)
    }

    #[inline(always)]
    unsafe fn next_strip(context: &Context<'_, K>, step: Step<K>) -> Option<Step<K>> {
        let number = step.number + 1;
        // K and V belong to the next head if those of this one were released.
        let stage_parity = step.stage_parity ^ step.gives_back;
        let strip = Self::other(step.strip, K::WARPGROUPS);
        let next = Self::start::<K>(context, (number, step.strips), strip, stage_parity);
        (number < step.strips).then_some(next)
    }

    #[inline(always)]
    fn next_tile(_: Memory<K>, step: Step<K>) -> Step<K> {
        let keys = step.keys.after(Memory::<K>::STAGE_BYTES);
        Step { tile: step.tile + 1, stage: step.stage + 1, keys, ..step }
    }

    #[inline(always)]
    unsafe fn leave(context: &Context<'_, K>, step: Step<K>, lane: Lane) {
        if step.gives_back != 0 && lane.index == 0 {
            // SAFETY: the warp's one arrival for the stage; it does not read it again.
            unsafe { mbarrier::arrive(context.memory.stage_empty(step.stage)) };
        }
    }

    #[inline(always)]
    fn last_in_turn_from(context: &Context<'_, K>, warpgroup: u32) -> u32 {
        let strips = |warpgroup| Self::strips::<K>(context, warpgroup);
        if K::Mask::ALL_KEYS && strips(warpgroup + 1) < strips(warpgroup) { strips(0) - 1 } else { u32::MAX }
    }

    #[inline(always)]
    fn users(context: &Context<'_, K>, stage: u32) -> u32 {
        let warpgroups = K::WARPGROUPS;
        let (mut strip, mut users) = (warpgroups, 0);
        while strip < 2 * warpgroups {
            users += u32::from(Self::tiles(context, strip, warpgroups) > stage);
            strip += 1;
        }
        users
    }

    #[inline(always)]
    fn for_each_strip(context: &Context<'_, K>, mut action: impl FnMut(StripCopy)) {
        let (mut round, mut pass) = (0, 0);
        loop {
            let share = Self::share::<K>(context, round, pass);
            if share.strips == 0 {
                return;
            }
            let work = context.args.block_work(share.item);
            let mut warpgroup = 0;
            while warpgroup < share.strips {
                action(Self::strip_of(context, share, work, (round, pass), warpgroup));
                warpgroup += 1;
            }
            (round, pass) = (round + pass, pass ^ 1);
        }
    }

    /// In each pass its strips, then its tiles.
    #[inline(always)]
    fn for_each_load(
        context: &Context<'_, K>,
        mut load_strip: impl FnMut(StripCopy),
        mut load_tile: impl FnMut(TileCopy),
        _: impl FnMut(StripCopy),
    ) {
        let (mut round, mut pass, mut head) = (0, 0, 0);
        let (mut warpgroup, mut tile) = (K::WARPGROUPS, 1);
        loop {
            let share = Self::share::<K>(context, round, pass);
            if share.strips == 0 {
                return;
            }
            let work = context.args.block_work(share.item);
            while warpgroup < share.strips {
                load_strip(Self::strip_of(context, share, work, (round, pass), warpgroup));
                warpgroup += 1;
            }
            while tile < Self::tiles_end::<K>(pass) {
                let (parity, is_first) = (head % 2, head == 0);
                let first_key = in_maps_of_batch(context.args.of_keys(work)).after(tile * KEYS);
                load_tile(TileCopy { stage: tile, parity, is_first, first_key, is_outside: false });
                tile += 1;
            }
            warpgroup = 0;
            if pass == 1 || Self::is_split::<K>(context, round) {
                tile = 0;
                head += 1;
            }
            (round, pass) = (round + pass, pass ^ 1);
        }
    }
}

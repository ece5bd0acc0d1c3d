//! Whole heads, of which K and V stay in shared memory.

use super::{Order, Step, StripCopy, TileCopy, whole, work_item};
use crate::device::attention::Lane;
use crate::device::attention::mask::Mask;
use crate::device::attention::sequence::InMaps;
use crate::device::codegen::thread;
use crate::device::ptx::mbarrier;
use crate::device::ptx::wgmma::Descriptor;
use crate::device::sm90::tma::memory::Memory;
use crate::device::sm90::tma::turns::Turns;
use crate::device::sm90::tma::{Context, KEYS, ROWS};
use contract::config::WARPGROUP_WARPS;
use contract::geometry::BlockWork;
use contract::last_round::Share;

/// A work item is a whole head, with two strips for each warpgroup and a stage for each tile of its K and V, through which
/// a warpgroup goes once for each strip. Warpgroup w computes strip w and then the w-th from the end: under a causal mask
/// the one has w + 1 tiles and the other w fewer than all, so that all warpgroups have the same number of steps.
///
/// A stage is refilled for the next head as soon as the second strips have left it, long before it is needed.
///
/// Where all strips are as long, a block may have parts of two heads in the last round ([`contract::last_round`]): its first
/// strips are of the one and its second strips, of which there may be fewer, of the other.
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

    /// Whether a round is the one that is dealt out in strips.
    #[inline(always)]
    fn is_split<M: Mask, const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        round: u32,
    ) -> bool {
        M::ALL_KEYS && round == context.args.last_round.split_round()
    }

    /// What the block computes in a pass, 0 or 1, of the last round, which is dealt out in strips.
    #[inline(always)]
    fn last_share<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        pass: u32,
    ) -> Share {
        context.args.last_share(pass, thread::block_idx_x(), thread::grid_dim_x())
    }

    /// What the block computes in a pass, 0 or 1, of a round.
    #[inline(always)]
    fn share<M: Mask, const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        round: u32,
        pass: u32,
    ) -> Share {
        if Self::is_split::<M, _, _>(context, round) {
            return Self::last_share(context, pass);
        }
        match work_item(context, round) {
            Some(item) => Share { item, first: pass * WARPGROUPS, strips: WARPGROUPS },
            None => Share::NONE,
        }
    }

    /// Where in shared memory the strip is that warpgroup `warpgroup` computes in a pass.
    #[inline(always)]
    fn strip(pass: u32, warpgroup: u32, warpgroups: u32) -> u32 {
        if pass == 0 { warpgroup } else { Self::other(warpgroup, warpgroups) }
    }

    /// First row of the strip that warpgroup `warpgroup` computes of a share.
    #[inline(always)]
    fn first_row(share: Share, pass: u32, warpgroup: u32) -> u32 {
        (share.first + if pass == 0 { warpgroup } else { share.strips - 1 - warpgroup }) * ROWS
    }

    /// Tiles of K and V that are loaded up to the end of a pass: all in the first, but under a mask that leaves the first
    /// strips few of them.
    #[inline(always)]
    const fn tiles_end<M: Mask, const WARPGROUPS: u32, const STAGES: u32>(pass: u32) -> u32 {
        if M::ALL_KEYS || pass == 1 { STAGES } else { WARPGROUPS + 1 }
    }

    /// The strip of warpgroup `warpgroup` of a share.
    #[inline(always)]
    fn strip_of<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        share: Share,
        work: BlockWork,
        (round, pass): (u32, u32),
        warpgroup: u32,
    ) -> StripCopy {
        StripCopy {
            strip: Self::strip(pass, warpgroup, WARPGROUPS),
            parity: round % 2,
            work,
            tile: whole(context, Self::first_row(share, pass, warpgroup)),
        }
    }

    /// Strips of a warpgroup.
    #[inline(always)]
    fn strips<M: Mask, const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        warpgroup: u32,
    ) -> u32 {
        let mut strips = context.args.whole_passes(thread::block_idx_x(), thread::grid_dim_x());
        if M::ALL_KEYS && context.args.last_round.is_split() {
            strips += u32::from(warpgroup < Self::last_share(context, 0).strips);
            strips += u32::from(warpgroup < Self::last_share(context, 1).strips);
        }
        strips
    }

    /// The first step of a warpgroup's strip `number`, of `strips`, whose Q is at `strip`.
    #[inline(always)]
    fn start<M: Mask, const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        (number, strips): (u32, u32),
        strip: u32,
        stage_parity: u32,
    ) -> Step {
        let is_split = M::ALL_KEYS && number >= 2 * context.args.last_round.split_round();
        Step {
            number,
            length: context.length,
            strips,
            first_row: strip * ROWS,
            strip,
            queries: Descriptor::new(context.memory.strip(strip).chunk(0, 0)),
            tile: 0,
            last_tile: Self::tiles::<M>(strip, WARPGROUPS) - 1,
            idle_tiles: 0,
            stage: 0,
            keys: Descriptor::new(context.memory.keys(0).chunk(0, 0)),
            stage_parity,
            strip_parity: number / 2 % 2,
            gives_back: u32::from(strip >= WARPGROUPS || is_split),
        }
    }
}

impl<M: Mask> Order<M> for WholeHead {
    #[inline(always)]
    unsafe fn first<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        lane: Lane,
        _turns: Turns,
    ) -> Option<Step> {
        const { assert!(STAGES == 2 * WARPGROUPS, "a stage for each tile of a head") };
        let warpgroup = lane.warp / WARPGROUP_WARPS;
        let strips = Self::strips::<M, _, _>(context, warpgroup);
        (strips > 0).then(|| Self::start::<M, _, _>(context, (0, strips), warpgroup, 0))
    }

    #[inline(always)]
    fn copy_of<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        step: Step,
    ) -> StripCopy {
        let (round, pass) = (step.number / 2, step.number % 2);
        let warpgroup = if pass == 0 { step.strip } else { Self::other(step.strip, WARPGROUPS) };
        let share = Self::share::<M, _, _>(context, round, pass);
        Self::strip_of(context, share, context.args.block_work(share.item), (round, pass), warpgroup)
    }

    #[inline(always)]
    unsafe fn next_strip<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        step: Step,
    ) -> Option<Step> {
        let number = step.number + 1;
        // K and V are of the next head if those of this one were given back.
        let stage_parity = step.stage_parity ^ step.gives_back;
        let strip = Self::other(step.strip, WARPGROUPS);
        let next = Self::start::<M, _, _>(context, (number, step.strips), strip, stage_parity);
        (number < step.strips).then_some(next)
    }

    #[inline(always)]
    unsafe fn resume<const WARPGROUPS: u32, const STAGES: u32>(
        _: &Context<'_, WARPGROUPS, STAGES>,
        _: Step,
        _: Lane,
        _: Turns,
    ) -> Option<Step> {
        None
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
        if step.gives_back != 0 && lane.index == 0 {
            // SAFETY: the warp's one arrival for the stage; it does not read it again.
            unsafe { mbarrier::arrive(context.memory.stage_empty(step.stage)) };
        }
    }

    #[inline(always)]
    fn last_in_turn_from<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        warpgroup: u32,
    ) -> u32 {
        let strips = |warpgroup| Self::strips::<M, _, _>(context, warpgroup);
        if M::ALL_KEYS && strips(warpgroup + 1) < strips(warpgroup) { strips(0) - 1 } else { u32::MAX }
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

    #[inline(always)]
    fn for_each_strip<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        mut action: impl FnMut(StripCopy),
    ) {
        let (mut round, mut pass) = (0, 0);
        loop {
            let share = Self::share::<M, _, _>(context, round, pass);
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
    fn for_each_load<const WARPGROUPS: u32, const STAGES: u32>(
        context: &Context<'_, WARPGROUPS, STAGES>,
        mut load_strip: impl FnMut(StripCopy),
        mut load_tile: impl FnMut(TileCopy),
    ) {
        let (mut round, mut pass, mut head) = (0, 0, 0);
        let (mut warpgroup, mut tile) = (WARPGROUPS, 1);
        loop {
            let share = Self::share::<M, _, _>(context, round, pass);
            if share.strips == 0 {
                return;
            }
            let work = context.args.block_work(share.item);
            while warpgroup < share.strips {
                load_strip(Self::strip_of(context, share, work, (round, pass), warpgroup));
                warpgroup += 1;
            }
            while tile < Self::tiles_end::<M, WARPGROUPS, STAGES>(pass) {
                let (parity, is_first) = (head % 2, head == 0);
                let first_key = InMaps { row: tile * KEYS, head: work.head, batch: work.batch };
                load_tile(TileCopy { stage: tile, parity, is_first, first_key });
                tile += 1;
            }
            warpgroup = 0;
            if pass == 1 || Self::is_split::<M, _, _>(context, round) {
                tile = 0;
                head += 1;
            }
            (round, pass) = (round + pass, pass ^ 1);
        }
    }
}

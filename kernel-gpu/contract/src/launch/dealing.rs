//! Distribution of a launch's work items over its blocks: [`crate::schedule::geometry`], [`crate::schedule::longest_first`] and
//! [`crate::schedule::last_round`], applied to the launch's arguments.

use crate::launch::args::ForwardArgs;
use crate::schedule::divisor::Divisor;
use crate::schedule::geometry::{BlockWork, block_work, block_work_by, work_item};
use crate::schedule::last_round::Share;
use crate::schedule::longest_first::{WorkOrder, longest_first_item};

impl ForwardArgs {
    /// [`block_work`] for a launch with these arguments.
    #[inline(always)]
    pub fn block_work(&self, item: u32) -> BlockWork {
        block_work(item, self.query_tiles, self.heads)
    }

    /// Work item `item` of a launch with items in `order`. `hide` returns its argument, opaque to the compiler.
    #[inline(always)]
    pub fn work_in(&self, order: WorkOrder, item: u32, hide: impl Fn(u32) -> u32) -> BlockWork {
        match order {
            WorkOrder::HeadByHead => self.block_work(item),
            _ => self.longest_first_work(item, self.together(order), |number, divisor| divisor.divide(number), hide),
        }
    }

    /// Binary logarithm of the number of tiles of a head that are kept together in `order`.
    #[inline(always)]
    fn together(&self, order: WorkOrder) -> u32 {
        if matches!(order, WorkOrder::LongestFirstTogether) { self.head_groups.together() } else { 0 }
    }

    /// [`Self::work_in`] for a block with a single item. It divides once, at the start, when registers are free, and uses the
    /// division operator, since multipliers would occupy registers throughout.
    #[inline(always)]
    pub fn only_work_in(&self, order: WorkOrder, item: u32, hide: impl Fn(u32) -> u32) -> BlockWork {
        let by_operator = |number, divisor: Divisor| (number / divisor.get(), number % divisor.get());
        match order {
            WorkOrder::HeadByHead => block_work_by(item, self.query_tiles, self.heads, by_operator),
            _ => self.longest_first_work(item, self.together(order), by_operator, hide),
        }
    }

    /// Work item `item` of a launch with the longest items first. `divide` returns quotient and remainder, `hide` is as for
    /// [`Divisor::either`].
    #[inline(always)]
    fn longest_first_work(
        &self,
        item: u32,
        together: u32,
        divide: impl Fn(u32, Divisor) -> (u32, u32) + Copy,
        hide: impl Fn(u32) -> u32,
    ) -> BlockWork {
        let (batch_head, rank) =
            self.head_groups.head_and_rank(item, (self.query_tiles.get().get(), together), divide, hide);
        let (batch, head) = divide(batch_head, self.heads);
        BlockWork { batch, head, query_tile: self.query_tiles.get().get() - 1 - rank }
    }

    /// Work item `item` of a launch for packed sequences. Neighbouring items are of neighbouring heads, whose rows are
    /// neighbours in memory. So empty slots are not all given to the same blocks.
    #[inline(always)]
    pub fn packed_work(&self, item: u32) -> BlockWork {
        let (slot, head) = self.heads.divide(item);
        BlockWork { batch: 0, head, query_tile: slot }
    }

    /// `work` with its head replaced by the head of K and V that it attends to.
    #[inline(always)]
    pub fn of_keys(&self, work: BlockWork) -> BlockWork {
        BlockWork { head: self.group.divide(work.head).0, ..work }
    }

    /// The work item of block `block` of `blocks` in round `round`, counted from 0, with items in `order`; `None` after the
    /// block's last item.
    #[inline(always)]
    pub fn work_item(&self, order: WorkOrder, round: u32, block: u32, blocks: u32) -> Option<u32> {
        match order {
            WorkOrder::HeadByHead => work_item(round, block, blocks, self.work_items.get()),
            _ => longest_first_item(round, block, blocks, self.work_items.get()),
        }
    }

    /// Share of block `block` of `blocks` in the last round, in pass 0 or 1, if the round is distributed in strips.
    #[inline(always)]
    pub fn last_share(&self, pass: u32, block: u32, blocks: u32) -> Share {
        self.last_round.share(pass, block, blocks, &self.work_items)
    }

    /// Share of block `block` in a last round distributed in [equal parts](crate::schedule::last_round::LastRound::in_parts) of items
    /// of `strips` strips; `None` if it has none.
    #[inline(always)]
    pub fn last_part(&self, block: u32, strips: u32) -> Option<Share> {
        let share = self.last_round.equal_part(block, strips);
        (share.item < self.work_items.get()).then_some(share)
    }

    /// Number of passes that block `block` of `blocks` makes through whole heads, two per head.
    #[inline(always)]
    pub fn whole_passes(&self, block: u32, blocks: u32) -> u32 {
        self.last_round.whole_passes(block, blocks, &self.work_items)
    }
}

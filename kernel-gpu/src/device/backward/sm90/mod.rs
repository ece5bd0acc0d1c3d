//! The backward pass by TMA and `wgmma`, without a workspace in one launch.
//!
//! A block takes work items one after another: the keys or the queries of 64 rows for each computing warpgroup. A producer copies the tiles of
//! the items, ahead of the warpgroups that compute, and two warps compute Δ of query rows. Rows of a warpgroup are the rows of its products:
//! Sᵀ and dPᵀ, or S and dP, come out in the registers in which the products that follow read P and dS as their left operand.
//!
//! Or a block takes whole heads, as many queries as have their dQ in shared memory: key tile after key tile, whose dS serves dQ, too. One
//! warpgroup more computes dQ. Or a block takes items of keys, and adds their dQ to sums in a workspace: in an order that only the launch decides, so that
//! the gradients have the same bits every time. A launch before [prepares](prepare) the workspace. Or an item is a whole head, with one tile of keys
//! and one of queries.
//!
//! [`items`] says which item has which rows, [`role`] which warp does what, [`producer`] copies, [`statistics`] computes Δ, [`strip`] is the
//! loop of a warpgroup, [`keys`] and [`queries`] what it accumulates, [`modified`] what both do with changed scores, [`single`] all of a head of
//! one tile, [`handover`] how dS gets to [`dq`], [`sums`] what it adds to; [`memory`] has the layout of shared memory, [`ring`] its places.

mod dq;
mod handover;
mod items;
mod kernel;
mod keys;
mod memory;
mod modified;
mod output;
mod own;
mod prepare;
mod producer;
mod queries;
mod ring;
mod role;
mod single;
mod staggered;
mod statistics;
mod strip;
mod sums;

pub use kernel::Sm90Backward;

use crate::device::lane::Lane;
use crate::device::ptx::{shuffle, sync, warpgroup};
use crate::device::scores::ScoreMod;
use crate::device::tma::context::Maps;
use crate::device::tma::turns::Turns;
use contract::backward::args::BackwardArgs;
use contract::config::{WARP_SIZE, WARPGROUP_WARPS};
use items::Item;
use memory::Memory;
use ring::Places;
use role::Role;

/// Computes dQ, dK and dV of the block's items.
///
/// Computing threads have `CONSUMER_REGISTERS` registers, the others `PRODUCER_REGISTERS`.
#[inline(always)]
pub fn backward<
    K: Sm90Backward,
    const CONSUMER_REGISTERS: u32,
    const DQ_REGISTERS: u32,
    const PRODUCER_REGISTERS: u32,
>(
    args: &BackwardArgs,
    maps: Maps,
) {
    const {
        assert!(
            !K::ScoreMod::MODIFIES || K::HAS_QUERY_ITEMS && !K::OVERLAPS_STEPS,
            "what changes the scores is fetched, and no product reads P while that of the next step is rounded"
        )
    };
    let (lane, memory) = (Lane::current(), Memory::<K>::new());
    if K::SUMS_IN_WORKSPACE && args.workspace.prepares != 0 {
        // SAFETY: all threads of the block are here.
        return unsafe { prepare::statistics::<K>(args, lane) };
    }
    // SAFETY: all threads of the block are here; whole warps and warpgroups take each branch. The registers add up to those of the launch.
    unsafe {
        // Uniform for ptxas, so that values derived from it are computed once per warp.
        let warp = shuffle::first(lane.thread / WARP_SIZE);
        if warp == const { Role::Producer.warp::<K>() } && warpgroup::elect() {
            producer::prefetch_maps(maps);
            memory.initialise();
        }
        sync::block();
        if warp >= const { Role::computing::<K>() } {
            warpgroup::decrease_registers::<PRODUCER_REGISTERS>();
            if warp == const { Role::Producer.warp::<K>() } {
                if warpgroup::elect() {
                    producer::load_all(args, maps, memory);
                }
            } else if warp < const { Role::Helper.warp::<K>() + Role::HELPERS } {
                if !K::SUMS_IN_WORKSPACE {
                    statistics::compute_all(args, memory, lane.thread - const { Role::Helper.warp::<K>() * WARP_SIZE });
                } else if warpgroup::elect() {
                    sums::add_all(args, memory, warp - const { Role::Helper.warp::<K>() });
                }
            }
        } else if K::HANDS_OVER && warp >= const { Role::consumers::<K>() } {
            warpgroup::decrease_registers::<DQ_REGISTERS>();
            dq::accumulate_all(args, memory, Lane { warp, ..lane });
        } else {
            warpgroup::increase_registers::<CONSUMER_REGISTERS>();
            let (lane, warpgroup) = (Lane { warp, ..lane }, warp / WARPGROUP_WARPS);
            let turns = Turns::new(const { K::TAKES_TURNS }, warpgroup, K::WARPGROUPS);
            turns.begin();
            let mut places = Places::START;
            let mut number = items::first::<K>(args, || items::drawn(memory, places.own));
            while let Some(item) = Item::<K>::of(args, number) {
                // What is derived from the lane would occupy registers from the beginning on.
                let lane = lane.recomputed();
                match item {
                    Item::Keys(item) if K::IS_OF_ONE_TILE => {
                        single::gradients(args, (number, item), &mut places, memory, lane)
                    }
                    Item::Keys(item) => {
                        keys::gradients(args, (number, item), &mut places, memory, turns, (warpgroup, lane))
                    }
                    Item::Queries(item) => {
                        queries::gradients(args, (number, item), &mut places, memory, turns, (warpgroup, lane))
                    }
                }
                number = items::next::<K>(args, number, || items::drawn(memory, places.own));
            }
            turns.end();
        }
    }
}

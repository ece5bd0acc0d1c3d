//! Kernels with a producer: one thread copies Q, K and V to shared memory by TMA, ahead of warpgroups that only compute, and one
//! warp stores O and LSE behind them.
//!
//! A persistent grid; each block computes work items one after the other, and while it computes one the tiles of the next
//! arrive. A warpgroup computes strips of 64 query rows, each in steps of 64 keys. It starts the product of one step with V
//! together with that of the next with K, across strips and items too. Where the exponentials bound the time, it does not overlap its
//! softmax with its own products ([`consumer`]): the four warps that share a scheduler, each of another warpgroup, do that for each
//! other, by [`turns`] where all warpgroups have the same steps. Where the products do, with wide rows, it overlaps with them
//! ([`overlapped`]).
//!
//! [`memory`] says where tiles and mbarriers lie, [`order`] which strips and tiles a warpgroup goes through, [`producer`]
//! who copies them, [`strip`] what is computed of them, [`super::softmax`] how without row maxima, [`storer`] who stores it.

mod combine;
mod consumer;
mod context;
mod copies;
mod epilogue;
mod kernel;
mod mapped;
mod memory;
mod order;
mod overlapped;
mod producer;
mod rows;
mod storer;
mod strip;
mod turns;

pub use context::Maps;
pub use kernel::TmaKernel;
pub use order::{InOrder, OrderedKernel, Passes};

use crate::device::attention::Lane;
use crate::device::attention::sequence::Sequence;
use crate::device::ptx::{grid, shuffle, sync, warpgroup};
use context::Context;
use contract::args::ForwardArgs;
use contract::config::{WARP_SIZE, WARPGROUP_WARPS};
use mapped::Mapped;
use memory::Memory;
use order::Order;
use producer::Loader;
use storer::Storer;

/// O and LSE of the block's work items.
///
/// The warpgroups that compute have `CONSUMER_REGISTERS` registers each thread; the one that copies has `PRODUCER_REGISTERS`.
/// Where these are as many, each has all that a thread can have, and `setmaxnreg` would be illegal.
#[inline(always)]
pub fn forward<K: OrderedKernel, const CONSUMER_REGISTERS: u32, const PRODUCER_REGISTERS: u32>(
    args: &ForwardArgs,
    maps: Maps,
) {
    let length = K::Sequence::length(args);
    let kv_length = K::Sequence::kv_length(args);
    let context = Context::<K> { args, maps, memory: Memory::new(), length, kv_length };
    let lane = Lane::current();
    // SAFETY: all threads of the block are here; whole warps and warpgroups take each branch. The registers are those that
    // the launch gave the block.
    unsafe {
        // Known to be the same in all lanes, so that all that follows from it is computed once for the warp.
        let warp = shuffle::first(lane.thread / WARP_SIZE);
        let producer = K::WARPGROUPS * WARPGROUP_WARPS;
        let (storer, finder) = (producer + 1, producer + 2);
        let loader = Loader::new(&context);
        if warp == producer {
            if warpgroup::elect() {
                loader.prefetch_maps();
                if !K::Sequence::IS_LOOKED_UP {
                    loader.prefetch_first();
                }
                context.memory.initialise_full();
                // Up to here the launch before may still run, whose blocks leave the multiprocessors one by one. Whatever this one
                // reads and writes of the tensors comes after these copies.
                grid::wait_for_previous();
                if !K::Sequence::IS_LOOKED_UP {
                    loader.load_first();
                }
                grid::let_next_begin();
            }
        } else if warp == storer && warpgroup::elect() {
            context.memory.initialise_others(|stage| K::Order::users(&context, stage) * WARPGROUP_WARPS);
        }
        sync::block();
        if warp >= producer {
            if const { CONSUMER_REGISTERS > PRODUCER_REGISTERS } {
                warpgroup::decrease_registers::<PRODUCER_REGISTERS>();
            }
            // Chosen anew, which gives the same lane: kept since the beginning it would cost a register, and ptxas would not know
            // that it is one lane.
            if warp == producer {
                if warpgroup::elect() {
                    K::Order::for_each_load(
                        &context,
                        |copy| loader.load_strip(copy),
                        |copy| loader.load_tile(copy),
                        |copy| loader.prefetch_strip(copy),
                    );
                }
            } else if warp == storer {
                let storer = Storer::new(&context, lane, warpgroup::elect());
                storer.prefetch_map();
                K::Order::for_each_strip(&context, |copy| storer.store_strip(copy));
            } else if warp == finder {
                K::Order::find_items(&context, lane);
            }
            if K::Order::SPLITS_KEYS {
                combine::wait_for_others();
            }
        } else {
            if const { CONSUMER_REGISTERS > PRODUCER_REGISTERS } {
                warpgroup::increase_registers::<CONSUMER_REGISTERS>();
            }
            if K::OVERLAPS {
                overlapped::consume(&context, Lane { warp, ..lane });
            } else {
                consumer::consume(&context, Lane { warp, ..lane });
            }
            if K::Order::SPLITS_KEYS {
                combine::combine(&context, lane);
            }
        }
    }
}

//! Kernels with a producer: one thread copies Q, K and V to shared memory by TMA, ahead of warpgroups that only compute, and one
//! warp stores O and LSE.
//!
//! With a persistent grid, each block computes several work items, and while it computes one, the tiles of the next are
//! loaded. A warpgroup computes strips of 64 query rows, in steps of 64 keys. It starts the PV product of one step together with
//! the QKᵀ product of the next, also across strips and items. If the exponentials bound the time, it does not overlap its softmax
//! with its own products ([`consumer`]): the four warps that share a scheduler, each of another warpgroup, overlap with each other,
//! by [`Turns`](crate::device::tma::turns::Turns) if all warpgroups have the same steps. If the products bound it, with wide rows, it overlaps with its own
//! ([`overlapped`]).
//!
//! [`role`] says which warp does what. [`producer`] copies strips and tiles in the [`order`] of the kernel, [`strip`] computes with them,
//! [`storer`] stores. [`crate::device::tma`] has the layout of shared memory, [`crate::device::softmax`] the softmax with few row maxima.

mod combine;
mod consumer;
mod epilogue;
mod options;
mod overlapped;
mod parts;
mod producer;
mod role;
mod storer;
mod strip;

pub use options::{InOrder, Overlaps, Passes, SumsByProduct, WithConsumer, WithSoftmax};
pub use parts::ComposedKernel;

use crate::device::lane::Lane;
use crate::device::order::{self, Order};
use crate::device::ptx::{grid, shuffle, sync, warpgroup};
use crate::device::sequence::Sequence;
use crate::device::tma::context::{Context, Maps};
use crate::device::tma::mapped::Mapped;
use crate::device::tma::memory::Memory;
use contract::args::ForwardArgs;
use contract::config::{WARP_SIZE, WARPGROUP_WARPS};
use parts::Consumer;
use producer::Loader;
use role::Role;
use storer::Storer;

/// Computes O and LSE of the block's work items.
///
/// Threads of computing warpgroups have `CONSUMER_REGISTERS` registers, those of the producer's `PRODUCER_REGISTERS`. If both are
/// equal, each thread already has the maximum, and `setmaxnreg` would be illegal.
#[inline(always)]
pub fn forward<K: ComposedKernel, const CONSUMER_REGISTERS: u32, const PRODUCER_REGISTERS: u32>(
    args: &ForwardArgs,
    maps: Maps,
) {
    let length = K::Sequence::length(args);
    let kv_length = K::Sequence::kv_length(args);
    let context = Context::<K> { args, maps, memory: Memory::new(), length, kv_length };
    let lane = Lane::current();
    // SAFETY: all threads of the block are here; whole warps and warpgroups take each branch. The registers add up to those
    // of the launch.
    unsafe {
        // Uniform for ptxas, so that values derived from it are computed once per warp.
        let warp = shuffle::first(lane.thread / WARP_SIZE);
        let loader = Loader::new(&context);
        if warp == const { Role::Producer.warp::<K>() } {
            if warpgroup::elect() {
                loader.prefetch_maps();
                if !K::Sequence::IS_LOOKED_UP {
                    loader.prefetch_first();
                }
                context.memory.initialise_full();
                // Up to here the previous launch may still be running, its blocks leaving the multiprocessors one by one. All other reads
                // and writes of the tensors follow these copies.
                grid::wait_for_previous();
                if !K::Sequence::IS_LOOKED_UP {
                    loader.load_first();
                }
                grid::let_next_begin();
            }
        } else if warp == const { Role::Storer.warp::<K>() } {
            if K::Sequence::IS_LOOKED_UP {
                order::prefetch_lengths(&context, lane);
            }
            if warpgroup::elect() {
                context.memory.initialise_others(|stage| order::users(&context, stage) * WARPGROUP_WARPS);
            }
        }
        if K::SUMS_BY_PRODUCT && warp < const { Role::consumers::<K>() } {
            context.memory.write_ones(lane.thread);
        }
        sync::block();
        if warp >= const { Role::consumers::<K>() } {
            if const { CONSUMER_REGISTERS > PRODUCER_REGISTERS } {
                warpgroup::decrease_registers::<PRODUCER_REGISTERS>();
            }
            // Elected again, which gives the same lane: kept from the beginning it would occupy a register, and ptxas would not know
            // that it is a single lane.
            if warp == const { Role::Producer.warp::<K>() } {
                if warpgroup::elect() {
                    loader.load_all();
                }
            } else if warp == const { Role::Storer.warp::<K>() } {
                let storer = Storer::new(&context, lane, warpgroup::elect());
                storer.prefetch_map();
                K::Order::for_each_strip(&context, |copy| storer.store_strip(copy));
            } else if K::Sequence::IS_LOOKED_UP {
                if warp == const { Role::Finder.warp::<K>() } {
                    order::find_items(&context, lane);
                } else {
                    order::clear_other_rows(&context, lane);
                }
            }
            if K::SPLITS_KEYS {
                combine::wait_for_others();
            }
        } else {
            if const { CONSUMER_REGISTERS > PRODUCER_REGISTERS } {
                warpgroup::increase_registers::<CONSUMER_REGISTERS>();
            }
            K::Consumer::consume(&context, Lane { warp, ..lane });
            if K::SPLITS_KEYS {
                combine::combine(&context, lane);
            }
        }
    }
}

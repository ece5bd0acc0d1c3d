//! Kernels with a producer: one thread copies Q, K and V to shared memory by TMA, ahead of warpgroups that only compute, and one
//! warp stores O and LSE behind them.
//!
//! A persistent grid; each block computes work items one after the other, and while it computes one the tiles of the next
//! arrive. A warpgroup computes strips of 64 query rows, each in steps of 64 keys. It starts the product of one step with V
//! together with that of the next with K, across strips and items too, and does not overlap its softmax with its own
//! products: the four warps that share a scheduler, each of another warpgroup, do that for each other, by [`turns`] where
//! all warpgroups have the same steps.
//!
//! [`memory`] says where tiles and mbarriers lie, [`order`] which strips and tiles a warpgroup goes through, [`producer`]
//! who copies them, [`strip`] what is computed of them, [`super::softmax`] how without row maxima, [`storer`] who stores it.

mod combine;
mod consumer;
mod epilogue;
mod mapped;
mod memory;
mod order;
mod producer;
mod rows;
mod storer;
mod strip;
mod turns;

pub use order::{Order, PackedStreamed, SplitKeys, Streamed, WholeHead};

use crate::device::attention::Lane;
use crate::device::attention::head_dim::HeadDim;
use crate::device::attention::kernel::Kernel;
use crate::device::attention::sequence::{Any, Exact, Packed, Sequence};
use crate::device::ptx::wgmma::{Accumulators, Registers};
use crate::device::ptx::{grid, shuffle, sync, warpgroup};
use contract::args::{ForwardArgs, TENSOR_MAP_BYTES};
use contract::config::{WARP_SIZE, WARPGROUP_ROWS, WARPGROUP_WARPS};
use contract::tile::Sm90Tma;
use mapped::Mapped;
use memory::Memory;
use producer::Loader;
use rows::Rows;
use storer::Storer;

/// Rows of a strip, and of the box that a tensor map copies.
const ROWS: u32 = WARPGROUP_ROWS;
/// Keys of a step.
const KEYS: u32 = 64;
/// 8-key tiles of a step.
const N_TILES: usize = 8;
/// 16-key steps of a step.
const K_STEPS: usize = 4;

const _: () = assert!(KEYS == ROWS, "K and V come in boxes of as many rows as Q");

/// A kernel with a producer.
pub trait TmaKernel: Kernel<Sequence: Mapped, HeadDim: HeadDim<Output: Accumulators + Registers>> {
    /// Its tile configuration.
    const TILE: Sm90Tma;
    /// Warpgroups of a block that compute.
    const WARPGROUPS: u32 = Self::TILE.warpgroups;
    /// K/V tiles in shared memory at once.
    const STAGES: u32 = Self::TILE.stages;
    /// In which order strips and tiles are gone through.
    type Order: Order<Self>;
}

/// How often a warpgroup goes through K and V of a work item ([`contract::tile::Sm90Tma::passes`]), and whether its keys are split
/// among blocks.
pub struct Passes<const COUNT: u32, const SPLITS_KEYS: bool>;

/// What has an order, for sequences `S`.
pub trait InOrder<S> {
    /// The order.
    type Order;
}

impl<const LENGTH: u32> InOrder<Exact<LENGTH>> for Passes<1, false> {
    type Order = Streamed;
}

impl InOrder<Any> for Passes<1, false> {
    type Order = Streamed;
}

impl InOrder<Packed> for Passes<1, false> {
    type Order = PackedStreamed;
}

impl<const LENGTH: u32> InOrder<Exact<LENGTH>> for Passes<2, false> {
    type Order = WholeHead;
}

impl InOrder<Any> for Passes<1, true> {
    type Order = SplitKeys;
}

/// Addresses of the tensor maps, one behind the other in the `.param` space.
#[derive(Clone, Copy)]
pub struct Maps {
    first: u64,
}

impl Maps {
    /// Those of a [`contract::args::TensorMaps`] at `address`.
    #[inline(always)]
    pub fn at(address: u64) -> Self {
        Self { first: address }
    }

    /// The map of Q.
    #[inline(always)]
    fn q(self) -> u64 {
        self.first
    }

    /// The map of K.
    #[inline(always)]
    fn k(self) -> u64 {
        self.first + TENSOR_MAP_BYTES
    }

    /// The map of V.
    #[inline(always)]
    fn v(self) -> u64 {
        self.first + 2 * TENSOR_MAP_BYTES
    }

    /// The map of O.
    #[inline(always)]
    fn o(self) -> u64 {
        self.first + 3 * TENSOR_MAP_BYTES
    }
}

/// What a launch and its block are, for every thread of the block.
pub struct Context<'a, K: TmaKernel> {
    /// The arguments of the launch.
    args: &'a ForwardArgs,
    /// Its tensor maps.
    maps: Maps,
    /// The block's shared memory.
    memory: Memory<K>,
    /// Rows of Q of all sequences; of packed ones, their rows together.
    length: u32,
    /// Rows of K and V, likewise.
    kv_length: u32,
}

/// O and LSE of the block's work items.
///
/// The warpgroups that compute have `CONSUMER_REGISTERS` registers each thread; the one that copies has `PRODUCER_REGISTERS`.
/// Where these are as many, each has all that a thread can have, and `setmaxnreg` would be illegal.
#[inline(always)]
pub fn forward<K: TmaKernel, const CONSUMER_REGISTERS: u32, const PRODUCER_REGISTERS: u32>(
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
        let (producer, storer) = (K::WARPGROUPS * WARPGROUP_WARPS, K::WARPGROUPS * WARPGROUP_WARPS + 1);
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
                    K::Order::for_each_load(&context, |copy| loader.load_strip(copy), |copy| loader.load_tile(copy));
                }
            } else if warp == storer {
                let storer = Storer::new(&context, lane, warpgroup::elect());
                storer.prefetch_map();
                K::Order::for_each_strip(&context, |copy| storer.store_strip(copy));
            }
            if K::Order::SPLITS_KEYS {
                combine::wait_for_others();
            }
        } else {
            if const { CONSUMER_REGISTERS > PRODUCER_REGISTERS } {
                warpgroup::increase_registers::<CONSUMER_REGISTERS>();
            }
            consumer::consume(&context, Lane { warp, ..lane });
            if K::Order::SPLITS_KEYS {
                combine::combine(&context, lane);
            }
        }
    }
}

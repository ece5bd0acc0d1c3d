//! Warp-collective instructions that some of their lanes do not execute.

mod hopper;

pub use hopper::*;

use kernel_gpu::codegen::shared::dynamic_shared_mem;
use kernel_gpu::ptx::{ldmatrix, memory, mma, shuffle, sync};
use kernel_gpu::shared_tile::F16;

use super::{element, lane, ptx};
use crate::Arguments;

/// Every lane of a full warp.
const ALL_LANES: u32 = 0xffff_ffff;

/// A matrix product in a branch that half of the warp takes.
#[inline(always)]
pub unsafe fn product_in_a_branch<const PLANTED: bool>(arguments: Arguments) {
    let mut sums = [0.0; 4];
    if !PLANTED || lane() < 16 {
        mma::multiply_accumulate::<F16>(&mut sums, [lane(); 4], [lane(); 2]);
    }
    sync::warp();
    memory::store_global_f32(element(arguments.output, lane(), 4), sums[0]);
}

/// A matrix product after the lanes beyond the tail returned.
#[inline(always)]
pub unsafe fn product_after_an_early_return<const PLANTED: bool>(arguments: Arguments) {
    if PLANTED && lane() >= 24 {
        return;
    }
    let mut sums = [0.0; 4];
    mma::multiply_accumulate::<F16>(&mut sums, [lane(); 4], [lane(); 2]);
    memory::store_global_f32(element(arguments.output, lane(), 4), sums[0]);
}

/// A matrix load that only the lanes whose addresses matter execute.
#[inline(always)]
pub unsafe fn matrix_load_by_eight_lanes<const PLANTED: bool>(arguments: Arguments) {
    let row = dynamic_shared_mem() + lane() * 16;
    ptx::store_shared_16(row, [lane(); 4]);
    sync::warp();
    let mut matrices = [0; 4];
    if !PLANTED || lane() < 8 {
        matrices = ldmatrix::load_4(row);
    }
    sync::warp();
    memory::store_global_16(element(arguments.output, lane(), 16), matrices);
}

/// An exchange of the whole warp in a branch.
#[inline(always)]
pub unsafe fn shuffle_in_a_branch<const PLANTED: bool>(arguments: Arguments) {
    let mut value = lane() as f32;
    if !PLANTED || lane() < 20 {
        value = shuffle::exchange::<1>(value);
    }
    sync::warp();
    memory::store_global_f32(element(arguments.output, lane(), 4), value);
}

/// Lanes 0 to 15 ask lane 20, which takes no part.
#[inline(always)]
pub unsafe fn shuffle_from_an_inactive_lane<const PLANTED: bool>(arguments: Arguments) {
    let source = if PLANTED { 20 } else { 12 };
    let mut value = lane();
    if lane() < 16 {
        value = ptx::shuffle::<0xffff>(value, source);
    }
    sync::warp();
    ptx::store_global_4(element(arguments.output, lane(), 4), value);
}

/// The mask leaves out lanes that execute the exchange.
#[inline(always)]
pub unsafe fn shuffle_by_lanes_not_in_the_mask<const PLANTED: bool>(arguments: Arguments) {
    let value = if PLANTED { ptx::shuffle::<0xffff>(lane(), 0) } else { ptx::shuffle::<ALL_LANES>(lane(), 0) };
    ptx::store_global_4(element(arguments.output, lane(), 4), value);
}

/// Exchanges in a loop whose rounds differ between lanes.
#[inline(always)]
pub unsafe fn shuffle_in_a_loop_of_unequal_rounds<const PLANTED: bool>(arguments: Arguments) {
    let rounds = if PLANTED { 1 + lane() / 16 } else { 2 };
    let (mut value, mut round) = (lane(), 0);
    while round < rounds {
        value = ptx::shuffle::<ALL_LANES>(value, round);
        round += 1;
    }
    ptx::store_global_4(element(arguments.output, lane(), 4), value);
}

/// A vote of all lanes in which the last four take no part.
#[inline(always)]
pub unsafe fn vote_in_a_branch<const PLANTED: bool>(arguments: Arguments) {
    let mut votes = 0;
    if !PLANTED || lane() < 28 {
        votes = ptx::ballot(lane());
    }
    sync::warp();
    ptx::store_global_4(element(arguments.output, lane(), 4), votes);
}

/// A warp barrier of eight lanes that sixteen reach.
#[inline(always)]
pub unsafe fn warp_barrier_by_lanes_not_in_the_mask<const PLANTED: bool>(_: Arguments) {
    if lane() < 16 {
        if PLANTED {
            ptx::warp_barrier::<0xff>();
        } else {
            ptx::warp_barrier::<0xffff>();
        }
    }
    sync::warp();
}

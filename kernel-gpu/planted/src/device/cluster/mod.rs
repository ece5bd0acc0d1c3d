//! The shared memory of another block of the cluster, before that block has begun or after it may have ended.

use kernel_gpu::codegen::shared::dynamic_shared_mem;
use kernel_gpu::codegen::thread::block_idx_x;
use kernel_gpu::ptx::{cluster, memory};

use crate::Arguments;
use crate::device::{element, lane, ptx};

/// The address, in the other block of a cluster of two, of the lane's word.
#[inline(always)]
unsafe fn word_of_the_other_block() -> u32 {
    cluster::address_in_block(own_word(), 1 - block_idx_x() % 2)
}

/// The address of the lane's word.
#[inline(always)]
fn own_word() -> u32 {
    dynamic_shared_mem() + lane() * 4
}

/// Nothing holds the other block until its memory was read.
#[inline(always)]
pub unsafe fn block_that_may_have_ended<const PLANTED: bool>(arguments: Arguments) {
    memory::store_shared_4(own_word(), lane());
    ptx::synchronise_cluster();
    let there = ptx::load_cluster_4(word_of_the_other_block());
    ptx::store_global_4(element(arguments.output, block_idx_x() * 32 + lane(), 4), there);
    if !PLANTED {
        ptx::synchronise_cluster();
    }
}

/// A write to the other block before anything says that it has begun.
#[inline(always)]
pub unsafe fn block_that_may_not_have_begun<const PLANTED: bool>(arguments: Arguments) {
    if !PLANTED {
        ptx::synchronise_cluster();
    }
    ptx::store_cluster_4(word_of_the_other_block(), lane());
    ptx::synchronise_cluster();
    ptx::store_global_4(element(arguments.output, block_idx_x() * 32 + lane(), 4), ptx::load_shared_4(own_word()));
}

/// An arrival that waits for no load before it: the other block may end while its memory is still being read.
#[inline(always)]
pub unsafe fn arrival_before_a_load_has_returned<const PLANTED: bool>(arguments: Arguments) {
    memory::store_shared_4(own_word(), lane());
    ptx::synchronise_cluster();
    let there = ptx::load_cluster_4(word_of_the_other_block());
    if PLANTED {
        ptx::arrive_at_cluster_relaxed();
    } else {
        ptx::arrive_at_cluster();
    }
    ptx::wait_for_cluster();
    ptx::store_global_4(element(arguments.output, block_idx_x() * 32 + lane(), 4), there);
}

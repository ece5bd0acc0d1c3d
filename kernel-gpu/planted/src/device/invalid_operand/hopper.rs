//! Bulk copies, tensor maps and clusters.

use kernel_gpu::codegen::shared::dynamic_shared_mem;
use kernel_gpu::ptx::{bulk_copy, cluster, mbarrier, memory, sync};

use crate::Arguments;
use crate::device::stages::{STAGE_BYTES, gate, initialise, is_leader, load_box_and_wait, load_bytes_and_wait, stage};
use crate::device::{element, lane, ptx};

/// Three rows of 8 bytes.
#[inline(always)]
pub unsafe fn bulk_copy_of_24_bytes<const PLANTED: bool>(arguments: Arguments) {
    let bytes = if PLANTED { 24 } else { 32 };
    load_bytes_and_wait(stage(0), arguments.input, bytes);
}

/// The tensor itself in place of its map.
#[inline(always)]
pub unsafe fn tensor_in_place_of_its_map<const PLANTED: bool>(arguments: Arguments) {
    let map = if PLANTED { arguments.input } else { arguments.tensor_map };
    load_box_and_wait(map, stage(0), (0, 0), STAGE_BYTES);
}

/// Three coordinates for a map of two dimensions.
#[inline(always)]
pub unsafe fn one_coordinate_too_many<const PLANTED: bool>(arguments: Arguments) {
    initialise([1]);
    if is_leader() {
        mbarrier::arrive_and_expect(gate(0), STAGE_BYTES);
        if PLANTED {
            bulk_copy::load_box_3d(stage(0), arguments.tensor_map, [0, 0, 0], gate(0));
        } else {
            bulk_copy::load_box_2d(stage(0), arguments.tensor_map, [0, 0], gate(0));
        }
        mbarrier::wait(gate(0), 0);
    }
}

/// The shared memory of a neighbour where every block is a cluster of its own.
#[inline(always)]
pub unsafe fn block_outside_the_cluster<const PLANTED: bool>(arguments: Arguments) {
    let word = dynamic_shared_mem() + lane() * 4;
    memory::store_shared_4(word, lane());
    ptx::synchronise_cluster();
    let there = cluster::address_in_block(word, u32::from(PLANTED));
    ptx::store_global_4(element(arguments.output, lane(), 4), ptx::load_cluster_4(there));
    ptx::synchronise_cluster();
}

/// A wait for the cluster without an arrival before it.
#[inline(always)]
pub unsafe fn wait_for_the_cluster_without_arriving<const PLANTED: bool>(_: Arguments) {
    if !PLANTED {
        ptx::arrive_at_cluster();
    }
    ptx::wait_for_cluster();
    sync::block();
}

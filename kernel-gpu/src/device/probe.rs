//! The kernels of [`contract::probe`].

use crate::device::codegen::kernel;
use crate::device::codegen::thread::{block_idx_x, thread_idx_x};
use crate::device::ptx::memory;
#[cfg(feature = "sm_80")]
use crate::device::ptx::mma;
use crate::device::ptx::mma::FragmentC;
use crate::device::tile::head_dim::Fragments;
use crate::device::unrolled;
use crate::shared_tile::F16;
#[cfg(feature = "sm_80")]
use contract::config::WARP_SIZE;
use contract::probe::{ProbeArgs, THREADS};

/// Two fp16 numbers from 0.5 to 1 that depend on `index`: products of zeros would draw less power and run faster.
#[inline(always)]
fn operand(index: u32) -> u32 {
    0x3800_3800 | (index.wrapping_mul(0x9e37_79b9) & 0x03ff_03ff)
}

/// Stores the sum of a thread's accumulators, so that no product is optimised away.
///
/// # Safety
/// `sink` holds an f32 for every thread of the grid.
#[inline(always)]
unsafe fn keep<const N: usize>(sink: u64, accumulators: &[[f32; 4]; N]) {
    let mut sum = 0.0;
    unrolled!(at most 16; for n in N => {
        unrolled!(at most 4; for i in 4 => { sum += accumulators[n][i] });
    });
    let thread = block_idx_x() as u64 * THREADS as u64 + thread_idx_x() as u64;
    // SAFETY: only this thread writes the word, which the caller vouches for.
    unsafe { memory::store_global_f32(sink + thread * 4, sum) };
}

#[cfg(feature = "sm_80")]
kernel! {
    fn fa512_probe_mma(args: ProbeArgs) {
        let lane = thread_idx_x() % WARP_SIZE;
        let a = [operand(lane), operand(lane + 1), operand(lane + 2), operand(lane + 3)];
        let b = [operand(lane + 4), operand(lane + 5)];
        let mut accumulators = <[FragmentC; contract::probe::MMA_CHAINS]>::zeros();
        let mut iteration = 0;
        while iteration < args.iterations {
            unrolled!(at most 8; for chain in contract::probe::MMA_CHAINS => {
                // SAFETY: the loop's bound is the same for all lanes.
                unsafe { mma::multiply_accumulate::<F16>(&mut accumulators[chain], a, b) };
            });
            iteration += 1;
        }
        // SAFETY: the host's promise about the launch.
        unsafe { keep(args.sink, &accumulators) };
    }
}

#[cfg(feature = "sm_90a")]
kernel! {
    fn fa512_probe_wgmma(args: ProbeArgs) {
        use crate::device::codegen::shared::dynamic_shared_mem;
        use crate::device::ptx::proxy::fence_async_shared;
        use crate::device::ptx::sync;
        use crate::device::ptx::wgmma::{self, Accumulators, Descriptor, KMajor, Registers};
        use crate::shared_tile::{Row, SharedTile, Swizzle128};
        use contract::probe::{PROBES, WGMMA_DEPTH, WGMMA_M, WGMMA_N};

        let shared = dynamic_shared_mem();
        let mut offset = 4 * thread_idx_x();
        while offset < PROBES[1].dynamic_shared_bytes {
            // SAFETY: each thread writes words of its own in the block's dynamic shared memory.
            unsafe { memory::store_shared_4(shared + offset, operand(offset)) };
            offset += 4 * THREADS;
        }
        fence_async_shared();
        // SAFETY: all threads of the block are here.
        unsafe { sync::block() };
        type Operand<const ROWS: u32> = SharedTile<F16, ROWS, Row<WGMMA_DEPTH, Swizzle128>>;
        let a = Descriptor::<KMajor, Operand<WGMMA_M>>::new(shared);
        let b = Descriptor::<KMajor, Operand<WGMMA_N>>::new(shared + WGMMA_M * 2 * WGMMA_DEPTH);
        let mut accumulators = <[FragmentC; WGMMA_N as usize / 8]>::zeros();
        let mut iteration = 0;
        while iteration < args.iterations {
            accumulators.pin();
            // SAFETY: the whole warpgroup is here, with operands written before the barrier; the accumulators are not touched
            // between the fence and the wait.
            unsafe {
                wgmma::fence();
                accumulators.multiply_accumulate::<F16, _, _>(a, b);
                accumulators.multiply_accumulate::<F16, _, _>(a.step(1), b.step(1));
                accumulators.multiply_accumulate::<F16, _, _>(a.step(2), b.step(2));
                accumulators.multiply_accumulate::<F16, _, _>(a.step(3), b.step(3));
                wgmma::commit_group();
                wgmma::wait_group::<0>();
            }
            accumulators.pin();
            iteration += 1;
        }
        // SAFETY: the host's promise about the launch.
        unsafe { keep(args.sink, &accumulators) };
    }
}

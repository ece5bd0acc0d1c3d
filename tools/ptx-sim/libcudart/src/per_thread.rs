//! Synchronous functions for programs with per-thread default streams (`--default-stream per-thread`).

use std::ffi::c_void;

use crate::arrays::{Extent, Pitched, cudaMemset3DAsync};
use crate::handles::{DevicePointer, PER_THREAD};
use crate::memory::{
    cudaMemcpy2DAsync, cudaMemcpyAsync, cudaMemcpyFromSymbolAsync, cudaMemcpyToSymbolAsync, cudaMemset2DAsync,
    cudaMemsetAsync,
};
use crate::status::{Result, Status, runtime_api};
use crate::streams::cudaStreamSynchronize;

/// Waits for the per-thread default stream after a successful asynchronous call.
fn wait(status: u32) -> Result<()> {
    Status(status).check()?;
    // SAFETY: the function takes no pointers.
    Status(unsafe { cudaStreamSynchronize(PER_THREAD) }).check()
}

runtime_api! {
    fn cudaMemcpy_ptds(to: *mut c_void, from: *const c_void, bytes: usize, direction: u32) {
        // SAFETY: the program's promises are those of the function without a stream.
        wait(unsafe { cudaMemcpyAsync(to, from, bytes, direction, PER_THREAD) })
    }

    fn cudaMemcpy2D_ptds(to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize, direction: u32) {
        // SAFETY: as above.
        wait(unsafe { cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, direction, PER_THREAD) })
    }

    fn cudaMemcpyToSymbol_ptds(shadow: *const c_void, from: *const c_void, bytes: usize, offset: usize, direction: u32) {
        // SAFETY: as above.
        wait(unsafe { cudaMemcpyToSymbolAsync(shadow, from, bytes, offset, direction, PER_THREAD) })
    }

    fn cudaMemcpyFromSymbol_ptds(to: *mut c_void, shadow: *const c_void, bytes: usize, offset: usize, direction: u32) {
        // SAFETY: as above.
        wait(unsafe { cudaMemcpyFromSymbolAsync(to, shadow, bytes, offset, direction, PER_THREAD) })
    }

    fn cudaMemset_ptds(address: DevicePointer, value: i32, bytes: usize) {
        // SAFETY: as above.
        wait(unsafe { cudaMemsetAsync(address, value, bytes, PER_THREAD) })
    }

    fn cudaMemset3D_ptds(memory: Pitched, value: i32, extent: Extent) {
        // SAFETY: as above.
        wait(unsafe { cudaMemset3DAsync(memory, value, extent, PER_THREAD) })
    }

    fn cudaMemset2D_ptds(address: DevicePointer, pitch: usize, value: i32, width: usize, height: usize) {
        // SAFETY: as above.
        wait(unsafe { cudaMemset2DAsync(address, pitch, value, width, height, PER_THREAD) })
    }
}

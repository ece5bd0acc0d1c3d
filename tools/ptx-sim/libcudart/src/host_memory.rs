//! Host memory accessible to kernels, managed memory, and pools.

use std::ffi::c_void;

use crate::context::enter;
use crate::driver::call;
use crate::handles::{DevicePointer, Handle};
use crate::status::{Status, put, runtime_api};

/// A memory location, in the form of CUDA 13 or of older versions, which pass a GPU's number under the same function name.
enum Location {
    /// `cudaMemLocation`: type in the low half, number in the high half.
    Place(u64),
    /// A GPU, or -1 for the host.
    Device(i32),
}

impl Location {
    /// Tells the two forms apart: the type of a `cudaMemLocation` is never the number of the first GPU or the host.
    fn of(word: u64) -> Self {
        match word as u32 {
            1..=4 => Self::Place(word),
            device => Self::Device(device as i32),
        }
    }
}

runtime_api! {
    fn cudaMallocManaged(result: *mut DevicePointer, bytes: usize, flags: u32) {
        enter()?;
        call!(cuMemAllocManaged(result, bytes, flags))
    }

    fn cudaMemPrefetchAsync(address: DevicePointer, bytes: usize, location: u64, flags_or_stream: usize, stream: Handle) per_thread cudaMemPrefetchAsync_ptsz(stream) {
        enter()?;
        match Location::of(location) {
            Location::Place(place) => call!(cuMemPrefetchAsync_v2(address, bytes, place, flags_or_stream as u32, stream)),
            Location::Device(device) => call!(cuMemPrefetchAsync(address, bytes, device, flags_or_stream)),
        }
    }

    fn cudaMemPrefetchAsync_v2(address: DevicePointer, bytes: usize, location: u64, flags: u32, stream: Handle) {
        enter()?;
        call!(cuMemPrefetchAsync_v2(address, bytes, location, flags, stream))
    }

    fn cudaMemAdvise(address: DevicePointer, bytes: usize, advice: u32, location: u64) {
        enter()?;
        match Location::of(location) {
            Location::Place(place) => call!(cuMemAdvise_v2(address, bytes, advice, place)),
            Location::Device(device) => call!(cuMemAdvise(address, bytes, advice, device)),
        }
    }

    fn cudaMemAdvise_v2(address: DevicePointer, bytes: usize, advice: u32, location: u64) {
        enter()?;
        call!(cuMemAdvise_v2(address, bytes, advice, location))
    }

    fn cudaMemRangeGetAttribute(place: *mut c_void, size: usize, number: u32, address: DevicePointer, bytes: usize) {
        enter()?;
        call!(cuMemRangeGetAttribute(place, size, number, address, bytes))
    }

    fn cudaMemRangeGetAttributes(
        places: *mut *mut c_void,
        sizes: *mut usize,
        numbers: *mut u32,
        count: usize,
        address: DevicePointer,
        bytes: usize,
    ) {
        enter()?;
        call!(cuMemRangeGetAttributes(places, sizes, numbers, count, address, bytes))
    }

    fn cudaStreamAttachMemAsync(stream: Handle, address: DevicePointer, bytes: usize, flags: u32) per_thread cudaStreamAttachMemAsync_ptsz(stream) {
        enter()?;
        call!(cuStreamAttachMemAsync(stream, address, bytes, flags))
    }

    fn cudaHostGetDevicePointer(result: *mut DevicePointer, memory: *mut c_void, flags: u32) {
        enter()?;
        call!(cuMemHostGetDevicePointer_v2(result, memory, flags))
    }

    fn cudaHostGetFlags(flags: *mut u32, memory: *mut c_void) {
        enter()?;
        call!(cuMemHostGetFlags(flags, memory))
    }

    fn cudaDeviceGetDefaultMemPool(result: *mut Handle, device: i32) {
        enter()?;
        call!(cuDeviceGetDefaultMemPool(result, device))
    }

    fn cudaDeviceGetMemPool(result: *mut Handle, device: i32) {
        enter()?;
        call!(cuDeviceGetMemPool(result, device))
    }

    fn cudaDeviceSetMemPool(device: i32, pool: Handle) {
        enter()?;
        call!(cuDeviceSetMemPool(device, pool))
    }

    fn cudaMemPoolCreate(result: *mut Handle, properties: *const c_void) {
        enter()?;
        call!(cuMemPoolCreate(result, properties))
    }

    fn cudaMemPoolDestroy(pool: Handle) {
        enter()?;
        call!(cuMemPoolDestroy(pool))
    }

    fn cudaMemPoolTrimTo(pool: Handle, bytes: usize) {
        enter()?;
        call!(cuMemPoolTrimTo(pool, bytes))
    }

    fn cudaMemPoolSetAttribute(pool: Handle, number: u32, value: *mut c_void) {
        enter()?;
        call!(cuMemPoolSetAttribute(pool, number, value))
    }

    fn cudaMemPoolGetAttribute(pool: Handle, number: u32, value: *mut c_void) {
        enter()?;
        call!(cuMemPoolGetAttribute(pool, number, value))
    }

    fn cudaMemPoolSetAccess(pool: Handle, accesses: *const c_void, count: usize) {
        enter()?;
        call!(cuMemPoolSetAccess(pool, accesses, count))
    }

    fn cudaMemPoolGetAccess(flags: *mut u32, pool: Handle, location: *const c_void) {
        enter()?;
        call!(cuMemPoolGetAccess(flags, pool, location))
    }

    fn cudaMallocFromPoolAsync(result: *mut DevicePointer, bytes: usize, pool: Handle, stream: Handle) per_thread cudaMallocFromPoolAsync_ptsz(stream) {
        enter()?;
        if bytes == 0 {
            return Err(Status::INVALID_VALUE);
        }
        put(result, 0)?;
        call!(cuMemAllocFromPoolAsync(result, bytes, pool, stream))
    }
}

//! GPUs, their primary contexts, errors, and attributes of kernels.

use std::ffi::{c_char, c_void};

use crate::context::{self, current, enter};
use crate::driver::call;
use crate::registry::{self, function};
use crate::status::{Result, Status, put, runtime_api};

/// The version of this runtime: 13.0.
pub const VERSION: i32 = 13_000;
/// Size of the oldest `cudaDeviceProp`, bytes; nothing past it is written.
const PROPERTY_BYTES: usize = 700;

fn attribute(number: u32, device: i32) -> Result<i32> {
    let mut value = 0;
    call!(cuDeviceGetAttribute(&mut value, number, device))?;
    Ok(value)
}

/// Writes fields of a `cudaDeviceProp` by offset.
struct Properties(*mut u8);

impl Properties {
    fn set<T>(&self, offset: usize, value: T) {
        debug_assert!(offset + size_of::<T>() <= PROPERTY_BYTES);
        // SAFETY: the program provides a struct of at least this size.
        unsafe { self.0.add(offset).cast::<T>().write_unaligned(value) };
    }

    /// Fields at the same offset in all versions.
    fn common(&self, device: i32) -> Result<()> {
        call!(cuDeviceGetName(self.0.cast(), 256, device))?;
        let (mut uuid, mut bytes) = ([0; 16], 0_usize);
        call!(cuDeviceGetUuid_v2(&mut uuid, device))?;
        call!(cuDeviceTotalMem_v2(&mut bytes, device))?;
        self.set(256, uuid);
        self.set(288, bytes);
        self.set(296, attribute(8, device)? as usize);
        self.set(304, attribute(12, device)?);
        self.set(308, attribute(10, device)?);
        self.set(312, attribute(11, device)? as usize);
        self.set(320, attribute(1, device)?);
        for (place, number) in (324..).step_by(4).zip(2..=7) {
            self.set(place, attribute(number, device)?);
        }
        self.set(352, attribute(9, device)? as usize);
        self.set(360, attribute(75, device)?);
        self.set(364, attribute(76, device)?);
        self.set(368, attribute(14, device)? as usize);
        Ok(())
    }
}

fn properties(place: *mut c_void, device: i32) -> Result<Properties> {
    if place.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the program provides a struct of at least this size.
    unsafe { place.cast::<u8>().write_bytes(0, PROPERTY_BYTES) };
    let properties = Properties(place.cast());
    properties.common(device)?;
    Ok(properties)
}

/// Offsets of the largest texture and surface extents in the `cudaDeviceProp` of CUDA 13, and their attributes.
const TEXTURE_EXTENTS: [(usize, u32); 22] = [
    (396, 21),
    (404, 22),
    (408, 23),
    (440, 24),
    (444, 25),
    (448, 26),
    (468, 42),
    (472, 43),
    (476, 27),
    (480, 28),
    (484, 29),
    (496, 55),
    (500, 56),
    (504, 57),
    (508, 58),
    (512, 59),
    (516, 60),
    (520, 61),
    (524, 62),
    (528, 63),
    (532, 64),
    (536, 65),
];

/// `cudaFuncAttributes`, up to the last field filled.
#[repr(C)]
pub struct FunctionAttributes {
    shared_bytes: usize,
    constant_bytes: usize,
    local_bytes: usize,
    threads: i32,
    registers: i32,
    ptx_version: i32,
    binary_version: i32,
    cache_mode: i32,
    dynamic_shared_bytes: i32,
    carve_out: i32,
}

runtime_api! {
    fn cudaGetDeviceCount(count: *mut i32) {
        call!(cuDeviceGetCount(count))
    }

    fn cudaGetDevice(device: *mut i32) {
        put(device, current())
    }

    fn cudaSetDevice(device: i32) {
        let mut count = 0;
        call!(cuDeviceGetCount(&mut count))?;
        if !(0..count).contains(&device) {
            return Err(Status::INVALID_DEVICE);
        }
        context::set(device);
        enter()
    }

    fn cudaInitDevice(device: i32, _device_flags: u32, _flags: u32) {
        attribute(1, device).map(drop)
    }

    fn cudaSetDeviceFlags(_flags: u32) {
        enter()
    }

    fn cudaDeviceSynchronize() {
        enter()?;
        call!(cuCtxSynchronize())
    }

    fn cudaDeviceReset() {
        enter()?;
        registry::forget_device(current());
        call!(cuDevicePrimaryCtxReset_v2(current()))
    }

    fn cudaDeviceGetAttribute(value: *mut i32, number: u32, device: i32) {
        put(value, attribute(number, device)?)
    }

    fn cudaDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32) {
        call!(cuDeviceCanAccessPeer(can, device, peer))
    }

    fn cudaDeviceGetPCIBusId(text: *mut c_char, bytes: i32, device: i32) {
        call!(cuDeviceGetPCIBusId(text, bytes, device))
    }

    fn cudaDeviceGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) {
        enter()?;
        call!(cuCtxGetStreamPriorityRange(least, greatest))
    }

    fn cudaProfilerStart() {
        enter()
    }

    fn cudaProfilerStop() {
        enter()
    }

    fn cudaDeviceGetLimit(value: *mut usize, limit: u32) {
        enter()?;
        call!(cuCtxGetLimit(value, limit))
    }

    fn cudaDeviceSetLimit(limit: u32, value: usize) {
        enter()?;
        call!(cuCtxSetLimit(limit, value))
    }

    fn cudaDeviceSetCacheConfig(_config: u32) {
        enter()
    }

    fn cudaGetDeviceProperties(place: *mut c_void, device: i32) {
        // CUDA 13.
        let properties = properties(place, device)?;
        let same = [(384, 16), (392, 19), (560, 31), (584, 40), (588, 41), (592, 37), (596, 38), (604, 39), (632, 82)];
        for (offset, number) in same.into_iter().chain([(636, 83), (656, 89), (660, 90), (664, 91), (668, 95)]).chain(TEXTURE_EXTENTS) {
            properties.set(offset, attribute(number, device)?);
        }
        properties.set(376, attribute(51, device)? as usize);
        properties.set(624, attribute(81, device)? as usize);
        properties.set(672, attribute(97, device)? as usize);
        properties.set(688, attribute(106, device)?);
        Ok(())
    }

    fn cudaGetDeviceProperties_v2(place: *mut c_void, device: i32) {
        // CUDA 12: clock rate and overlap stand before the multiprocessors.
        let properties = properties(place, device)?;
        properties.set(348, attribute(13, device)?);
        properties.set(384, attribute(15, device)?);
        properties.set(388, attribute(16, device)?);
        Ok(())
    }

    fn cudaDriverGetVersion(version: *mut i32) {
        call!(cuDriverGetVersion(version))
    }

    fn cudaRuntimeGetVersion(version: *mut i32) {
        put(version, VERSION)
    }

    fn cudaFuncSetAttribute(stub: *const c_void, number: u32, value: i32) {
        let function = function(stub)?;
        call!(cuFuncSetAttribute(function, number, value))
    }

    fn cudaFuncSetCacheConfig(stub: *const c_void, _config: u32) {
        function(stub).map(drop)
    }

    fn cudaFuncGetAttributes(result: *mut FunctionAttributes, stub: *const c_void) {
        let function = function(stub)?;
        let value = |number| {
            let mut value = 0;
            call!(cuFuncGetAttribute(&mut value, number, function))?;
            Ok::<i32, Status>(value)
        };
        put(result, FunctionAttributes {
            shared_bytes: value(1)? as usize,
            constant_bytes: value(2)? as usize,
            local_bytes: value(3)? as usize,
            threads: value(0)?,
            registers: value(4)?,
            ptx_version: value(5)?,
            binary_version: value(6)?,
            cache_mode: 0,
            dynamic_shared_bytes: value(8)?,
            carve_out: value(9)?,
        })
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(count: *mut i32, stub: *const c_void, threads: i32, shared_bytes: usize) {
        let function = function(stub)?;
        call!(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count, function, threads, shared_bytes, 0))
    }

    fn cudaOccupancyAvailableDynamicSMemPerBlock(bytes: *mut usize, stub: *const c_void, blocks: i32, threads: i32) {
        let function = function(stub)?;
        call!(cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, threads))
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: *mut i32,
        stub: *const c_void,
        threads: i32,
        shared_bytes: usize,
        flags: u32,
    ) {
        let function = function(stub)?;
        call!(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count, function, threads, shared_bytes, flags))
    }
}

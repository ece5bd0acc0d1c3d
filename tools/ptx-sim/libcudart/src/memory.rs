//! Memory and copies.

use std::ffi::c_void;

use crate::context::enter;
use crate::driver::call;
use crate::handles::{DevicePointer, Handle};
use crate::registry::variable;
use crate::status::{Result, Status, put, runtime_api};

/// Directions of a copy (`cudaMemcpyKind`).
const HOST_TO_HOST: u32 = 0;
const HOST_TO_DEVICE: u32 = 1;
const DEVICE_TO_HOST: u32 = 2;
const DEVICE_TO_DEVICE: u32 = 3;
const DEFAULT: u32 = 4;

/// A copy: in stream order with a stream, else synchronous.
fn copy(to: *mut c_void, from: *const c_void, bytes: usize, direction: u32, stream: Option<Handle>) -> Result<()> {
    enter()?;
    if bytes == 0 {
        return Ok(());
    }
    let (to_device, from_device) = (to as DevicePointer, from as DevicePointer);
    match (direction, stream) {
        (HOST_TO_DEVICE, None) => call!(cuMemcpyHtoD_v2(to_device, from, bytes)),
        (HOST_TO_DEVICE, Some(stream)) => call!(cuMemcpyHtoDAsync_v2(to_device, from, bytes, stream)),
        (DEVICE_TO_HOST, None) => call!(cuMemcpyDtoH_v2(to, from_device, bytes)),
        (DEVICE_TO_HOST, Some(stream)) => call!(cuMemcpyDtoHAsync_v2(to, from_device, bytes, stream)),
        (DEVICE_TO_DEVICE, None) => call!(cuMemcpyDtoD_v2(to_device, from_device, bytes)),
        (DEVICE_TO_DEVICE, Some(stream)) => call!(cuMemcpyDtoDAsync_v2(to_device, from_device, bytes, stream)),
        (HOST_TO_HOST | DEFAULT, None) => call!(cuMemcpy(to_device, from_device, bytes)),
        (HOST_TO_HOST | DEFAULT, Some(stream)) => call!(cuMemcpyAsync(to_device, from_device, bytes, stream)),
        _ => Err(Status::INVALID_DIRECTION),
    }
}

/// Address in a variable at which a copy of `bytes` bytes begins.
fn place(shadow: *const c_void, bytes: usize, offset: usize) -> Result<DevicePointer> {
    let (address, size) = variable(shadow)?;
    let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= size);
    if is_inside { Ok(address + offset as DevicePointer) } else { Err(Status::INVALID_VALUE) }
}

/// One end of `CUDA_MEMCPY2D`.
#[repr(C)]
pub struct End {
    x: usize,
    y: usize,
    kind: u32,
    pub host: *const c_void,
    pub device: DevicePointer,
    array: Handle,
    pitch: usize,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
struct Copy2d {
    source: End,
    destination: End,
    width: usize,
    height: usize,
}

/// The driver's memory types of source and destination for a copy direction.
pub fn kinds(direction: u32) -> Result<(u32, u32)> {
    /// `CU_MEMORYTYPE_HOST`, `_DEVICE`, `_UNIFIED`.
    const KINDS: [(u32, u32); 5] = [(1, 1), (1, 2), (2, 1), (2, 2), (4, 4)];
    KINDS.get(direction as usize).copied().ok_or(Status::INVALID_DIRECTION)
}

/// One end of a copy of rows; `kind` is the driver's memory type.
pub fn end(address: *const c_void, pitch: usize, kind: u32) -> End {
    End { x: 0, y: 0, kind, host: address, device: address as DevicePointer, array: 0, pitch }
}

/// The driver's memory types (`CUmemorytype`) of source and destination for a copy direction.
pub fn memory_kinds(direction: u32) -> Result<(u32, u32)> {
    /// `CU_MEMORYTYPE_HOST`, `_DEVICE`, `_UNIFIED`.
    const KINDS: [(u32, u32); 5] = [(1, 1), (1, 2), (2, 1), (2, 2), (4, 4)];
    KINDS.get(direction as usize).copied().ok_or(Status::INVALID_DIRECTION)
}

fn copy_2d(
    (to, to_pitch): (*mut c_void, usize),
    (from, from_pitch): (*const c_void, usize),
    [width, height]: [usize; 2],
    direction: u32,
    stream: Option<Handle>,
) -> Result<()> {
    enter()?;
    let (from_kind, to_kind) = memory_kinds(direction)?;
    let copy =
        Copy2d { source: end(from, from_pitch, from_kind), destination: end(to, to_pitch, to_kind), width, height };
    let copy = (&raw const copy).cast();
    match stream {
        None => call!(cuMemcpy2D_v2(copy)),
        Some(stream) => call!(cuMemcpy2DAsync_v2(copy, stream)),
    }
}

/// `cudaMemoryTypeDevice`, `cudaMemoryTypeManaged`.
const DEVICE_MEMORY: u32 = 2;
const MANAGED_MEMORY: u32 = 3;

/// `cudaPointerAttributes`.
#[repr(C)]
pub struct PointerAttributes {
    kind: u32,
    device: i32,
    device_pointer: DevicePointer,
    host_pointer: DevicePointer,
}

runtime_api! {
    fn cudaMalloc(result: *mut DevicePointer, bytes: usize) {
        enter()?;
        // For zero bytes the runtime returns a null pointer.
        if bytes == 0 { put(result, 0) } else { call!(cuMemAlloc_v2(result, bytes)) }
    }

    fn cudaMallocPitch(result: *mut DevicePointer, pitch: *mut usize, width: usize, height: usize) {
        enter()?;
        call!(cuMemAllocPitch_v2(result, pitch, width, height, 4))
    }

    fn cudaMallocAsync(result: *mut DevicePointer, bytes: usize, stream: Handle) per_thread cudaMallocAsync_ptsz(stream) {
        enter()?;
        call!(cuMemAllocAsync(result, bytes, stream))
    }

    fn cudaFree(address: DevicePointer) {
        enter()?;
        call!(cuMemFree_v2(address))
    }

    fn cudaFreeAsync(address: DevicePointer, stream: Handle) per_thread cudaFreeAsync_ptsz(stream) {
        enter()?;
        call!(cuMemFreeAsync(address, stream))
    }

    fn cudaMallocHost(result: *mut *mut c_void, bytes: usize) {
        enter()?;
        call!(cuMemHostAlloc(result, bytes, 0))
    }

    fn cudaHostAlloc(result: *mut *mut c_void, bytes: usize, flags: u32) {
        enter()?;
        call!(cuMemHostAlloc(result, bytes, flags))
    }

    fn cudaFreeHost(memory: *mut c_void) {
        enter()?;
        if memory.is_null() { Ok(()) } else { call!(cuMemFreeHost(memory)) }
    }

    fn cudaHostRegister(memory: *mut c_void, bytes: usize, flags: u32) {
        enter()?;
        call!(cuMemHostRegister_v2(memory, bytes, flags))
    }

    fn cudaHostUnregister(memory: *mut c_void) {
        enter()?;
        call!(cuMemHostUnregister(memory))
    }

    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) {
        enter()?;
        call!(cuMemGetInfo_v2(free, total))
    }

    fn cudaPointerGetAttributes(result: *mut PointerAttributes, address: DevicePointer) {
        enter()?;
        let (mut kind, mut device) = (0_u32, -2_i32);
        // An unknown pointer is plain host memory, not an error.
        if call!(cuPointerGetAttribute((&raw mut kind).cast(), 2, address)).is_ok() {
            call!(cuPointerGetAttribute((&raw mut device).cast(), 9, address))?;
        }
        let mut is_managed = 0_u32;
        if kind == DEVICE_MEMORY && call!(cuPointerGetAttribute((&raw mut is_managed).cast(), 8, address)).is_ok() && is_managed != 0 {
            kind = MANAGED_MEMORY;
        }
        // Kernels can access page-locked memory, and the host can access managed memory.
        let device_pointer = if kind == 0 { 0 } else { address };
        let host_pointer = if kind == DEVICE_MEMORY || kind == 0 { 0 } else { address };
        put(result, PointerAttributes { kind, device, device_pointer, host_pointer })
    }

    fn cudaMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, direction: u32) {
        copy(to, from, bytes, direction, None)
    }

    fn cudaMemcpyAsync(to: *mut c_void, from: *const c_void, bytes: usize, direction: u32, stream: Handle) per_thread cudaMemcpyAsync_ptsz(stream) {
        copy(to, from, bytes, direction, Some(stream))
    }

    fn cudaMemcpyPeer(to: *mut c_void, _to_device: i32, from: *const c_void, _from_device: i32, bytes: usize) {
        copy(to, from, bytes, DEVICE_TO_DEVICE, None)
    }

    fn cudaMemcpyPeerAsync(to: *mut c_void, _to_device: i32, from: *const c_void, _from_device: i32, bytes: usize, stream: Handle) {
        copy(to, from, bytes, DEVICE_TO_DEVICE, Some(stream))
    }

    fn cudaMemcpy2D(to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize, direction: u32) {
        copy_2d((to, to_pitch), (from, from_pitch), [width, height], direction, None)
    }

    fn cudaMemcpy2DAsync(
        to: *mut c_void,
        to_pitch: usize,
        from: *const c_void,
        from_pitch: usize,
        width: usize,
        height: usize,
        direction: u32,
        stream: Handle,
    ) per_thread cudaMemcpy2DAsync_ptsz(stream) {
        copy_2d((to, to_pitch), (from, from_pitch), [width, height], direction, Some(stream))
    }

    fn cudaMemcpyToSymbol(shadow: *const c_void, from: *const c_void, bytes: usize, offset: usize, direction: u32) {
        copy(place(shadow, bytes, offset)? as *mut c_void, from, bytes, direction, None)
    }

    fn cudaMemcpyToSymbolAsync(shadow: *const c_void, from: *const c_void, bytes: usize, offset: usize, direction: u32, stream: Handle) per_thread cudaMemcpyToSymbolAsync_ptsz(stream) {
        copy(place(shadow, bytes, offset)? as *mut c_void, from, bytes, direction, Some(stream))
    }

    fn cudaMemcpyFromSymbol(to: *mut c_void, shadow: *const c_void, bytes: usize, offset: usize, direction: u32) {
        copy(to, place(shadow, bytes, offset)? as *const c_void, bytes, direction, None)
    }

    fn cudaMemcpyFromSymbolAsync(to: *mut c_void, shadow: *const c_void, bytes: usize, offset: usize, direction: u32, stream: Handle) per_thread cudaMemcpyFromSymbolAsync_ptsz(stream) {
        copy(to, place(shadow, bytes, offset)? as *const c_void, bytes, direction, Some(stream))
    }

    fn cudaMemset(address: DevicePointer, value: i32, bytes: usize) {
        enter()?;
        call!(cuMemsetD8_v2(address, value as u8, bytes))
    }

    fn cudaMemsetAsync(address: DevicePointer, value: i32, bytes: usize, stream: Handle) per_thread cudaMemsetAsync_ptsz(stream) {
        enter()?;
        call!(cuMemsetD8Async(address, value as u8, bytes, stream))
    }

    fn cudaMemset2DAsync(address: DevicePointer, pitch: usize, value: i32, width: usize, height: usize, stream: Handle) per_thread cudaMemset2DAsync_ptsz(stream) {
        enter()?;
        call!(cuMemsetD2D8Async(address, pitch, value as u8, width, height, stream))
    }

    fn cudaMemset2D(address: DevicePointer, pitch: usize, value: i32, width: usize, height: usize) {
        enter()?;
        call!(cuMemsetD2D8_v2(address, pitch, value as u8, width, height))
    }
}

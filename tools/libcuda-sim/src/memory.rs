//! Memory: allocations, host memory, pools, what is known of a pointer.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use sim_device::{Call, Code, Context, Error, HostRange, Problem, Result};

use crate::border::driver_api;
use crate::devices::ordinal;
use crate::driver::{current, machine, stream};
use crate::types::{DevicePointer, Handle, Host, Out};

/// Alignment of page-locked memory.
const PAGE: usize = 4096;
/// Bytes between the rows of `cuMemAllocPitch`.
const PITCH: usize = 512;
/// Handles of the pools of the GPUs.
const FIRST_POOL: usize = 0x50_0000_0000;

fn allocate(result: Out<DevicePointer>, bytes: usize, owner: &str) -> Result<()> {
    let context = current()?;
    result.require()?;
    machine()?.check_unsafe_call()?;
    result.set(context.allocate(owner, bytes as u64)?)
}

/// Frees memory of any context.
fn free(address: DevicePointer, call: Call) -> Result<()> {
    let context = current()?;
    if address == 0 {
        return context.check(call);
    }
    let owner = machine()?.context_at(address);
    let owner = owner.ok_or_else(|| {
        Error::invalid(format!("{address:#x} cannot be freed: it is no device memory")).of(Problem::InvalidFree)
    })?;
    context.check(call)?;
    owner.free(address, call)
}

fn allocate_in_order(result: Out<DevicePointer>, bytes: usize, handle: Handle, owner: &str) -> Result<()> {
    let stream = stream(handle)?;
    result.require()?;
    if stream.capture().is_some() {
        return Err(Error::unsupported("an allocation in a capture (a memory node of a graph) is not simulated"));
    }
    result.set(stream.context().allocate(owner, bytes as u64)?)
}

fn host_layout(bytes: usize) -> Result<Layout> {
    Layout::from_size_align(bytes, PAGE).map_err(|_| Code::OUT_OF_MEMORY.into())
}

fn allocate_host(result: Out<Host>, bytes: usize, flags: u32) -> Result<()> {
    let context = current()?;
    context.check(Call::Asynchronous)?;
    result.require()?;
    machine()?.check_unsafe_call()?;
    if bytes == 0 || flags & !7 != 0 {
        return Err(Error::invalid(format!("{bytes} bytes of host memory with the flags {flags:#x}")));
    }
    // SAFETY: the layout has a size.
    let pointer = unsafe { alloc_zeroed(host_layout(bytes)?) };
    if pointer.is_null() {
        return Err(Code::OUT_OF_MEMORY.into());
    }
    let range =
        HostRange { address: pointer as u64, bytes: bytes as u64, flags, context: context.id(), is_registered: false };
    machine()?.add_host_range(range)?;
    result.set(Host(pointer.cast()))
}

fn free_host(memory: Host) -> Result<()> {
    current()?;
    let address = memory.address();
    let known = machine()?.host_range(address).filter(|range| range.address == address && !range.is_registered);
    let range = known
        .ok_or_else(|| Error::invalid(format!("{address:#x} was not allocated as host memory, or was freed before")))?;
    machine()?.remove_host_range(address);
    // SAFETY: this address was allocated with this size, and is forgotten, so that it is freed once.
    unsafe { dealloc(memory.0.cast(), host_layout(range.bytes as usize)?) };
    Ok(())
}

/// The GPU whose pool `handle` is.
fn pool_gpu(handle: Handle) -> Result<u32> {
    let gpu = handle.0.checked_sub(FIRST_POOL).and_then(|gpu| u32::try_from(gpu).ok());
    let gpu = gpu.filter(|gpu| machine().is_ok_and(|machine| machine.gpu(*gpu).is_ok()));
    gpu.ok_or_else(|| Error::invalid(format!("{:#x} is no memory pool", handle.0)))
}

fn pool(device: i32) -> Result<Handle> {
    Ok(Handle(FIRST_POOL + ordinal(device)? as usize))
}

driver_api! {
    fn cuMemAlloc_v2(result: Out<DevicePointer>, bytes: usize) {
        allocate(result, bytes, "cuMemAlloc_v2")
    }

    fn cuMemAllocPitch_v2(result: Out<DevicePointer>, pitch: Out<usize>, width: usize, height: usize, element: u32) {
        pitch.require()?;
        if ![4, 8, 16].contains(&element) || width == 0 || height == 0 {
            return Err(Error::invalid(format!("{height} rows of {width} bytes, elements of {element}; 4, 8 and 16 are possible")));
        }
        let row = width.checked_next_multiple_of(PITCH).ok_or(Code::OUT_OF_MEMORY)?;
        allocate(result, row.checked_mul(height).ok_or(Code::OUT_OF_MEMORY)?, "cuMemAllocPitch_v2")?;
        pitch.set(row)
    }

    fn cuMemFree_v2(address: DevicePointer) {
        machine()?.check_unsafe_call()?;
        free(address, Call::Synchronous)
    }

    fn cuMemAllocAsync(result: Out<DevicePointer>, bytes: usize, stream: Handle) per_thread cuMemAllocAsync_ptsz(stream) {
        allocate_in_order(result, bytes, stream, "cuMemAllocAsync")
    }

    fn cuMemAllocFromPoolAsync(result: Out<DevicePointer>, bytes: usize, pool: Handle, stream: Handle)
        per_thread cuMemAllocFromPoolAsync_ptsz(stream)
    {
        pool_gpu(pool)?;
        allocate_in_order(result, bytes, stream, "cuMemAllocFromPoolAsync")
    }

    fn cuMemFreeAsync(address: DevicePointer, stream: Handle) per_thread cuMemFreeAsync_ptsz(stream) {
        if crate::driver::stream(stream)?.capture().is_some() {
            return Err(Error::unsupported("freeing memory in a capture (a memory node of a graph) is not simulated"));
        }
        free(address, Call::Asynchronous)
    }

    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let context = current()?;
        context.check(Call::Asynchronous)?;
        let bytes = machine()?.config().memory_bytes;
        free.set((bytes - machine()?.gpu(context.gpu())?.memory_used()) as usize)?;
        total.set(bytes as usize)
    }

    fn cuMemGetAddressRange_v2(base: Out<DevicePointer>, bytes: Out<usize>, address: DevicePointer) {
        current()?;
        let owner = machine()?.context_at(address);
        let allocation = owner.and_then(|owner| owner.allocation_at(address)).ok_or(Code::NOT_FOUND)?;
        base.set_if_wanted(allocation.address);
        bytes.set_if_wanted(allocation.bytes as usize);
        Ok(())
    }

    fn cuMemAllocHost_v2(result: Out<Host>, bytes: usize) {
        allocate_host(result, bytes, 0)
    }

    fn cuMemHostAlloc(result: Out<Host>, bytes: usize, flags: u32) {
        allocate_host(result, bytes, flags)
    }

    fn cuMemFreeHost(memory: Host) {
        free_host(memory)
    }

    fn cuMemHostRegister_v2(memory: Host, bytes: usize, flags: u32) {
        let context = current()?;
        memory.require(1)?;
        if bytes == 0 {
            return Err(Error::invalid("0 bytes of host memory"));
        }
        let range = HostRange { address: memory.address(), bytes: bytes as u64, flags, context: context.id(), is_registered: true };
        machine()?.add_host_range(range)
    }

    fn cuMemHostUnregister(memory: Host) {
        current()?;
        let known = machine()?.host_range(memory.address());
        known.filter(|range| range.is_registered && range.address == memory.address()).ok_or(Code::HOST_MEMORY_NOT_REGISTERED)?;
        machine()?.remove_host_range(memory.address());
        Ok(())
    }

    fn cuMemHostGetFlags(flags: Out<u32>, memory: Host) {
        current()?;
        flags.set(machine()?.host_range(memory.address()).ok_or(Code::INVALID_VALUE)?.flags)
    }

    fn cuMemHostGetDevicePointer_v2(_result: Out<DevicePointer>, _memory: Host, _flags: u32) {
        current()?;
        Err(Error::unsupported("kernels do not reach host memory here (CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY is 0)"))
    }

    fn cuDeviceGetDefaultMemPool(result: Out<Handle>, device: i32) {
        result.set(pool(device)?)
    }

    fn cuDeviceGetMemPool(result: Out<Handle>, device: i32) {
        result.set(pool(device)?)
    }

    fn cuDeviceSetMemPool(device: i32, handle: Handle) {
        if pool(device)? == handle { Ok(()) } else { Err(Error::unsupported("each GPU has its default pool only")) }
    }

    fn cuMemPoolTrimTo(handle: Handle, _bytes: usize) {
        pool_gpu(handle).map(drop)
    }

    fn cuMemPoolSetAttribute(handle: Handle, attribute: u32, value: Host) {
        pool_gpu(handle)?;
        value.require(1)?;
        if (1..=8).contains(&attribute) { Ok(()) } else { Err(Error::invalid(format!("{attribute} is no attribute of a pool"))) }
    }

    fn cuMemPoolGetAttribute(handle: Handle, attribute: u32, value: Out<u64>) {
        let used = machine()?.gpu(pool_gpu(handle)?)?.memory_used();
        match attribute {
            // Whether memory is given out again, a number of 32 bits: it never is.
            1..=3 => set_u32(value, 0),
            // Bytes kept; those reserved and used, now and at most.
            4 => value.set(0),
            5..=8 => value.set(used),
            _ => Err(Error::invalid(format!("{attribute} is no attribute of a pool"))),
        }
    }
}

fn set_u32(value: Out<u64>, number: u32) -> Result<()> {
    value.require()?;
    value.narrow::<u32>().set(number)
}

/// The context of an address of device memory that is allocated.
pub fn owner(address: DevicePointer) -> Option<std::sync::Arc<Context>> {
    machine().ok()?.context_at(address)
}

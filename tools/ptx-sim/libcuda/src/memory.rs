//! Allocation of device memory.

use sim_device::{Call, Code, Context, Error, Problem, Result};

use crate::border::driver_api;
use crate::driver::{current, machine};
use crate::host_memory::free_managed;
use crate::pool_allocations;
use crate::types::{DevicePointer, Out};

/// Row pitch granularity of `cuMemAllocPitch`, bytes.
const PITCH: usize = 512;

fn allocate(result: Out<DevicePointer>, bytes: usize, owner: &str) -> Result<()> {
    let context = current()?;
    result.require()?;
    machine()?.check_unsafe_call()?;
    result.set(context.allocate(owner, bytes as u64)?)
}

/// Frees memory of any context.
pub fn free(address: DevicePointer, call: Call) -> Result<()> {
    let context = current()?;
    if address == 0 {
        return context.check(call);
    }
    context.check(call)?;
    match machine()?.context_at(address) {
        Some(owner) => {
            owner.free(address, call)?;
            pool_allocations::forget(address);
            Ok(())
        }
        None if free_managed(address)? => Ok(()),
        // Host memory, or freed managed memory: its error says which.
        None if context.knows(address) => context.free(address, call),
        None => {
            Err(Error::invalid(format!("{address:#x} cannot be freed: it is no device memory"))
                .of(Problem::InvalidFree))
        }
    }
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
        let allocation = owner.and_then(|owner| owner.allocation_at(address)).map(|found| (found.address, found.bytes));
        let host = || machine().ok()?.host_range(address).map(|range| (range.address, range.bytes));
        let (start, size) = allocation.or_else(host).ok_or(Code::NOT_FOUND)?;
        base.set_if_wanted(start);
        bytes.set_if_wanted(size as usize);
        Ok(())
    }
}

/// The context that owns the allocated device memory at an address.
pub fn owner(address: DevicePointer) -> Option<std::sync::Arc<Context>> {
    machine().ok()?.context_at(address)
}

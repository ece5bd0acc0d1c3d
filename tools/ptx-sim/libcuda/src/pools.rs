//! Memory pools and stream-ordered allocation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sim_device::{Call, Code, Error, Life, Operation, Result, Stream};

use crate::border::driver_api;
use crate::devices::ordinal;
use crate::driver::{self, find, handle, machine};
use crate::memory::free;
use crate::pool_allocations::{Pool, remember};
use crate::types::{DevicePointer, Handle, Host, In, Out};

/// Handles of the GPUs' pools.
const FIRST_DEFAULT: usize = 0x50_0000_0000;

/// `CUmemPoolProps`, up to the last field read.
#[repr(C)]
#[derive(Clone, Copy)]
struct Properties {
    kind: u32,
    handle_types: u32,
    location_type: u32,
    location: i32,
}

/// Default pool of each GPU.
fn default_pool(gpu: u32) -> Arc<Pool> {
    static ALL: Mutex<Option<HashMap<u32, Arc<Pool>>>> = Mutex::new(None);
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.get_or_insert_default().entry(gpu).or_insert_with(|| Arc::new(Pool { gpu, ..Pool::default() })).clone()
}

/// Pools that the program selected for GPUs (`cuDeviceSetMemPool`).
fn chosen<T>(action: impl FnOnce(&mut HashMap<u32, Handle>) -> T) -> T {
    static ALL: Mutex<Option<HashMap<u32, Handle>>> = Mutex::new(None);
    action(ALL.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

fn default_handle(gpu: u32) -> Handle {
    Handle(FIRST_DEFAULT + gpu as usize)
}

fn pool(handle: Handle) -> Result<Arc<Pool>> {
    let machine = machine()?;
    let gpu = handle.0.checked_sub(FIRST_DEFAULT).and_then(|gpu| u32::try_from(gpu).ok());
    match gpu.filter(|gpu| machine.gpu(*gpu).is_ok()) {
        Some(gpu) => Ok(default_pool(gpu)),
        None => find(handle).ok_or_else(|| Error::invalid(format!("{:#x} is no memory pool", handle.0))),
    }
}

/// The current pool of a GPU.
fn current_pool(gpu: u32) -> Handle {
    chosen(|all| all.get(&gpu).copied()).unwrap_or(default_handle(gpu))
}

fn allocate(result: Out<DevicePointer>, bytes: usize, pool: &Arc<Pool>, stream: &Stream, owner: &str) -> Result<()> {
    result.require()?;
    if stream.capture().is_some() {
        return Err(Error::unsupported("an allocation in a capture (a memory node of a graph) is not simulated"));
    }
    if pool.gpu != stream.context().gpu() {
        return Err(Error::unsupported("memory from a pool of another GPU than the stream's is not simulated"));
    }
    let bytes = bytes as u64;
    let address = stream.context().allocate(owner, bytes)?;
    stream.submit(Operation::Life(Life { address, bytes, ends: false }))?;
    remember(address, pool, bytes);
    result.set(address)
}

fn set_u32(value: Out<u64>, number: u64) -> Result<()> {
    value.require()?;
    value.narrow::<u32>().set(number as u32)
}

driver_api! {
    fn cuMemAllocAsync(result: Out<DevicePointer>, bytes: usize, stream: Handle) per_thread cuMemAllocAsync_ptsz(stream) {
        let stream = driver::stream(stream)?;
        let pool = pool(current_pool(stream.context().gpu()))?;
        allocate(result, bytes, &pool, &stream, "cuMemAllocAsync")
    }

    fn cuMemAllocFromPoolAsync(result: Out<DevicePointer>, bytes: usize, from: Handle, stream: Handle)
        per_thread cuMemAllocFromPoolAsync_ptsz(stream)
    {
        allocate(result, bytes, &pool(from)?, &*driver::stream(stream)?, "cuMemAllocFromPoolAsync")
    }

    fn cuMemFreeAsync(address: DevicePointer, stream: Handle) per_thread cuMemFreeAsync_ptsz(stream) {
        let stream = driver::stream(stream)?;
        if stream.capture().is_some() {
            return Err(Error::unsupported("freeing memory in a capture (a memory node of a graph) is not simulated"));
        }
        let owner = machine()?.context_at(address).and_then(|owner| owner.allocation_at(address));
        if let Some(found) = owner.filter(|found| found.address == address) {
            stream.submit(Operation::Life(Life { address, bytes: found.bytes, ends: true }))?;
        }
        free(address, Call::Asynchronous)
    }

    fn cuDeviceGetDefaultMemPool(result: Out<Handle>, device: i32) {
        result.set(default_handle(ordinal(device)?))
    }

    fn cuDeviceGetMemPool(result: Out<Handle>, device: i32) {
        result.set(current_pool(ordinal(device)?))
    }

    fn cuDeviceSetMemPool(device: i32, handle: Handle) {
        let gpu = ordinal(device)?;
        if pool(handle)?.gpu != gpu {
            return Err(Error::invalid("the pool is another GPU's"));
        }
        chosen(|all| all.insert(gpu, handle));
        Ok(())
    }

    fn cuMemPoolCreate(result: Out<Handle>, properties: In<Properties>) {
        result.require()?;
        let Properties { kind, handle_types, location_type, location } = properties.get()?;
        if kind != 1 || location_type != 1 {
            return Err(Error::unsupported("pools are simulated of pinned memory on a GPU"));
        }
        if handle_types != 0 {
            return Err(Error::unsupported("memory cannot be given to other processes"));
        }
        let pool = Arc::new(Pool { gpu: ordinal(location)?, ..Pool::default() });
        result.set(handle(&pool, None))
    }

    fn cuMemPoolDestroy(handle: Handle) {
        let gone = driver::remove::<Pool>(handle, "memory pool of the program's own")?;
        chosen(|all| all.retain(|_, chosen| *chosen != handle));
        drop(gone);
        Ok(())
    }

    fn cuMemPoolTrimTo(handle: Handle, _bytes: usize) {
        pool(handle).map(drop)
    }

    fn cuMemPoolSetAccess(handle: Handle, _accesses: In<u32>, _count: usize) {
        pool(handle).map(drop)
    }

    fn cuMemPoolGetAccess(flags: Out<u32>, handle: Handle, location: In<[i32; 2]>) {
        let [kind, gpu] = location.get()?;
        let is_own = kind == 1 && u32::try_from(gpu) == Ok(pool(handle)?.gpu);
        // CU_MEM_ACCESS_FLAGS_PROT_READWRITE.
        flags.set(if is_own { 3 } else { 0 })
    }

    fn cuMemPoolSetAttribute(handle: Handle, attribute: u32, value: Host) {
        let pool = pool(handle)?;
        let mut counts = pool.state.lock().unwrap_or_else(PoisonError::into_inner);
        let place = In::<u64>::at_address(value.0 as usize);
        match attribute {
            1..=3 => {
                let number = In::<u32>::at_address(value.0 as usize).get()?;
                counts.set.insert(attribute, number.into());
            }
            4 => {
                counts.set.insert(attribute, place.get()?);
            }
            // High-water marks can be reset to the current value.
            6 | 8 if place.get()? == 0 => counts.most_used = counts.used,
            _ => return Err(Error::invalid(format!("{attribute} is no attribute of a pool that can be set so"))),
        }
        Ok(())
    }

    fn cuMemPoolGetAttribute(handle: Handle, attribute: u32, value: Out<u64>) {
        let pool = pool(handle)?;
        let counts = pool.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Freed memory is never kept.
        match attribute {
            1..=3 => set_u32(value, counts.set.get(&attribute).copied().unwrap_or(1)),
            4 => value.set(counts.set.get(&attribute).copied().unwrap_or(0)),
            5 | 7 => value.set(counts.used),
            6 | 8 => value.set(counts.most_used),
            _ => Err(Error::new(Code::INVALID_VALUE, format!("{attribute} is no attribute of a pool"))),
        }
    }
}

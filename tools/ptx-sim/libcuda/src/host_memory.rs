//! Host memory: page-locked, registered, managed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sim_device::{Call, Code, Error, HostKind, HostRange, Problem, Result};

use crate::border::driver_api;
use crate::driver::{current, machine, stream};
use crate::pages::{Pages, Registered};
use crate::types::{DevicePointer, Handle, Host, In, Out};

fn allocate_host(result: Out<Host>, bytes: usize, flags: u32, owner: &str) -> Result<()> {
    let context = current()?;
    context.check(Call::Asynchronous)?;
    result.require()?;
    machine()?.check_unsafe_call()?;
    if bytes == 0 || flags & !7 != 0 {
        return Err(Error::invalid(format!("{bytes} bytes of host memory with the flags {flags:#x}")));
    }
    let words = Pages::allocate(bytes as u64).ok_or(Code::OUT_OF_MEMORY)?;
    let address = words.words().as_ptr() as u64;
    let name = machine()?.allocation_name(owner, bytes as u64);
    let (bytes, context, kind) = (bytes as u64, context.id(), HostKind::PageLocked);
    machine()?.add_host_range(HostRange { address, bytes, flags, context, kind, name, words })?;
    result.set(Host(address as *mut _))
}

fn free_host(memory: Host) -> Result<()> {
    let context = current()?;
    let address = memory.address();
    match machine()?.host_range(address) {
        Some(range) if range.address == address && range.kind == HostKind::PageLocked => {
            machine()?.remove_host_range(address);
            Ok(())
        }
        _ => {
            let freed = context.knows(address) && machine()?.host_range(address).is_none();
            let problem = if freed { Problem::DoubleFree } else { Problem::InvalidFree };
            let text = format!("{address:#x} was not allocated as host memory, or was freed before");
            Err(Error::invalid(text).of(problem))
        }
    }
}

/// Frees managed memory that begins at `address`; false if it is not managed memory.
pub fn free_managed(address: DevicePointer) -> Result<bool> {
    let found = machine()?.host_range(address);
    let is_it = found.is_some_and(|range| range.address == address && matches!(range.kind, HostKind::Managed { .. }));
    if is_it {
        current()?.synchronize()?;
        machine()?.remove_host_range(address);
        advices(|all| all.remove(&address));
    }
    Ok(is_it)
}

/// The managed memory that contains all of the `bytes` bytes at `address`.
fn managed(address: DevicePointer, bytes: usize) -> Result<HostRange> {
    let refused = |what: &str, problem: Problem| {
        let text = format!("{bytes} bytes at {address:#x}, which {what}");
        Err(Error::invalid(text).of(problem))
    };
    match machine()?.host_range(address).filter(HostRange::is_managed) {
        Some(range) if bytes as u64 <= range.bytes - (address - range.address) => Ok(range),
        Some(range) => {
            let what = format!("begin at byte {} of {}: it is not that large", address - range.address, range.name);
            refused(&what, Problem::OutOfBounds)
        }
        None if current()?.was_freed(address) => refused("lie in managed memory that was freed", Problem::UseAfterFree),
        None => refused("lie in no managed memory", Problem::FailedCall),
    }
}

/// A memory location: a GPU, or -1 for the host.
fn location(device: i32) -> Result<i32> {
    /// `CU_DEVICE_CPU`.
    const HOST: i32 = -1;
    match u32::try_from(device) {
        Ok(gpu) => machine()?.gpu(gpu).map(|_| device),
        Err(_) if device == HOST => Ok(HOST),
        Err(_) => Err(Code::INVALID_DEVICE.into()),
    }
}

/// A `CUmemLocation`: its type in the low half, its number in the high one.
fn location_of(place: u64) -> Result<i32> {
    match place as u32 {
        1 => location((place >> 32) as i32),
        // Host: any NUMA node, a given node, the thread's node.
        2..=4 => location(-1),
        kind => Err(Error::invalid(format!("{kind} is no type of a location"))),
    }
}

/// No place.
const NOWHERE: i32 = -2;

/// Advice on managed memory; stored for queries, without effect.
#[derive(Clone, Copy)]
struct Advice {
    is_read_mostly: bool,
    preferred: i32,
    accessed_by: Option<i32>,
    prefetched: i32,
}

fn advices<T>(action: impl FnOnce(&mut HashMap<u64, Advice>) -> T) -> T {
    static ALL: Mutex<Option<HashMap<u64, Advice>>> = Mutex::new(None);
    action(ALL.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// The advice on the allocation that begins at `start`.
fn advice<T>(start: u64, action: impl FnOnce(&mut Advice) -> T) -> T {
    let none = Advice { is_read_mostly: false, preferred: NOWHERE, accessed_by: None, prefetched: NOWHERE };
    advices(|all| action(all.entry(start).or_insert(none)))
}

fn prefetch(address: DevicePointer, bytes: usize, to: i32, handle: Handle) -> Result<()> {
    stream(handle)?;
    let range = managed(address, bytes)?;
    advice(range.address, |advice| advice.prefetched = to);
    Ok(())
}

fn advise(address: DevicePointer, bytes: usize, number: u32, place: impl FnOnce() -> Result<i32>) -> Result<()> {
    current()?;
    let start = managed(address, bytes)?.address;
    match number {
        1 | 2 => advice(start, |advice| advice.is_read_mostly = number == 1),
        3 => {
            let place = place()?;
            advice(start, |advice| advice.preferred = place);
        }
        4 => advice(start, |advice| advice.preferred = NOWHERE),
        5 => {
            let place = place()?;
            advice(start, |advice| advice.accessed_by = Some(place));
        }
        6 => advice(start, |advice| advice.accessed_by = None),
        _ => return Err(Error::invalid(format!("{number} is no advice"))),
    }
    Ok(())
}

fn range_attribute(place: Out<i32>, size: usize, number: u32, address: DevicePointer, bytes: usize) -> Result<()> {
    let start = managed(address, bytes)?.address;
    let known = advice(start, |advice| *advice);
    if size == 0 || !size.is_multiple_of(4) {
        return Err(Error::invalid(format!("an attribute of {size} bytes")));
    }
    // Type and number of a location.
    let kind = |place: i32| match place {
        NOWHERE => 0,
        gpu if gpu >= 0 => 1,
        _ => 2,
    };
    let id = |place: i32| place.max(0);
    let first = match number {
        1 => i32::from(known.is_read_mostly),
        2 => known.preferred,
        3 => known.accessed_by.unwrap_or(NOWHERE),
        4 => known.prefetched,
        5 => kind(known.preferred),
        6 => id(known.preferred),
        7 => kind(known.prefetched),
        8 => id(known.prefetched),
        _ => return Err(Error::invalid(format!("{number} is no attribute of a range"))),
    };
    // As many accessing locations as the array holds.
    let rest = if number == 3 { size / 4 - 1 } else { 0 };
    place.set_all(std::iter::once(first).chain(std::iter::repeat_n(NOWHERE, rest)))
}

driver_api! {
    fn cuMemAllocManaged(result: Out<DevicePointer>, bytes: usize, flags: u32) {
        let context = current()?;
        result.require()?;
        machine()?.check_unsafe_call()?;
        if ![1, 2].contains(&flags) {
            return Err(Error::invalid(format!("the flags are {flags}; CU_MEM_ATTACH_GLOBAL is 1, CU_MEM_ATTACH_HOST 2")));
        }
        result.set(machine()?.allocate_managed(&context, "cuMemAllocManaged", bytes as u64, flags)?)
    }

    fn cuMemAllocHost_v2(result: Out<Host>, bytes: usize) {
        allocate_host(result, bytes, 0, "cuMemAllocHost_v2")
    }

    fn cuMemHostAlloc(result: Out<Host>, bytes: usize, flags: u32) {
        allocate_host(result, bytes, flags, "cuMemHostAlloc")
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
        let (address, bytes) = (memory.address(), bytes as u64);
        let name = format!("{bytes} bytes of registered host memory{}", crate::caller::line("").map_or(String::new(), |line| format!(", by {line}")));
        let (kind, words) = (HostKind::Registered, Registered::at(address, bytes));
        machine()?.add_host_range(HostRange { address, bytes, flags, context: context.id(), kind, name, words })
    }

    fn cuMemHostUnregister(memory: Host) {
        current()?;
        let known = machine()?.host_range(memory.address());
        known
            .filter(|range| range.kind == HostKind::Registered && range.address == memory.address())
            .ok_or(Code::HOST_MEMORY_NOT_REGISTERED)?;
        machine()?.remove_host_range(memory.address());
        Ok(())
    }

    fn cuMemHostGetFlags(flags: Out<u32>, memory: Host) {
        current()?;
        flags.set(machine()?.host_range(memory.address()).ok_or(Code::INVALID_VALUE)?.flags)
    }

    fn cuMemHostGetDevicePointer_v2(result: Out<DevicePointer>, memory: Host, _flags: u32) {
        current()?;
        let address = memory.address();
        let known = machine()?.host_range(address);
        known.ok_or_else(|| Error::invalid(format!("{address:#x} is no page-locked or registered host memory")))?;
        result.set(address)
    }

    fn cuMemPrefetchAsync(address: DevicePointer, bytes: usize, device: i32, stream: Handle)
        per_thread cuMemPrefetchAsync_ptsz(stream)
    {
        prefetch(address, bytes, location(device)?, stream)
    }

    fn cuMemPrefetchAsync_v2(address: DevicePointer, bytes: usize, place: u64, _flags: u32, stream: Handle)
        per_thread cuMemPrefetchAsync_v2_ptsz(stream)
    {
        prefetch(address, bytes, location_of(place)?, stream)
    }

    fn cuMemAdvise(address: DevicePointer, bytes: usize, number: u32, device: i32) {
        advise(address, bytes, number, || location(device))
    }

    fn cuMemAdvise_v2(address: DevicePointer, bytes: usize, number: u32, place: u64) {
        advise(address, bytes, number, || location_of(place))
    }

    fn cuMemRangeGetAttribute(place: Out<i32>, size: usize, number: u32, address: DevicePointer, bytes: usize) {
        current()?;
        range_attribute(place, size, number, address, bytes)
    }

    fn cuMemRangeGetAttributes(
        places: In<Out<i32>>,
        sizes: In<usize>,
        numbers: In<u32>,
        count: usize,
        address: DevicePointer,
        bytes: usize,
    ) {
        current()?;
        (0..count).try_for_each(|index| {
            range_attribute(places.at(index)?, sizes.at(index)?, numbers.at(index)?, address, bytes)
        })
    }

    fn cuStreamAttachMemAsync(stream: Handle, address: DevicePointer, bytes: usize, flags: u32)
        per_thread cuStreamAttachMemAsync_ptsz(stream)
    {
        crate::driver::stream(stream)?;
        if ![1, 2, 4].contains(&flags) {
            return Err(Error::invalid(format!("the flags are {flags}")));
        }
        managed(address, bytes).map(drop)
    }
}

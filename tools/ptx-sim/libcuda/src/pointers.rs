//! Attributes of pointers.

use sim_device::{Allocation, Code, Context, Error, HostKind, HostRange, Result};
use std::sync::Arc;

use crate::border::driver_api;
use crate::driver::{context_handle, current, machine};
use crate::memory::owner;
use crate::types::{DevicePointer, Handle, In, Out};

/// Kind of memory at an address.
enum Pointee {
    Device(Arc<Context>, Allocation),
    Host(HostRange),
    Unknown,
}

fn pointee(address: u64) -> Result<Pointee> {
    if let Some(owner) = owner(address)
        && let Some(allocation) = owner.allocation_at(address)
    {
        return Ok(Pointee::Device(owner, allocation));
    }
    Ok(machine()?.host_range(address).map_or(Pointee::Unknown, Pointee::Host))
}

/// The value of a `CUpointer_attribute` and its size in bytes; `None` if the pointer lacks it.
fn attribute(pointee: &Pointee, number: u32, address: u64) -> Result<(usize, Option<u64>)> {
    let (device, start, bytes) = match pointee {
        Pointee::Device(context, allocation) => (Some((context, allocation)), allocation.address, allocation.bytes),
        Pointee::Host(range) => (None, range.address, range.bytes),
        Pointee::Unknown => (None, 0, 0),
    };
    let managed_by = match pointee {
        Pointee::Host(HostRange { kind: HostKind::Managed { gpu } | HostKind::Variable { gpu }, .. }) => Some(*gpu),
        _ => None,
    };
    let is_known = !matches!(pointee, Pointee::Unknown);
    let known = |value: u64| is_known.then_some(value);
    Ok(match number {
        // Context; memory type, 1 for the host's and 2 for a device's.
        1 => (8, device.map(|(context, _)| context_handle(context).0 as u64).or(known(0))),
        2 => (4, known(if device.is_some() || managed_by.is_some() { 2 } else { 1 })),
        // The pointer for the device and for the host.
        3 => (8, known(address)),
        4 => (8, known(address).filter(|_| device.is_none())),
        // Whether copies synchronise; buffer; managed; GPU.
        6 => (4, known(0)),
        8 => (4, known(managed_by.is_some().into())),
        7 => (8, device.map(|(_, allocation)| allocation.number)),
        9 => (4, device.map(|(context, _)| context.gpu()).or(managed_by).map(u64::from).or(known(0))),
        // Other processes; range; mapped; handle types; RDMA.
        10 | 13 | 15 => (if number == 13 { 4 } else { 1 }, known(u64::from(number == 13))),
        11 => (8, known(start)),
        12 => (8, known(bytes)),
        14 => (8, known(0)),
        // Readable and writable; pool; mapping.
        16 => (4, known(3)),
        17 => (8, known(0)),
        18 => (8, known(bytes)),
        19 => (8, known(start)),
        20 => (8, device.map(|(_, allocation)| allocation.number)),
        21 => (1, known(0)),
        _ => {
            return Err(Error::invalid(format!("{number} is no attribute of a pointer, or one that is not simulated")));
        }
    })
}

fn write(place: Out<u64>, bytes: usize, value: u64) -> Result<()> {
    match bytes {
        1 => place.narrow::<u8>().set(value as u8),
        4 => place.narrow::<u32>().set(value as u32),
        _ => place.set(value),
    }
}

driver_api! {
    fn cuPointerGetAttribute(place: Out<u64>, number: u32, address: DevicePointer) {
        machine()?;
        place.require()?;
        let (bytes, value) = attribute(&pointee(address)?, number, address)?;
        // Programs probe whether a pointer is a host pointer: no message.
        write(place, bytes, value.ok_or(Code::INVALID_VALUE)?)
    }

    fn cuPointerGetAttributes(count: u32, numbers: In<u32>, places: In<Out<u64>>, address: DevicePointer) {
        current()?;
        let pointee = pointee(address)?;
        for index in 0..count as usize {
            let number = numbers.at(index)?;
            let (bytes, value) = attribute(&pointee, number, address)?;
            // An unknown pointer has GPU CU_DEVICE_INVALID.
            let none = if number == 9 { (-2_i32) as u32 as u64 } else { 0 };
            write(places.at(index)?, bytes, value.unwrap_or(none))?;
        }
        Ok(())
    }

    fn cuPointerSetAttribute(_value: In<u64>, number: u32, address: DevicePointer) {
        machine()?;
        match (pointee(address)?, number) {
            // Copies always synchronise.
            (Pointee::Device(..), 6) => Ok(()),
            _ => Err(Error::invalid("only CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of device memory can be set")),
        }
    }

    fn cuMemGetHandleForAddressRange(_handle: Out<Handle>, _address: DevicePointer, _bytes: usize, _kind: u32, _flags: u64) {
        current()?;
        Err(Error::unsupported("memory cannot be given to other processes"))
    }
}

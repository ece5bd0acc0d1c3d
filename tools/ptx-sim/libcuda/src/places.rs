//! Where a copy reads and writes.

use std::sync::Arc;

use sim_device::{Error, HostMemory, Place, Problem, Result, is_device_address};

use crate::driver::machine;
use crate::types::{DevicePointer, Host};

/// Device memory.
pub fn device(address: DevicePointer) -> Place {
    Place::Device(address)
}

/// Host memory: not null, and not a device address, which the host cannot access.
pub fn host(memory: Host, bytes: usize) -> Result<Place> {
    memory.require(bytes as u64)?;
    let address = memory.address();
    let range = machine()?.host_range(address);
    if let Some(range) = &range
        && bytes as u64 > range.bytes - (address - range.address)
    {
        let (offset, name) = (address - range.address, &range.name);
        let text = format!("a copy of {bytes} bytes from or to byte {offset} of {name}: it is not that large");
        return Err(Error::invalid(text).of(Problem::OutOfBounds));
    }
    if bytes > 0 && is_device_address(address) && range.is_none() {
        let text = format!("{address:#x} is given as host memory, but is an address of a GPU");
        return Err(Error::invalid(text).of(Problem::DevicePointer));
    }
    Ok(Place::Host(Arc::new(memory)))
}

impl HostMemory for Host {
    fn address(&self) -> u64 {
        self.0 as u64
    }

    fn is_page_locked(&self) -> bool {
        machine().is_ok_and(|machine| machine.host_range(self.address()).is_some())
    }

    fn read(&self, offset: u64, data: &mut [u8]) {
        // SAFETY: the caller provides the number of bytes that it asked to copy; `data` is our own memory.
        unsafe { std::ptr::copy(self.0.cast::<u8>().add(offset as usize), data.as_mut_ptr(), data.len()) };
    }

    fn write(&self, offset: u64, data: &[u8]) {
        // SAFETY: as above.
        unsafe { std::ptr::copy(data.as_ptr(), self.0.cast::<u8>().add(offset as usize), data.len()) };
    }
}

//! Initialisation, error strings and GPUs.

use std::ffi::c_char;
use std::ptr;

use sim_device::{Code, Error, Result, device_attribute};

use crate::border::driver_api;
use crate::driver::{init, machine};
use crate::types::{Host, Out, Text};

/// The ordinal of a `CUdevice`.
pub fn ordinal(device: i32) -> Result<u32> {
    let ordinal = u32::try_from(device).map_err(|_| Code::INVALID_DEVICE)?;
    machine()?.gpu(ordinal).map(|_| ordinal)
}

/// `CUdevprop`.
#[repr(C)]
struct DeviceProperties {
    threads_per_block: i32,
    block: [i32; 3],
    grid: [i32; 3],
    shared_bytes: i32,
    constant_bytes: i32,
    warp: i32,
    pitch: i32,
    registers: i32,
    clock_rate: i32,
    texture_alignment: i32,
}

fn attribute(device: i32, number: u32) -> Result<i32> {
    let machine = machine()?;
    let gpu = machine.gpu(ordinal(device)?)?;
    device_attribute(machine.config(), gpu.index(), number)
        .ok_or_else(|| Error::invalid(format!("{number} is no device attribute")))
}

fn bus_id(index: u32) -> String {
    format!("0000:{:02X}:00.0", index + 1)
}

driver_api! {
    fn cuInit(flags: u32) {
        if flags != 0 {
            return Err(Error::invalid(format!("the flags are {flags}; they have to be 0")));
        }
        init()
    }

    fn cuDriverGetVersion(version: Out<i32>) {
        version.set(crate::driver::version() as i32)
    }

    fn cuGetErrorName(code: u32, text: Out<*const c_char>) {
        let name = Code(code).name();
        text.set(name.map_or(ptr::null(), |name| name.as_ptr()))?;
        name.map(drop).ok_or_else(|| Code::INVALID_VALUE.into())
    }

    fn cuGetErrorString(code: u32, text: Out<*const c_char>) {
        let description = Code(code).description();
        text.set(description.map_or(ptr::null(), |description| description.as_ptr()))?;
        description.map(drop).ok_or_else(|| Code::INVALID_VALUE.into())
    }

    fn cuDeviceGet(device: Out<i32>, index: i32) {
        device.set(ordinal(index)? as i32)
    }

    fn cuDeviceGetCount(count: Out<i32>) {
        count.set(machine()?.gpus().len() as i32)
    }

    fn cuDeviceGetName(name: Host, bytes: i32, device: i32) {
        let machine = machine()?;
        let gpu = machine.gpu(ordinal(device)?)?;
        name.require(1)?;
        name.set_text(&gpu.name(machine.config()), usize::try_from(bytes).unwrap_or(0));
        Ok(())
    }

    fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: i32) {
        uuid.set(machine()?.gpu(ordinal(device)?)?.uuid())
    }

    fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: i32) {
        uuid.set(machine()?.gpu(ordinal(device)?)?.uuid())
    }

    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) {
        ordinal(device)?;
        bytes.set(machine()?.config().memory_bytes as usize)
    }

    fn cuDeviceGetAttribute(value: Out<i32>, number: u32, device: i32) {
        value.set(attribute(device, number)?)
    }

    fn cuDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, device: i32) {
        major.set(attribute(device, 75)?)?;
        minor.set(attribute(device, 76)?)
    }

    fn cuDeviceGetProperties(properties: Out<DeviceProperties>, device: i32) {
        let value = |number| attribute(device, number);
        properties.set(DeviceProperties {
            threads_per_block: value(1)?,
            block: [value(2)?, value(3)?, value(4)?],
            grid: [value(5)?, value(6)?, value(7)?],
            shared_bytes: value(8)?,
            constant_bytes: value(9)?,
            warp: value(10)?,
            pitch: value(11)?,
            registers: value(12)?,
            clock_rate: value(13)?,
            texture_alignment: value(14)?,
        })
    }

    fn cuDeviceGetPCIBusId(text: Host, bytes: i32, device: i32) {
        let gpu = machine()?.gpu(ordinal(device)?)?;
        text.require(1)?;
        text.set_text(&bus_id(gpu.index()), usize::try_from(bytes).unwrap_or(0));
        Ok(())
    }

    fn cuDeviceGetByPCIBusId(device: Out<i32>, text: Text) {
        let text = text.get()?;
        let found = machine()?.gpus().iter().position(|gpu| bus_id(gpu.index()).eq_ignore_ascii_case(&text));
        device.set(found.ok_or(Code::INVALID_DEVICE)? as i32)
    }

    fn cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) {
        ordinal(device)?;
        ordinal(peer)?;
        can.set(0)
    }

    fn cuDeviceGetP2PAttribute(value: Out<i32>, number: u32, device: i32, peer: i32) {
        if ordinal(device)? == ordinal(peer)? {
            return Err(Error::new(Code::INVALID_DEVICE, "the two GPUs are the same"));
        }
        if !(1..=5).contains(&number) {
            return Err(Error::invalid(format!("{number} is no attribute of a pair of GPUs")));
        }
        value.set(0)
    }

    fn cuDeviceGetExecAffinitySupport(value: Out<i32>, kind: u32, device: i32) {
        ordinal(device)?;
        if kind != 0 {
            return Err(Error::invalid(format!("{kind} is not a type of execution affinity")));
        }
        value.set(0)
    }

    fn cuProfilerStart() {
        crate::driver::current().map(drop)
    }

    fn cuProfilerStop() {
        crate::driver::current().map(drop)
    }
}

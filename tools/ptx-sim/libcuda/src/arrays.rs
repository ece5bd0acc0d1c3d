//! CUDA arrays, and copies of byte rows to and from them.

use std::sync::Arc;

use ptx_sim::{Channel, TexelFormat};
use sim_device::{Array, ArrayDescriptor, Copy, Error, Operation, Place, Result};

use crate::border::driver_api;
use crate::driver::{self, current, handle, lookup, machine};
use crate::places::{device, host};
use crate::types::{DevicePointer, Handle, Host, In, Out};

/// `CUarray_format`: number, channel type, and bits of a channel.
const FORMATS: [(u32, Channel, u32); 8] = [
    (0x01, Channel::Unsigned, 8),
    (0x02, Channel::Unsigned, 16),
    (0x03, Channel::Unsigned, 32),
    (0x08, Channel::Signed, 8),
    (0x09, Channel::Signed, 16),
    (0x0a, Channel::Signed, 32),
    (0x10, Channel::Float, 16),
    (0x20, Channel::Float, 32),
];
/// Other formats that CUDA knows and the simulator does not: video planes, compressed blocks and more.
const OTHER_FORMATS: std::ops::RangeInclusive<u32> = 0x50..=0x100;

/// The texel format with `channels` channels of `CUarray_format` `number`.
pub fn format(number: u32, channels: u32) -> Result<TexelFormat> {
    if OTHER_FORMATS.contains(&number) {
        return Err(Error::unsupported(format!(
            "the array format {number:#x} is not simulated; plain integers and floats are"
        )));
    }
    let known = FORMATS.iter().find(|(known, ..)| *known == number);
    let format = known.and_then(|(_, channel, bits)| TexelFormat::new(*channel, *bits, channels));
    format.ok_or_else(|| Error::invalid(format!("texels of {channels} channels of the format {number:#x}")))
}

/// `CUarray_format` of a texel format.
fn format_number(format: TexelFormat) -> u32 {
    let is_same = |channel: Channel, bits: u32| channel == format.channel() && bits == format.bits();
    FORMATS.iter().find(|(_, channel, bits)| is_same(*channel, *bits)).map_or(0, |(number, ..)| *number)
}

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptor2d {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptor3d {
    width: usize,
    height: usize,
    depth: usize,
    format: u32,
    channels: u32,
    flags: u32,
}

fn create(result: Out<Handle>, owner: &str, descriptor: Descriptor3d) -> Result<()> {
    let context = current()?;
    result.require()?;
    machine()?.check_unsafe_call()?;
    let Descriptor3d { width, height, depth, channels, flags, .. } = descriptor;
    let extent = [width, height, depth].map(|size| size as u64);
    let format = format(descriptor.format, channels)?;
    let array = context.create_array(owner, ArrayDescriptor { extent, format, flags })?;
    result.set(handle(&array, Some(&context)))
}

/// The array of a handle, even if it was destroyed.
pub fn array(handle: Handle) -> Result<Arc<Array>> {
    lookup(handle, "array")
}

fn descriptor(handle: Handle) -> Result<Descriptor3d> {
    let array = array(handle)?;
    array.check_live()?;
    let ArrayDescriptor { extent, format, flags } = *array.descriptor();
    let [width, height, depth] = extent.map(|size| size as usize);
    Ok(Descriptor3d { width, height, depth, format: format_number(format), channels: format.channels(), flags })
}

/// Part of a row of an array: `bytes` bytes from byte `x` of row `y` of layer or slice `z`.
pub fn row(handle: Handle, [x, y, z]: [usize; 3], bytes: usize) -> Result<Place> {
    let array = array(handle)?;
    let offset = array.offset([x, y, z].map(|at| at as u64), bytes as u64)?;
    Ok(Place::Array(array, offset))
}

/// Splits `bytes` bytes of an array at `offset` into rows, as if the rows were contiguous: each part with the number of bytes
/// before it and its size.
fn rows(handle: Handle, offset: usize, bytes: usize) -> Result<Vec<(Place, usize, usize)>> {
    let array = array(handle)?;
    let (row, height) = (array.rows().0 as usize, array.texels().extent[1] as usize);
    let mut parts = Vec::new();
    let mut done = 0;
    while done < bytes {
        let at = offset.saturating_add(done);
        let (line, x) = (at / row, at % row);
        let count = (row - x).min(bytes - done);
        let place = [x, line % height, line / height].map(|at| at as u64);
        parts.push((Place::Array(array.clone(), array.offset(place, count as u64)?), done, count));
        done += count;
    }
    Ok(parts)
}

/// Whether the array is the source or the destination of a copy.
#[derive(Clone, Copy)]
enum Direction {
    To,
    From,
}

/// Whether the call returns at once or waits for the copy.
#[derive(Clone, Copy)]
enum Wait {
    UntilDone(Handle),
    Not(Handle),
}

/// Copies between an array and other memory; `other` gives its part for a range of bytes.
fn copy(
    (array, offset): (Handle, usize),
    other: impl Fn(usize, usize) -> Result<Place>,
    bytes: usize,
    direction: Direction,
    wait: Wait,
) -> Result<()> {
    current()?;
    for (part, done, count) in rows(array, offset, bytes)? {
        let other = other(done, count)?;
        let (destination, source) = match direction {
            Direction::To => (part, other),
            Direction::From => (other, part),
        };
        let copy = Operation::Copy(Copy { destination, source, bytes: count as u64 });
        match wait {
            Wait::UntilDone(stream) => driver::stream(stream)?.submit_and_wait(copy)?,
            Wait::Not(stream) => driver::stream(stream)?.submit(copy)?,
        }
    }
    Ok(())
}

fn on_host(memory: Host, bytes: usize) -> Result<impl Fn(usize, usize) -> Result<Place>> {
    memory.require(bytes as u64)?;
    Ok(move |at: usize, count: usize| host(Host(memory.0.wrapping_byte_add(at)), count))
}

fn on_device(address: DevicePointer) -> impl Fn(usize, usize) -> Result<Place> {
    move |at: usize, _: usize| Ok(device(address.wrapping_add(at as u64)))
}

driver_api! {
    fn cuArrayCreate_v2(result: Out<Handle>, descriptor: In<Descriptor2d>) {
        let Descriptor2d { width, height, format, channels } = descriptor.get()?;
        create(result, "cuArrayCreate_v2", Descriptor3d { width, height, depth: 0, format, channels, flags: 0 })
    }

    fn cuArray3DCreate_v2(result: Out<Handle>, descriptor: In<Descriptor3d>) {
        create(result, "cuArray3DCreate_v2", descriptor.get()?)
    }

    fn cuArrayGetDescriptor_v2(result: Out<Descriptor2d>, array: Handle) {
        let Descriptor3d { width, height, format, channels, .. } = descriptor(array)?;
        result.set(Descriptor2d { width, height, format, channels })
    }

    fn cuArray3DGetDescriptor_v2(result: Out<Descriptor3d>, array: Handle) {
        result.set(descriptor(array)?)
    }

    fn cuArrayDestroy(handle: Handle) {
        machine()?.check_unsafe_call()?;
        array(handle)?.destroy()
    }

    fn cuMemcpyHtoA_v2(to: Handle, offset: usize, from: Host, bytes: usize) {
        copy((to, offset), on_host(from, bytes)?, bytes, Direction::To, Wait::UntilDone(Handle::NULL))
    }

    fn cuMemcpyHtoA_v2_ptds(to: Handle, offset: usize, from: Host, bytes: usize) {
        copy((to, offset), on_host(from, bytes)?, bytes, Direction::To, Wait::UntilDone(Handle::PER_THREAD))
    }

    fn cuMemcpyHtoAAsync_v2(to: Handle, offset: usize, from: Host, bytes: usize, stream: Handle)
        per_thread cuMemcpyHtoAAsync_v2_ptsz(stream)
    {
        copy((to, offset), on_host(from, bytes)?, bytes, Direction::To, Wait::Not(stream))
    }

    fn cuMemcpyAtoH_v2(to: Host, from: Handle, offset: usize, bytes: usize) {
        copy((from, offset), on_host(to, bytes)?, bytes, Direction::From, Wait::UntilDone(Handle::NULL))
    }

    fn cuMemcpyAtoH_v2_ptds(to: Host, from: Handle, offset: usize, bytes: usize) {
        copy((from, offset), on_host(to, bytes)?, bytes, Direction::From, Wait::UntilDone(Handle::PER_THREAD))
    }

    fn cuMemcpyAtoHAsync_v2(to: Host, from: Handle, offset: usize, bytes: usize, stream: Handle)
        per_thread cuMemcpyAtoHAsync_v2_ptsz(stream)
    {
        copy((from, offset), on_host(to, bytes)?, bytes, Direction::From, Wait::Not(stream))
    }

    fn cuMemcpyDtoA_v2(to: Handle, offset: usize, from: DevicePointer, bytes: usize) {
        copy((to, offset), on_device(from), bytes, Direction::To, Wait::UntilDone(Handle::NULL))
    }

    fn cuMemcpyDtoA_v2_ptds(to: Handle, offset: usize, from: DevicePointer, bytes: usize) {
        copy((to, offset), on_device(from), bytes, Direction::To, Wait::UntilDone(Handle::PER_THREAD))
    }

    fn cuMemcpyAtoD_v2(to: DevicePointer, from: Handle, offset: usize, bytes: usize) {
        copy((from, offset), on_device(to), bytes, Direction::From, Wait::UntilDone(Handle::NULL))
    }

    fn cuMemcpyAtoD_v2_ptds(to: DevicePointer, from: Handle, offset: usize, bytes: usize) {
        copy((from, offset), on_device(to), bytes, Direction::From, Wait::UntilDone(Handle::PER_THREAD))
    }
}

//! CUDA arrays, copies to and from them, and pitched memory.

use std::ffi::c_void;
use std::ptr;

use crate::context::enter;
use crate::driver::call;
use crate::handles::{DevicePointer, Handle};
use crate::memory::memory_kinds;
use crate::status::{Result, Status, put, runtime_api};

/// `cudaMemcpyDeviceToDevice`.
const DEVICE_TO_DEVICE: u32 = 3;
/// `CU_MEMORYTYPE_ARRAY`.
const ARRAY: u32 = 3;

/// `cudaChannelFormatDesc`: bits and kind of the channels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelDescriptor {
    bits: [i32; 4],
    kind: u32,
}

/// `cudaChannelFormatKind`, bits, and the matching `CUarray_format`.
const FORMATS: [(u32, i32, u32); 8] = [
    (1, 8, 0x01),
    (1, 16, 0x02),
    (1, 32, 0x03),
    (0, 8, 0x08),
    (0, 16, 0x09),
    (0, 32, 0x0a),
    (2, 16, 0x10),
    (2, 32, 0x20),
];
/// Number of `cudaChannelFormatKind`s.
const KINDS: u32 = 32;
/// `cudaChannelFormatKindNone`.
const NO_KIND: u32 = 3;

impl ChannelDescriptor {
    /// The `CUarray_format` and number of channels.
    pub fn format(&self) -> Result<(u32, u32)> {
        let bits = self.bits[0];
        let channels = self.bits.iter().take_while(|own| **own == bits).count();
        let is_even = self.bits[channels..].iter().all(|own| *own == 0) && channels != 3;
        let known = FORMATS.iter().find(|(kind, width, _)| (*kind, *width) == (self.kind, bits));
        match known {
            Some((.., format)) if is_even => Ok((*format, channels as u32)),
            None if (NO_KIND + 1..KINDS).contains(&self.kind) => Err(Status::NOT_SUPPORTED),
            _ => Err(Status::INVALID_CHANNEL),
        }
    }

    /// The descriptor of a `CUarray_format` and number of channels.
    pub fn of(format: u32, channels: u32) -> ChannelDescriptor {
        let known = FORMATS.iter().find(|(.., number)| *number == format);
        let (kind, width) = known.map_or((NO_KIND, 0), |(kind, width, _)| (*kind, *width));
        let bits = std::array::from_fn(|channel| if channel < channels as usize { width } else { 0 });
        ChannelDescriptor { bits, kind }
    }

    /// Bytes of a texel.
    pub fn bytes(&self) -> usize {
        self.bits.iter().sum::<i32>() as usize / 8
    }

    /// Bits of the first channel, and whether channels are floating-point.
    pub fn channel(&self) -> (i32, bool) {
        (self.bits[0], self.kind == 2)
    }
}

/// `cudaExtent`, and `cudaPos`, which has the same members under other names.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Extent {
    width: usize,
    height: usize,
    depth: usize,
}

/// `cudaPitchedPtr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Pitched {
    address: *mut c_void,
    pitch: usize,
    width: usize,
    height: usize,
}

/// `cudaMemcpy3DParms`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CopyParameters {
    source: CopyEnd,
    destination: CopyEnd,
    extent: Extent,
    direction: u32,
}

/// An array if the handle is not null, else memory.
#[repr(C)]
#[derive(Clone, Copy)]
struct CopyEnd {
    array: Handle,
    position: Extent,
    memory: Pitched,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Default)]
struct ArrayDescriptor {
    extent: Extent,
    format: u32,
    channels: u32,
    flags: u32,
}

/// One end of `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy)]
struct End {
    /// Bytes, rows, slices.
    position: Extent,
    level: usize,
    kind: u32,
    host: *const c_void,
    device: DevicePointer,
    array: Handle,
    reserved: usize,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
struct Copy3d {
    source: End,
    destination: End,
    /// Bytes, rows, slices.
    extent: Extent,
}

impl End {
    fn array(array: Handle, position: Extent) -> End {
        let (host, device) = (ptr::null(), 0);
        End { position, level: 0, kind: ARRAY, host, device, array, reserved: 0, pitch: 0, height: 0 }
    }

    /// Memory of the driver's type `kind`.
    fn memory(kind: u32, address: *const c_void, pitch: usize) -> End {
        let (position, device) = (Extent::default(), address as DevicePointer);
        End { position, level: 0, kind, host: address, device, array: 0, reserved: 0, pitch, height: 0 }
    }
}

fn row(width: usize, height: usize) -> Extent {
    Extent { width, height, depth: 1 }
}

fn place(x: usize, y: usize) -> Extent {
    Extent { width: x, height: y, depth: 0 }
}

fn copy(source: End, destination: End, extent: Extent, stream: Option<Handle>) -> Result<()> {
    enter()?;
    let copy = Copy3d { source, destination, extent };
    let copy = (&raw const copy).cast();
    match stream {
        None => call!(cuMemcpy3D_v2(copy)),
        Some(stream) => call!(cuMemcpy3DAsync_v2(copy, stream)),
    }
}

/// The driver's descriptor of an array.
fn description(array: Handle) -> Result<ArrayDescriptor> {
    enter()?;
    let mut found = ArrayDescriptor::default();
    call!(cuArray3DGetDescriptor_v2((&raw mut found).cast(), array))?;
    Ok(found)
}

fn create(result: *mut Handle, channel: *const ChannelDescriptor, extent: Extent, flags: u32) -> Result<()> {
    enter()?;
    // SAFETY: not null, so the program provides a descriptor.
    let channel = unsafe { channel.as_ref() }.ok_or(Status::INVALID_VALUE)?;
    let (format, channels) = channel.format()?;
    let descriptor = ArrayDescriptor { extent, format, channels, flags };
    call!(cuArray3DCreate_v2(result, (&raw const descriptor).cast()))
}

/// One end of a copy with texel counts converted to bytes, and the bytes per texel if it is an array.
fn end(given: &CopyEnd, kind: u32) -> Result<(End, Option<usize>)> {
    match (given.array, given.memory.address.is_null()) {
        (0, false) => {
            let memory = End::memory(kind, given.memory.address, given.memory.pitch);
            Ok((End { position: given.position, height: given.memory.height, ..memory }, None))
        }
        (array, true) if array != 0 => {
            let found = description(array)?;
            let bytes = ChannelDescriptor::of(found.format, found.channels).bytes();
            let width = given.position.width.saturating_mul(bytes);
            Ok((End::array(array, Extent { width, ..given.position }), Some(bytes)))
        }
        _ => Err(Status::INVALID_VALUE),
    }
}

fn copy_3d(parameters: *const CopyParameters, stream: Option<Handle>) -> Result<()> {
    // SAFETY: not null, so the program provides parameters.
    let parameters = unsafe { parameters.as_ref() }.ok_or(Status::INVALID_VALUE)?;
    let CopyParameters { source, destination, extent, direction } = parameters;
    let (from, to) = memory_kinds(*direction)?;
    let (source, of_source) = end(source, from)?;
    let (destination, of_destination) = end(destination, to)?;
    if of_source.zip(of_destination).is_some_and(|(one, other)| one != other) {
        return Err(Status::INVALID_VALUE);
    }
    // With an array, the width is in texels of it.
    let width = extent.width.saturating_mul(of_source.or(of_destination).unwrap_or(1));
    copy(source, destination, Extent { width, ..*extent }, stream)
}

/// Byte offset of a position in an array whose rows are contiguous.
fn offset(array: Handle, x: usize, y: usize) -> Result<usize> {
    let found = description(array)?;
    let row = found.extent.width * ChannelDescriptor::of(found.format, found.channels).bytes();
    Ok(y.saturating_mul(row).saturating_add(x))
}

/// Copies bytes to an array, row by row.
fn copy_to((array, x, y): (Handle, usize, usize), from: *const c_void, bytes: usize, direction: u32) -> Result<()> {
    let at = offset(array, x, y)?;
    match memory_kinds(direction)?.0 {
        2 => call!(cuMemcpyDtoA_v2(array, at, from as DevicePointer, bytes)),
        _ => call!(cuMemcpyHtoA_v2(array, at, from, bytes)),
    }
}

/// Copies bytes from an array, row by row.
fn copy_from(to: *mut c_void, (array, x, y): (Handle, usize, usize), bytes: usize, direction: u32) -> Result<()> {
    let at = offset(array, x, y)?;
    match memory_kinds(direction)?.1 {
        2 => call!(cuMemcpyAtoD_v2(to as DevicePointer, array, at, bytes)),
        _ => call!(cuMemcpyAtoH_v2(to, array, at, bytes)),
    }
}

/// `cudaCreateChannelDesc` of the CUDA runtime API.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name is CUDA's")]
pub extern "C" fn cudaCreateChannelDesc(x: i32, y: i32, z: i32, w: i32, kind: u32) -> ChannelDescriptor {
    ChannelDescriptor { bits: [x, y, z, w], kind }
}

/// Sets an extent of pitched memory, slice by slice: `set` receives the address, width in bytes and rows of a slice.
fn set_3d(memory: Pitched, extent: Extent, set: impl Fn(DevicePointer, usize, usize) -> Result<()>) -> Result<()> {
    let Extent { width, height, depth } = extent;
    if width == 0 || height == 0 {
        return Ok(());
    }
    if depth > 1 && height > memory.height {
        return Err(Status::INVALID_VALUE);
    }
    let slice = memory.pitch.checked_mul(memory.height).ok_or(Status::INVALID_VALUE)?;
    let end = slice.checked_mul(depth).and_then(|bytes| (memory.address as usize).checked_add(bytes));
    if end.is_none() {
        return Err(Status::INVALID_VALUE);
    }
    (0..depth).try_for_each(|index| set((memory.address as usize + index * slice) as DevicePointer, width, height))
}

runtime_api! {
    fn cudaMallocArray(result: *mut Handle, channel: *const ChannelDescriptor, width: usize, height: usize, flags: u32) {
        create(result, channel, place(width, height), flags)
    }

    fn cudaMalloc3DArray(result: *mut Handle, channel: *const ChannelDescriptor, extent: Extent, flags: u32) {
        create(result, channel, extent, flags)
    }

    fn cudaFreeArray(array: Handle) {
        enter()?;
        if array == 0 { Ok(()) } else { call!(cuArrayDestroy(array)) }
    }

    fn cudaArrayGetInfo(channel: *mut ChannelDescriptor, extent: *mut Extent, flags: *mut u32, array: Handle) {
        let found = description(array)?;
        if !channel.is_null() {
            put(channel, ChannelDescriptor::of(found.format, found.channels))?;
        }
        if !extent.is_null() {
            put(extent, found.extent)?;
        }
        if flags.is_null() { Ok(()) } else { put(flags, found.flags) }
    }

    fn cudaGetChannelDesc(channel: *mut ChannelDescriptor, array: Handle) {
        let found = description(array)?;
        put(channel, ChannelDescriptor::of(found.format, found.channels))
    }

    fn cudaMalloc3D(result: *mut Pitched, extent: Extent) {
        enter()?;
        let Extent { width, height, depth } = extent;
        let (mut address, mut pitch) = (0, 0);
        let rows = height.checked_mul(depth).ok_or(Status::INVALID_VALUE)?;
        call!(cuMemAllocPitch_v2(&mut address, &mut pitch, width, rows, 4))?;
        put(result, Pitched { address: address as *mut c_void, pitch, width, height })
    }

    fn cudaMemset3D(memory: Pitched, value: i32, extent: Extent) {
        enter()?;
        let set = |address, width, height| call!(cuMemsetD2D8_v2(address, memory.pitch, value as u8, width, height));
        set_3d(memory, extent, set)
    }

    fn cudaMemset3DAsync(memory: Pitched, value: i32, extent: Extent, stream: Handle) per_thread cudaMemset3DAsync_ptsz(stream) {
        enter()?;
        let set = |address, width, height| {
            call!(cuMemsetD2D8Async(address, memory.pitch, value as u8, width, height, stream))
        };
        set_3d(memory, extent, set)
    }

    fn cudaMemcpy3D(parameters: *const CopyParameters) {
        copy_3d(parameters, None)
    }

    fn cudaMemcpy3DAsync(parameters: *const CopyParameters, stream: Handle) {
        copy_3d(parameters, Some(stream))
    }

    fn cudaMemcpy2DToArray(
        array: Handle,
        x: usize,
        y: usize,
        from: *const c_void,
        pitch: usize,
        width: usize,
        height: usize,
        direction: u32,
    ) {
        let from = End::memory(memory_kinds(direction)?.0, from, pitch);
        copy(from, End::array(array, place(x, y)), row(width, height), None)
    }

    fn cudaMemcpy2DToArrayAsync(
        array: Handle,
        x: usize,
        y: usize,
        from: *const c_void,
        pitch: usize,
        width: usize,
        height: usize,
        direction: u32,
        stream: Handle,
    ) {
        let from = End::memory(memory_kinds(direction)?.0, from, pitch);
        copy(from, End::array(array, place(x, y)), row(width, height), Some(stream))
    }

    fn cudaMemcpy2DFromArray(
        to: *mut c_void,
        pitch: usize,
        array: Handle,
        x: usize,
        y: usize,
        width: usize,
        height: usize,
        direction: u32,
    ) {
        let to = End::memory(memory_kinds(direction)?.1, to, pitch);
        copy(End::array(array, place(x, y)), to, row(width, height), None)
    }

    fn cudaMemcpy2DFromArrayAsync(
        to: *mut c_void,
        pitch: usize,
        array: Handle,
        x: usize,
        y: usize,
        width: usize,
        height: usize,
        direction: u32,
        stream: Handle,
    ) {
        let to = End::memory(memory_kinds(direction)?.1, to, pitch);
        copy(End::array(array, place(x, y)), to, row(width, height), Some(stream))
    }

    fn cudaMemcpy2DArrayToArray(
        to: Handle,
        to_x: usize,
        to_y: usize,
        from: Handle,
        from_x: usize,
        from_y: usize,
        width: usize,
        height: usize,
        direction: u32,
    ) {
        if direction != DEVICE_TO_DEVICE && direction != DEVICE_TO_DEVICE + 1 {
            return Err(Status::INVALID_DIRECTION);
        }
        copy(End::array(from, place(from_x, from_y)), End::array(to, place(to_x, to_y)), row(width, height), None)
    }

    fn cudaMemcpyToArray(array: Handle, x: usize, y: usize, from: *const c_void, bytes: usize, direction: u32) {
        copy_to((array, x, y), from, bytes, direction)
    }

    fn cudaMemcpyFromArray(to: *mut c_void, array: Handle, x: usize, y: usize, bytes: usize, direction: u32) {
        copy_from(to, (array, x, y), bytes, direction)
    }
}

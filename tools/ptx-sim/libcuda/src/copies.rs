//! Copies and fills.

use sim_device::{Copy, Error, Fill, Operation, Place, Result, is_device_address};

use crate::arrays;
use crate::border::driver_api;
use crate::driver::{self, context};
use crate::places::{device, host};
use crate::types::{DevicePointer, Handle, Host, In};

/// Host or device memory, depending on the address.
fn any(address: DevicePointer, bytes: usize) -> Result<Place> {
    match is_device_address(address) || address == 0 {
        true => Ok(device(address)),
        false => host(Host(address as *mut _), bytes),
    }
}

/// A copy that is complete when the call returns.
fn copy(destination: Place, source: Place, bytes: usize, stream: Handle) -> Result<()> {
    let copy = Copy { destination, source, bytes: bytes as u64 };
    driver::stream(stream)?.submit_and_wait(Operation::Copy(copy))
}

/// A copy in stream order.
fn copy_async(destination: Place, source: Place, bytes: usize, stream: Handle) -> Result<()> {
    let copy = Copy { destination, source, bytes: bytes as u64 };
    driver::stream(stream)?.submit(Operation::Copy(copy))
}

fn fill(address: DevicePointer, value: &[u8], [width, height, pitch]: [usize; 3], stream: Handle) -> Result<()> {
    let value = value.to_vec();
    let fill = Fill { address, value, width: width as u64, height: height as u64, pitch: pitch as u64 };
    driver::stream(stream)?.submit(Operation::Fill(fill))
}

/// Requires that both contexts of a peer copy exist and own the memory.
fn check_peers(ends: [(DevicePointer, Handle); 2], bytes: usize) -> Result<()> {
    for (address, handle) in ends {
        context(handle)?.check_range(address, bytes as u64)?;
    }
    Ok(())
}

/// `CU_MEMORYTYPE_ARRAY`.
const ARRAY: u32 = 3;

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Copy2d {
    source: End2d,
    destination: End2d,
    width: usize,
    height: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct End2d {
    x: usize,
    y: usize,
    kind: u32,
    host: Host,
    device: DevicePointer,
    array: Handle,
    pitch: usize,
}

impl End2d {
    /// The first byte of a row.
    fn row(&self, row: usize, width: usize) -> Result<Place> {
        if self.kind == ARRAY {
            return arrays::row(self.array, [self.x, self.y.saturating_add(row), 0], width);
        }
        let pitch = if self.pitch == 0 { width } else { self.pitch };
        let offset = self.y.saturating_add(row).saturating_mul(pitch).saturating_add(self.x);
        if self.x.saturating_add(width) > pitch {
            return Err(Error::invalid(format!(
                "rows of {width} bytes from byte {} on lie {pitch} bytes apart",
                self.x
            )));
        }
        match self.kind {
            1 => host(Host(self.host.0.wrapping_byte_add(offset)), width),
            2 => Ok(device(self.device.wrapping_add(offset as u64))),
            4 => any(self.device.wrapping_add(offset as u64), width),
            kind => Err(Error::invalid(format!("{kind} is no type of memory"))),
        }
    }
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Copy3d {
    source: End3d,
    destination: End3d,
    width: usize,
    height: usize,
    depth: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct End3d {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: u32,
    host: Host,
    device: DevicePointer,
    array: Handle,
    reserved: usize,
    pitch: usize,
    height: usize,
}

impl End3d {
    /// The first byte of a row of a layer.
    fn row(&self, row: usize, layer: usize, width: usize) -> Result<Place> {
        let End3d { x, kind, host, device, array, pitch, .. } = *self;
        if kind == ARRAY {
            let place = [x, self.y.saturating_add(row), self.z.saturating_add(layer)];
            return arrays::row(array, place, width);
        }
        let y = self.z.saturating_add(layer).saturating_mul(self.height).saturating_add(self.y);
        End2d { x, y, kind, host, device, array, pitch }.row(row, width)
    }
}

impl Copy3d {
    /// The copy as a graph node, which must be a single row here.
    ///
    /// # Errors
    /// For several rows, or for memory that is not given by an address.
    pub fn operation(&self) -> Result<Operation> {
        if self.height > 1 || self.depth > 1 {
            let text = format!(
                "a node that copies {} x {} rows; one row is simulated: add a node for each",
                self.height, self.depth
            );
            return Err(Error::unsupported(text));
        }
        let bytes = self.width as u64;
        let (destination, source) = (self.destination.row(0, 0, self.width)?, self.source.row(0, 0, self.width)?);
        Ok(Operation::Copy(Copy { destination, source, bytes }))
    }
}

fn copy_3d(copy: In<Copy3d>, stream: Handle, one: fn(Place, Place, usize, Handle) -> Result<()>) -> Result<()> {
    let copy = copy.get()?;
    for (layer, row) in (0..copy.depth).flat_map(|layer| (0..copy.height).map(move |row| (layer, row))) {
        let (to, from) = (copy.destination.row(row, layer, copy.width)?, copy.source.row(row, layer, copy.width)?);
        one(to, from, copy.width, stream)?;
    }
    Ok(())
}

fn copy_2d(copy: In<Copy2d>, stream: Handle, one: fn(Place, Place, usize, Handle) -> Result<()>) -> Result<()> {
    let copy = copy.get()?;
    for row in 0..copy.height {
        one(copy.destination.row(row, copy.width)?, copy.source.row(row, copy.width)?, copy.width, stream)?;
    }
    Ok(())
}

driver_api! {
    fn cuMemcpy(to: DevicePointer, from: DevicePointer, bytes: usize) {
        copy(any(to, bytes)?, any(from, bytes)?, bytes, Handle::NULL)
    }

    fn cuMemcpy_ptds(to: DevicePointer, from: DevicePointer, bytes: usize) {
        copy(any(to, bytes)?, any(from, bytes)?, bytes, Handle::PER_THREAD)
    }

    fn cuMemcpyAsync(to: DevicePointer, from: DevicePointer, bytes: usize, stream: Handle) per_thread cuMemcpyAsync_ptsz(stream) {
        copy_async(any(to, bytes)?, any(from, bytes)?, bytes, stream)
    }

    fn cuMemcpyHtoD_v2(to: DevicePointer, from: Host, bytes: usize) {
        copy(device(to), host(from, bytes)?, bytes, Handle::NULL)
    }

    fn cuMemcpyHtoD_v2_ptds(to: DevicePointer, from: Host, bytes: usize) {
        copy(device(to), host(from, bytes)?, bytes, Handle::PER_THREAD)
    }

    fn cuMemcpyHtoDAsync_v2(to: DevicePointer, from: Host, bytes: usize, stream: Handle)
        per_thread cuMemcpyHtoDAsync_v2_ptsz(stream)
    {
        copy_async(device(to), host(from, bytes)?, bytes, stream)
    }

    fn cuMemcpyDtoH_v2(to: Host, from: DevicePointer, bytes: usize) {
        copy(host(to, bytes)?, device(from), bytes, Handle::NULL)
    }

    fn cuMemcpyDtoH_v2_ptds(to: Host, from: DevicePointer, bytes: usize) {
        copy(host(to, bytes)?, device(from), bytes, Handle::PER_THREAD)
    }

    fn cuMemcpyDtoHAsync_v2(to: Host, from: DevicePointer, bytes: usize, stream: Handle)
        per_thread cuMemcpyDtoHAsync_v2_ptsz(stream)
    {
        copy_async(host(to, bytes)?, device(from), bytes, stream)
    }

    fn cuMemcpyDtoD_v2(to: DevicePointer, from: DevicePointer, bytes: usize) {
        copy(device(to), device(from), bytes, Handle::NULL)
    }

    fn cuMemcpyDtoD_v2_ptds(to: DevicePointer, from: DevicePointer, bytes: usize) {
        copy(device(to), device(from), bytes, Handle::PER_THREAD)
    }

    fn cuMemcpyDtoDAsync_v2(to: DevicePointer, from: DevicePointer, bytes: usize, stream: Handle)
        per_thread cuMemcpyDtoDAsync_v2_ptsz(stream)
    {
        copy_async(device(to), device(from), bytes, stream)
    }

    fn cuMemcpyPeer(to: DevicePointer, to_context: Handle, from: DevicePointer, from_context: Handle, bytes: usize) {
        check_peers([(to, to_context), (from, from_context)], bytes)?;
        copy(device(to), device(from), bytes, Handle::NULL)
    }

    fn cuMemcpyPeerAsync(
        to: DevicePointer,
        to_context: Handle,
        from: DevicePointer,
        from_context: Handle,
        bytes: usize,
        stream: Handle,
    ) per_thread cuMemcpyPeerAsync_ptsz(stream) {
        check_peers([(to, to_context), (from, from_context)], bytes)?;
        copy_async(device(to), device(from), bytes, stream)
    }

    fn cuMemcpy3D_v2(arguments: In<Copy3d>) {
        copy_3d(arguments, Handle::NULL, copy)
    }

    fn cuMemcpy3D_v2_ptds(arguments: In<Copy3d>) {
        copy_3d(arguments, Handle::PER_THREAD, copy)
    }

    fn cuMemcpy3DAsync_v2(arguments: In<Copy3d>, stream: Handle) per_thread cuMemcpy3DAsync_v2_ptsz(stream) {
        copy_3d(arguments, stream, copy_async)
    }

    fn cuMemcpy2D_v2(arguments: In<Copy2d>) {
        copy_2d(arguments, Handle::NULL, copy)
    }

    fn cuMemcpy2DUnaligned_v2(arguments: In<Copy2d>) {
        copy_2d(arguments, Handle::NULL, copy)
    }

    fn cuMemcpy2DAsync_v2(arguments: In<Copy2d>, stream: Handle) per_thread cuMemcpy2DAsync_v2_ptsz(stream) {
        copy_2d(arguments, stream, copy_async)
    }

    fn cuMemsetD8_v2(address: DevicePointer, value: u8, count: usize) {
        fill(address, &[value], [count, 1, 0], Handle::NULL)
    }

    fn cuMemsetD8_v2_ptds(address: DevicePointer, value: u8, count: usize) {
        fill(address, &[value], [count, 1, 0], Handle::PER_THREAD)
    }

    fn cuMemsetD16_v2(address: DevicePointer, value: u16, count: usize) {
        fill(address, &value.to_le_bytes(), [count, 1, 0], Handle::NULL)
    }

    fn cuMemsetD16_v2_ptds(address: DevicePointer, value: u16, count: usize) {
        fill(address, &value.to_le_bytes(), [count, 1, 0], Handle::PER_THREAD)
    }

    fn cuMemsetD32_v2(address: DevicePointer, value: u32, count: usize) {
        fill(address, &value.to_le_bytes(), [count, 1, 0], Handle::NULL)
    }

    fn cuMemsetD32_v2_ptds(address: DevicePointer, value: u32, count: usize) {
        fill(address, &value.to_le_bytes(), [count, 1, 0], Handle::PER_THREAD)
    }

    fn cuMemsetD8Async(address: DevicePointer, value: u8, count: usize, stream: Handle) per_thread cuMemsetD8Async_ptsz(stream) {
        fill(address, &[value], [count, 1, 0], stream)
    }

    fn cuMemsetD16Async(address: DevicePointer, value: u16, count: usize, stream: Handle)
        per_thread cuMemsetD16Async_ptsz(stream)
    {
        fill(address, &value.to_le_bytes(), [count, 1, 0], stream)
    }

    fn cuMemsetD32Async(address: DevicePointer, value: u32, count: usize, stream: Handle)
        per_thread cuMemsetD32Async_ptsz(stream)
    {
        fill(address, &value.to_le_bytes(), [count, 1, 0], stream)
    }

    fn cuMemsetD2D8_v2(address: DevicePointer, pitch: usize, value: u8, width: usize, height: usize) {
        fill(address, &[value], [width, height, pitch], Handle::NULL)
    }

    fn cuMemsetD2D16_v2(address: DevicePointer, pitch: usize, value: u16, width: usize, height: usize) {
        fill(address, &value.to_le_bytes(), [width, height, pitch], Handle::NULL)
    }

    fn cuMemsetD2D32_v2(address: DevicePointer, pitch: usize, value: u32, width: usize, height: usize) {
        fill(address, &value.to_le_bytes(), [width, height, pitch], Handle::NULL)
    }

    fn cuMemsetD2D8Async(address: DevicePointer, pitch: usize, value: u8, width: usize, height: usize, stream: Handle)
        per_thread cuMemsetD2D8Async_ptsz(stream)
    {
        fill(address, &[value], [width, height, pitch], stream)
    }

    fn cuMemsetD2D16Async(address: DevicePointer, pitch: usize, value: u16, width: usize, height: usize, stream: Handle)
        per_thread cuMemsetD2D16Async_ptsz(stream)
    {
        fill(address, &value.to_le_bytes(), [width, height, pitch], stream)
    }

    fn cuMemsetD2D32Async(address: DevicePointer, pitch: usize, value: u32, width: usize, height: usize, stream: Handle)
        per_thread cuMemsetD2D32Async_ptsz(stream)
    {
        fill(address, &value.to_le_bytes(), [width, height, pitch], stream)
    }
}

//! Device memory followed by a guard region.

use cust::error::CudaResult;
use cust::memory::{CopyDestination, DeviceBuffer, DeviceSlice};

use crate::executor::GuardDamage;

/// Size of a guard, bytes.
pub const GUARD_BYTES: usize = 4096;

/// Fill byte of a guard: as fp16 a NaN that no instruction produces, as f32 about −4·10³⁷.
const GUARD_PATTERN: u8 = 0xfd;

/// A buffer and its guard, allocated together.
pub struct Allocation {
    name: String,
    bytes: usize,
    memory: DeviceBuffer<u8>,
}

impl Allocation {
    /// Allocates `bytes` of uninitialised memory, followed by a guard.
    pub fn new(name: &str, bytes: usize) -> CudaResult<Self> {
        let total = bytes.saturating_add(GUARD_BYTES);
        // SAFETY: the guard is written in the next line; the rest may stay uninitialised.
        let memory = unsafe { DeviceBuffer::uninitialized(total) }?;
        let allocation = Self { name: name.to_owned(), bytes, memory };
        allocation.guard().set_8(GUARD_PATTERN)?;
        Ok(allocation)
    }

    /// Name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Device address of the buffer; the driver aligns it to at least 256 bytes.
    pub fn address(&self) -> u64 {
        self.memory.as_device_ptr().as_raw()
    }

    /// Size of the buffer in bytes, without the guard.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies `data` to the start of the buffer, which must be at least as long.
    pub fn write(&self, data: &[u8]) -> CudaResult<()> {
        self.memory.index(..data.len()).copy_from(data)
    }

    /// Copies the start of the buffer to `data`; the buffer must be at least as long.
    pub fn read(&self, data: &mut [u8]) -> CudaResult<()> {
        self.memory.index(..data.len()).copy_to(data)
    }

    /// What a kernel wrote to the guard.
    pub fn guard_damage(&self) -> CudaResult<Option<GuardDamage>> {
        let mut guard = [0; GUARD_BYTES];
        self.guard().copy_to(&mut guard)?;
        let damaged = |byte: &u8| *byte != GUARD_PATTERN;
        Ok(guard.iter().position(damaged).map(|first| GuardDamage {
            buffer: self.name.clone(),
            first: first as u64,
            bytes: guard.iter().filter(|byte| damaged(byte)).count() as u64,
        }))
    }

    /// Frees the memory; leaks it if the driver refuses.
    pub fn free(self) -> CudaResult<()> {
        DeviceBuffer::drop(self.memory).map_err(|(error, memory)| {
            std::mem::forget(memory);
            error
        })
    }

    fn guard(&self) -> DeviceSlice<u8> {
        self.memory.index(self.bytes..)
    }
}

/// A number of bytes with a unit.
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

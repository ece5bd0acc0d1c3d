//! Host operations on global memory: copies, fills, tensor maps.

use super::error::{MemoryError, OutOfBounds};
use super::global::GlobalMemory;
use super::tensor_map::{TENSOR_MAP_BYTES, TensorMap};

/// Bytes written at once by a fill.
const STEP: usize = 1 << 16;
/// Size of the workspace of a cooperative launch, bytes: a size and a barrier, as in `cooperative_groups.h`.
const GRID_WORKSPACE_BYTES: u64 = 64;

impl GlobalMemory {
    /// Copies `data` to `address`.
    ///
    /// # Errors
    /// If the bytes do not lie inside one live buffer.
    pub fn write(&mut self, address: u64, data: &[u8]) -> Result<(), MemoryError> {
        if data.is_empty() {
            return Ok(());
        }
        self.store_any(address, data).map_err(|error| copy_error(address, data.len() as u64, error))
    }

    /// Copies the bytes at `address` into `data`. Unwritten bytes read as 0.
    ///
    /// # Errors
    /// If the bytes do not lie inside one live buffer.
    pub fn read(&self, address: u64, data: &mut [u8]) -> Result<(), MemoryError> {
        self.read_checked(address, data).map(drop)
    }

    /// As [`Self::read`]; true if all of the bytes were written.
    ///
    /// # Errors
    /// If the bytes do not lie inside one live buffer.
    pub fn read_checked(&self, address: u64, data: &mut [u8]) -> Result<bool, MemoryError> {
        if data.is_empty() {
            return Ok(true);
        }
        let bytes = data.len() as u64;
        self.note_exchange(address);
        self.load_any(address, data).map_err(|error| copy_error(address, bytes, error))
    }

    /// Marks bytes in one buffer as unwritten.
    pub fn forget(&mut self, address: u64, bytes: u64) {
        self.forget_bytes(address, bytes);
    }

    /// The address of the first unwritten byte among `bytes` bytes at `address`.
    ///
    /// # Errors
    /// If the bytes do not lie inside one live buffer.
    pub fn first_unwritten(&self, address: u64, bytes: u64) -> Result<Option<u64>, MemoryError> {
        if bytes == 0 {
            return Ok(None);
        }
        self.unwritten(address, bytes).map_err(|error| copy_error(address, bytes, error))
    }

    /// Writes `value` `count` times at `address` (`cuMemsetD8`).
    ///
    /// # Errors
    /// If the bytes do not lie inside one live buffer; nothing is written then.
    pub fn set_8(&mut self, address: u64, value: u8, count: u64) -> Result<(), MemoryError> {
        self.fill(address, [value], count)
    }

    /// Writes `value` `count` times at `address`, a multiple of 2 (`cuMemsetD16`).
    ///
    /// # Errors
    /// If the address is not aligned, or the bytes do not lie inside one live buffer; nothing is written then.
    pub fn set_16(&mut self, address: u64, value: u16, count: u64) -> Result<(), MemoryError> {
        self.fill(address, value.to_le_bytes(), count)
    }

    /// Writes `value` `count` times at `address`, a multiple of 4 (`cuMemsetD32`).
    ///
    /// # Errors
    /// If the address is not aligned, or the bytes do not lie inside one live buffer; nothing is written then.
    pub fn set_32(&mut self, address: u64, value: u32, count: u64) -> Result<(), MemoryError> {
        self.fill(address, value.to_le_bytes(), count)
    }

    /// Address of the zeroed workspace in which blocks of a cooperative launch synchronise (`%envreg1` and `%envreg2`).
    pub(crate) fn prepare_grid_workspace(&mut self) -> Result<u64, MemoryError> {
        let address = match self.grid_workspace {
            Some(address) => address,
            None => self.allocate("the workspace of grid-wide barriers", GRID_WORKSPACE_BYTES)?,
        };
        self.grid_workspace = Some(address);
        self.set_8(address, 0, GRID_WORKSPACE_BYTES)?;
        Ok(address)
    }

    /// [`TensorMap::encode`]. The bytes are good in every memory that the map's address lies in.
    ///
    /// # Errors
    /// As [`TensorMap::encode`].
    pub fn encode_tensor_map(&self, name: &str, map: TensorMap) -> Result<[u8; TENSOR_MAP_BYTES], MemoryError> {
        map.encode(name)
    }

    /// Allocates a tensor map and returns its address.
    ///
    /// # Errors
    /// As [`TensorMap::encode`], or if the memory is full.
    pub fn allocate_tensor_map(&mut self, name: &str, map: TensorMap) -> Result<u64, MemoryError> {
        let bytes = map.encode(name)?;
        let address = self.allocate(name, TENSOR_MAP_BYTES as u64)?;
        self.write(address, &bytes)?;
        Ok(address)
    }

    fn fill<const WIDTH: usize>(&mut self, address: u64, value: [u8; WIDTH], count: u64) -> Result<(), MemoryError> {
        let alignment = WIDTH as u64;
        if !address.is_multiple_of(alignment) {
            return Err(MemoryError::Misaligned { address, alignment });
        }
        if count == 0 {
            return Ok(());
        }
        // On overflow, more bytes than any buffer has.
        let bytes = count.saturating_mul(alignment);
        let buffer = self.locate(address, bytes).map_err(|error| copy_error(address, bytes, error))?;
        let step = value.repeat((STEP / WIDTH).min(count as usize));
        let end = address - buffer.address + bytes;
        for offset in (address - buffer.address..end).step_by(STEP) {
            buffer.store(offset, &step[..(end - offset).min(STEP as u64) as usize]);
        }
        Ok(())
    }
}

fn copy_error(address: u64, bytes: u64, error: OutOfBounds) -> MemoryError {
    MemoryError::OutOfBounds { address, bytes, location: error.0 }
}

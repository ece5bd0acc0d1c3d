//! Global memory: named buffers far apart in a 64-bit address space.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use super::{OutOfBounds, resolve};
use crate::parse::Space;

/// Addresses of buffers are multiples of this.
const ALIGNMENT: u64 = 256;
/// The first buffer's address: above 4 GiB, so that an address cut to 32 bits hits nothing.
const FIRST_ADDRESS: u64 = 0x0007_0000_0000;
/// Buffers end below this address.
const LAST_ADDRESS: u64 = 1 << 46;
/// Least distance from the end of a buffer to the next one.
const RED_ZONE: u64 = 64 << 10;

/// Why memory could not be allocated, freed or copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// There is no memory for a buffer of this size.
    #[error("cannot allocate buffer `{name}` of {bytes} bytes")]
    Allocation {
        /// The buffer.
        name: String,
        /// Its size.
        bytes: u64,
    },
    /// A buffer of no bytes was asked for.
    #[error("buffer `{name}` has a size of 0 bytes; a buffer needs at least 1")]
    Empty {
        /// The buffer.
        name: String,
    },
    /// A tensor map that the hardware could not use, or whose use is not supported.
    #[error("tensor map `{name}`: {what}")]
    TensorMap {
        /// The tensor map.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// No live buffer starts at the address.
    #[error("no buffer starts at {address:#x}")]
    NoBuffer {
        /// The address.
        address: u64,
    },
    /// A copy does not stay inside one live buffer.
    #[error("a copy of {bytes} bytes at {address:#x}: {location}")]
    OutOfBounds {
        /// First address.
        address: u64,
        /// Bytes of the copy.
        bytes: u64,
        /// Where that is, in words.
        location: String,
    },
}

/// One allocation. Kernel threads of several blocks reach it at once, hence the atomics; relaxed order is enough, since
/// whoever joins the worker threads afterwards synchronises with them.
struct Buffer {
    name: String,
    address: u64,
    bytes: u64,
    /// The contents in little-endian words; empty once freed.
    words: Box<[AtomicU64]>,
    /// One bit for each byte of a word: whether it was written.
    initialised: Box<[AtomicU8]>,
}

impl Buffer {
    fn is_live(&self) -> bool {
        !self.words.is_empty()
    }

    fn end(&self) -> u64 {
        self.address + self.bytes
    }

    /// Stores the bytes of `value` selected by `bytes` (one bit each).
    fn store_word(&self, word: usize, value: u64, bytes: u8) {
        if bytes == u8::MAX {
            self.words[word].store(value, Relaxed);
        } else {
            let mask = byte_mask(bytes);
            // A neighbour's bytes may change at the same time: only ours are replaced.
            let replace = |old: u64| Some(old & !mask | value & mask);
            let _ = self.words[word].fetch_update(Relaxed, Relaxed, replace);
        }
        self.mark_initialised(word, bytes);
    }

    fn mark_initialised(&self, word: usize, bytes: u8) {
        if self.initialised[word].load(Relaxed) & bytes != bytes {
            self.initialised[word].fetch_or(bytes, Relaxed);
        }
    }
}

/// Spreads one bit per byte to the eight bits of that byte.
fn byte_mask(bytes: u8) -> u64 {
    (0..8).filter(|byte| bytes >> byte & 1 != 0).map(|byte| 0xff << (8 * byte)).sum()
}

/// The global memory of a simulated GPU. Buffers start at multiples of 256 bytes above 4 GiB and lie at least their own
/// size and 64 KiB apart; addresses are never used twice, so that a use after free is seen.
#[derive(Default)]
pub struct GlobalMemory {
    /// In order of address.
    buffers: Vec<Buffer>,
    /// Addresses of the global variables of modules that were run: module identity, name, address.
    variables: Vec<(u64, String, u64)>,
}

impl std::fmt::Debug for GlobalMemory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let live = self.buffers.iter().filter(|buffer| buffer.is_live());
        formatter.debug_map().entries(live.map(|buffer| (&buffer.name, buffer.address..buffer.end()))).finish()
    }
}

impl GlobalMemory {
    /// Memory without buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allocates `bytes` bytes and returns their address. The contents are uninitialised: a kernel that reads them
    /// before they are written gets a finding. `name` appears in messages.
    ///
    /// # Errors
    /// When `bytes` is 0 or more than there is memory for.
    pub fn allocate(&mut self, name: &str, bytes: u64) -> Result<u64, MemoryError> {
        if bytes == 0 {
            return Err(MemoryError::Empty { name: name.to_owned() });
        }
        let failed = || MemoryError::Allocation { name: name.to_owned(), bytes };
        let address = match self.buffers.last() {
            None => FIRST_ADDRESS,
            Some(last) => (last.end() + last.bytes.max(RED_ZONE)).next_multiple_of(ALIGNMENT),
        };
        if bytes > LAST_ADDRESS - address.min(LAST_ADDRESS) {
            return Err(failed());
        }
        let words = usize::try_from(bytes.div_ceil(8)).map_err(|_| failed())?;
        self.buffers.push(Buffer {
            name: name.to_owned(),
            address,
            bytes,
            words: bytemuck::allocation::try_zeroed_slice_box(words).map_err(|()| failed())?,
            initialised: bytemuck::allocation::try_zeroed_slice_box(words).map_err(|()| failed())?,
        });
        Ok(address)
    }

    /// Frees the buffer that starts at `address`.
    ///
    /// # Errors
    /// When no live buffer starts there.
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        let index = self.buffers.binary_search_by_key(&address, |buffer| buffer.address);
        match index {
            Ok(index) if self.buffers[index].is_live() => {
                self.buffers[index].words = Box::default();
                self.buffers[index].initialised = Box::default();
                Ok(())
            }
            _ => Err(MemoryError::NoBuffer { address }),
        }
    }

    /// Copies `data` to `address`, anywhere inside one buffer.
    ///
    /// # Errors
    /// When the bytes do not lie inside one live buffer.
    pub fn write(&mut self, address: u64, data: &[u8]) -> Result<(), MemoryError> {
        if data.is_empty() {
            return Ok(());
        }
        self.store(address, data).map_err(|error| copy_error(address, data.len(), error))
    }

    /// Writes zeros to the `bytes` bytes at `address`, the last ones of a buffer.
    pub(crate) fn zero(&mut self, address: u64, bytes: u64) -> Result<(), MemoryError> {
        const STEP: usize = 1 << 16;
        for offset in (0..bytes).step_by(STEP) {
            let count = (bytes - offset).min(STEP as u64) as usize;
            self.write(address + offset, &[0; STEP][..count])?;
        }
        Ok(())
    }

    /// Copies the bytes at `address`, anywhere inside one buffer, to `data`. Bytes never written read as 0.
    ///
    /// # Errors
    /// When the bytes do not lie inside one live buffer.
    pub fn read(&self, address: u64, data: &mut [u8]) -> Result<(), MemoryError> {
        if data.is_empty() {
            return Ok(());
        }
        let bytes = data.len();
        self.load(address, data).map(drop).map_err(|error| copy_error(address, bytes, error))
    }

    /// Reads `data.len()` bytes; true when all of them were written before.
    pub(crate) fn load(&self, address: u64, data: &mut [u8]) -> Result<bool, OutOfBounds> {
        let buffer = self.locate(address, data.len() as u64)?;
        let mut offset = address - buffer.address;
        let mut rest = data;
        let mut all_initialised = true;
        while !rest.is_empty() {
            let (word, first) = ((offset / 8) as usize, (offset % 8) as usize);
            let count = rest.len().min(8 - first);
            let (part, after) = rest.split_at_mut(count);
            part.copy_from_slice(&buffer.words[word].load(Relaxed).to_le_bytes()[first..first + count]);
            let bytes = byte_bits(first, count);
            all_initialised &= buffer.initialised[word].load(Relaxed) & bytes == bytes;
            offset += count as u64;
            rest = after;
        }
        Ok(all_initialised)
    }

    /// Writes `data`.
    pub(crate) fn store(&self, address: u64, data: &[u8]) -> Result<(), OutOfBounds> {
        let buffer = self.locate(address, data.len() as u64)?;
        let mut offset = address - buffer.address;
        let mut rest = data;
        while !rest.is_empty() {
            let (word, first) = ((offset / 8) as usize, (offset % 8) as usize);
            let count = rest.len().min(8 - first);
            let mut value = [0; 8];
            value[first..first + count].copy_from_slice(&rest[..count]);
            buffer.store_word(word, u64::from_le_bytes(value), byte_bits(first, count));
            offset += count as u64;
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Replaces the `bytes` (at most 8, naturally aligned) bytes at `address` by `update` of them as one atomic
    /// operation; the old value and whether it was initialised.
    pub(crate) fn update(
        &self,
        address: u64,
        bytes: u32,
        update: &dyn Fn(u64) -> u64,
    ) -> Result<(u64, bool), OutOfBounds> {
        let buffer = self.locate(address, u64::from(bytes))?;
        let offset = address - buffer.address;
        let (word, first) = ((offset / 8) as usize, (offset % 8) as usize);
        let selected = byte_bits(first, bytes as usize);
        let (mask, shift) = (byte_mask(selected), 8 * first);
        let initialised = buffer.initialised[word].load(Relaxed) & selected == selected;
        let old = buffer.words[word]
            .fetch_update(Relaxed, Relaxed, |old| Some(old & !mask | update((old & mask) >> shift) << shift & mask))
            .unwrap_or_else(|unchanged| unchanged);
        buffer.mark_initialised(word, selected);
        Ok(((old & mask) >> shift, initialised))
    }

    /// The live buffer that holds all of `address..address + bytes`.
    fn locate(&self, address: u64, bytes: u64) -> Result<&Buffer, OutOfBounds> {
        let after = self.buffers.partition_point(|buffer| buffer.address <= address);
        if let Some(buffer) = after.checked_sub(1).map(|index| &self.buffers[index])
            && buffer.is_live()
            && address < buffer.end()
            && bytes <= buffer.end() - address
        {
            return Ok(buffer);
        }
        Err(OutOfBounds(self.describe(address, bytes)))
    }

    /// Where `address` lies, in words.
    pub(crate) fn describe(&self, address: u64, bytes: u64) -> String {
        if address == 0 {
            return "a null pointer".to_owned();
        }
        let (space, _) = resolve(address);
        if space != Space::Global {
            return format!("a generic address of {space} memory");
        }
        if address < 1 << 32 && self.buffers.iter().any(|buffer| buffer.address as u32 == address as u32) {
            return "a buffer address cut to 32 bits".to_owned();
        }
        let after = self.buffers.partition_point(|buffer| buffer.address <= address);
        let below = after.checked_sub(1).map(|index| &self.buffers[index]);
        let above = self.buffers.get(after);
        match (below, above) {
            (Some(buffer), _) if address < buffer.end() => {
                let offset = address - buffer.address;
                let beyond = (offset + bytes).saturating_sub(buffer.bytes);
                match (buffer.is_live(), beyond) {
                    (false, _) => format!("offset {offset} of buffer `{}`, which was freed", buffer.name),
                    (true, 0) => format!("offset {offset} of buffer `{}` ({} bytes)", buffer.name, buffer.bytes),
                    (true, _) => {
                        format!(
                            "the last {beyond} bytes are past the end of buffer `{}` ({} bytes)",
                            buffer.name, buffer.bytes
                        )
                    }
                }
            }
            (Some(buffer), Some(next)) if next.address - address < address - buffer.end() => before(next, address),
            (Some(buffer), _) => {
                let freed = if buffer.is_live() { "" } else { ", which was freed" };
                let distance = address - buffer.end();
                format!("{distance} bytes past the end of buffer `{}` ({} bytes){freed}", buffer.name, buffer.bytes)
            }
            (None, Some(next)) => before(next, address),
            (None, None) => "there are no buffers".to_owned(),
        }
    }

    /// The address of a module's global variable, and whether it was allocated just now.
    pub(crate) fn variable(&mut self, module: u64, name: &str, bytes: u64) -> Result<(u64, bool), MemoryError> {
        if let Some((_, _, address)) = self.variables.iter().find(|(id, known, _)| *id == module && known == name) {
            return Ok((*address, false));
        }
        let address = self.allocate(name, bytes)?;
        self.variables.push((module, name.to_owned(), address));
        Ok((address, true))
    }
}

fn before(buffer: &Buffer, address: u64) -> String {
    format!("{} bytes before buffer `{}` ({} bytes)", buffer.address - address, buffer.name, buffer.bytes)
}

/// One bit for each of `count` bytes from `first`.
fn byte_bits(first: usize, count: usize) -> u8 {
    (((1_u16 << count) - 1) << first) as u8
}

fn copy_error(address: u64, bytes: usize, error: OutOfBounds) -> MemoryError {
    MemoryError::OutOfBounds { address, bytes: bytes as u64, location: error.0 }
}

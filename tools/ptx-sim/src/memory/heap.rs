//! The device heap: what kernels get by `malloc` and give back by `free`.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use super::error::OutOfBounds;

/// Bytes that kernels can have at a time (CUDA's `cudaLimitMallocHeapSize` unless a program sets it).
const MOST_BYTES: u64 = 8 << 20;
/// Addresses of the heap. There are more than bytes, so that freed ones need not be used again soon.
pub(super) const HEAP_BYTES: u64 = 256 << 20;
/// Blocks begin at multiples of this.
const ALIGNMENT: u64 = 16;
/// Least distance of blocks.
const RED_ZONE: u64 = 32;

/// A block that `malloc` gave.
#[derive(Clone, Copy, Debug)]
struct Block {
    bytes: u64,
    live: bool,
}

#[derive(Debug, Default)]
struct Blocks {
    /// By address.
    blocks: BTreeMap<u64, Block>,
    /// Where no block ever was.
    free: u64,
    bytes: u64,
}

/// Why a block cannot be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeError {
    /// `malloc` never gave that address.
    NoBlock,
    /// It was freed.
    Freed,
}

/// The device heap.
#[derive(Debug)]
pub(super) struct Heap {
    /// Its first address.
    pub start: u64,
    blocks: RwLock<Blocks>,
}

/// The address of a new block.
pub(super) struct Granted {
    pub address: u64,
    /// Whether another block was there before.
    pub is_used: bool,
}

impl Heap {
    /// An empty heap.
    pub fn new(start: u64) -> Heap {
        Heap { start, blocks: RwLock::new(Blocks { free: start, ..Blocks::default() }) }
    }

    /// A block of so many bytes; `None` when the heap is full.
    pub fn allocate(&self, bytes: u64) -> Option<Granted> {
        let mut blocks = self.blocks.write().unwrap_or_else(PoisonError::into_inner);
        if bytes == 0 || bytes > MOST_BYTES - blocks.bytes {
            return None;
        }
        let (address, after) = (blocks.free, (blocks.free + bytes + RED_ZONE).next_multiple_of(ALIGNMENT));
        let is_used = after > self.start + HEAP_BYTES;
        let address = if is_used { blocks.freed(bytes)? } else { address };
        if !is_used {
            blocks.free = after;
        }
        blocks.bytes += bytes;
        blocks.blocks.insert(address, Block { bytes, live: true });
        Some(Granted { address, is_used })
    }

    /// Frees the block at an address.
    pub fn free(&self, address: u64) -> Result<(), FreeError> {
        let mut blocks = self.blocks.write().unwrap_or_else(PoisonError::into_inner);
        let block = blocks.blocks.get_mut(&address).ok_or(FreeError::NoBlock)?;
        if !std::mem::replace(&mut block.live, false) {
            return Err(FreeError::Freed);
        }
        let bytes = block.bytes;
        blocks.bytes -= bytes;
        Ok(())
    }

    /// Bytes that nobody freed.
    pub fn bytes_in_use(&self) -> u64 {
        self.blocks.read().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Whether so many bytes at an address lie in one live block.
    pub fn check(&self, address: u64, bytes: u64) -> Result<(), OutOfBounds> {
        let blocks = self.blocks.read().unwrap_or_else(PoisonError::into_inner);
        match blocks.blocks.range(..=address).next_back() {
            Some((first, block)) if block.live && address - first + bytes <= block.bytes => Ok(()),
            _ => Err(OutOfBounds(blocks.describe(address, bytes))),
        }
    }

    /// Where an address lies, in words.
    pub fn describe(&self, address: u64, bytes: u64) -> String {
        self.blocks.read().unwrap_or_else(PoisonError::into_inner).describe(address, bytes)
    }
}

impl Blocks {
    /// The first freed block with room for so many bytes.
    fn freed(&self, bytes: u64) -> Option<u64> {
        let found = self.blocks.iter().find(|(_, block)| !block.live && block.bytes >= bytes);
        found.map(|(address, _)| *address)
    }

    fn describe(&self, address: u64, bytes: u64) -> String {
        let Some((first, block)) = self.blocks.range(..=address).next_back() else {
            return "in the device heap, before every block that malloc gave".to_owned();
        };
        let (offset, size) = (address - first, block.bytes);
        let what = format!("a block of {size} bytes that malloc gave");
        let freed = if block.live { "" } else { ", which was freed" };
        match (offset < size, (offset + bytes).saturating_sub(size)) {
            (true, 0) => format!("offset {offset} of {what}{freed}"),
            (true, beyond) => format!("the last {beyond} bytes are past the end of {what}{freed}"),
            (false, _) => format!("{} bytes past the end of {what}{freed}", offset - size),
        }
    }
}

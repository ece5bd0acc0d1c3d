//! The device heap: memory that kernels allocate with `malloc` and `free`.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use super::error::OutOfBounds;

/// Size limit of live blocks, bytes (the default of CUDA's `cudaLimitMallocHeapSize`).
const MOST_BYTES: u64 = 8 << 20;
/// Size of the heap's address range. It exceeds the limit so that freed addresses are not reused soon.
pub(super) const HEAP_BYTES: u64 = 256 << 20;
/// Alignment of blocks.
const ALIGNMENT: u64 = 16;
/// Minimum gap between blocks.
const RED_ZONE: u64 = 32;

/// A block returned by `malloc`.
#[derive(Clone, Copy, Debug)]
struct Block {
    bytes: u64,
    live: bool,
}

#[derive(Debug, Default)]
struct Blocks {
    /// By address.
    blocks: BTreeMap<u64, Block>,
    /// Start of the addresses that no block has used yet.
    free: u64,
    bytes: u64,
}

/// Why a block cannot be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeError {
    /// `malloc` never returned that address.
    NoBlock,
    /// It has been freed already.
    Freed,
}

/// The device heap.
#[derive(Debug)]
pub(super) struct Heap {
    /// Its first address.
    pub start: u64,
    blocks: RwLock<Blocks>,
}

/// Address of the new block.
pub(super) struct Granted {
    pub address: u64,
    /// Whether the address range was used by a freed block.
    pub is_used: bool,
}

impl Heap {
    /// An empty heap.
    pub fn new(start: u64) -> Heap {
        Heap { start, blocks: RwLock::new(Blocks { free: start, ..Blocks::default() }) }
    }

    /// Allocates a block of `bytes` bytes; `None` if the heap is full.
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

    /// Total size of live blocks.
    pub fn bytes_in_use(&self) -> u64 {
        self.blocks.read().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Whether `bytes` bytes at an address lie in one live block.
    pub fn check(&self, address: u64, bytes: u64) -> Result<(), OutOfBounds> {
        let blocks = self.blocks.read().unwrap_or_else(PoisonError::into_inner);
        match blocks.blocks.range(..=address).next_back() {
            Some((first, block)) if block.live && address - first + bytes <= block.bytes => Ok(()),
            _ => Err(OutOfBounds(blocks.describe(address, bytes))),
        }
    }

    /// What is at an address, in words.
    pub fn describe(&self, address: u64, bytes: u64) -> String {
        self.blocks.read().unwrap_or_else(PoisonError::into_inner).describe(address, bytes)
    }
}

impl Blocks {
    /// The first freed block with room for `bytes` bytes.
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

//! Memory of the program that is as much a GPU's: pages of its own, with others around them that nobody may touch, and what the
//! program registers.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use sim_device::HostWords;

/// Bytes of a page.
const PAGE: usize = 4096;
/// Bytes before and behind an allocation that belong to nobody, so that what runs over its end meets nothing else.
const GUARD: usize = 64 << 10;

/// Pages that were had for one allocation. Their addresses are never used for anything else, so that a use after free is seen.
pub struct Pages {
    start: *mut AtomicU64,
    bytes: usize,
}

// SAFETY: the pages are the allocation's own until it is dropped, and are reached by atomic operations.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Zeros, `bytes` of them at least; `None` when there is no memory.
    pub fn allocate(bytes: u64) -> Option<Arc<dyn HostWords>> {
        let bytes = usize::try_from(bytes).ok()?.checked_next_multiple_of(PAGE)?;
        let (all, flags) =
            (bytes.checked_add(2 * GUARD)?, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: the system chooses the addresses, which nobody has.
        let reserved = unsafe { libc::mmap(std::ptr::null_mut(), all, libc::PROT_NONE, flags, -1, 0) };
        if reserved == libc::MAP_FAILED {
            return None;
        }
        let start = reserved.wrapping_byte_add(GUARD);
        // SAFETY: these pages were reserved just now.
        if unsafe { libc::mprotect(start, bytes, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return None;
        }
        Some(Arc::new(Self { start: start.cast(), bytes }))
    }
}

impl HostWords for Pages {
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the pages can be read and written until this is dropped, and begin at a multiple of 4096.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes / 8) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: the pages are this allocation's, and nobody refers to them any more; their addresses stay reserved.
        unsafe { libc::mmap(self.start.cast(), self.bytes, libc::PROT_NONE, flags, -1, 0) };
    }
}

/// Memory that the program registered.
pub struct Registered {
    /// The first word that some of it lies in.
    start: *const AtomicU64,
    words: usize,
}

// SAFETY: the program promised that the memory is there until it is unregistered; it is reached by atomic operations.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

impl Registered {
    /// `bytes` bytes at `address`.
    pub fn at(address: u64, bytes: u64) -> Arc<dyn HostWords> {
        let first = address / 8 * 8;
        let words = (address - first).saturating_add(bytes).div_ceil(8) as usize;
        Arc::new(Self { start: first as *const AtomicU64, words })
    }
}

impl HostWords for Registered {
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the program's memory is there until it is unregistered; words that only begin or end in it lie in the same
        // pages.
        unsafe { std::slice::from_raw_parts(self.start, self.words) }
    }
}

//! Host memory that GPUs access too: pages of our own between inaccessible guard pages, and memory that the program registers.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use sim_device::HostWords;

/// Size of a page, bytes.
const PAGE: usize = 4096;
/// Guard bytes before and after an allocation, so that an overrun faults.
const GUARD: usize = 64 << 10;

/// The pages of one allocation. Their addresses are never reused, so that a use after free is detected.
pub struct Pages {
    start: *mut AtomicU64,
    bytes: usize,
}

// SAFETY: the allocation owns the pages until it is dropped, and accesses them only atomically.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// At least `bytes` bytes of zeros; `None` if the system has no memory.
    pub fn allocate(bytes: u64) -> Option<Arc<dyn HostWords>> {
        let bytes = usize::try_from(bytes).ok()?.checked_next_multiple_of(PAGE)?;
        let (all, flags) =
            (bytes.checked_add(2 * GUARD)?, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: the system chooses free addresses.
        let reserved = unsafe { libc::mmap(std::ptr::null_mut(), all, libc::PROT_NONE, flags, -1, 0) };
        if reserved == libc::MAP_FAILED {
            return None;
        }
        let start = reserved.wrapping_byte_add(GUARD);
        // SAFETY: these pages were reserved above.
        if unsafe { libc::mprotect(start, bytes, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return None;
        }
        Some(Arc::new(Self { start: start.cast(), bytes }))
    }
}

impl HostWords for Pages {
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the pages are readable and writable until this is dropped, and begin at a multiple of 4096.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes / 8) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: the allocation owns the pages and no reference to them is left; their addresses stay reserved.
        unsafe { libc::mmap(self.start.cast(), self.bytes, libc::PROT_NONE, flags, -1, 0) };
    }
}

/// Memory that the program registered.
pub struct Registered {
    /// The first word that overlaps it.
    start: *const AtomicU64,
    words: usize,
}

// SAFETY: the program promised to keep the memory until it is unregistered; it is accessed only atomically.
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
        // SAFETY: the program's memory exists until it is unregistered; words that only partly overlap it lie on the same
        // pages.
        unsafe { std::slice::from_raw_parts(self.start, self.words) }
    }
}

//! One allocation of global memory: its bytes, and which of them were written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use super::texels::Texels;
use crate::lane_accesses::LaneAccesses;
use crate::lanes::{LANES, lanes};

/// Launch number for reads by unidentified readers.
pub(super) const ALWAYS_READ: u64 = u64::MAX;

/// Host memory that kernels access at its host address.
pub trait HostWords: Send + Sync {
    /// Its 8-byte words: the first at the address rounded down to a multiple of 8, the last containing the final byte.
    fn words(&self) -> &[AtomicU64];
}

/// One allocation. Kernel threads of several blocks access it concurrently, hence the atomics. Relaxed order is enough:
/// joining the worker threads synchronises with them. Offsets and sizes must be those of accesses that lie in a live
/// buffer.
pub(super) struct Buffer {
    pub name: String,
    pub address: u64,
    pub bytes: u64,
    /// Layout and format of its texels, if it is a CUDA array.
    pub texels: Option<Texels>,
    /// The last launch that read it; [`ALWAYS_READ`] if others did or may.
    last_read: AtomicU64,
    contents: Contents,
}

enum Contents {
    /// Whether it was freed.
    Gone,
    Own {
        /// In little-endian order.
        words: Box<[AtomicU64]>,
        /// For each word, one bit per byte: whether it was written.
        initialised: Box<[AtomicU8]>,
    },
    /// Whether the host may have written all of it.
    Host(Arc<dyn HostWords>),
}

impl Buffer {
    /// An unwritten buffer; `None` if the host is out of memory.
    pub fn new(name: &str, address: u64, bytes: u64) -> Option<Buffer> {
        let words = usize::try_from(bytes.div_ceil(8)).ok()?;
        Some(Buffer {
            name: name.to_owned(),
            address,
            bytes,
            texels: None,
            last_read: AtomicU64::new(0),
            contents: Contents::Own {
                words: bytemuck::allocation::try_zeroed_slice_box(words).ok()?,
                initialised: bytemuck::allocation::try_zeroed_slice_box(words).ok()?,
            },
        })
    }

    /// A buffer in host memory; `None` if `words` are too few.
    pub fn of_host(name: &str, address: u64, bytes: u64, words: Arc<dyn HostWords>) -> Option<Buffer> {
        let needed = (address % 8).checked_add(bytes)?.div_ceil(8);
        let contents = Contents::Host(words);
        let last_read = AtomicU64::new(ALWAYS_READ);
        let buffer = Buffer { name: name.to_owned(), address, bytes, texels: None, last_read, contents };
        (buffer.words().len() as u64 >= needed).then_some(buffer)
    }

    fn words(&self) -> &[AtomicU64] {
        match &self.contents {
            Contents::Gone => &[],
            Contents::Own { words, .. } => words,
            Contents::Host(words) => words.words(),
        }
    }

    /// Which bytes were written; `None` if unknown.
    fn initialised(&self) -> Option<&[AtomicU8]> {
        match &self.contents {
            Contents::Own { initialised, .. } => Some(initialised),
            Contents::Gone | Contents::Host(_) => None,
        }
    }

    /// An offset relative to the first word.
    fn place_in_words(&self, offset: u64) -> u64 {
        offset + self.address % 8
    }

    /// Frees the contents.
    pub fn free(&mut self) {
        self.contents = Contents::Gone;
    }

    /// Records a read by a launch.
    pub fn note_read(&self, launch: u64) {
        if self.last_read.load(Relaxed) < launch {
            self.last_read.fetch_max(launch, Relaxed);
        }
    }

    /// Whether the buffer was read since a launch.
    pub fn is_read_after(&self, launch: u64) -> bool {
        self.last_read.load(Relaxed) > launch
    }

    pub fn is_live(&self) -> bool {
        !matches!(self.contents, Contents::Gone)
    }

    pub fn end(&self) -> u64 {
        self.address + self.bytes
    }

    /// Reads `data.len()` bytes at `offset`; true if all of them were written.
    pub fn load(&self, offset: u64, data: &mut [u8]) -> bool {
        let (words, initialised) = (self.words(), self.initialised());
        let mut offset = self.place_in_words(offset);
        let mut rest = data;
        let mut all_initialised = true;
        while !rest.is_empty() {
            let (word, first) = ((offset / 8) as usize, (offset % 8) as usize);
            let count = rest.len().min(8 - first);
            let (part, after) = rest.split_at_mut(count);
            part.copy_from_slice(&words[word].load(Relaxed).to_le_bytes()[first..first + count]);
            let bytes = byte_bits(first, count);
            all_initialised &= initialised.is_none_or(|written| written[word].load(Relaxed) & bytes == bytes);
            offset += count as u64;
            rest = after;
        }
        all_initialised
    }

    /// Writes `data` at `offset`.
    pub fn store(&self, offset: u64, data: &[u8]) {
        let mut offset = self.place_in_words(offset);
        let mut rest = data;
        while !rest.is_empty() {
            let (word, first) = ((offset / 8) as usize, (offset % 8) as usize);
            let count = rest.len().min(8 - first);
            let mut value = [0; 8];
            value[first..first + count].copy_from_slice(&rest[..count]);
            self.store_word(word, u64::from_le_bytes(value), byte_bits(first, count));
            offset += count as u64;
            rest = &rest[count..];
        }
    }

    /// Reads for the lanes of a warp, within the buffer; `None` if a byte was never written.
    pub fn load_lanes<const BYTES: usize>(&self, accesses: &LaneAccesses) -> Option<[[u8; BYTES]; LANES]> {
        let (words, initialised) = (self.words(), self.initialised());
        let mut all = [[0; BYTES]; LANES];
        let mut all_initialised = true;
        for (data, address) in all.iter_mut().zip(&accesses.addresses) {
            let offset = self.place_in_words(address - self.address);
            let (word, first) = ((offset / 8) as usize, (offset % 8) as usize);
            let bytes = byte_bits(first, BYTES.min(8));
            for (part, word) in data.chunks_mut(8).zip(word..) {
                let value = words[word].load(Relaxed) >> (8 * first);
                part.copy_from_slice(&value.to_le_bytes()[..BYTES.min(8)]);
                all_initialised &= initialised.is_none_or(|written| written[word].load(Relaxed) & bytes == bytes);
            }
        }
        all_initialised.then_some(all)
    }

    /// Writes for the lanes of a warp, within the buffer and in lane order. Values of several lanes for one word are
    /// combined into one write.
    pub fn store_lanes<const BYTES: usize>(&self, accesses: &LaneAccesses, data: &[[u8; BYTES]; LANES]) {
        let (mut word, mut value, mut bytes) = (0, 0, 0);
        for lane in lanes(accesses.active) {
            let offset = self.place_in_words(accesses.addresses[lane] - self.address);
            let first = (offset % 8) as usize;
            for (part, index) in data[lane].chunks(8).zip((offset / 8) as usize..) {
                if index != word && bytes != 0 {
                    self.store_word(word, value, bytes);
                    bytes = 0;
                }
                let mut new = [0; 8];
                new[..part.len()].copy_from_slice(part);
                let selected = byte_bits(first, part.len());
                let mask = if BYTES >= 8 { u64::MAX } else { ((1 << (8 * part.len())) - 1) << (8 * first) };
                value = value & !mask | u64::from_le_bytes(new) << (8 * first);
                (word, bytes) = (index, bytes | selected);
            }
        }
        if bytes != 0 {
            self.store_word(word, value, bytes);
        }
    }

    /// Atomically replaces the `bytes` (at most 8, naturally aligned) bytes at `offset` by `update` of them; returns
    /// the old value and whether it was initialised.
    pub fn update(&self, offset: u64, bytes: u32, update: &dyn Fn(u64) -> u64) -> (u64, bool) {
        let offset = self.place_in_words(offset);
        let (word, first) = ((offset / 8) as usize, (offset % 8) as usize);
        let selected = byte_bits(first, bytes as usize);
        let (mask, shift) = (byte_mask(selected), 8 * first);
        let written = self.initialised();
        let initialised = written.is_none_or(|written| written[word].load(Relaxed) & selected == selected);
        let old = self.words()[word]
            .fetch_update(Relaxed, Relaxed, |old| Some(old & !mask | update((old & mask) >> shift) << shift & mask))
            .unwrap_or_else(|unchanged| unchanged);
        self.mark_initialised(word, selected);
        ((old & mask) >> shift, initialised)
    }

    /// Marks `bytes` bytes at `offset`, a multiple of 8, as unwritten.
    pub fn forget_range(&self, offset: u64, bytes: u64) {
        let Some(initialised) = self.initialised() else { return };
        for word in offset / 8..(offset + bytes).div_ceil(8) {
            initialised[word as usize].store(0, Relaxed);
        }
    }

    /// The first unwritten byte among `bytes` bytes at `offset`.
    pub fn first_unwritten(&self, offset: u64, bytes: u64) -> Option<u64> {
        let initialised = self.initialised()?;
        let end = offset + bytes;
        (offset / 8..end.div_ceil(8)).find_map(|word| {
            let (first, last) = (offset.max(8 * word), end.min(8 * (word + 1)));
            let wanted = byte_bits((first % 8) as usize, (last - first) as usize);
            let missing = wanted & !initialised[word as usize].load(Relaxed);
            (missing != 0).then(|| 8 * word + u64::from(missing.trailing_zeros()))
        })
    }

    /// Whether the byte at `offset` was written.
    pub fn is_written(&self, offset: u64) -> bool {
        self.initialised().is_none_or(|written| written[(offset / 8) as usize].load(Relaxed) >> (offset % 8) & 1 == 1)
    }

    /// Marks the byte at `offset` as unwritten.
    pub fn forget(&self, offset: u64) {
        if let Some(initialised) = self.initialised() {
            initialised[(offset / 8) as usize].fetch_and(!(1 << (offset % 8)), Relaxed);
        }
    }

    /// Stores the bytes of `value` selected by `bytes` (one bit each).
    fn store_word(&self, word: usize, value: u64, bytes: u8) {
        if bytes == u8::MAX {
            self.words()[word].store(value, Relaxed);
        } else {
            let mask = byte_mask(bytes);
            // Adjacent bytes may change concurrently: only the selected bytes are replaced.
            let replace = |old: u64| Some(old & !mask | value & mask);
            let _ = self.words()[word].fetch_update(Relaxed, Relaxed, replace);
        }
        self.mark_initialised(word, bytes);
    }

    fn mark_initialised(&self, word: usize, bytes: u8) {
        if let Some(written) = self.initialised().map(|written| &written[word])
            && written.load(Relaxed) & bytes != bytes
        {
            written.fetch_or(bytes, Relaxed);
        }
    }
}

/// Expands one bit per byte to the eight bits of that byte.
fn byte_mask(bytes: u8) -> u64 {
    (0..8).filter(|byte| bytes >> byte & 1 != 0).map(|byte| 0xff << (8 * byte)).sum()
}

/// One bit for each of `count` bytes from `first`.
fn byte_bits(first: usize, count: usize) -> u8 {
    (((1_u16 << count) - 1) << first) as u8
}

//! One allocation of global memory: its bytes, and which of them were written.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use super::texels::Texels;

/// One allocation. Kernel threads of several blocks reach it at once, hence the atomics; relaxed order is enough, since
/// whoever joins the worker threads afterwards synchronises with them. Offsets and sizes are those of accesses that lie in a
/// live buffer.
pub(super) struct Buffer {
    pub name: String,
    pub address: u64,
    pub bytes: u64,
    /// What it holds, if it is a CUDA array.
    pub texels: Option<Texels>,
    /// The contents in little-endian words; empty once freed.
    words: Box<[AtomicU64]>,
    /// One bit for each byte of a word: whether it was written.
    initialised: Box<[AtomicU8]>,
}

impl Buffer {
    /// A buffer of which nothing was written; `None` when there is no memory for it.
    pub fn new(name: &str, address: u64, bytes: u64) -> Option<Buffer> {
        let words = usize::try_from(bytes.div_ceil(8)).ok()?;
        Some(Buffer {
            name: name.to_owned(),
            address,
            bytes,
            texels: None,
            words: bytemuck::allocation::try_zeroed_slice_box(words).ok()?,
            initialised: bytemuck::allocation::try_zeroed_slice_box(words).ok()?,
        })
    }

    /// Gives the contents back.
    pub fn free(&mut self) {
        self.words = Box::default();
        self.initialised = Box::default();
    }

    pub fn is_live(&self) -> bool {
        !self.words.is_empty()
    }

    pub fn end(&self) -> u64 {
        self.address + self.bytes
    }

    /// Reads `data.len()` bytes from `offset` on; true when all of them were written before.
    pub fn load(&self, mut offset: u64, data: &mut [u8]) -> bool {
        let mut rest = data;
        let mut all_initialised = true;
        while !rest.is_empty() {
            let (word, first) = ((offset / 8) as usize, (offset % 8) as usize);
            let count = rest.len().min(8 - first);
            let (part, after) = rest.split_at_mut(count);
            part.copy_from_slice(&self.words[word].load(Relaxed).to_le_bytes()[first..first + count]);
            let bytes = byte_bits(first, count);
            all_initialised &= self.initialised[word].load(Relaxed) & bytes == bytes;
            offset += count as u64;
            rest = after;
        }
        all_initialised
    }

    /// Writes `data` from `offset` on.
    pub fn store(&self, mut offset: u64, data: &[u8]) {
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

    /// Replaces the `bytes` (at most 8, naturally aligned) bytes at `offset` by `update` of them as one atomic operation;
    /// the old value and whether it was initialised.
    pub fn update(&self, offset: u64, bytes: u32, update: &dyn Fn(u64) -> u64) -> (u64, bool) {
        let (word, first) = ((offset / 8) as usize, (offset % 8) as usize);
        let selected = byte_bits(first, bytes as usize);
        let (mask, shift) = (byte_mask(selected), 8 * first);
        let initialised = self.initialised[word].load(Relaxed) & selected == selected;
        let old = self.words[word]
            .fetch_update(Relaxed, Relaxed, |old| Some(old & !mask | update((old & mask) >> shift) << shift & mask))
            .unwrap_or_else(|unchanged| unchanged);
        self.mark_initialised(word, selected);
        ((old & mask) >> shift, initialised)
    }

    /// Takes `bytes` bytes from `offset`, a multiple of 8, on as never written.
    pub fn forget_range(&self, offset: u64, bytes: u64) {
        for word in offset / 8..(offset + bytes).div_ceil(8) {
            self.initialised[word as usize].store(0, Relaxed);
        }
    }

    /// The first of `bytes` bytes from `offset` on that was never written.
    pub fn first_unwritten(&self, offset: u64, bytes: u64) -> Option<u64> {
        let end = offset + bytes;
        (offset / 8..end.div_ceil(8)).find_map(|word| {
            let (first, last) = (offset.max(8 * word), end.min(8 * (word + 1)));
            let wanted = byte_bits((first % 8) as usize, (last - first) as usize);
            let missing = wanted & !self.initialised[word as usize].load(Relaxed);
            (missing != 0).then(|| 8 * word + u64::from(missing.trailing_zeros()))
        })
    }

    /// Whether the byte at `offset` was written.
    pub fn is_written(&self, offset: u64) -> bool {
        self.initialised[(offset / 8) as usize].load(Relaxed) >> (offset % 8) & 1 == 1
    }

    /// Makes the byte at `offset` one that nothing wrote.
    pub fn forget(&self, offset: u64) {
        self.initialised[(offset / 8) as usize].fetch_and(!(1 << (offset % 8)), Relaxed);
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

/// One bit for each of `count` bytes from `first`.
fn byte_bits(first: usize, count: usize) -> u8 {
    (((1_u16 << count) - 1) << first) as u8
}

//! Access history of global memory, in pages.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::line::{LINE_BYTES, LINE_CELLS, Line};
use super::shadow::PAGE_CELLS;

/// Lines per page.
const PAGE_LINES: u64 = PAGE_CELLS / LINE_CELLS as u64;

/// The lines of global memory that were accessed, and their neighbours.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// By number.
    pages: HashMap<u64, Vec<Line>, BuildHasherDefault<NumberHasher>>,
}

impl Pages {
    /// Clears everything.
    pub fn clear(&mut self) {
        self.pages.clear();
    }

    /// Takes every page with its number, in order.
    pub fn take(&mut self) -> Vec<(u64, Vec<Line>)> {
        let mut pages: Vec<(u64, Vec<Line>)> = self.pages.drain().collect();
        pages.sort_unstable_by_key(|(number, _)| *number);
        pages
    }

    /// The line that contains an address, if it exists.
    pub fn line(&self, address: u64) -> Option<&Line> {
        let line = address / LINE_BYTES;
        self.pages.get(&(line / PAGE_LINES))?.get((line % PAGE_LINES) as usize)
    }

    /// The line that contains an address; created if missing.
    pub fn line_mut(&mut self, address: u64) -> &mut Line {
        let line = address / LINE_BYTES;
        let page = self.pages.entry(line / PAGE_LINES);
        let page = page.or_insert_with(|| vec![Line::default(); PAGE_LINES as usize]);
        &mut page[(line % PAGE_LINES) as usize]
    }
}

/// Multiplicative hashing (Knuth, "The Art of Computer Programming", 6.4).
#[derive(Debug, Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, number: u64) {
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

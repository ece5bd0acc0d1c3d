//! Accesses of grids that may still run when a later grid begins.

use std::ops::Range;

use super::accesses::GlobalAccess;

/// Global memory accessed by earlier grids that may still run when a launch begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// In order, disjoint.
    written: Vec<Range<u64>>,
    /// The same for memory that was read or written.
    touched: Vec<Range<u64>>,
}

impl Unfinished {
    /// From the access reports of the grids.
    pub fn new<'a>(accesses: impl Iterator<Item = &'a GlobalAccess> + Clone) -> Unfinished {
        let range = |access: &GlobalAccess| access.address..access.address.saturating_add(access.bytes);
        Unfinished {
            written: merged(accesses.clone().filter(|access| access.writes).map(range).collect()),
            touched: merged(accesses.map(range).collect()),
        }
    }

    /// Whether an access to `bytes` bytes at `address` overlaps one of them in conflict.
    pub(crate) fn meets(&self, address: u64, bytes: u64, writes: bool) -> bool {
        let ranges = if writes { &self.touched } else { &self.written };
        let first = ranges.partition_point(|range| range.end <= address);
        ranges.get(first).is_some_and(|range| range.start < address.saturating_add(bytes))
    }
}

fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, before| {
        let is_one = next.start <= before.end;
        if is_one {
            before.end = before.end.max(next.end);
        }
        is_one
    });
    ranges
}

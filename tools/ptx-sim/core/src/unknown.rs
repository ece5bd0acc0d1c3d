//! Undetermined values: of unwritten memory and registers, and of racing reads. They propagate through the machine like
//! other values; a finding is reported only when something depends on them.

use crate::parse::Space;
use crate::race::Conflict;

/// Number of a store instruction that left undetermined values in global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StoreId(pub(crate) u32);

/// Origin of an undetermined value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// An unwritten register, in one lane of a warp.
    Register { slot: u32, warp: u32, lane: u32 },
    /// Unwritten memory.
    Memory(Read),
    /// Global memory in which a store left undetermined values.
    Stored(Read, StoreId),
    /// Memory that another thread writes concurrently, or that two lanes of a warp write.
    Race(Read, Conflict),
    /// A register of a lane that does not execute the `shfl` at `pc`, which another lane reads.
    Absent { pc: u32, warp: u32, lane: u32 },
}

/// A read of memory by one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Read {
    /// Index of the instruction.
    pub pc: u32,
    pub warp: u32,
    pub lane: u32,
    pub space: Space,
    /// Address of the first byte read.
    pub address: u64,
    pub bytes: u32,
    /// Whether it is an `ld` with other, known bytes: the unknown ones may be padding between the members of a struct.
    pub is_partial: bool,
    /// Whether it is a write: its value is undetermined because another lane writes there too.
    pub writes: bool,
}

/// A value with undetermined bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// Mask of the undetermined bits.
    pub bits: u64,
    pub origin: Origin,
    /// Whether it was computed from the value of the origin rather than copied.
    pub is_computed: bool,
}

impl Origin {
    /// Whether it is a finding of its own kind as soon as a value of it is stored to global memory.
    pub fn is_of_others(self) -> bool {
        matches!(self, Origin::Race(..) | Origin::Absent { .. })
    }
}

impl Unknown {
    /// The same value with only these bits undetermined; `None` if none remain.
    pub fn with_bits(self, bits: u64) -> Option<Unknown> {
        (bits != 0).then_some(Unknown { bits, ..self })
    }

    /// The combination of two values: bits undetermined in either are undetermined.
    pub fn and(self, other: Option<Unknown>) -> Unknown {
        let other = other.filter(|other| other.bits != 0);
        other.map_or(self, |other| Unknown {
            bits: self.bits | other.bits,
            is_computed: self.is_computed || other.is_computed,
            ..self
        })
    }

    /// Whether it may be struct padding that a copy includes.
    pub fn may_be_padding(self) -> bool {
        let is_whole = matches!(self.origin, Origin::Memory(Read { is_partial: false, .. }));
        let is_read = matches!(self.origin, Origin::Memory(..) | Origin::Register { .. });
        !self.is_computed && !is_whole && is_read
    }
}

/// Undetermined bytes of a range: index and bits of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnknownBytes(Vec<(usize, Unknown)>);

impl UnknownBytes {
    /// Whether all bytes are known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a byte.
    pub fn push(&mut self, index: usize, unknown: Unknown) {
        self.0.push((index, unknown));
    }

    /// Marks bytes that the instruction at `pc` found unwritten as possible padding.
    pub fn mark_partial(&mut self, pc: u32) {
        for (_, unknown) in &mut self.0 {
            if let Origin::Memory(read) = &mut unknown.origin {
                read.is_partial |= read.pc == pc;
            }
        }
    }

    /// Number of undetermined bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps bytes whose origin is one of `keep`.
    pub fn retain(&mut self, keep: impl Fn(Origin) -> bool) {
        self.0.retain(|(_, unknown)| keep(unknown.origin));
    }

    /// Whether they are padding within a value of a number of bytes.
    pub fn is_padding_of(&self, bytes: usize) -> bool {
        let is_all = self.0.len() == bytes && self.0.iter().all(|(_, unknown)| unknown.bits == 0xff);
        !is_all && self.0.iter().all(|(_, unknown)| unknown.may_be_padding())
    }

    /// All undetermined bytes, with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Unknown)> {
        self.0.iter().copied()
    }

    /// Adds the undetermined bytes of a value at byte `first`.
    pub fn push_value(&mut self, first: usize, width: usize, unknown: Unknown) {
        for index in 0..width {
            if let Some(byte) = unknown.with_bits(unknown.bits >> (8 * index) & 0xff) {
                self.push(first + index, byte);
            }
        }
    }

    /// The value of `width` (at most 8) bytes at byte `first`; `None` if all of it is known.
    pub fn value(&self, first: usize, width: usize) -> Option<Unknown> {
        let mine = self.iter().filter(|(index, _)| (first..first + width).contains(index));
        let shifted = mine.map(|(index, byte)| Unknown { bits: byte.bits << (8 * (index - first)), ..byte });
        shifted.reduce(|value, byte| value.and(Some(byte)))
    }
}

//! Values that the program does not determine: of memory and registers that nobody wrote, and of reads that race. They move
//! through the machine like others; what matters is whether anything depends on them.

use crate::parse::Space;
use crate::race::Conflict;

/// A store instruction that left undetermined values in a global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StoreId(pub(crate) u32);

/// Where an undetermined value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// A register that nothing wrote, in one lane of a warp.
    Register { slot: u32, warp: u32, lane: u32 },
    /// Memory that nothing wrote.
    Memory(Read),
    /// Global memory in which a store left what was not determined.
    Stored(Read, StoreId),
    /// Memory that another thread writes at the same time, or that two lanes of a warp write.
    Race(Read, Conflict),
}

/// A read of memory by one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Read {
    /// Index of the instruction.
    pub pc: u32,
    pub warp: u32,
    pub lane: u32,
    pub space: Space,
    /// The first byte that it reads.
    pub address: u64,
    pub bytes: u32,
    /// Whether it is an `ld` of which other bytes are known: what is not may be padding between the members of a struct.
    pub is_partial: bool,
    /// Whether it is a write: what it left is not determined, as another lane writes there, too.
    pub writes: bool,
}

/// A value of which some bits are undetermined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// Those bits.
    pub bits: u64,
    pub origin: Origin,
    /// Whether it was computed from the origin's value, not only copied.
    pub is_computed: bool,
}

impl Unknown {
    /// The same value with only these bits undetermined; `None` when that leaves none.
    pub fn with_bits(self, bits: u64) -> Option<Unknown> {
        (bits != 0).then_some(Unknown { bits, ..self })
    }

    /// A value that consists of this one and another: what is undetermined of either is.
    pub fn and(self, other: Option<Unknown>) -> Unknown {
        let other = other.filter(|other| other.bits != 0);
        other.map_or(self, |other| Unknown {
            bits: self.bits | other.bits,
            is_computed: self.is_computed || other.is_computed,
            ..self
        })
    }

    /// Whether it may be padding that a copy of a struct takes along.
    pub fn may_be_padding(self) -> bool {
        let is_whole = matches!(self.origin, Origin::Memory(Read { is_partial: false, .. }));
        !self.is_computed && !is_whole && !matches!(self.origin, Origin::Stored(..) | Origin::Race(..))
    }
}

/// The undetermined ones of some bytes: which byte, and its bits.
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

    /// Says that the bytes that the instruction at `pc` found unwritten may be padding.
    pub fn mark_partial(&mut self, pc: u32) {
        for (_, unknown) in &mut self.0 {
            if let Origin::Memory(read) = &mut unknown.origin {
                read.is_partial |= read.pc == pc;
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps those whose origin is one of `keep`.
    pub fn retain(&mut self, keep: impl Fn(Origin) -> bool) {
        self.0.retain(|(_, unknown)| keep(unknown.origin));
    }

    /// Whether they are padding that comes along with a value of so many bytes.
    pub fn is_padding_of(&self, bytes: usize) -> bool {
        let is_all = self.0.len() == bytes && self.0.iter().all(|(_, unknown)| unknown.bits == 0xff);
        !is_all && self.0.iter().all(|(_, unknown)| unknown.may_be_padding())
    }

    /// Every one of them, each with its index.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Unknown)> {
        self.0.iter().copied()
    }

    /// Adds the undetermined bytes of a value that begins at byte `first`.
    pub fn push_value(&mut self, first: usize, width: usize, unknown: Unknown) {
        for index in 0..width {
            if let Some(byte) = unknown.with_bits(unknown.bits >> (8 * index) & 0xff) {
                self.push(first + index, byte);
            }
        }
    }

    /// The value of `width` (at most 8) bytes from byte `first` on; `None` when all of it is known.
    pub fn value(&self, first: usize, width: usize) -> Option<Unknown> {
        let mine = self.iter().filter(|(index, _)| (first..first + width).contains(index));
        let shifted = mine.map(|(index, byte)| Unknown { bits: byte.bits << (8 * (index - first)), ..byte });
        shifted.reduce(|value, byte| value.and(Some(byte)))
    }
}

//! Shape classes: problems for which the same variant is the fastest on a GPU.

use core::fmt;

use crate::config::{Mask, Sequence};
use crate::shape::Shape;
use crate::variants::VARIANTS;

/// A class of problems that are launched with one variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
pub struct ShapeClass {
    /// Class of their sequence length.
    pub sequence: SequenceClass,
    /// Their mask.
    pub mask: Mask,
    /// Heads per multiprocessor.
    pub heads: HeadsClass,
}

/// A class of sequence lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum SequenceClass {
    /// A length that kernels are specialised for.
    Exactly(u32),
    /// Other lengths in (half of this, this].
    UpTo(u32),
}

/// Class of B·H per multiprocessor: above the previous class's end, up to its own. The last class is unbounded. Large tiles do not
/// fill a GPU with few heads; with many heads they pay off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(into = "f64", try_from = "f64"))]
pub struct HeadsClass(u8);

impl HeadsClass {
    /// Upper ends of the classes.
    const ENDS: [f64; 8] = [0.0625, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];

    fn new(heads: f64) -> Self {
        let index = Self::ENDS.iter().position(|&end| heads <= end);
        Self(index.unwrap_or(Self::ENDS.len() - 1) as u8)
    }

    /// The class with upper end `end`, if there is one.
    pub const fn ending_at(end: f64) -> Option<Self> {
        let mut index = 0;
        while index < Self::ENDS.len() {
            if Self::ENDS[index] == end {
                return Some(Self(index as u8));
            }
            index += 1;
        }
        None
    }

    /// Its upper end, in heads per multiprocessor.
    pub const fn end(self) -> f64 {
        Self::ENDS[self.0 as usize]
    }

    /// Number of steps between the two classes.
    pub const fn distance(self, other: Self) -> u8 {
        self.0.abs_diff(other.0)
    }
}

impl From<HeadsClass> for f64 {
    fn from(class: HeadsClass) -> f64 {
        class.end()
    }
}

impl TryFrom<f64> for HeadsClass {
    type Error = &'static str;

    fn try_from(end: f64) -> Result<Self, Self::Error> {
        Self::ending_at(end).ok_or("no class of heads ends there; they end at 0.0625, 0.25, 0.5, 1, 2, 4, 8 and 16")
    }
}

impl ShapeClass {
    /// The class of a problem with `shape` and `mask` on a GPU with `multiprocessors` multiprocessors.
    pub fn new(shape: Shape, mask: Mask, multiprocessors: u32) -> Self {
        let specialised = VARIANTS.iter().any(|variant| variant.sequence == Sequence::Exact(shape.sequence));
        let sequence = match specialised {
            true => SequenceClass::Exactly(shape.sequence),
            false => SequenceClass::UpTo(shape.sequence.next_power_of_two()),
        };
        let heads = f64::from(shape.batch) * f64::from(shape.heads) / f64::from(multiprocessors.max(1));
        Self { sequence, mask, heads: HeadsClass::new(heads) }
    }
}

impl fmt::Display for ShapeClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sequence {
            SequenceClass::Exactly(length) => write!(formatter, "sequence {length}")?,
            SequenceClass::UpTo(length) => write!(formatter, "sequences up to {length}")?,
        }
        write!(formatter, ", {} mask, {}", self.mask.name(), self.heads)
    }
}

impl fmt::Display for HeadsClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match usize::from(self.0) == Self::ENDS.len() - 1 {
            true => write!(formatter, "over {} heads a multiprocessor", Self::ENDS[Self::ENDS.len() - 2]),
            false => write!(formatter, "up to {} heads a multiprocessor", self.end()),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::ToString;

    fn class(batch: u32, heads: u32, sequence: u32) -> ShapeClass {
        ShapeClass::new(Shape::new(batch, heads, sequence), Mask::Full, 132)
    }

    #[test]
    fn classes_part_small_from_large_problems_of_an_h200() {
        let heads = |batch, heads| class(batch, heads, 512).heads.to_string();
        assert_eq!(heads(4, 8), "up to 0.25 heads a multiprocessor");
        assert_eq!(heads(8, 8), "up to 0.5 heads a multiprocessor");
        assert_eq!(heads(32, 8), "up to 2 heads a multiprocessor");
        assert_eq!(heads(1, 8), "up to 0.0625 heads a multiprocessor");
        assert_eq!(heads(64, 16), "up to 8 heads a multiprocessor");
        assert_eq!(heads(1024, 64), "over 8 heads a multiprocessor");
        assert_eq!(class(4, 8, 512).heads.distance(class(32, 8, 512).heads), 3);
    }

    #[test]
    fn the_specialised_length_is_a_class_of_its_own() {
        assert_eq!(class(1, 1, 512).sequence, SequenceClass::Exactly(512));
        assert_eq!(class(1, 1, 511).sequence, SequenceClass::UpTo(512));
        assert_eq!(class(1, 1, 1024).sequence, SequenceClass::UpTo(1024));
        assert_eq!(class(4, 8, 512).to_string(), "sequence 512, full mask, up to 0.25 heads a multiprocessor");
    }
}

//! What calls pass: arguments and results.

use crate::context::{Context, Place};
use crate::machine::Warp;
use crate::parse::Space;
use crate::program::Passed;
use crate::unknown::UnknownBytes;

/// Values being passed.
#[derive(Default)]
pub(super) struct Values {
    pub data: Vec<u8>,
    /// Their undetermined bytes.
    pub unknown: UnknownBytes,
}

/// The values of a lane whose frame begins at `base`.
pub(super) fn gather(context: &Context<'_>, lane: usize, base: u64, from: &[Passed]) -> Values {
    let mut values = Values::default();
    for passed in from {
        let first = values.data.len();
        match *passed {
            Passed::Bytes { offset, bytes } => {
                let place = Place::new(lane, Some(Space::Local), base + offset, 1);
                let (data, unknown) = context.warp.local[lane].passed(context.read_at(place, bytes as usize));
                values.data.extend(data);
                unknown.iter().for_each(|(index, byte)| values.unknown.push(first + index, byte));
            }
            Passed::Register { slot, bytes, .. } => {
                if let Some(value) = context.warp.registers.unknown(slot, lane) {
                    values.unknown.push_value(first, bytes as usize, value);
                }
                values.data.extend_from_slice(&context.value(slot, lane).to_le_bytes()[..bytes as usize]);
            }
        }
    }
    // Structures are passed with their padding.
    values.unknown.mark_partial(context.pc);
    values
}

/// Writes values to a lane whose frame begins at `base`.
pub(super) fn scatter(warp: &mut Warp, lane: usize, base: u64, to: &[Passed], values: &Values) {
    let mut first = 0;
    for passed in to {
        let end = first + passed.bytes() as usize;
        let own = &values.data[first..end];
        match *passed {
            Passed::Bytes { offset, .. } => {
                let mut unknown = UnknownBytes::default();
                let mine = values.unknown.iter().filter(|(index, _)| (first..end).contains(index));
                mine.for_each(|(index, byte)| unknown.push(index - first, byte));
                warp.local[lane].pass(base + offset, own, &unknown);
            }
            Passed::Register { slot, mask, .. } => {
                let value = own.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
                warp.registers.values[slot as usize][lane] = value & mask;
                let unknown =
                    values.unknown.value(first, end - first).and_then(|value| value.with_bits(value.bits & mask));
                warp.registers.set_unknown(slot, lane, unknown);
            }
        }
        first = end;
    }
}

//! The registers of a warp, with undetermined bits.

use std::collections::HashMap;

use crate::lanes::{LANES, lanes};
use crate::program::Slot;
use crate::unknown::{Origin, Unknown};

/// Register values by slot and lane.
pub(crate) struct Registers {
    /// Index of the warp.
    pub warp: u32,
    pub values: Vec<[u64; LANES]>,
    /// Lanes in which the register was written and is fully known.
    pub initialised: Vec<u32>,
    /// Undetermined bits in the other lanes; a lane without an entry was never written.
    unknown: HashMap<Slot, Box<[Option<Unknown>; LANES]>>,
}

impl Registers {
    /// `count` registers, all unwritten.
    pub fn new(count: usize) -> Registers {
        Registers { warp: 0, values: vec![[0; LANES]; count], initialised: vec![0; count], unknown: HashMap::new() }
    }

    /// Clears the undetermined bits before [`Registers::initialised`] is set.
    pub fn clear(&mut self, warp: u32) {
        self.warp = warp;
        self.unknown.clear();
    }

    /// Writes a register in the lanes of a mask.
    pub fn set(&mut self, slot: Slot, active: u32, values: &[u64; LANES]) {
        let row = &mut self.values[slot as usize];
        self.initialised[slot as usize] |= active;
        if active == u32::MAX {
            *row = *values;
        } else {
            lanes(active).for_each(|lane| row[lane] = values[lane]);
        }
    }

    /// The lanes in which a register is non-zero.
    pub fn nonzero(&self, slot: Slot) -> u32 {
        let bits = self.values[slot as usize].iter().zip(0..).map(|(value, lane)| u32::from(*value != 0) << lane);
        bits.fold(0, |mask, bit| mask | bit)
    }

    /// The undetermined bits of a register in a lane.
    pub fn unknown(&self, slot: Slot, lane: usize) -> Option<Unknown> {
        if self.initialised[slot as usize] >> lane & 1 == 1 {
            return None;
        }
        let never = || {
            let origin = Origin::Register { slot, warp: self.warp, lane: lane as u32 };
            Unknown { bits: u64::MAX, origin, is_computed: false }
        };
        Some(self.unknown.get(&slot).and_then(|unknown| unknown[lane]).unwrap_or_else(never))
    }

    /// Makes a register of a lane unwritten.
    pub fn unset(&mut self, slot: Slot, lane: usize) {
        self.values[slot as usize][lane] = 0;
        self.initialised[slot as usize] &= !(1 << lane);
        if let Some(unknown) = self.unknown.get_mut(&slot) {
            unknown[lane] = None;
        }
    }

    /// Sets the undetermined bits of a register in a lane.
    pub fn set_unknown(&mut self, slot: Slot, lane: usize, unknown: Option<Unknown>) {
        let initialised = &mut self.initialised[slot as usize];
        match unknown {
            None => *initialised |= 1 << lane,
            Some(unknown) => {
                *initialised &= !(1 << lane);
                self.unknown.entry(slot).or_insert_with(|| Box::new([None; LANES]))[lane] = Some(unknown);
            }
        }
    }

    /// The lanes of `among` in which one of the registers is not fully known.
    pub fn lanes_with_unknown(&self, slots: &[Slot], among: u32) -> u32 {
        among & !slots.iter().fold(u32::MAX, |known, slot| known & self.initialised[*slot as usize])
    }

    /// Undetermined bits of a value computed from all of the registers, for the lanes of `among` that have any: all
    /// bits of the value.
    pub fn computed_from(&self, slots: &[Slot], among: u32) -> Vec<(usize, Unknown)> {
        let of_lane = |lane: usize| {
            let first = slots.iter().find_map(|slot| self.unknown(*slot, lane))?;
            Some((lane, Unknown { bits: u64::MAX, is_computed: true, ..first }))
        };
        lanes(self.lanes_with_unknown(slots, among)).filter_map(of_lane).collect()
    }
}

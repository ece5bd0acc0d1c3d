//! Loads from shared memory of which nothing says that they are complete (PTX ISA, "Proxies").
//!
//! A barrier orders a load before a later copy by the async proxy, but the copy may overtake it unless the load is complete when its
//! warp arrives there: a use of its value completes it, and so does a `fence.proxy.async`.

use std::collections::BTreeMap;

use crate::lanes::{LANES, lanes};
use crate::program::{Instruction, Slot};
use crate::race::{Agent, Races};

/// A load by lanes of a warp.
#[derive(Clone, Debug)]
pub(crate) struct SharedLoad {
    pub warp: u32,
    /// Index of the instruction.
    pub pc: u32,
    /// Lanes whose registers it writes.
    pub lanes: u32,
    /// Lanes whose addresses it reads.
    pub reading: u32,
    /// Shared addresses, by lane.
    pub addresses: [u32; LANES],
    /// Bytes of each lane.
    pub bytes: u32,
    /// When it began, as the detection of races counts it.
    pub time: u32,
}

impl SharedLoad {
    /// The lanes that read some of `bytes` bytes at an address.
    fn lanes_at(&self, address: u64, bytes: usize) -> u32 {
        let end = address.saturating_add(bytes as u64);
        let reads = |lane: &usize| {
            let first = u64::from(self.addresses[*lane]);
            first < end && address < first + u64::from(self.bytes)
        };
        lanes(self.reading).filter(reads).fold(0, |mask, lane| mask | 1 << lane)
    }

    /// The first address.
    fn first(&self) -> u32 {
        lanes(self.reading).map(|lane| self.addresses[lane]).min().unwrap_or(0)
    }
}

/// A load and what became of it.
#[derive(Debug)]
struct Known {
    load: SharedLoad,
    /// Number among the loads of its warp, from 1.
    number: u32,
    /// How many registers hold its values.
    registers: u32,
    /// It was complete at these times of these warps.
    complete: Vec<(u32, u32)>,
    /// The copy that may have overtaken it, and the instruction.
    overtaken: Option<(Agent, u32)>,
}

/// The loads of a warp whose values nothing has used.
#[derive(Debug, Default)]
struct Unused {
    loads: Vec<Known>,
    /// The number of the load whose value a register holds, by slot; 0 for none.
    held: Vec<u32>,
    /// Loads so far.
    count: u32,
}

impl Unused {
    /// The position of the load whose value a register holds, if some of the lanes loaded it.
    fn position(&self, slot: Slot, among: u32) -> Option<usize> {
        let number = self.held[slot as usize];
        let position = (number > 0).then(|| self.loads.binary_search_by_key(&number, |known| known.number).ok())??;
        (self.loads[position].load.lanes & among != 0).then_some(position)
    }

    /// A register gets the value of a load, or another one.
    fn hold(&mut self, slot: Slot, number: u32) {
        let before = std::mem::replace(&mut self.held[slot as usize], number);
        for (changed, gains) in [(number, true), (before, false)] {
            let Ok(position) = self.loads.binary_search_by_key(&changed, |known| known.number) else { continue };
            let registers = &mut self.loads[position].registers;
            *registers = if gains { *registers + 1 } else { *registers - 1 };
            if *registers == 0 {
                self.loads.remove(position);
            }
        }
    }
}

/// The loads of a cluster that copies may overtake.
#[derive(Debug)]
pub(crate) struct SharedLoads {
    /// Number of registers of a warp.
    registers: usize,
    /// By warp; empty if the async proxy writes no shared memory.
    unused: Vec<Unused>,
    /// Those that were complete only after their warp had synchronised, by warp, instruction and first address.
    late: BTreeMap<(u32, u32, u32), Known>,
}

impl SharedLoads {
    /// For a number of warps, 0 if the loads are of no interest, with a number of registers each.
    pub fn new(warps: usize, registers: usize) -> SharedLoads {
        let unused = (0..warps).map(|_| Unused { held: vec![0; registers], ..Unused::default() }).collect();
        SharedLoads { registers, unused, late: BTreeMap::new() }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = SharedLoads::new(self.unused.len(), self.registers);
    }

    /// Whether loads are tracked.
    pub fn is_watching(&self) -> bool {
        !self.unused.is_empty()
    }

    /// Whether a warp has loads whose values nothing has used.
    pub fn has_unused(&self, warp: u32) -> bool {
        self.unused.get(warp as usize).is_some_and(|unused| !unused.loads.is_empty())
    }

    /// A load begins, which writes these registers.
    pub fn begin(&mut self, load: SharedLoad, to: &[Slot]) {
        let Some(unused) = self.unused.get_mut(load.warp as usize).filter(|_| !to.is_empty()) else { return };
        unused.count += 1;
        let number = unused.count;
        unused.loads.push(Known { load, number, registers: 0, complete: Vec::new(), overtaken: None });
        to.iter().for_each(|slot| unused.hold(*slot, number));
    }

    /// Lanes of a warp execute an instruction, which may use values of loads, or only move them. Returns the used loads that a
    /// copy may have overtaken, with the copy.
    pub fn execute(
        &mut self,
        (warp, active, now): (u32, u32, u32),
        instruction: &Instruction,
        moves: bool,
    ) -> Vec<(SharedLoad, Agent, u32)> {
        let unused = &mut self.unused[warp as usize];
        let (mut moved, mut overtaken) = (0, Vec::new());
        for slot in &instruction.reads {
            let Some(position) = unused.position(*slot, active) else { continue };
            let number = unused.loads[position].number;
            if moves && (moved == 0 || moved == number) {
                moved = number;
                continue;
            }
            let known = unused.loads.remove(position);
            match known.overtaken {
                Some((copier, pc)) => overtaken.push((known.load, copier, pc)),
                None => keep_if_late(&mut self.late, known, now),
            }
        }
        for slot in &instruction.writes {
            unused.hold(*slot, moved);
        }
        overtaken
    }

    /// Lanes of a warp execute `fence.proxy.async`, which completes the loads of the warp and those that it is ordered after.
    pub fn fence(&mut self, (warp, active, now): (u32, u32, u32), races: &Races) {
        let own = self.unused.get_mut(warp as usize).into_iter();
        let own = own.flat_map(|unused| unused.loads.extract_if(.., |known| known.overtaken.is_none()));
        own.for_each(|known| keep_if_late(&mut self.late, known, now));
        let others = self.unused.iter_mut().flat_map(|unused| &mut unused.loads);
        for known in others.chain(self.late.values_mut()) {
            let SharedLoad { warp: reader, reading, time, .. } = known.load;
            if known.complete.iter().all(|(other, _)| *other != warp)
                && races.knows((warp, active), (reader, reading), time)
            {
                known.complete.push((warp, now));
            }
        }
    }

    /// A copy writes `bytes` bytes at an address; returns the loads there that it may have overtaken and whose values were used.
    pub fn overwrite(
        &mut self,
        (address, bytes): (u64, usize),
        (copier, pc): (Agent, u32),
        races: &Races,
    ) -> Vec<SharedLoad> {
        let overtakes = |known: &Known| {
            let lanes = known.load.lanes_at(address, bytes);
            let is_complete =
                |(warp, time): &(u32, u32)| *warp == copier.warp || races.is_after_any(copier, *warp, *time);
            let SharedLoad { warp, time, .. } = known.load;
            lanes != 0 && races.is_after(copier, (warp, lanes), time) && !known.complete.iter().any(is_complete)
        };
        for known in self.unused.iter_mut().flat_map(|unused| &mut unused.loads) {
            if known.overtaken.is_none() && overtakes(known) {
                known.overtaken = Some((copier, pc));
            }
        }
        let mut overtaken = Vec::new();
        self.late.retain(|_, known| {
            if overtakes(known) {
                overtaken.push(known.load.clone());
            }
            // Whoever copies there again comes after this copy.
            known.load.lanes_at(address, bytes) != known.load.reading
        });
        overtaken
    }
}

/// Keeps a load that is complete now, if its warp has synchronised since it began.
fn keep_if_late(late: &mut BTreeMap<(u32, u32, u32), Known>, mut known: Known, now: u32) {
    let SharedLoad { warp, pc, time, .. } = known.load;
    if time < now {
        known.complete.push((warp, now));
        late.insert((warp, pc, known.load.first()), known);
    }
}

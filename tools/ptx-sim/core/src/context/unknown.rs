//! Uses of undetermined values, and their messages.

use super::faults::addresses;
use super::view::Context;
use crate::finding::{Finding, FindingClass, LaneAddress, OtherAccess};
use crate::lanes::{lane_list, lanes};
use crate::memory::UndeterminedStore;
use crate::program::Slot;
use crate::race::Engine;
use crate::unknown::{Origin, Read, StoreId, Unknown};

/// A lane, and the origin of the undetermined value that it uses.
pub(crate) type Use = (usize, Origin);

impl Context<'_> {
    /// Reports registers that are undetermined in an active lane although their values matter.
    pub fn require(&mut self, slots: &[Slot]) {
        self.require_in(self.active, slots);
    }

    /// Like [`Context::require`], for some lanes.
    pub fn require_in(&mut self, readers: u32, slots: &[Slot]) {
        for slot in slots {
            let missing = readers & !self.warp.registers.initialised[*slot as usize];
            if missing != 0 {
                self.report_register(*slot, missing);
            }
        }
    }

    /// Lanes of `among` in which some of the registers are undetermined.
    pub fn unknown_in(&self, slots: &[Slot], among: u32) -> u32 {
        self.warp.registers.lanes_with_unknown(slots, among)
    }

    /// Sets the undetermined bits of a register in a lane.
    pub fn set_unknown(&mut self, slot: Slot, lane: usize, unknown: Option<Unknown>) {
        self.warp.registers.set_unknown(slot, lane, unknown.filter(|unknown| unknown.bits != 0));
    }

    #[cold]
    fn report_register(&mut self, slot: Slot, missing: u32) {
        let uses = lanes(missing).filter_map(|lane| Some((lane, self.warp.registers.unknown(slot, lane)?.origin)));
        let uses: Vec<Use> = uses.collect();
        self.report_uses(&uses);
        for lane in lanes(missing) {
            self.warp.registers.set_unknown(slot, lane, None);
        }
    }

    /// Reports uses of undetermined values, each origin once.
    #[cold]
    pub fn report_uses(&mut self, uses: &[Use]) {
        let is_new = |(_, origin): &&Use| !self.cluster.reported.contains(origin);
        let mut fresh: Vec<Use> = uses.iter().filter(is_new).copied().collect();
        // Of the values that one lane uses at once, the first is enough.
        fresh.dedup_by_key(|(lane, _)| *lane);
        self.cluster.reported.extend(uses.iter().map(|(_, origin)| *origin));
        let (others, unwritten): (Vec<Use>, Vec<Use>) =
            fresh.into_iter().partition(|(_, origin)| origin.is_of_others());
        self.report_racing_reads(&others);
        self.report_absent(&others);
        let Some((_, first)) = unwritten.first().copied() else { return };
        let (which, other, text) = self.describe_uses(first, &unwritten);
        self.report_pair(FindingClass::Uninitialised, which, other, || text);
    }

    /// Lanes that use an uninitialised value, the place where the first was read, and its description.
    pub(super) fn describe_uses(&self, first: Origin, uses: &[Use]) -> (Vec<LaneAddress>, Option<OtherAccess>, String) {
        let which = uses.iter().map(|(lane, origin)| LaneAddress { lane: *lane as u32, address: address(*origin) });
        let which: Vec<LaneAddress> = which.collect();
        let text = self.describe(first, &which);
        (which, self.place_of(first), text)
    }

    /// Reports shuffles from absent lanes whose values turned out to matter, at the shuffles.
    fn report_absent(&mut self, uses: &[Use]) {
        for together in uses.chunk_by(|(_, one), (_, other)| place(*one) == place(*other)) {
            let Some((_, Origin::Absent { pc, warp, .. })) = together.first().copied() else { continue };
            let which: Vec<LaneAddress> = together.iter().map(|(_, origin)| reader(*origin)).collect();
            let instruction = &self.machine.program.instructions[pc as usize];
            self.report_of((instruction, warp), FindingClass::CollectiveLanesMissing, which, None, || {
                "shfl reads the value of a lane that does not take part".to_owned()
            });
        }
    }

    /// Reports the races of reads whose values turned out to matter, at the reads.
    fn report_racing_reads(&mut self, races: &[Use]) {
        for together in races.chunk_by(|(_, one), (_, other)| place(*one) == place(*other)) {
            let Some((_, Origin::Race(read, conflict))) = together.first().copied() else { continue };
            let which: Vec<LaneAddress> = together.iter().map(|(_, origin)| reader(*origin)).collect();
            let instruction = &self.machine.program.instructions[read.pc as usize];
            let (cause, other) = self.describe_racing_read(read, conflict);
            let text = format!("{cause}: {}", addresses(&which));
            self.report_of((instruction, read.warp), conflict.kind.into(), which, other, || text);
        }
    }

    /// Describes the origin of an undetermined value that matters.
    fn describe(&self, origin: Origin, which: &[LaneAddress]) -> String {
        match origin {
            Origin::Register { slot, .. } => {
                let name = &self.machine.program.register_names[slot as usize];
                let mask = which.iter().fold(0, |mask, access| mask | 1 << access.lane);
                format!("`{name}` is read before anything was written to it, in {}", lane_list(mask))
            }
            Origin::Absent { .. } => "a value that matters here comes from a lane that is not there".to_owned(),
            Origin::Memory(read) | Origin::Stored(read, _) | Origin::Race(read, _) => {
                let Read { pc, space, address, bytes, .. } = read;
                let line = self.machine.program.instructions.get(pc as usize).map_or(0, |read| read.line);
                let location = self.location(space, address, 1);
                let (why, stored) = match origin {
                    Origin::Stored(_, store) => {
                        ("in which undetermined values were stored", self.describe_store(store))
                    }
                    _ => ("that was never written", String::new()),
                };
                format!(
                    "a value that matters here comes from a {bytes}-byte read, in line {line} of the PTX, of {space} memory \
                     {why}{location}: {}{stored}",
                    addresses(which)
                )
            }
        }
    }

    /// Describes the store of an undetermined value, and the value's origin.
    pub(super) fn describe_store(&self, store: StoreId) -> String {
        let Some(UndeterminedStore { entry, finding }) = self.machine.memory.tell_store(store) else {
            return String::new();
        };
        let Finding { ptx_file, at, message, .. } = &finding;
        let source = at.source.as_ref().map_or_else(String::new, |source| format!(", from {source}"));
        format!("; stored by `{entry}` in line {} of {ptx_file}{source}: {message}", at.ptx_line)
    }

    /// The read that an undetermined value comes from, if it is another instruction.
    fn place_of(&self, origin: Origin) -> Option<OtherAccess> {
        let (Origin::Memory(read) | Origin::Stored(read, _)) = origin else { return None };
        let Read { pc, warp, lane, .. } = read;
        let instruction = self.machine.program.instructions.get(pc as usize).filter(|_| pc != self.pc)?;
        let at = self.machine.location(instruction, self.cluster.number, warp, Some(lane));
        Some(OtherAccess { writes: false, engine: Engine::Thread, at })
    }
}

/// The instruction and warp of a racing read, or of a shuffle from an absent lane.
fn place(origin: Origin) -> Option<(u32, u32)> {
    match origin {
        Origin::Race(read, _) => Some((read.pc, read.warp)),
        Origin::Absent { pc, warp, .. } => Some((pc, warp)),
        _ => None,
    }
}

/// The lane and address of a read.
fn reader(origin: Origin) -> LaneAddress {
    let lane = match origin {
        Origin::Memory(read) | Origin::Stored(read, _) | Origin::Race(read, _) => read.lane,
        Origin::Register { lane, .. } | Origin::Absent { lane, .. } => lane,
    };
    LaneAddress { lane, address: address(origin) }
}

fn address(origin: Origin) -> Option<u64> {
    match origin {
        Origin::Memory(read) | Origin::Stored(read, _) | Origin::Race(read, _) => Some(read.address),
        Origin::Register { .. } | Origin::Absent { .. } => None,
    }
}

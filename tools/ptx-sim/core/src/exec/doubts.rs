//! What became of the values of reads that a later write races with: the race is a finding if something depends on them.
//!
//! The latest instructions of the reader's warp tell. A value that something may already depend on counts as used, and so
//! does one that was read longer ago. Registers that depend on the others become undetermined, so that a later use is a
//! finding.

use std::collections::HashMap;

use super::cluster::Cluster;
use crate::doubt::Doubt;
use crate::isa::{Passes, Selection};
use crate::lanes::lanes;
use crate::machine::{Executed, Warp};
use crate::program::Slot;
use crate::race::{Agent, EarlierRead, Engine};
use crate::unknown::{Origin, Read, Unknown};

/// Registers, with the lanes in which their values depend on a read.
type Dependent = HashMap<Slot, u32>;

impl Cluster<'_> {
    /// Settles the doubts about the instruction at `pc`, which a warp has just executed.
    pub(super) fn settle_doubts(&mut self, index: usize, pc: u32) {
        let mut races = Vec::new();
        for doubt in std::mem::take(&mut self.state.doubts) {
            match self.dependent_registers(pc, &doubt) {
                None => races.push(doubt),
                Some(registers) => {
                    for (read, registers) in doubt.reads.iter().zip(&registers) {
                        self.mark(index, pc, &doubt, read, registers);
                    }
                }
            }
        }
        if !races.is_empty() {
            self.with_instruction(index, pc, |context| context.report_doubts(&races));
        }
    }

    /// What depends on each read; `None` if something is used, or the race is known already.
    fn dependent_registers(&self, pc: u32, doubt: &Doubt) -> Option<Vec<Dependent>> {
        let line = self.machine.program.instructions[pc as usize].line;
        if self.state.findings.has(doubt.conflict.kind.into(), line) {
            return None;
        }
        doubt.reads.iter().map(|read| self.dependent_on(read)).collect()
    }

    /// The registers that depend on a read and on which nothing depends; `None` if something may.
    fn dependent_on(&self, read: &EarlierRead) -> Option<Dependent> {
        let warp = &self.warps[read.warp as usize];
        if self.operations[read.pc as usize].loaded_bytes().is_none() || !warp.recent.has_loads_of(read.time) {
            return None;
        }
        let executed: Vec<&Executed> = warp.recent.iter().collect();
        let mut dependent = Dependent::new();
        for (position, one) in executed.iter().enumerate() {
            let among = self.passed_on(warp, &executed[position..], &dependent)?;
            let is_read = one.pc == read.pc && one.time == read.time;
            let among = if is_read { among | one.active & read.lanes } else { among };
            for slot in &self.machine.program.instructions[one.pc as usize].writes {
                let before = dependent.get(slot).copied().unwrap_or(0);
                dependent.insert(*slot, before & !one.active | among);
            }
        }
        dependent.retain(|_, among| *among != 0);
        Some(dependent)
    }

    /// The lanes in which the results of the first of these instructions depend on dependent registers; `None` if it uses
    /// them otherwise.
    fn passed_on(&self, warp: &Warp, executed: &[&Executed], dependent: &Dependent) -> Option<u32> {
        let Executed { pc, here, active, .. } = *executed[0];
        let instruction = &self.machine.program.instructions[pc as usize];
        let in_lanes = |slot: Slot| dependent.get(&slot).copied().unwrap_or(0);
        if instruction.guard.is_some_and(|guard| in_lanes(guard.slot) & here != 0) {
            return None;
        }
        let among = instruction.reads.iter().fold(0, |among, slot| among | in_lanes(*slot)) & active;
        match self.operations[pc as usize].passes(instruction) {
            _ if among == 0 => Some(0),
            Passes::Elsewhere => None,
            Passes::Selected(Selection { from: [first, second], by, takes_first })
                if self.is_kept(by, &executed[1..]) =>
            {
                let is_set = warp.registers.nonzero(by);
                let first_lanes = if takes_first { is_set } else { !is_set };
                Some((in_lanes(by) | in_lanes(first) & first_lanes | in_lanes(second) & !first_lanes) & active)
            }
            Passes::Selected(_) | Passes::ToResults => Some(among),
        }
    }

    /// Whether a register still has its value after these instructions.
    fn is_kept(&self, slot: Slot, executed: &[&Executed]) -> bool {
        let instructions = &self.machine.program.instructions;
        executed.iter().all(|one| !instructions[one.pc as usize].writes.contains(&slot))
    }

    /// Makes registers that depend on a read undetermined; the read races with a write of the instruction at `pc`.
    fn mark(&mut self, writer: usize, pc: u32, doubt: &Doubt, read: &EarlierRead, registers: &Dependent) {
        let bytes = self.operations[read.pc as usize].loaded_bytes().unwrap_or(0);
        let conflict = doubt.conflict.with_write(Agent::new(writer as u32, doubt.lane, Engine::Thread), pc);
        let (EarlierRead { pc, warp, .. }, &Doubt { space, address, .. }) = (*read, doubt);
        for (slot, lane) in registers.iter().flat_map(|(slot, among)| lanes(*among).map(move |lane| (*slot, lane))) {
            let read = Read { pc, warp, lane: lane as u32, space, address, bytes, is_partial: false, writes: false };
            let unknown = Unknown { bits: u64::MAX, origin: Origin::Race(read, conflict), is_computed: true };
            let registers = &mut self.warps[warp as usize].registers;
            if registers.unknown(slot, lane).is_none() && !self.state.reported.contains(&unknown.origin) {
                registers.set_unknown(slot, lane, Some(unknown));
            }
        }
    }
}

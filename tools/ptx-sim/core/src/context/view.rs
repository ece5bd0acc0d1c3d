//! The view that an instruction has of the machine, and how it reports findings.

use crate::finding::{Finding, FindingClass, LaneAddress, OtherAccess};
use crate::lanes::{lane_list, lanes};
use crate::machine::{ClusterState, Machine, Warp};
use crate::program::{Address, Destination, Instruction, Slot};

/// Where the lanes of an instruction continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// All at the next instruction.
    Next,
    /// `lanes` at `target`, `again` at the same instruction, the others at the next one.
    Branch { lanes: u32, target: u32, again: u32 },
    /// `lanes` end; the others continue at the next instruction.
    Exit { lanes: u32 },
    /// All wait for the current phase of a barrier, which their arrival may complete.
    Wait { barrier: usize, completes: bool },
    /// All repeat the instruction after this phase of an mbarrier has completed.
    WaitForPhase { mbarrier: u64, phase: u64 },
    /// The whole grid stops.
    Stop,
}

/// The environment of an executing instruction.
pub(crate) struct Context<'a> {
    pub machine: &'a Machine<'a>,
    pub cluster: &'a mut ClusterState,
    pub warp: &'a mut Warp,
    pub instruction: &'a Instruction,
    /// Index of the instruction.
    pub pc: u32,
    /// Lanes that execute it.
    pub active: u32,
    /// All lanes at the instruction, including those whose guard is false.
    pub here: u32,
}

impl Context<'_> {
    /// The value of a register in a lane.
    pub fn value(&self, slot: Slot, lane: usize) -> u64 {
        self.warp.value(slot, lane)
    }

    /// The value of an address operand in a lane.
    pub fn address(&self, address: Address, lane: usize) -> u64 {
        self.value(address.base, lane).wrapping_add_signed(address.offset)
    }

    /// Writes a register in a lane.
    pub fn set(&mut self, destination: Destination, lane: usize, value: u64) {
        let slot = destination.slot as usize;
        self.warp.registers.values[slot][lane] = value & destination.mask;
        self.warp.registers.initialised[slot] |= 1 << lane;
    }

    /// The value of a register that must be uniform over the active lanes.
    pub fn uniform(&mut self, slot: Slot, what: &str) -> u64 {
        let first = self.active.trailing_zeros() as usize;
        let value = self.value(slot, first);
        if self.warp.registers.values[slot as usize].iter().fold(0, |bits, other| bits | (other ^ value)) == 0 {
            return value;
        }
        let others = lanes(self.active).filter(|lane| self.value(slot, *lane) != value);
        let different = others.fold(0, |mask, lane| mask | 1 << lane);
        if different != 0 {
            self.report(FindingClass::InvalidOperand, without_addresses(different), || {
                format!(
                    "{what} must be the same in all lanes: lane {first} has {value}, {} differ",
                    lane_list(different)
                )
            });
        }
        value
    }

    /// Adds a finding about the instruction.
    pub fn report(&mut self, class: FindingClass, which: Vec<LaneAddress>, message: impl FnOnce() -> String) {
        self.report_pair(class, which, None, message);
    }

    /// Adds a finding about the instruction and an earlier access.
    pub fn report_pair(
        &mut self,
        class: FindingClass,
        which: Vec<LaneAddress>,
        other: Option<OtherAccess>,
        message: impl FnOnce() -> String,
    ) {
        self.report_of((self.instruction, self.warp.index), class, which, other, message);
    }

    /// Adds a finding about an instruction executed by a warp of the cluster, and an earlier access.
    pub(super) fn report_of(
        &mut self,
        (instruction, warp): (&Instruction, u32),
        class: FindingClass,
        which: Vec<LaneAddress>,
        other: Option<OtherAccess>,
        message: impl FnOnce() -> String,
    ) {
        let occurrences = which.len().max(1) as u64;
        let mut findings = std::mem::take(&mut self.cluster.findings);
        findings.add(class, instruction.line, occurrences, || {
            self.finding((instruction, warp), class, which, other, message())
        });
        self.cluster.findings = findings;
    }

    /// Makes a finding about an instruction executed by a warp of the cluster, and an earlier access.
    pub(super) fn finding(
        &self,
        (instruction, warp): (&Instruction, u32),
        class: FindingClass,
        which: Vec<LaneAddress>,
        other: Option<OtherAccess>,
        message: String,
    ) -> Finding {
        let lane = which.iter().map(|first| first.lane).find(|lane| self.active >> lane & 1 != 0);
        let lane = lane.unwrap_or(self.active.trailing_zeros()) as usize;
        let first = which.first().copied();
        let mut at = self.machine.location(instruction, self.cluster.number, warp, first.map(|first| first.lane));
        at.called_from = if warp == self.warp.index { self.machine.calls(self.warp, lane) } else { Vec::new() };
        Finding {
            class,
            message,
            ptx_file: self.machine.module.file().to_owned(),
            at,
            address: first.and_then(|first| first.address),
            occurrences: which.len().max(1) as u64,
            lanes: which,
            other,
        }
    }
}

/// Lanes of a mask, for a finding.
pub(crate) fn without_addresses(mask: u32) -> Vec<LaneAddress> {
    lanes(mask).map(|lane| LaneAddress { lane: lane as u32, address: None }).collect()
}

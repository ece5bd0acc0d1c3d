//! Which instructions read a value that a decision of the program depends on: flags that are waited for, locks, and values
//! that are compared before they are used.
//!
//! The search follows registers, and values that unoptimised code keeps in local memory between two statements. A value that
//! is passed to a function counts as tested.

use std::collections::HashMap;

use super::operation::Operation;
use crate::program::{Address, Instruction, Slot};
use crate::race::Strength;

/// Marks the strong reads whose value is tested, in a program with volatile accesses: only their races depend on it.
pub(super) fn mark(instructions: &mut [Instruction], operations: &[Operation]) {
    if instructions.iter().all(|instruction| instruction.semantics.strength != Strength::Volatile) {
        return;
    }
    let uses = Uses::of(instructions, operations);
    let is_tested = |reader: &Instruction| reader.is_strong_read && uses.are_tested(instructions, &reader.writes);
    let tested: Vec<bool> = instructions.iter().map(is_tested).collect();
    instructions.iter_mut().zip(tested).for_each(|(reader, tested)| reader.is_tested = tested);
}

/// What an instruction does with a value that it reads.
enum Use {
    /// It decides by the value, or hands it to a function.
    Tests,
    /// Its results depend on the value.
    Computes,
    /// It keeps the value at an address that only its thread or block knows.
    Keeps(Place),
    /// The value leaves the registers.
    Ends,
}

/// An address as the program writes it.
type Place = (Slot, i64);

fn place(Address { base, offset }: Address) -> Place {
    (base, offset)
}

struct Uses<'o> {
    operations: &'o [Operation],
    /// By register, the instructions that read it.
    readers: HashMap<Slot, Vec<usize>>,
    /// By place, the instructions that load from it.
    loads: HashMap<Place, Vec<usize>>,
}

impl<'o> Uses<'o> {
    fn of(instructions: &[Instruction], operations: &'o [Operation]) -> Uses<'o> {
        let (mut readers, mut loads): (HashMap<Slot, Vec<usize>>, HashMap<Place, Vec<usize>>) = Default::default();
        for (index, (instruction, operation)) in instructions.iter().zip(operations).enumerate() {
            let guard = instruction.guard.iter().map(|guard| guard.slot);
            guard
                .chain(instruction.reads.iter().copied())
                .for_each(|slot| readers.entry(slot).or_default().push(index));
            if let Operation::Memory(memory) = operation
                && let Some(address) = memory.loads_own()
            {
                loads.entry(place(address)).or_default().push(index);
            }
        }
        Uses { operations, readers, loads }
    }

    /// Whether a value in one of these registers is tested.
    fn are_tested(&self, instructions: &[Instruction], registers: &[Slot]) -> bool {
        let mut open = registers.to_vec();
        let mut seen = vec![false; instructions.len()];
        while let Some(slot) = open.pop() {
            for reader in self.readers.get(&slot).into_iter().flatten().copied() {
                match self.kind(&instructions[reader], reader, slot) {
                    Use::Tests => return true,
                    Use::Computes if !std::mem::replace(&mut seen[reader], true) => {
                        open.extend(&instructions[reader].writes);
                    }
                    Use::Keeps(place) => {
                        for load in self.loads.get(&place).into_iter().flatten().copied() {
                            if !std::mem::replace(&mut seen[load], true) {
                                open.extend(&instructions[load].writes);
                            }
                        }
                    }
                    Use::Computes | Use::Ends => {}
                }
            }
        }
        false
    }

    fn kind(&self, instruction: &Instruction, index: usize, slot: Slot) -> Use {
        let opcode = instruction.name.split('.').next().unwrap_or_default();
        match &self.operations[index] {
            _ if instruction.guard.is_some_and(|guard| guard.slot == slot) => Use::Tests,
            _ if matches!(opcode, "setp" | "set" | "testp") || instruction.is_compare_and_swap => Use::Tests,
            Operation::Control(_) | Operation::Call(_) | Operation::Arguments(_) => Use::Tests,
            Operation::Memory(memory) => memory.keeps_own(slot).map_or(Use::Ends, |address| Use::Keeps(place(address))),
            _ if instruction.writes.is_empty() || instruction.semantics.strength.is_strong() => Use::Ends,
            _ => Use::Computes,
        }
    }
}

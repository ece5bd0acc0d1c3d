//! Copies between registers, packing and unpacking (PTX ISA, "mov").
//!
//! Copying an uninitialised value is not an error: compilers copy values that a later select or branch ignores.

use crate::context::Context;
use crate::decode::{Decode, Form, invalid};
use crate::lanes::lanes;
use crate::machine::Registers;
use crate::parse::{Kind, Operand, Type};
use crate::program::{Destination, Slot};
use crate::unknown::Unknown;

/// A decoded `mov`.
pub(crate) enum Operation {
    /// Copies a register.
    Copy { from: Slot, to: Destination },
    /// Repacks parts into parts of the same total size.
    Repack { from: Vec<Slot>, from_bits: u32, to: Vec<Destination>, to_bits: u32 },
    /// Reads a clock register, which advances while the kernel runs.
    Clock { to: Destination, shift: u32 },
}

/// Decodes a `mov`; `None` when the opcode is another.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    if form.opcode() != "mov" {
        return Ok(None);
    }
    let kind = form.kind()?;
    if kind.bits > 64 {
        return form.refuse();
    }
    let to_operand = form.operand()?;
    if let Some(Operand::Name(name)) = form.peek_operand()
        && let Some(shift) = clock(name)
    {
        form.operand()?;
        let to = form.destination_of(to_operand, kind, false)?;
        return Ok(Some(Operation::Clock { to, shift }));
    }
    let from_operand = form.operand()?;
    if let (Operand::Name(_), Operand::Name(_) | Operand::Offset { .. }) = (to_operand, from_operand) {
        let to = form.destination_of(to_operand, kind, false)?;
        return Ok(Some(Operation::Copy { from: form.source_of(from_operand, kind, false)?, to }));
    }
    let (from_items, to_items) = (items(from_operand), items(to_operand));
    let (from_kind, to_kind) = (part(form, kind, from_items.len())?, part(form, kind, to_items.len())?);
    let from = from_items.iter().map(|item| form.source_of(item, from_kind, false)).collect::<Decode<_>>()?;
    let to = to_items.iter().map(|item| form.destination_of(item, to_kind, false)).collect::<Decode<_>>()?;
    Ok(Some(Operation::Repack { from, from_bits: from_kind.bits, to, to_bits: to_kind.bits }))
}

/// How far a clock register's value is shifted right.
fn clock(name: &str) -> Option<u32> {
    match name {
        "%clock" | "%clock64" | "%globaltimer" | "%globaltimer_lo" => Some(0),
        "%clock_hi" | "%globaltimer_hi" => Some(32),
        _ => None,
    }
}

fn items(operand: &Operand) -> &[Operand] {
    match operand {
        Operand::Vector(items) => items,
        single => std::slice::from_ref(single),
    }
}

/// The type of each of `count` equal parts of `kind`.
fn part(form: &Form<'_>, kind: Type, count: usize) -> Decode<Type> {
    match count {
        1 => Ok(kind),
        2 | 4 if kind.kind == Kind::Bits && kind.bits / count as u32 >= 8 => {
            Ok(Type { bits: kind.bits / count as u32, ..kind })
        }
        _ => invalid(format!("`{}` cannot have a vector of {count}", form.name())),
    }
}

impl Operation {
    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        match self {
            Operation::Copy { from, to } => copy(context, *from, *to),
            Operation::Repack { from, from_bits, to, to_bits } => repack(context, (from, *from_bits), (to, *to_bits)),
            Operation::Clock { to, shift } => {
                let now = context.warp.steps >> shift;
                lanes(context.active).for_each(|lane| context.set(*to, lane, now));
            }
        }
    }
}

fn copy(context: &mut Context<'_>, from: Slot, to: Destination) {
    let active = context.active;
    let unknown = context.unknown_in(&[from], active);
    let registers = &mut context.warp.registers;
    let mut row = registers.values[from as usize];
    row.iter_mut().for_each(|value| *value &= to.mask);
    registers.set(to.slot, active, &row);
    // A fully undetermined copy refers to the register that it was copied from.
    for lane in lanes(unknown) {
        let value = registers.unknown(from, lane).and_then(|value| value.with_bits(value.bits & to.mask));
        registers.set_unknown(to.slot, lane, value);
    }
}

fn repack(context: &mut Context<'_>, (from, from_bits): (&[Slot], u32), (to, to_bits): (&[Destination], u32)) {
    let active = context.active;
    let unknown = repacked_unknown(&context.warp.registers, (from, from_bits), active);
    let registers = &mut context.warp.registers;
    for lane in lanes(active) {
        let parts = from.iter().zip((0..).step_by(from_bits as usize));
        let whole = parts.fold(0, |whole, (slot, shift)| whole | registers.values[*slot as usize][lane] << shift);
        for (destination, shift) in to.iter().zip((0..).step_by(to_bits as usize)) {
            let low = whole >> shift & (u64::MAX >> (64 - to_bits.min(64)));
            registers.values[destination.slot as usize][lane] = low & destination.mask;
        }
    }
    for destination in to {
        registers.initialised[destination.slot as usize] |= active;
    }
    for (lane, whole) in unknown {
        for (destination, shift) in to.iter().zip((0..).step_by(to_bits as usize)) {
            let part = whole.with_bits(whole.bits >> shift & (u64::MAX >> (64 - to_bits.min(64))) & destination.mask);
            registers.set_unknown(destination.slot, lane, part);
        }
    }
}

/// The undetermined bits of the value that the parts form, by lane.
fn repacked_unknown(registers: &Registers, (from, from_bits): (&[Slot], u32), active: u32) -> Vec<(usize, Unknown)> {
    let of_lane = |lane: usize| {
        let parts = from.iter().zip((0..).step_by(from_bits as usize));
        let unknown = parts.filter_map(|(slot, shift)| {
            let part = registers.unknown(*slot, lane)?;
            part.with_bits((part.bits & (u64::MAX >> (64 - from_bits.min(64)))) << shift)
        });
        Some((lane, unknown.reduce(|whole, part| whole.and(Some(part)))?))
    };
    lanes(registers.lanes_with_unknown(from, active)).filter_map(of_lane).collect()
}

//! Values that calls pass: loads and stores of `.param` variables of bodies (PTX ISA, "Device Function Parameters").
//!
//! Like `mov`, they copy what nothing wrote: a structure is passed with the padding that it has.

use crate::context::Context;
use crate::decode::{Decode, Form, invalid};
use crate::lanes::lanes;
use crate::numeric::sign_extend;
use crate::parse::Type;
use crate::program::{Destination, Slot};

/// A decoded load or store.
pub(crate) enum Operation {
    /// `ld.param`; the offset counts from the frame's first byte.
    Load { offset: u64, kind: Type, to: Vec<Destination> },
    /// `st.param`.
    Store { offset: u64, kind: Type, from: Vec<Slot> },
}

/// Decodes a load or store of something that a call passes; `None` when it is another instruction.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    let is_load = match form.opcode() {
        "ld" => true,
        "st" => false,
        _ => return Ok(None),
    };
    if !form.next_is_passed(usize::from(is_load)) || !(form.flag("param") || form.flag("param::func")) {
        return Ok(None);
    }
    form.flag("weak");
    let count = form.choice(&[("v2", 2), ("v4", 4)]).unwrap_or(1);
    let kind = form.kind()?;
    if kind.bits < 8 || kind.bits > 64 || kind.packed != 1 {
        return form.refuse();
    }
    let bytes = count as u64 * u64::from(kind.bytes());
    let check = |form: &Form<'_>, given: usize| match given == count {
        true => Ok(()),
        false => invalid(format!("`{}` takes {count} values, not {given}", form.name())),
    };
    if is_load {
        let items = form.vector()?;
        check(form, items.len())?;
        let to = items.iter().map(|item| form.destination_of(item, kind, true)).collect::<Decode<_>>()?;
        return Ok(Some(Operation::Load { offset: form.passed_address(bytes)?, kind, to }));
    }
    let offset = form.passed_address(bytes)?;
    let items = form.vector()?;
    check(form, items.len())?;
    let from = items.iter().map(|item| form.source_of(item, kind, true)).collect::<Decode<_>>()?;
    Ok(Some(Operation::Store { offset, kind, from }))
}

impl Operation {
    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        match self {
            Operation::Load { offset, kind, to } => load(context, *offset, *kind, to),
            Operation::Store { offset, kind, from } => store(context, *offset, *kind, from),
        }
    }
}

fn load(context: &mut Context<'_>, offset: u64, kind: Type, to: &[Destination]) {
    let width = u64::from(kind.bytes());
    for lane in lanes(context.active) {
        for (destination, index) in to.iter().zip(0..) {
            let (value, written) = context.warp.local[lane].passed(offset + index * width, width as usize);
            let value = if kind.is_signed() { sign_extend(value, kind.bits) as u64 } else { value };
            let slot = destination.slot as usize;
            let registers = &mut context.warp.registers;
            registers.values[slot][lane] = value & destination.mask;
            registers.initialised[slot] = registers.initialised[slot] & !(1 << lane) | u32::from(written) << lane;
        }
    }
}

fn store(context: &mut Context<'_>, offset: u64, kind: Type, from: &[Slot]) {
    let width = u64::from(kind.bytes());
    for lane in lanes(context.active) {
        for (slot, index) in from.iter().zip(0..) {
            let value = context.value(*slot, lane);
            let written = context.warp.registers.initialised[*slot as usize] >> lane & 1 != 0;
            context.warp.local[lane].pass(offset + index * width, width as usize, value, written);
        }
    }
}

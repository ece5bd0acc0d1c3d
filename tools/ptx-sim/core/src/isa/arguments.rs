//! Values that calls pass: loads and stores of `.param` variables of bodies (PTX ISA, "Device Function Parameters").
//!
//! Like `mov`, they copy uninitialised bytes: a structure is passed with its padding.

use crate::context::{Context, Place};
use crate::decode::{Decode, Form, invalid};
use crate::lanes::lanes;
use crate::numeric::sign_extend;
use crate::parse::{Space, Type};
use crate::program::{Destination, Slot};
use crate::unknown::UnknownBytes;

/// A decoded load or store.
pub(crate) enum Operation {
    /// `ld.param`; the offset counts from the frame's first byte.
    Load { offset: u64, kind: Type, to: Vec<Destination> },
    /// `st.param`.
    Store { offset: u64, kind: Type, from: Vec<Slot> },
}

/// Decodes a load or store of a call parameter; `None` for other instructions.
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
    let width = kind.bytes() as usize;
    for lane in lanes(context.active) {
        let place = Place::new(lane, Some(Space::Local), context.warp.local[lane].base() + offset, 1);
        let (data, mut unknown) = context.warp.local[lane].passed(context.read_at(place, width * to.len()));
        unknown.mark_partial(context.pc);
        for ((destination, value), first) in to.iter().zip(data.chunks_exact(width)).zip((0..).step_by(width)) {
            let mut word = [0; 8];
            word[..width].copy_from_slice(value);
            let value = u64::from_le_bytes(word);
            let value = if kind.is_signed() { sign_extend(value, kind.bits) as u64 } else { value };
            context.set(*destination, lane, value);
            if let Some(value) = unknown.value(first, width) {
                let sign_is_unknown = kind.is_signed() && value.bits >> (kind.bits - 1) & 1 == 1;
                let above = if sign_is_unknown { u64::MAX << (kind.bits - 1) } else { 0 };
                context.set_unknown(destination.slot, lane, value.with_bits((value.bits | above) & destination.mask));
            }
        }
    }
}

fn store(context: &mut Context<'_>, offset: u64, kind: Type, from: &[Slot]) {
    let width = kind.bytes() as usize;
    for lane in lanes(context.active) {
        let (mut data, mut unknown) = (Vec::new(), UnknownBytes::default());
        for slot in from {
            if let Some(value) = context.warp.registers.unknown(*slot, lane) {
                unknown.push_value(data.len(), width, value);
            }
            data.extend_from_slice(&context.value(*slot, lane).to_le_bytes()[..width]);
        }
        let stack = &mut context.warp.local[lane];
        let address = stack.base() + offset;
        stack.pass(address, &data, &unknown);
    }
}

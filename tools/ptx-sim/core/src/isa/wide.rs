//! 128-bit values, held in two registers: copies and atomic operations (PTX ISA, "mov", "atom").

use super::halves::{destinations, sources};
use super::memory::{scope, take_hints};
use crate::context::{Context, Direction, Faults, Place, Traffic};
use crate::decode::{Decode, Form};
use crate::lanes::lanes;
use crate::memory::resolve;
use crate::parse::Space;
use crate::program::{Address, Destination, Slot};
use crate::race::Semantics;

/// Bytes of a value.
const BYTES: u64 = 16;

/// A decoded instruction on 128-bit values, lower halves first.
pub(crate) enum Operation {
    /// `mov.b128`.
    Copy { from: [Slot; 2], to: [Destination; 2] },
    /// `atom.cas.b128` with the value to compare with, and `atom.exch.b128`.
    Exchange {
        space: Option<Space>,
        address: Address,
        expected: Option<[Slot; 2]>,
        new: [Slot; 2],
        to: [Destination; 2],
        semantics: Semantics,
    },
}

/// Decodes such an instruction; `None` when it is another.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    if form.peek_kind().is_none_or(|kind| kind.bits != 128) {
        return Ok(None);
    }
    match form.opcode() {
        "mov" => {
            form.kind()?;
            let to = form.operand()?;
            let from = form.operand()?;
            Ok(Some(Operation::Copy { to: destinations(form, to)?, from: sources(form, from)? }))
        }
        "atom" => {
            let scope = scope(form);
            let mut semantics = Semantics { strength: scope, ..take_hints(form) };
            if form.flag("acq_rel") {
                (semantics.acquires, semantics.releases) = (true, true);
            }
            let space = form.take(Space::parse);
            let Some(compares) = form.choice(&[("cas", true), ("exch", false)]) else { return form.refuse() };
            form.kind()?;
            if !matches!(space, None | Some(Space::Global | Space::Shared)) {
                return form.refuse();
            }
            let to = form.operand()?;
            let to = destinations(form, to)?;
            let address = form.address(space)?;
            let value = |form: &mut Form<'_>| form.operand().and_then(|operand| sources(form, operand));
            let expected = if compares { Some(value(form)?) } else { None };
            Ok(Some(Operation::Exchange { space, address, expected, new: value(form)?, to, semantics }))
        }
        _ => Ok(None),
    }
}

impl Operation {
    /// How its accesses are ordered.
    pub fn semantics(&self) -> Semantics {
        match self {
            Operation::Copy { .. } => Semantics::WEAK,
            Operation::Exchange { semantics, .. } => *semantics,
        }
    }

    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        match self {
            Operation::Copy { from, to } => {
                context.require(from);
                for lane in lanes(context.active) {
                    let halves = from.map(|slot| context.value(slot, lane));
                    to.iter().zip(halves).for_each(|(half, value)| context.set(*half, lane, value));
                }
            }
            Operation::Exchange { space, address, expected, new, to, .. } => {
                context.require(&[address.base]);
                context.require(new);
                context.require(expected.as_ref().map_or(&[], |slots| slots.as_slice()));
                exchange(context, *space, *address, *expected, *new, *to);
            }
        }
    }
}

fn exchange(
    context: &mut Context<'_>,
    space: Option<Space>,
    address: Address,
    expected: Option<[Slot; 2]>,
    new: [Slot; 2],
    to: [Destination; 2],
) {
    let (mut faults, mut traffic) = (Faults::default(), Traffic::new(BYTES as usize));
    for lane in lanes(context.active) {
        let first = context.address(address, lane);
        let place = Place::new(lane, space, first, BYTES);
        if !context.check_alignment(&mut faults, place, || format!("an atomic operation on {BYTES} bytes")) {
            to.iter().for_each(|half| context.set(*half, lane, 0));
            continue;
        }
        traffic.add(lane, space.unwrap_or_else(|| resolve(first).0), first);
        let [low, high] = new.map(|slot| context.value(slot, lane));
        let expected = expected.map(|slots| slots.map(|slot| context.value(slot, lane)));
        let memory = context.machine.memory;
        // Each half is a separate operation; the lock makes them one.
        let _lock = memory.lock_wide();
        let mut half = |offset: u64, value: Option<u64>| {
            let update = |old: u64| value.unwrap_or(old);
            context.update(&mut faults, lane, space, first + offset, 8, &update).0
        };
        let old = [half(0, None), half(8, None)];
        if expected.is_none_or(|expected| expected == old) {
            half(0, Some(low));
            half(8, Some(high));
        }
        to.iter().zip(old).for_each(|(destination, value)| context.set(*destination, lane, value));
    }
    traffic.count(Direction::Write, &mut context.cluster.counters);
    context.report_faults(faults);
}

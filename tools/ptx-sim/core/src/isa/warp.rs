//! Exchange between the lanes of a warp (PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "activemask",
//! "elect.sync").

use super::single::extremum_of_bits;
use crate::context::Context;
use crate::decode::{Decode, Form};
use crate::lanes::{LANES, lanes};
use crate::numeric::integer;
use crate::parse::Type;
use crate::program::{Collective, Destination, Slot};
use crate::unknown::{Origin, Unknown};

/// Which lane a shuffle reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// What a vote asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// A decoded instruction.
pub(crate) enum Operation {
    /// `shfl.sync`.
    Shuffle {
        mode: Shuffle,
        value: Slot,
        lane: Slot,
        clamp: Slot,
        mask: Slot,
        to: Destination,
        valid: Option<Destination>,
    },
    /// `vote.sync`.
    Vote { mode: Vote, predicate: Slot, negated: bool, mask: Slot, to: Destination },
    /// `match.sync`; with `all`, whether all values are the same.
    Match { value: Slot, mask: Slot, all: bool, to: Destination, agrees: Option<Destination> },
    /// `redux.sync`.
    Reduce { combine: Combine, kind: Type, value: Slot, magnitude: bool, mask: Slot, to: Destination },
    /// `activemask`.
    ActiveMask { to: Destination },
    /// `elect.sync`.
    Elect { mask: Slot, to: Destination, elected: Option<Destination> },
}

/// Decodes an exchange between lanes; `None` when the opcode is none.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    let opcode = form.opcode();
    if opcode == "activemask" {
        return match form.kind()? {
            Type::B32 => Ok(Some(Operation::ActiveMask { to: form.destination(Type::B32)? })),
            _ => form.refuse(),
        };
    }
    if !matches!(opcode, "shfl" | "vote" | "match" | "redux" | "elect") {
        return Ok(None);
    }
    // The forms without .sync do not exist since sm_70.
    if !form.flag("sync") {
        return form.refuse();
    }
    let operation = match opcode {
        "shfl" => shuffle(form)?,
        "vote" => vote(form)?,
        "match" => matching(form)?,
        "redux" => reduce(form)?,
        _ => {
            let (to, elected) = form.destination_pair(Type::B32, Type::PREDICATE)?;
            Operation::Elect { mask: form.source(Type::B32)?, to, elected }
        }
    };
    Ok(Some(operation))
}

fn shuffle(form: &mut Form<'_>) -> Decode<Operation> {
    let modes = [("up", Shuffle::Up), ("down", Shuffle::Down), ("bfly", Shuffle::Butterfly), ("idx", Shuffle::Index)];
    let Some(mode) = form.choice(&modes) else { return form.refuse() };
    let kind = form.kind()?;
    if kind != Type::B32 {
        return form.refuse();
    }
    let (to, valid) = form.destination_pair(kind, Type::PREDICATE)?;
    let value = form.source(kind)?;
    let (lane, clamp, mask) = (form.source(kind)?, form.source(kind)?, form.source(kind)?);
    Ok(Operation::Shuffle { mode, value, lane, clamp, mask, to, valid })
}

fn vote(form: &mut Form<'_>) -> Decode<Operation> {
    let modes = [("all", Vote::All), ("any", Vote::Any), ("uni", Vote::Uniform), ("ballot", Vote::Ballot)];
    let Some(mode) = form.choice(&modes) else { return form.refuse() };
    let kind = form.kind()?;
    let wanted = if matches!(mode, Vote::Ballot) { Type::B32 } else { Type::PREDICATE };
    if kind != wanted {
        return form.refuse();
    }
    let to = form.destination(kind)?;
    let (predicate, negated) = form.predicate()?;
    Ok(Operation::Vote { mode, predicate, negated, mask: form.source(Type::B32)?, to })
}

fn matching(form: &mut Form<'_>) -> Decode<Operation> {
    let Some(all) = form.choice(&[("all", true), ("any", false)]) else { return form.refuse() };
    let kind = form.kind()?;
    if kind != Type::B32 && kind != Type::B64 {
        return form.refuse();
    }
    let (to, agrees) = form.destination_pair(Type::B32, Type::PREDICATE)?;
    Ok(Operation::Match { value: form.source(kind)?, mask: form.source(Type::B32)?, all, to, agrees })
}

/// Combines two values of a type.
type Combine = fn(u64, u64, Type) -> u64;

fn reduce(form: &mut Form<'_>) -> Decode<Operation> {
    if form.peek_kind() == Some(Type::F32) {
        return reduce_floats(form);
    }
    let combinations: [(&str, Combine); 6] = [
        ("add", |a, b, _| a.wrapping_add(b)),
        ("min", |a, b, kind| integer(a, kind).min(integer(b, kind)) as u64),
        ("max", |a, b, kind| integer(a, kind).max(integer(b, kind)) as u64),
        ("and", |a, b, _| a & b),
        ("or", |a, b, _| a | b),
        ("xor", |a, b, _| a ^ b),
    ];
    let Some(combine) = form.choice(&combinations) else { return form.refuse() };
    let kind = form.kind()?;
    if !kind.is_integer() || kind.bits != 32 {
        return form.refuse();
    }
    reduction(form, combine, kind, false)
}

/// `min` and `max` of `.f32`, which need sm_100.
fn reduce_floats(form: &mut Form<'_>) -> Decode<Operation> {
    let Some(maximum) = form.choice(&[("min", false), ("max", true)]) else { return form.refuse() };
    let (magnitude, propagates_nan) = (form.flag("abs"), form.flag("NaN"));
    let combine: Combine = match (maximum, propagates_nan) {
        (false, false) => extremum_of_bits::<false, false>,
        (false, true) => extremum_of_bits::<false, true>,
        (true, false) => extremum_of_bits::<true, false>,
        (true, true) => extremum_of_bits::<true, true>,
    };
    let kind = form.kind()?;
    reduction(form, combine, kind, magnitude)
}

fn reduction(form: &mut Form<'_>, combine: Combine, kind: Type, magnitude: bool) -> Decode<Operation> {
    let to = form.destination(kind)?;
    let (value, mask) = (form.source(kind)?, form.source(Type::B32)?);
    Ok(Operation::Reduce { combine, kind, value, magnitude, mask, to })
}

impl Operation {
    /// The lanes in its mask.
    pub fn collective(&self) -> Collective {
        match self {
            Operation::Shuffle { mask, .. }
            | Operation::Vote { mask, .. }
            | Operation::Match { mask, .. }
            | Operation::Reduce { mask, .. }
            | Operation::Elect { mask, .. } => Collective::Mask(*mask),
            Operation::ActiveMask { .. } => Collective::No,
        }
    }

    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        let active = context.active;
        match self {
            Operation::Shuffle { mode, value, lane, clamp, to, valid, .. } => {
                context.require(&[*lane, *clamp]);
                execute_shuffle(context, *mode, [*value, *lane, *clamp], *to, *valid);
            }
            Operation::Vote { mode, predicate, negated, to, .. } => {
                let holds = |lane: &usize| (context.value(*predicate, *lane) != 0) != *negated;
                let ballot = lanes(active).filter(holds).fold(0_u32, |mask, lane| mask | 1 << lane);
                let unknown = unknown_vote(context, *mode, *predicate, ballot);
                let result = mode.result(ballot, active);
                lanes(active).for_each(|lane| context.set(*to, lane, u64::from(result)));
                set_unknown_in_all(context, *to, unknown);
            }
            Operation::Match { value, all, to, agrees, .. } => {
                let unknown = context.warp.registers.computed_from(&[*value], active);
                execute_match(context, *value, *all, *to, *agrees);
                let unknown = unknown.first().map(|(_, unknown)| *unknown);
                set_unknown_in_all(context, *to, unknown);
                agrees.iter().for_each(|agrees| set_unknown_in_all(context, *agrees, unknown));
            }
            Operation::Reduce { combine, kind, value, magnitude, to, .. } => {
                let unknown = context.warp.registers.computed_from(&[*value], active);
                let bits = if *magnitude { u64::MAX >> 33 } else { u64::MAX };
                let values = lanes(active).map(|lane| context.value(*value, lane) & bits);
                let result = values.reduce(|a, b| combine(a, b, *kind)).unwrap_or(0);
                // A NaN of a single lane becomes the canonical one, too.
                let result = if kind.is_float() { combine(result, result, *kind) } else { result };
                lanes(active).for_each(|lane| context.set(*to, lane, result));
                set_unknown_in_all(context, *to, unknown.first().map(|(_, unknown)| *unknown));
            }
            Operation::ActiveMask { to } => lanes(active).for_each(|lane| context.set(*to, lane, u64::from(active))),
            Operation::Elect { to, elected, .. } => {
                let leader = active.trailing_zeros();
                for lane in lanes(active) {
                    context.set(*to, lane, u64::from(leader));
                    if let Some(elected) = elected {
                        context.set(*elected, lane, u64::from(lane as u32 == leader));
                    }
                }
            }
        }
    }
}

impl Vote {
    /// The result of a vote of the lanes `active`, of which those in `ballot` say yes.
    fn result(self, ballot: u32, active: u32) -> u32 {
        match self {
            Vote::All => u32::from(ballot == active),
            Vote::Any => u32::from(ballot != 0),
            Vote::Uniform => u32::from(ballot == active || ballot == 0),
            Vote::Ballot => ballot,
        }
    }
}

/// The undetermined bits of a vote with undetermined predicates: those that change with them.
fn unknown_vote(context: &Context<'_>, mode: Vote, predicate: Slot, ballot: u32) -> Option<Unknown> {
    let active = context.active;
    let undecided = context.unknown_in(&[predicate], active);
    let first = context.warp.registers.unknown(predicate, lanes(undecided).next()?)?;
    let (none, all) = (mode.result(ballot & !undecided, active), mode.result(ballot | undecided, active));
    let some = mode.result(ballot & !undecided | undecided & undecided.wrapping_neg(), active);
    Unknown { is_computed: true, ..first }.with_bits(u64::from((none ^ all) | (none ^ some)))
}

/// Sets the undetermined bits of a result that all active lanes get.
fn set_unknown_in_all(context: &mut Context<'_>, to: Destination, unknown: Option<Unknown>) {
    let Some(unknown) = unknown.and_then(|unknown| unknown.with_bits(unknown.bits & to.mask)) else { return };
    lanes(context.active).for_each(|lane| context.set_unknown(to.slot, lane, Some(unknown)));
}

/// The lane that a shuffle reads; `None` if it is out of range and the lane keeps its own value.
fn shuffle_source(mode: Shuffle, lane: u32, operand: u32, clamp: u32) -> Option<u32> {
    let (operand, limit, segment) = (operand & 31, clamp & 31, clamp >> 8 & 31);
    let last = lane & segment | limit & !segment;
    let first = lane & segment;
    match mode {
        Shuffle::Up => lane.checked_sub(operand).filter(|source| *source >= last),
        Shuffle::Down => Some(lane + operand).filter(|source| *source <= last),
        Shuffle::Butterfly => Some(lane ^ operand).filter(|source| *source <= last),
        Shuffle::Index => Some(first | operand & !segment & 31).filter(|source| *source <= last),
    }
}

fn execute_shuffle(
    context: &mut Context<'_>,
    mode: Shuffle,
    [value, operand, clamp]: [Slot; 3],
    to: Destination,
    valid: Option<Destination>,
) {
    let active = context.active;
    let values: [u64; 32] = context.warp.registers.values[value as usize];
    let lanes_with_unknown = context.unknown_in(&[value], active);
    let unknown: Vec<Option<Unknown>> = match lanes_with_unknown {
        0 => Vec::new(),
        _ => (0..LANES).map(|lane| context.warp.registers.unknown(value, lane)).collect(),
    };
    for lane in lanes(active) {
        let (operand, clamp) = (context.value(operand, lane) as u32, context.value(clamp, lane) as u32);
        let source = shuffle_source(mode, lane as u32, operand, clamp);
        let from = source.unwrap_or(lane as u32);
        context.set(to, lane, values[from as usize]);
        if active >> from & 1 == 0 {
            let origin = Origin::Absent { pc: context.pc, warp: context.warp.index, lane: lane as u32 };
            context.set_unknown(to.slot, lane, Some(Unknown { bits: to.mask, origin, is_computed: false }));
        } else if lanes_with_unknown >> from & 1 == 1 {
            context.set_unknown(to.slot, lane, unknown[from as usize]);
        }
        if let Some(valid) = valid {
            context.set(valid, lane, u64::from(source.is_some()));
        }
    }
}

fn execute_match(context: &mut Context<'_>, value: Slot, all: bool, to: Destination, agrees: Option<Destination>) {
    let active = context.active;
    let values: [u64; 32] = context.warp.registers.values[value as usize];
    for lane in lanes(active) {
        let same = lanes(active).filter(|other| values[*other] == values[lane]);
        let same = same.fold(0_u32, |mask, other| mask | 1 << other);
        let agree = same == active;
        let result = if all && !agree { 0 } else { same };
        context.set(to, lane, u64::from(result));
        if let Some(agrees) = agrees {
            context.set(agrees, lane, u64::from(agree));
        }
    }
}

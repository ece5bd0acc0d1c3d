//! Barriers in shared memory that count arrivals and bytes copied (PTX ISA, "mbarrier", "cp.async.mbarrier.arrive").
//!
//! A wait whose phase has not completed parks its lanes. If no warp of the block can continue, all waits return false,
//! as hardware does after a time limit; if that changes nothing, it is a deadlock. `test_wait` is treated alike, so
//! that a polling loop costs nothing.

use crate::context::{Context, Faults, Flow};
use crate::decode::{Decode, Form, invalid};
use crate::lanes::lanes;
use crate::machine::{Landing, OrdinaryWrite, PhaseState, Wait};
use crate::parse::{Space, Type};
use crate::program::{Address, Destination, Slot};
use crate::race::{Agent, Arrival, Engine, Semantics};

/// A decoded operation on an mbarrier.
pub(crate) enum Operation {
    /// On one mbarrier per lane; `.relaxed` orders nothing.
    At { space: Option<Space>, address: Address, action: Action, relaxed: bool },
    /// `pending_count`.
    PendingCount { state: Slot, to: Destination },
}

/// What is done to an mbarrier.
pub(crate) enum Action {
    /// `init`.
    Init { count: Slot },
    /// `inval`.
    Invalidate,
    /// `arrive`, `arrive_drop`, with or without `expect_tx`.
    Arrive { drops: bool, count: Option<Slot>, bytes: Option<Slot>, to: Option<Destination> },
    /// `expect_tx`.
    ExpectBytes { bytes: Slot },
    /// `complete_tx`.
    CompleteBytes { bytes: Slot },
    /// `test_wait`, `try_wait`.
    Wait { parity: bool, operand: Slot, to: Destination },
    /// `cp.async.mbarrier.arrive`; `counted` if the arrival is among the expected ones (`.noinc`).
    ArriveAfterCopies { counted: bool },
}

/// Decodes an operation on an mbarrier; `None` when the opcode is another.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    match form.opcode() {
        "mbarrier" => mbarrier(form).map(Some),
        "cp" if form.has("mbarrier") && !form.has("bulk") => {
            for part in ["async", "mbarrier", "arrive", "b64"] {
                form.flag(part);
            }
            let counted = form.flag("noinc");
            let space = form.take(Space::parse);
            let address = form.address(space)?;
            let action = Action::ArriveAfterCopies { counted };
            Ok(Some(Operation::At { space, address, action, relaxed: false }))
        }
        _ => Ok(None),
    }
}

fn mbarrier(form: &mut Form<'_>) -> Decode<Operation> {
    for ordering in ["release", "acquire", "cta", "cluster"] {
        form.flag(ordering);
    }
    let relaxed = form.flag("relaxed");
    let is_remote = form.has("shared::cluster");
    let space = form.take(Space::parse);
    if form.kind()? != Type::B64 || !matches!(space, None | Some(Space::Shared)) {
        return form.refuse();
    }
    if is_remote && !["arrive", "arrive_drop", "expect_tx", "complete_tx"].iter().any(|action| form.has(action)) {
        return invalid(format!(
            "`{}`: of the mbarriers of other blocks, only arrivals and bytes can be counted",
            form.name()
        ));
    }
    if form.flag("pending_count") {
        let to = form.destination(Type::B32)?;
        return Ok(Operation::PendingCount { state: form.source(Type::B64)?, to });
    }
    let drops = form.has("arrive_drop");
    if form.flag("arrive") || form.flag("arrive_drop") {
        return arrival(form, (space, is_remote), drops, relaxed);
    }
    if let Some(()) = form.choice(&[("test_wait", ()), ("try_wait", ())]) {
        let parity = form.flag("parity");
        let to = form.destination(Type::PREDICATE)?;
        let address = form.address(space)?;
        let operand = form.source(if parity { Type::B32 } else { Type::B64 })?;
        if form.remaining() > 0 {
            // Suspend-time hint of the wait.
            form.source(Type::B32)?;
        }
        return Ok(Operation::At { space, address, action: Action::Wait { parity, operand, to }, relaxed });
    }
    let address = form.address(space)?;
    let action = if form.flag("init") {
        Action::Init { count: form.source(Type::B32)? }
    } else if form.flag("inval") {
        Action::Invalidate
    } else if form.flag("expect_tx") {
        Action::ExpectBytes { bytes: form.source(Type::B32)? }
    } else if form.flag("complete_tx") {
        Action::CompleteBytes { bytes: form.source(Type::B32)? }
    } else {
        return form.refuse();
    };
    Ok(Operation::At { space, address, action, relaxed })
}

fn arrival(
    form: &mut Form<'_>,
    (space, is_remote): (Option<Space>, bool),
    drops: bool,
    relaxed: bool,
) -> Decode<Operation> {
    let expects = form.flag("expect_tx");
    let needs_count = form.flag("noComplete");
    let has_result = !matches!(form.peek_operand(), Some(crate::parse::Operand::Address { .. }));
    let is_sink = matches!(form.peek_operand(), Some(crate::parse::Operand::Name(name)) if name == "_");
    let to = if has_result { Some(form.destination(Type::B64)?) } else { None };
    if is_remote && (needs_count || has_result && !is_sink) {
        return invalid(format!("`{}`: an arrival at the mbarrier of another block gives no state", form.name()));
    }
    let address = form.address(space)?;
    let (mut count, mut bytes) = (None, None);
    if expects {
        bytes = Some(form.source(Type::B32)?);
    } else if needs_count || form.remaining() > 0 {
        count = Some(form.source(Type::B32)?);
    }
    Ok(Operation::At { space, address, action: Action::Arrive { drops, count, bytes, to }, relaxed })
}

impl Operation {
    /// The memory semantics of its access: initialisation and invalidation are ordinary writes, everything else is
    /// atomic.
    pub fn semantics(&self) -> Semantics {
        match self {
            Operation::At { action: Action::Init { .. } | Action::Invalidate, .. } => Semantics::WEAK,
            _ => Semantics::STRONG,
        }
    }

    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) -> Flow {
        match self {
            Operation::PendingCount { state, to } => {
                context.require(&[*state]);
                for lane in lanes(context.active) {
                    context.set(*to, lane, PhaseState(context.value(*state, lane)).pending());
                }
                Flow::Next
            }
            Operation::At { space, address, action, relaxed } => {
                context.require(&[address.base]);
                action.execute(context, *space, *address, *relaxed)
            }
        }
    }
}

impl Action {
    /// Registers it reads besides the address.
    fn sources(&self) -> [Option<Slot>; 2] {
        match self {
            Action::Init { count } => [Some(*count), None],
            Action::Invalidate | Action::ArriveAfterCopies { .. } => [None; 2],
            Action::Arrive { count, bytes, .. } => [*count, *bytes],
            Action::ExpectBytes { bytes } | Action::CompleteBytes { bytes } => [Some(*bytes), None],
            Action::Wait { operand, .. } => [Some(*operand), None],
        }
    }

    fn execute(&self, context: &mut Context<'_>, space: Option<Space>, address: Address, relaxed: bool) -> Flow {
        for slot in self.sources().into_iter().flatten() {
            context.require(&[slot]);
        }
        let mut faults = Faults::default();
        let mut places = [None; 32];
        for lane in lanes(context.active) {
            places[lane] = context.mbarrier_address(&mut faults, lane, space, context.address(address, lane));
        }
        let mut races = Faults::default();
        for lane in lanes(context.active) {
            if let Some(place) = places[lane] {
                let (writes, ends) = (!matches!(self, Action::Wait { .. }), matches!(self, Action::Invalidate));
                context.check_mbarrier_races(&mut races, lane, place, writes, ends);
            }
        }
        context.report_faults(races);
        if let Action::Wait { parity, operand, to } = *self {
            return wait(context, faults, &places, (parity, operand), to, relaxed);
        }
        for lane in lanes(context.active) {
            let Some(place) = places[lane] else { continue };
            if let Err(misuse) = self.apply(context, lane, place, relaxed) {
                context.misuse(&mut faults, lane, place, &misuse);
            }
        }
        context.report_faults(faults);
        Flow::Next
    }

    fn apply(&self, context: &mut Context<'_>, lane: usize, place: u64, relaxed: bool) -> Result<(), String> {
        let value = |slot: Slot| context.warp.value(slot, lane);
        let agent = Agent::new(context.warp.index, lane, Engine::Thread);
        let arrival = match self {
            Action::ArriveAfterCopies { .. } => Arrival::WithCopies,
            _ if relaxed => Arrival::Relaxed,
            _ => Arrival::Releases,
        };
        if let (Action::Arrive { .. } | Action::ArriveAfterCopies { .. }, Some(races), Some(mbarrier)) =
            (self, &mut context.cluster.races, context.cluster.mbarriers.get(place))
        {
            races.arrive_at_mbarrier(place, mbarrier.phase, agent, arrival);
        }
        match self {
            Action::Init { count } => {
                let (count, epoch) = (value(*count), context.cluster.epoch());
                if let Some(races) = &mut context.cluster.races {
                    races.begin_mbarrier(place);
                }
                context.cluster.mbarriers.init(place, count, OrdinaryWrite { warp: context.warp.index, epoch })
            }
            Action::Invalidate => context.cluster.mbarriers.invalidate(place),
            Action::ExpectBytes { bytes } => context.cluster.mbarriers.expect_bytes(place, value(*bytes)),
            Action::CompleteBytes { bytes } => context.cluster.mbarriers.complete_bytes(place, value(*bytes)),
            Action::Arrive { drops, count, bytes, to } => {
                let count = count.map_or(1, value);
                if let Some(bytes) = bytes.map(value) {
                    context.cluster.mbarriers.expect_bytes(place, bytes)?;
                }
                let state = context.cluster.mbarriers.arrive(place, count, *drops)?;
                if let Some(to) = to {
                    context.set(*to, lane, state.0);
                }
                Ok(())
            }
            Action::ArriveAfterCopies { counted } => arrive_after_copies(context, lane, place, *counted),
            Action::Wait { .. } => Ok(()),
        }
    }
}

/// Makes an mbarrier wait for the copies that a thread started with `cp.async`.
fn arrive_after_copies(context: &mut Context<'_>, lane: usize, place: u64, counted: bool) -> Result<(), String> {
    for index in 0..context.warp.copies[lane].pending.len() {
        let copy = context.warp.copies[lane].pending[index].clone();
        if copy.tracked.is_some() {
            continue;
        }
        let data = (copy.data[..copy.bytes as usize].to_vec(), copy.unknown);
        let identity = context.cluster.mbarriers.track();
        let landing = Landing::new(copy.pc, context.warp.index, lane, copy.address, data);
        context.cluster.mbarriers.add_landing(place, landing.tracked_as(identity))?;
        context.warp.copies[lane].pending[index].tracked = Some(identity);
    }
    match counted {
        true => context.cluster.mbarriers.arrive(place, 1, false).map(drop),
        // Without `.noinc`, the pending count is incremented by the arrival itself.
        false => Ok(()),
    }
}

fn wait(
    context: &mut Context<'_>,
    mut faults: Faults,
    places: &[Option<u64>; 32],
    (parity, operand): (bool, Slot),
    to: Destination,
    relaxed: bool,
) -> Flow {
    let mut over = [true; 32];
    for lane in lanes(context.active) {
        let Some(place) = places[lane] else { continue };
        let value = context.value(operand, lane);
        let wait = if parity { Wait::Parity(value) } else { Wait::State(PhaseState(value)) };
        match context.cluster.mbarriers.is_over(place, wait) {
            Ok(result) => over[lane] = result,
            Err(misuse) => context.misuse(&mut faults, lane, place, &misuse),
        }
        if !over[lane] && !context.warp.impatient {
            // Faults are reported when the wait ends.
            let phase = context.cluster.mbarriers.get(place).map_or(0, |mbarrier| mbarrier.phase);
            return Flow::WaitForPhase { mbarrier: place, phase };
        }
    }
    for lane in lanes(context.active) {
        context.set(to, lane, u64::from(over[lane]));
        if let Some(place) = places[lane].filter(|_| over[lane]) {
            let agent = Agent::new(context.warp.index, lane, Engine::Thread);
            let phase = context.cluster.mbarriers.get(place).map_or(0, |mbarrier| mbarrier.phase);
            let known = context.cluster.races.as_mut().map(|races| races.pass_mbarrier(place, phase, agent, !relaxed));
            if let Some(misuse) = known.filter(|_| parity).and_then(|known| ambiguity(phase, known)) {
                context.misuse(&mut faults, lane, place, &misuse);
            }
            context.cluster.land(place);
        }
    }
    context.report_faults(faults);
    Flow::Next
}

/// The problem of a wait by parity that saw the end of the phase before `phase`, if its thread only knows that the
/// first `known` phases have ended: the parity would be the same if the last but one had not ended.
fn ambiguity(phase: u64, known: u64) -> Option<String> {
    let (seen, before) = (phase.checked_sub(1)?, phase.checked_sub(2)?);
    (known < seen).then(|| {
        format!(
            "parity {} waits for the end of phase {seen}, but nothing says that phase {before} has ended: until it has, \
             the wait passes at once",
            seen % 2
        )
    })
}

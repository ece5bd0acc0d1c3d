//! Calls and returns, and memory of the frame that runs (PTX ISA, "call", "ret", "alloca", "stacksave", "stackrestore").

use super::passing::{gather, scatter};
use super::system::System;
use crate::context::{Context, Flow, without_addresses};
use crate::decode::{Decode, Form, unsupported};
use crate::finding::FindingClass;
use crate::lanes::{lane_list, lanes};
use crate::machine::Caller;
use crate::parse::Type;
use crate::program::{Call, Callee, Destination, Function, Passed, Slot, function_at};

/// Maximum call depth of a thread: more than any stack has room for, unless frames are tiny.
const DEEPEST: usize = 4096;
/// Local memory of a thread on every architecture.
const LOCAL_BYTES: u64 = 512 << 10;

/// A decoded call, return or allocation.
pub(crate) enum Operation {
    /// `call`, by index into the program's calls.
    Call(u32),
    /// `call` of a function of the system.
    System(System, u32),
    /// `ret` of a function.
    Return,
    /// `alloca`: the local address of new bytes.
    Allocate { bytes: Slot, alignment: u64, to: Destination },
    /// `stacksave`.
    Save { to: Destination },
    /// `stackrestore`.
    Restore { from: Slot },
}

/// Decodes a call, a return of a function or an allocation; `None` when it is another instruction.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    let operation = match form.opcode() {
        "call" => {
            form.flag("uni");
            let call = form.call()?;
            match &call.foreign {
                None => Operation::Call(call.index),
                Some(name) => match System::of(name, &call.sizes) {
                    Some(system) => Operation::System(system, call.index),
                    None => {
                        return unsupported(format!(
                            "a call of `{name}`, which the module declares but does not define"
                        ));
                    }
                },
            }
        }
        "ret" if form.is_in_function() => {
            form.flag("uni");
            Operation::Return
        }
        "alloca" => {
            let kind = address_kind(form)?;
            let (to, bytes) = (form.destination(kind)?, form.source(kind)?);
            let alignment = if form.remaining() > 0 { form.literal()? } else { 8 };
            if !alignment.is_power_of_two() || alignment > 1 << 16 {
                return unsupported(format!("`{}` with an alignment of {alignment}", form.name()));
            }
            Operation::Allocate { bytes, alignment, to }
        }
        "stacksave" => {
            let kind = address_kind(form)?;
            Operation::Save { to: form.destination(kind)? }
        }
        "stackrestore" => {
            let kind = address_kind(form)?;
            Operation::Restore { from: form.source(kind)? }
        }
        _ => return Ok(None),
    };
    Ok(Some(operation))
}

fn address_kind(form: &mut Form<'_>) -> Decode<Type> {
    let kind = form.kind()?;
    if matches!(kind.bits, 32 | 64) && !kind.is_float() { Ok(kind) } else { form.refuse() }
}

impl Operation {
    /// The index of the call, if it is one.
    pub fn call(&self) -> Option<u32> {
        match self {
            Operation::Call(call) => Some(*call),
            _ => None,
        }
    }

    /// Whether it allocates or frees memory of the device heap.
    pub fn uses_heap(&self) -> bool {
        matches!(self, Operation::System(system, _) if system.uses_heap())
    }

    /// Whether it needs local memory even without local variables.
    pub fn uses_stack(&self) -> bool {
        !matches!(self, Operation::Call(_) | Operation::Return)
    }

    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) -> Flow {
        match self {
            Operation::Call(index) => call(context, *index),
            Operation::System(system, index) => {
                system.execute(context, &context.machine.program.calls[*index as usize])
            }
            Operation::Return => leave(context),
            Operation::Allocate { bytes, alignment, to } => allocate(context, *bytes, *alignment, *to),
            Operation::Save { to } => {
                for lane in lanes(context.active) {
                    let end = context.warp.local[lane].end();
                    context.set(*to, lane, end);
                }
                Flow::Next
            }
            Operation::Restore { from } => {
                context.require(&[*from]);
                restore(context, *from)
            }
        }
    }
}

/// The number of the function that the first active lane calls, and the lanes that call the same one.
fn target(context: &mut Context<'_>, callee: &Callee) -> (Option<usize>, u32) {
    let active = context.active;
    match *callee {
        Callee::Function(number) => (Some(number), active),
        Callee::Address(slot) => {
            context.require(&[slot]);
            let address = context.value(slot, active.trailing_zeros() as usize);
            let same = lanes(active).filter(|lane| context.value(slot, *lane) == address);
            (function_at(address), same.fold(0, |mask, lane| mask | 1 << lane))
        }
    }
}

fn call(context: &mut Context<'_>, index: u32) -> Flow {
    let program = context.machine.program;
    let call = &program.calls[index as usize];
    let (number, same) = target(context, &call.callee);
    let function = number.and_then(|number| Some((number, program.functions.get(number)?.as_ref()?)));
    let Some((number, function)) = function else {
        return no_function(context, call, same);
    };
    let sizes = |list: &[Passed]| list.iter().map(|passed| passed.bytes()).collect::<Vec<_>>();
    let (given, expected) =
        ([sizes(&call.arguments), sizes(&call.results)], [sizes(&function.parameters), sizes(&function.returns)]);
    if given != expected {
        context.report(FindingClass::InvalidOperand, without_addresses(same), || {
            format!("`{}` takes and returns values of {expected:?} bytes; this call has {given:?}", function.name)
        });
        return Flow::Stop;
    }
    for lane in lanes(same) {
        if !has_room(context, lane, function) {
            return overflow(context, lane, function);
        }
        enter(context, lane, call, index, (number, function));
    }
    Flow::Branch { lanes: same, target: function.start, again: context.active & !same }
}

fn no_function(context: &mut Context<'_>, call: &Call, same: u32) -> Flow {
    let lane = same.trailing_zeros() as usize;
    let address = match call.callee {
        Callee::Address(slot) => context.value(slot, lane),
        Callee::Function(_) => 0,
    };
    context.report(FindingClass::InvalidOperand, without_addresses(same), || {
        let what = if address == 0 { " (a null pointer)" } else { "" };
        format!("{} call {address:#x}{what}, where no function of the module is", lane_list(same))
    });
    Flow::Stop
}

/// Whether a lane has room for another frame.
fn has_room(context: &Context<'_>, lane: usize, function: &Function) -> bool {
    let stack = &context.warp.local[lane];
    stack.frames().len() <= DEEPEST && stack.end() + function.frame.bytes <= LOCAL_BYTES
}

fn overflow(context: &mut Context<'_>, lane: usize, function: &Function) -> Flow {
    context.report(FindingClass::StackOverflow, without_addresses(1 << lane), || {
        format!(
            "the call of `{}` is one too many: a thread has room for {LOCAL_BYTES} bytes of local memory and {DEEPEST} calls \
             at a time here, far more than a GPU gives it by default",
            function.name
        )
    });
    Flow::Stop
}

/// Makes a lane enter a function.
fn enter(context: &mut Context<'_>, lane: usize, call: &Call, index: u32, (number, function): (usize, &Function)) {
    let values = gather(context, lane, context.warp.local[lane].base(), &call.arguments);
    let warp = &mut *context.warp;
    let registers = &mut warp.registers;
    let mut saved = Vec::new();
    for slot in own_registers(function) {
        if function.is_recursive {
            saved.push((registers.values[slot as usize][lane], registers.unknown(slot, lane)));
        }
        registers.unset(slot, lane);
    }
    let caller = Caller { function: number, call: index, pc: context.pc, saved };
    let base = warp.local[lane].push(function.frame, Some(caller));
    for (slot, offset) in &function.addresses {
        warp.registers.values[*slot as usize][lane] = base + offset;
        warp.registers.initialised[*slot as usize] |= 1 << lane;
    }
    scatter(warp, lane, base, &function.parameters, &values);
}

/// The registers that every call has its own copy of.
fn own_registers(function: &Function) -> impl Iterator<Item = Slot> + '_ {
    let addresses = function.addresses.iter().map(|(slot, _)| *slot);
    function.registers.iter().copied().chain(addresses)
}

/// Returns those lanes that have the same return address as the first.
fn leave(context: &mut Context<'_>) -> Flow {
    let active = context.active;
    let place = |context: &Context<'_>, lane: usize| {
        context.warp.local[lane].top().and_then(|frame| frame.caller.as_ref()).map(|caller| caller.pc)
    };
    let Some(pc) = place(context, active.trailing_zeros() as usize) else {
        return Flow::Exit { lanes: active };
    };
    let same = lanes(active).filter(|lane| place(context, *lane) == Some(pc));
    let same = same.fold(0, |mask, lane| mask | 1 << lane);
    for lane in lanes(same) {
        leave_in(context, lane);
    }
    Flow::Branch { lanes: same, target: pc + 1, again: active & !same }
}

fn leave_in(context: &mut Context<'_>, lane: usize) {
    let program = context.machine.program;
    let Some(frame) = context.warp.local[lane].pop() else { return };
    let Some(caller) = frame.caller else { return };
    let Some(function) = &program.functions[caller.function] else { return };
    let values = gather(context, lane, frame.base, &function.returns);
    let warp = &mut *context.warp;
    for (slot, (value, unknown)) in own_registers(function).zip(caller.saved) {
        warp.registers.values[slot as usize][lane] = value;
        warp.registers.set_unknown(slot, lane, unknown);
    }
    let base = warp.local[lane].base();
    scatter(warp, lane, base, &program.calls[caller.call as usize].results, &values);
}

fn allocate(context: &mut Context<'_>, bytes: Slot, alignment: u64, to: Destination) -> Flow {
    context.require(&[bytes]);
    for lane in lanes(context.active) {
        let wanted = context.value(bytes, lane);
        let stack = &mut context.warp.local[lane];
        if wanted > LOCAL_BYTES.saturating_sub(stack.end()) {
            context.report(FindingClass::StackOverflow, without_addresses(1 << lane), || {
                format!("an allocation of {wanted} bytes of {LOCAL_BYTES} bytes of local memory")
            });
            return Flow::Stop;
        }
        let address = stack.allocate(wanted, alignment);
        context.set(to, lane, address);
    }
    Flow::Next
}

fn restore(context: &mut Context<'_>, from: Slot) -> Flow {
    let active = context.active;
    let wrong = lanes(active).filter(|lane| {
        let end = context.warp.value(from, *lane);
        !context.warp.local[*lane].shrink(end)
    });
    let wrong = wrong.fold(0, |mask, lane| mask | 1 << lane);
    if wrong != 0 {
        context.report(FindingClass::InvalidOperand, without_addresses(wrong), || {
            "stackrestore of what no stacksave of this call gave".to_owned()
        });
    }
    Flow::Next
}

//! Atomic operations on memory (PTX ISA, "atom", "red"). The lanes of a warp take effect in lane order.

use super::cache_policy;
use super::memory::take_hints;
use crate::context::{Context, Direction, Faults, Traffic};
use crate::decode::{Decode, Form};
use crate::lanes::lanes;
use crate::numeric::{canonical, flush, integer};
use crate::parse::{Space, Type};
use crate::program::{Address, Destination, Slot};
use crate::race::{Semantics, Strength};

/// The new value from the old one, two operands, the type, and whether subnormals are flushed.
type Update = fn(u64, u64, u64, Type, bool) -> u64;

/// A decoded `atom` or `red`.
pub(crate) struct Operation {
    space: Option<Space>,
    address: Address,
    kind: Type,
    update: Update,
    operands: Vec<Slot>,
    to: Option<Destination>,
    semantics: Semantics,
}

const UPDATES: [(&str, Update); 10] = [
    ("and", |old, b, _, _, _| old & b),
    ("or", |old, b, _, _, _| old | b),
    ("xor", |old, b, _, _, _| old ^ b),
    ("exch", |_, b, _, _, _| b),
    ("cas", |old, b, c, _, _| if old == b { c } else { old }),
    ("add", add),
    ("inc", |old, b, _, _, _| if old >= b { 0 } else { old + 1 }),
    ("dec", |old, b, _, _, _| if old == 0 || old > b { b } else { old - 1 }),
    ("min", |old, b, _, kind, _| integer(old, kind).min(integer(b, kind)) as u64),
    ("max", |old, b, _, kind, _| integer(old, kind).max(integer(b, kind)) as u64),
];

fn add(old: u64, b: u64, _: u64, kind: Type, flushes: bool) -> u64 {
    match kind {
        Type::F32 => {
            let treat = |bits: u64| {
                let value = f32::from_bits(bits as u32);
                if flushes { flush(value) } else { value }
            };
            let sum = treat(old) + treat(b);
            u64::from(canonical(if flushes { flush(sum) } else { sum }))
        }
        Type::F64 => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        _ => old.wrapping_add(b),
    }
}

/// Decodes `atom` or `red`; `None` when the opcode is neither.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    let has_result = match form.opcode() {
        "atom" => true,
        "red" => false,
        _ => return Ok(None),
    };
    let scope = atomic_scope(form);
    let mut semantics = Semantics { strength: scope, ..take_hints(form) };
    if form.flag("acq_rel") {
        (semantics.acquires, semantics.releases) = (true, true);
    }
    let space = form.take(Space::parse);
    let name = UPDATES.iter().map(|(name, _)| *name).find(|name| form.has(name));
    let (Some(update), Some(name)) = (form.choice(&UPDATES), name) else { return form.refuse() };
    let kind = form.kind()?;
    let is_sum_of_floats = name == "add" && matches!(kind, Type::F32 | Type::F64);
    let is_integer = kind.is_integer() && (kind.bits == 32 || kind.bits == 64);
    if !is_sum_of_floats && !is_integer || !matches!(space, None | Some(Space::Global | Space::Shared)) {
        return form.refuse();
    }
    let to = if has_result { Some(form.destination(kind)?) } else { None };
    let address = form.address(space)?;
    let count = if name == "cas" { 2 } else { 1 };
    let operands = (0..count).map(|_| form.source(kind)).collect::<Decode<_>>()?;
    cache_policy::take(form)?;
    Ok(Some(Operation { space, address, kind, update, operands, to, semantics }))
}

/// How far its effect on others reaches: over the GPU unless it says otherwise.
fn atomic_scope(form: &Form<'_>) -> Strength {
    if form.has("cta") || form.has("cluster") { Strength::Block } else { Strength::Gpu }
}

impl Operation {
    /// How its accesses are ordered.
    pub fn semantics(&self) -> Semantics {
        self.semantics
    }

    /// Whether it is a compare-and-swap, the only one with two operands.
    pub fn is_compare_and_swap(&self) -> bool {
        self.operands.len() == 2
    }

    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        context.require(&[self.address.base]);
        context.require(&self.operands);
        let bytes = self.kind.bytes() as usize;
        let mut faults = Faults::default();
        let mut traffic = Traffic::new(bytes);
        for lane in lanes(context.active) {
            let address = context.address(self.address, lane);
            let b = context.value(self.operands[0], lane);
            let c = self.operands.get(1).map_or(0, |slot| context.value(*slot, lane));
            // Sums in global memory flush subnormals, those in shared memory do not.
            let flushes = match self.space {
                Some(space) => space == Space::Global,
                None => crate::memory::resolve(address).0 == Space::Global,
            };
            let update = |old: u64| (self.update)(old, b, c, self.kind, flushes);
            let (old, place) = context.update(&mut faults, lane, self.space, address, bytes, &update);
            traffic.add(lane, place, address);
            if let Some(to) = self.to {
                context.set(to, lane, old);
            }
        }
        traffic.count(Direction::Write, &mut context.block.counters);
        context.report_faults(faults);
    }
}

//! Atomic operations on memory (PTX ISA, "atom", "red"). The lanes of a warp take effect in lane order.

use super::cache_policy;
use super::memory::{scope, take_hints};
use crate::context::{Context, Direction, Faults, Place, Traffic};
use crate::decode::{Decode, Form};
use crate::lanes::lanes;
use crate::numeric::{Exact, Format, Rounding, canonical, flush, integer};
use crate::parse::{Kind, Space, Type};
use crate::program::{Address, Destination, Slot};
use crate::race::Semantics;

/// The new value from the old one, two operands, the type, and whether subnormals are flushed.
pub(super) type Update = fn(u64, u64, u64, Type, bool) -> u64;

/// A decoded `atom` or `red`.
pub(crate) struct Operation {
    space: Option<Space>,
    address: Address,
    kind: Type,
    update: Update,
    /// The operands of each element.
    operands: Vec<Vec<Slot>>,
    /// The old value of each element; none for `red`.
    to: Vec<Destination>,
    /// Whether subnormals stay as they are in every space.
    keeps_subnormals: bool,
    semantics: Semantics,
}

/// The operations, by name.
pub(super) const UPDATES: [(&str, Update); 10] = [
    ("and", |old, b, _, _, _| old & b),
    ("or", |old, b, _, _, _| old | b),
    ("xor", |old, b, _, _, _| old ^ b),
    ("exch", |_, b, _, _, _| b),
    ("cas", |old, b, c, _, _| if old == b { c } else { old }),
    ("add", add),
    ("inc", |old, b, _, _, _| if old >= b { 0 } else { old + 1 }),
    ("dec", |old, b, _, _, _| if old == 0 || old > b { b } else { old - 1 }),
    ("min", |old, b, _, kind, _| extremum(old, b, kind, false)),
    ("max", |old, b, _, kind, _| extremum(old, b, kind, true)),
];

fn extremum(old: u64, b: u64, kind: Type, maximum: bool) -> u64 {
    if kind.is_float() {
        return halves(old, b, kind, |x, y| {
            let is_old =
                y.is_nan() || !x.is_nan() && if maximum { x.total_cmp(&y).is_ge() } else { x.total_cmp(&y).is_le() };
            Exact::from(if is_old { x } else { y })
        });
    }
    let (x, y) = (integer(old, kind), integer(b, kind));
    (if maximum { x.max(y) } else { x.min(y) }) as u64
}

/// Applies `function` to one or two packed halves.
fn halves(a: u64, b: u64, kind: Type, function: impl Fn(f64, f64) -> Exact) -> u64 {
    let format = Format::of(kind);
    let part = |shift: u32| {
        let [x, y] = [a, b].map(|bits| format.value(bits >> shift & 0xffff));
        function(x, y).round(format, Rounding::Nearest)
    };
    if kind.packed == 2 { part(0) | part(16) << 16 } else { part(0) }
}

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
        kind if kind.is_float() && kind.element().bits == 16 => {
            halves(old, b, kind, |x, y| Exact::sum(x, y, Rounding::Nearest))
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
    let scope = scope(form);
    let mut semantics = Semantics { strength: scope, ..take_hints(form) };
    if form.flag("acq_rel") {
        (semantics.acquires, semantics.releases) = (true, true);
    }
    let space = form.take(Space::parse);
    let name = UPDATES.iter().map(|(name, _)| *name).find(|name| form.has(name));
    let (Some(update), Some(name)) = (form.choice(&UPDATES), name) else { return form.refuse() };
    let keeps_subnormals = form.flag("noftz");
    let count = form.choice(&[("v2", 2), ("v4", 4), ("v8", 8)]);
    let kind = form.kind()?;
    let is_known = exists(name, kind, keeps_subnormals) && count.is_none_or(|count| is_vector(count, kind));
    if !is_known || !matches!(space, None | Some(Space::Global | Space::Shared)) {
        return form.refuse();
    }
    // Halves are held in untyped registers.
    let register = if kind.is_float() && kind.bits < 64 && kind != Type::F32 { bits(kind) } else { kind };
    let elements = count.unwrap_or(1);
    let to = if has_result { form.destination_vector(elements, register)? } else { Vec::new() };
    let address = form.address(space)?;
    let operands = match name {
        "cas" => vec![vec![form.source(register)?, form.source(register)?]],
        _ => form.source_vector(elements, register)?.into_iter().map(|slot| vec![slot]).collect(),
    };
    cache_policy::take(form)?;
    Ok(Some(Operation { space, address, kind, update, operands, to, keeps_subnormals, semantics }))
}

/// Whether this operation exists for values of this type.
fn exists(name: &str, kind: Type, keeps_subnormals: bool) -> bool {
    let is_half = kind.is_float() && kind.element().bits == 16;
    match name {
        "add" if is_half => keeps_subnormals,
        "add" if matches!(kind, Type::F32 | Type::F64) => true,
        "min" | "max" if is_half => keeps_subnormals,
        "cas" | "exch" if kind.bits == 16 => name == "cas" && kind.kind == Kind::Bits,
        _ => kind.is_integer() && matches!(kind.bits, 32 | 64),
    }
}

/// Whether there are vectors of `count` values of this type: at most 16 bytes.
fn is_vector(count: usize, kind: Type) -> bool {
    kind.is_float() && kind != Type::F64 && count * kind.bytes() as usize <= 16
}

fn bits(kind: Type) -> Type {
    Type { kind: Kind::Bits, bits: kind.bits, packed: 1 }
}

impl Operation {
    /// How its accesses are ordered.
    pub fn semantics(&self) -> Semantics {
        self.semantics
    }

    /// Whether it is a compare-and-swap, the only one with two operands.
    pub fn is_compare_and_swap(&self) -> bool {
        self.operands[0].len() == 2
    }

    /// Executes it in the active lanes. The elements of a vector are updated one after the other.
    pub fn execute(&self, context: &mut Context<'_>) {
        context.require(&[self.address.base]);
        self.operands.iter().for_each(|operands| context.require(operands));
        let bytes = self.kind.bytes() as usize;
        let whole = bytes * self.operands.len();
        let mut faults = Faults::default();
        let mut traffic = Traffic::new(whole);
        for lane in lanes(context.active) {
            let mut address = context.address(self.address, lane);
            if self.operands.len() > 1 && !address.is_multiple_of(whole as u64) {
                let place = Place::new(lane, self.space, address, whole as u64);
                context.check_alignment(&mut faults, place, || format!("an atomic operation on {whole} bytes"));
                self.to.iter().for_each(|to| context.set(*to, lane, 0));
                continue;
            }
            // Float additions flush subnormals in global memory but not in shared memory.
            let flushes = match self.space {
                _ if self.keeps_subnormals => false,
                Some(space) => space == Space::Global,
                None => crate::memory::resolve(address).0 == Space::Global,
            };
            for (index, operands) in self.operands.iter().enumerate() {
                let b = context.value(operands[0], lane);
                let c = operands.get(1).map_or(0, |slot| context.value(*slot, lane));
                let update = |old: u64| (self.update)(old, b, c, self.kind, flushes);
                let (old, place) = context.update(&mut faults, lane, self.space, address, bytes, &update);
                if index == 0 {
                    traffic.add(lane, place, address);
                }
                if let Some(to) = self.to.get(index) {
                    context.set(*to, lane, old);
                }
                address = address.wrapping_add(bytes as u64);
            }
        }
        traffic.count(Direction::Write, &mut context.cluster.counters);
        context.report_faults(faults);
    }
}

//! `mma.sync` of types other than f16 and bf16 (PTX ISA, "Matrix Fragments for mma.m8n8k16" and those after it).
//!
//! All of its fragments follow one rule: a lane's registers hold neighbours of a row of A, or of a column of B.

use super::product::{Element, Product, Sum};
use crate::context::Context;
use crate::decode::{Decode, Form};
use crate::lanes::lanes;
use crate::program::{Destination, Slot};

/// Columns of B.
pub(super) const N: usize = 8;

/// A decoded `mma`.
pub(crate) struct Multiply {
    product: Product,
    a: Vec<Slot>,
    b: Vec<Slot>,
    c: Vec<Slot>,
    d: Vec<Destination>,
    /// The type of C and D.
    result: Element,
}

/// Rows and depth by shape name; `n8` is in between.
const SHAPES: [(&str, (usize, usize)); 11] = [
    ("m8n8k4", (8, 4)),
    ("m8n8k16", (8, 16)),
    ("m8n8k32", (8, 32)),
    ("m8n8k128", (8, 128)),
    ("m16n8k4", (16, 4)),
    ("m16n8k8", (16, 8)),
    ("m16n8k16", (16, 16)),
    ("m16n8k32", (16, 32)),
    ("m16n8k64", (16, 64)),
    ("m16n8k128", (16, 128)),
    ("m16n8k256", (16, 256)),
];

/// Whether an `mma` of this shape exists for elements of this type.
fn exists(a: Element, shape: (usize, usize)) -> bool {
    let shapes: &[(usize, usize)] = match a {
        Element::Tf32 => &[(16, 4), (16, 8)],
        Element::F64 => &[(8, 4), (16, 4), (16, 8), (16, 16)],
        Element::E4M3 | Element::E5M2 => &[(16, 16), (16, 32)],
        Element::Signed(8) | Element::Unsigned(8) => &[(8, 16), (16, 16), (16, 32)],
        Element::Signed(4) | Element::Unsigned(4) => &[(8, 32), (16, 32), (16, 64)],
        Element::Bits => &[(8, 128), (16, 128), (16, 256)],
        _ => &[],
    };
    shapes.contains(&shape)
}

/// Decodes an `mma` of these types; `None` when it is another instruction.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Multiply>> {
    const TYPES: [&str; 9] = ["tf32", "f64", "e4m3", "e5m2", "s8", "u8", "s4", "u4", "b1"];
    if form.opcode() != "mma" || !TYPES.iter().any(|kind| form.has(kind)) {
        return Ok(None);
    }
    let collective = form.flag("sync") && form.flag("aligned");
    let shape = form.choice(&SHAPES);
    let layout = form.flag("row") && form.flag("col");
    let (saturate, is_and) = (form.flag("satfinite"), form.choice(&[("and", true), ("xor", false)]));
    form.flag("popc");
    form.flag("rn");
    let mut element = || form.take(Element::parse);
    let types = (element(), element(), element(), element());
    let (Some(shape), (Some(d), Some(a), Some(b), Some(c)), true, true) = (shape, types, collective, layout) else {
        return form.refuse();
    };
    let sum = Product::sum_of(a, b, d, saturate, is_and == Some(true)).filter(|_| c == d && exists(a, shape));
    let Some(sum) = sum.filter(|sum| matches!(sum, Sum::Population { .. }) == is_and.is_some()) else {
        return form.refuse();
    };
    let (m, depth) = shape;
    let k = if a == Element::Bits { depth / 32 } else { depth };
    let registers = |kind: Element, elements: usize| elements / 32 / kind.per_register();
    let product = Product { m, n: N, k, a, b, sum };
    let destinations = form.destination_vector(registers(d, m * N), result_register(d))?;
    Ok(Some(Multiply {
        product,
        d: destinations,
        a: form.source_vector(registers(a, m * k), a.register())?,
        b: form.source_vector(registers(b, N * k), b.register())?,
        c: form.source_vector(registers(c, m * N), result_register(c))?,
        result: d,
    }))
}

/// The type of the registers of C and D.
pub(super) fn result_register(kind: Element) -> crate::parse::Type {
    if kind == Element::F32 { crate::parse::Type::F32 } else { kind.register() }
}

impl Multiply {
    /// Executes it. Missing lanes have been reported and count as zeros.
    pub fn execute(&self, context: &mut Context<'_>) {
        for slots in [&self.a, &self.b, &self.c] {
            context.require(slots);
        }
        let Product { m, n, k, .. } = self.product;
        let (mut a, mut b) = (vec![0; m * k], vec![0; n * k]);
        for lane in lanes(context.active) {
            let elements = self.product.a.per_register();
            each_element(context, lane, &self.a, self.product.a, |register, index, value| {
                let (row, column) = place_of_a(lane, register, index, elements, m == 16);
                a[row * k + column] = value;
            });
            let elements = self.product.b.per_register();
            each_element(context, lane, &self.b, self.product.b, |register, index, value| {
                b[lane / 4 * k + lane % 4 * elements + index + 4 * elements * register] = value;
            });
        }
        let c = gather_c(context, &self.c, self.result, m);
        let d = self.product.multiply(&a, &b, &c);
        scatter_d(context, &self.d, self.result, &d);
        let depth = if self.product.a == Element::Bits { 32 * k } else { k };
        context.cluster.counters.mma += 1;
        context.cluster.counters.mma_multiply_accumulates += (m * n * depth) as u64;
    }
}

/// Row and column of an element of A that a lane holds, with `elements` per register, for a matrix of 16 rows or not.
pub(super) fn place_of_a(lane: usize, register: usize, index: usize, elements: usize, tall: bool) -> (usize, usize) {
    let (row, step) = if tall { (lane / 4 + 8 * (register % 2), register / 2) } else { (lane / 4, register) };
    (row, lane % 4 * elements + index + 4 * elements * step)
}

/// Collects the elements of C, with `rows` rows.
pub(super) fn gather_c(context: &Context<'_>, slots: &[Slot], kind: Element, rows: usize) -> Vec<u64> {
    let elements = kind.per_register();
    let mut c = vec![0; rows * N];
    for lane in lanes(context.active) {
        each_element(context, lane, slots, kind, |register, index, value| {
            c[place_of_c(lane, register * elements + index)] = value;
        });
    }
    c
}

/// Distributes the elements of D to the lanes.
pub(super) fn scatter_d(context: &mut Context<'_>, destinations: &[Destination], kind: Element, d: &[u64]) {
    let elements = kind.per_register();
    for lane in lanes(context.active) {
        for (register, destination) in destinations.iter().enumerate() {
            let parts = (0..elements).map(|index| d[place_of_c(lane, register * elements + index)]);
            let value = parts.rev().fold(0, |value, part| value << (kind.bits() % 64) | part);
            context.set(*destination, lane, value);
        }
    }
}

/// Index in C of the `index`-th element that a lane holds.
fn place_of_c(lane: usize, index: usize) -> usize {
    (lane / 4 + 8 * (index / 2)) * N + lane % 4 * 2 + index % 2
}

/// Calls `take` for every element that a lane holds.
pub(super) fn each_element(
    context: &Context<'_>,
    lane: usize,
    slots: &[Slot],
    kind: Element,
    mut take: impl FnMut(usize, usize, u64),
) {
    for (register, slot) in slots.iter().enumerate() {
        let value = context.value(*slot, lane);
        for index in 0..kind.per_register() {
            take(register, index, kind.extract(value, index));
        }
    }
}

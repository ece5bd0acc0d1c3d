//! `mma.sp`: products in which half of A is zeros that are not stored (PTX ISA, "Sparse matrix storage").
//!
//! Stored elements are held in registers like a matrix of half the depth. Four bits of metadata per chunk of a row give
//! the columns of its stored elements: two of four elements, one of two for tf32, two pairs of eight for 4-bit
//! elements. The selector chooses which of four neighbouring threads hold the metadata. For f16, bf16 and tf32 a thread
//! holds it for four neighbouring chunks of a row, and in the upper half for the row eight below. For narrower types it
//! holds it for eight chunks of a row, and the next thread for the row eight below. Zeros are not multiplied, so the
//! corresponding elements of B have no effect.
//!
//! Not yet compared with a GPU. The layout of the metadata is that for which libraries prepare it; sums are computed
//! like those of a dense product of the stored elements.

use super::mma::{N, each_element, gather_c, place_of_a, result_register, scatter_d};
use super::product::{Element, Product};
use crate::context::Context;
use crate::decode::{Decode, Form};
use crate::finding::{FindingClass, LaneAddress};
use crate::lanes::lanes;
use crate::parse::Type;
use crate::program::{Destination, Slot};

/// Rows of A.
const M: usize = 16;
/// Rows and depth of a shape.
const DEPTHS: [(&str, usize); 5] =
    [("m16n8k8", 8), ("m16n8k16", 16), ("m16n8k32", 32), ("m16n8k64", 64), ("m16n8k128", 128)];

/// A decoded `mma.sp`.
pub(crate) struct Multiply {
    /// The product for one row: its stored elements, and as many rows of B.
    product: Product,
    a: Vec<Slot>,
    b: Vec<Slot>,
    c: Vec<Slot>,
    d: Vec<Destination>,
    /// The type of C and D.
    result: Element,
    metadata: Slot,
    selector: usize,
}

/// Whether an `mma.sp` of this depth exists for elements of this type.
fn exists(a: Element, depth: usize) -> bool {
    let depths: &[usize] = match a {
        Element::F16 | Element::Bf16 => &[16, 32],
        Element::Tf32 => &[8, 16],
        Element::E4M3 | Element::E5M2 => &[64],
        Element::Signed(8) | Element::Unsigned(8) => &[32, 64],
        Element::Signed(4) | Element::Unsigned(4) => &[64, 128],
        _ => &[],
    };
    depths.contains(&depth)
}

/// Decodes an `mma.sp`; `None` when it is another instruction.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Multiply>> {
    if form.opcode() != "mma" || !(form.flag("sp") || form.flag("sp::ordered_metadata")) {
        return Ok(None);
    }
    let collective = form.flag("sync") && form.flag("aligned");
    let depth = form.choice(&DEPTHS);
    let layout = form.flag("row") && form.flag("col");
    let saturate = form.flag("satfinite");
    let mut element = || form.take(Element::parse);
    let types = (element(), element(), element(), element());
    let (Some(depth), (Some(d), Some(a), Some(b), Some(c)), true, true) = (depth, types, collective, layout) else {
        return form.refuse();
    };
    // For 8-bit floats `ptxas` accepts only f32 sums for sm_90a.
    let is_sum = c == d && !(d == Element::F16 && a != Element::F16);
    let Some(sum) = Product::sum_of(a, b, d, saturate, false).filter(|_| is_sum && exists(a, depth)) else {
        return form.refuse();
    };
    let registers = |kind: Element, elements: usize| elements / 32 / kind.per_register();
    let destinations = form.destination_vector(registers(d, M * N), result_register(d))?;
    let a_registers = form.source_vector(registers(a, M * depth / 2), a.register())?;
    let b_registers = form.source_vector(registers(b, N * depth), b.register())?;
    let c_registers = form.source_vector(registers(c, M * N), result_register(c))?;
    let metadata = form.source(Type::B32)?;
    let selector = usize::try_from(form.literal()?).unwrap_or(usize::MAX);
    let multiply = Multiply {
        product: Product { m: 1, n: N, k: depth / 2, a, b, sum },
        a: a_registers,
        b: b_registers,
        c: c_registers,
        d: destinations,
        result: d,
        metadata,
        selector,
    };
    if selector >= 4 / multiply.holders() {
        return form.refuse();
    }
    Ok(Some(multiply))
}

impl Multiply {
    /// Number of elements per index of the metadata; two indices are four bits.
    fn together(&self) -> usize {
        if self.product.a.bits() == 4 { 2 } else { 1 }
    }

    /// Number of stored elements per four bits of metadata.
    fn stored_of_chunk(&self) -> usize {
        if self.product.a == Element::Tf32 { 1 } else { 2 * self.together() }
    }

    /// Number of chunks of a row.
    fn chunks(&self) -> usize {
        self.product.k / self.stored_of_chunk()
    }

    /// Number of threads, of four neighbours, that hold metadata.
    fn holders(&self) -> usize {
        (self.chunks() / 4).max(1)
    }

    /// The lane that holds the four bits of a chunk, and the index of the first bit.
    fn place_of_bits(&self, row: usize, chunk: usize) -> (usize, usize) {
        let first = row % 8 * 4 + self.selector * self.holders();
        match self.product.a.bits() {
            ..16 => (first + chunk / 8 * 2 + row / 8, 4 * (chunk % 8)),
            _ => (first + chunk / 4, 16 * (row / 8) + 4 * (chunk % 4)),
        }
    }

    /// The column of A that the `index`-th stored element of a row belongs to.
    fn column(&self, bits: u64, index: usize) -> usize {
        let (stored, together) = (self.stored_of_chunk(), self.together());
        let (chunk, within) = (index / stored, index % stored);
        if self.product.a == Element::Tf32 {
            // An index counts 16-bit halves: 0 and 1, or 2 and 3.
            return 2 * chunk + (bits >> 1 & 1) as usize;
        }
        let place = bits >> (2 * (within / together)) & 3;
        (4 * chunk + place as usize) * together + within % together
    }

    /// Executes it. Missing lanes have been reported and count as zeros.
    pub fn execute(&self, context: &mut Context<'_>) {
        for slots in [&self.a, &self.b, &self.c] {
            context.require(slots);
        }
        let Product { k, .. } = self.product;
        let depth = 2 * k;
        let (mut a, mut b) = (vec![0; M * k], vec![0; N * depth]);
        for lane in lanes(context.active) {
            let elements = self.product.a.per_register();
            each_element(context, lane, &self.a, self.product.a, |register, index, value| {
                let (row, column) = place_of_a(lane, register, index, elements, true);
                a[row * k + column] = value;
            });
            let elements = self.product.b.per_register();
            each_element(context, lane, &self.b, self.product.b, |register, index, value| {
                b[lane / 4 * depth + lane % 4 * elements + index + 4 * elements * register] = value;
            });
        }
        let c = gather_c(context, &self.c, self.result, M);
        let metadata = self.metadata(context);
        let rows = a.chunks_exact(k).zip(c.chunks_exact(N)).enumerate();
        let d: Vec<u64> = rows
            .flat_map(|(row, (a, c))| {
                let bits = &metadata[row * self.chunks()..][..self.chunks()];
                let column = |index: usize| self.column(bits[index / self.stored_of_chunk()], index);
                let met: Vec<u64> = b
                    .chunks_exact(depth)
                    .flat_map(|b| (0..k).map(|index| b[column(index)]).collect::<Vec<_>>())
                    .collect();
                self.product.multiply(a, &met, c)
            })
            .collect();
        scatter_d(context, &self.d, self.result, &d);
        context.cluster.counters.mma += 1;
        context.cluster.counters.mma_multiply_accumulates += (M * N * depth) as u64;
    }

    /// The metadata bits of each chunk of each row; invalid ones are a fault.
    fn metadata(&self, context: &mut Context<'_>) -> Vec<u64> {
        let mut all = Vec::with_capacity(M * self.chunks());
        let mut faulty = Vec::new();
        for row in 0..M {
            for chunk in 0..self.chunks() {
                let (lane, first) = self.place_of_bits(row, chunk);
                let bits =
                    if context.active >> lane & 1 == 1 { context.value(self.metadata, lane) >> first & 15 } else { 4 };
                let is_sorted = match self.product.a {
                    Element::Tf32 => bits == 0b0100 || bits == 0b1110,
                    _ => bits & 3 < bits >> 2,
                };
                if !is_sorted && !faulty.contains(&lane) {
                    faulty.push(lane);
                }
                all.push(bits);
            }
        }
        if !faulty.is_empty() {
            faulty.sort_unstable();
            let which = faulty.iter().map(|lane| LaneAddress { lane: *lane as u32, address: None }).collect();
            context.report(FindingClass::InvalidOperand, which, || {
                let places = if self.product.a == Element::Tf32 {
                    "4 and 14"
                } else {
                    "two different places, the lower one first"
                };
                format!("metadata of a sparse matrix of which four bits are not {places}: the result is not defined")
            });
        }
        all
    }
}

//! `wmma` (PTX ISA, "Warp Level Matrix Load Instruction: wmma.load" and those after it).
//!
//! PTX does not specify which lane holds which elements. Here a lane holds neighbours of a row of A, of a column of B,
//! or of a row of C and D; if a fragment has more registers than that needs, elements repeat.

use super::mma::each_element;
use super::product::{Element, Product, Sum};
use crate::context::{Context, Direction, Faults, Place, Traffic};
use crate::decode::{Decode, Form, unsupported};
use crate::lanes::{LANES, lanes};
use crate::parse::{Space, Type};
use crate::program::{Address, Destination, Slot};

/// Rows, columns and depth; in single bits for bit matrices.
type Shape = (usize, usize, usize);

const SHAPES: [(&str, Shape); 7] = [
    ("m16n16k16", (16, 16, 16)),
    ("m32n8k16", (32, 8, 16)),
    ("m8n32k16", (8, 32, 16)),
    ("m16n16k8", (16, 16, 8)),
    ("m8n8k4", (8, 8, 4)),
    ("m8n8k32", (8, 8, 32)),
    ("m8n8k128", (8, 8, 128)),
];

/// The matrix that a fragment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    A,
    B,
    /// C or D.
    Sum,
}

/// A fragment of a matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment {
    element: Element,
    /// Number of lines of neighbours: rows of A, C and D, columns of B.
    lines: usize,
    /// Elements per line.
    length: usize,
}

impl Fragment {
    fn new(role: Role, element: Element, (m, n, depth): Shape) -> Fragment {
        let k = if element == Element::Bits { depth / 32 } else { depth };
        let (lines, length) = match role {
            Role::A => (m, k),
            Role::B => (n, k),
            Role::Sum => (m, n),
        };
        Fragment { element, lines, length }
    }

    /// Number of distinct elements that a lane holds.
    fn elements(self) -> usize {
        self.lines * self.length / LANES
    }

    /// Registers per lane. Fragments of f16 have room for the largest shape.
    fn registers(self, role: Role) -> usize {
        match (self.element, role) {
            (Element::F16, Role::A | Role::B) => 8,
            _ => (self.elements() / self.element.per_register()).max(1),
        }
    }

    /// The type of its registers.
    fn register(self) -> Type {
        if self.element == Element::F32 { Type::F32 } else { self.element.register() }
    }
}

/// A decoded `wmma`.
pub(crate) enum Operation {
    /// `wmma.load`.
    Load { fragment: Fragment, memory: Memory, to: Vec<Destination> },
    /// `wmma.store`.
    Store { fragment: Fragment, memory: Memory, from: Vec<Slot> },
    /// `wmma.mma`.
    Multiply {
        product: Product,
        depth: usize,
        result: Fragment,
        a: Vec<Slot>,
        b: Vec<Slot>,
        c: Vec<Slot>,
        d: Vec<Destination>,
    },
}

/// The memory of a matrix.
pub(crate) struct Memory {
    space: Option<Space>,
    address: Address,
    /// Elements from one line in memory to the next; if absent, the length of a line.
    stride: Option<Slot>,
    /// Whether lines of the fragment are contiguous in memory.
    is_along: bool,
}

/// Decodes a `wmma`; `None` when the opcode is another.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    if form.opcode() != "wmma" {
        return Ok(None);
    }
    if !(form.flag("sync") && form.flag("aligned")) {
        return form.refuse();
    }
    let operation = match form.choice(&[("load", true), ("store", false)]) {
        Some(is_load) => transfer(form, is_load)?,
        None if form.flag("mma") => multiply(form)?,
        None => return form.refuse(),
    };
    Ok(Some(operation))
}

fn transfer(form: &mut Form<'_>, is_load: bool) -> Decode<Operation> {
    let role = form.choice(&[("a", Role::A), ("b", Role::B), ("c", Role::Sum), ("d", Role::Sum)]);
    let is_row = form.choice(&[("row", true), ("col", false)]);
    let (shape, space) = (form.choice(&SHAPES), form.take(Space::parse));
    let (Some(role), Some(is_row), Some(shape), Some(element)) = (role, is_row, shape, form.take(Element::parse))
    else {
        return form.refuse();
    };
    if !matches!(space, None | Some(Space::Global | Space::Shared)) {
        return form.refuse();
    }
    let fragment = Fragment::new(role, element, shape);
    let is_along = is_row == (role != Role::B);
    if element.bits() < 8 && !is_along {
        return unsupported(format!("`{}`", form.name()));
    }
    let (count, register) = (fragment.registers(role), fragment.register());
    let to = if is_load { form.destination_vector(count, register)? } else { Vec::new() };
    let address = form.address(space)?;
    let from = if is_load { Vec::new() } else { form.source_vector(count, register)? };
    let stride = if form.remaining() > 0 { Some(form.source(Type::U32)?) } else { None };
    let memory = Memory { space, address, stride, is_along };
    Ok(match is_load {
        true => Operation::Load { fragment, memory, to },
        false => Operation::Store { fragment, memory, from },
    })
}

fn multiply(form: &mut Form<'_>) -> Decode<Operation> {
    let is_and = form.choice(&[("and", true), ("xor", false)]);
    form.flag("popc");
    let saturate = form.flag("satfinite");
    form.flag("rn");
    // The types of A and B; a fragment's layout is the same for all.
    for _ in 0..2 {
        form.choice(&[("row", ()), ("col", ())]);
    }
    let shape = form.choice(&SHAPES);
    let types: Vec<Element> = std::iter::from_fn(|| form.take(Element::parse)).collect();
    let (d, a, b, c) = match *types.as_slice() {
        [d, c] => (d, Element::F16, Element::F16, c),
        [d, a, b, c] => (d, a, b, c),
        _ => return form.refuse(),
    };
    let Some(shape @ (m, n, depth)) = shape else { return form.refuse() };
    let sum = Product::sum_of(a, b, d, saturate, is_and == Some(true)).filter(|_| fits(a, shape));
    let Some(sum) = sum.filter(|sum| matches!(sum, Sum::Population { .. }) == is_and.is_some()) else {
        return form.refuse();
    };
    // D and C may have different types; sums are computed in D's.
    if c != d {
        return unsupported(format!("`{}`, which changes the type of the sum", form.name()));
    }
    let [a_fragment, b_fragment, result] =
        [(Role::A, a), (Role::B, b), (Role::Sum, d)].map(|(role, element)| Fragment::new(role, element, shape));
    let sum = match sum {
        // Evident from the recorded results, and from the code that `ptxas` generates for `sm_90a`: two steps of depth
        // 4, although the `mma` of depth 8 is one step.
        Sum::Fused { result, .. } if a == Element::Tf32 => Sum::Fused { result, at_once: 4 },
        sum => sum,
    };
    let product = Product { m, n, k: a_fragment.length, a, b, sum };
    let to = form.destination_vector(result.registers(Role::Sum), result.register())?;
    Ok(Operation::Multiply {
        product,
        depth,
        result,
        d: to,
        a: form.source_vector(a_fragment.registers(Role::A), a_fragment.register())?,
        b: form.source_vector(b_fragment.registers(Role::B), b_fragment.register())?,
        c: form.source_vector(result.registers(Role::Sum), result.register())?,
    })
}

/// Whether a `wmma` of this shape exists for elements of this type.
fn fits(a: Element, shape: Shape) -> bool {
    match a {
        Element::F16 | Element::Bf16 | Element::Signed(8) | Element::Unsigned(8) => {
            matches!(shape, (16, 16, 16) | (32, 8, 16) | (8, 32, 16))
        }
        Element::Tf32 => shape == (16, 16, 8),
        Element::F64 => shape == (8, 8, 4),
        Element::Signed(4) | Element::Unsigned(4) => shape == (8, 8, 32),
        Element::Bits => shape == (8, 8, 128),
        _ => false,
    }
}

impl Operation {
    /// Executes it. Missing lanes have been reported and count as zeros.
    pub fn execute(&self, context: &mut Context<'_>) {
        match self {
            Operation::Load { fragment, memory, to } => load(context, *fragment, memory, to),
            Operation::Store { fragment, memory, from } => store(context, *fragment, memory, from),
            Operation::Multiply { product, depth, result, a, b, c, d } => {
                for slots in [a, b, c] {
                    context.require(slots);
                }
                let Product { m, n, .. } = *product;
                let gathered =
                    [(a, product.a, m * product.k), (b, product.b, n * product.k), (c, result.element, m * n)]
                        .map(|(slots, element, count)| gather(context, slots, element, count));
                let sums = product.multiply(&gathered[0], &gathered[1], &gathered[2]);
                scatter(context, d, result.element, &sums);
                context.cluster.counters.mma += 1;
                context.cluster.counters.mma_multiply_accumulates += (m * n * depth) as u64;
            }
        }
    }
}

/// The `count` elements of a matrix, lane by lane.
fn gather(context: &Context<'_>, slots: &[Slot], element: Element, count: usize) -> Vec<u64> {
    let mut matrix = vec![0; count];
    let (own, width) = (count / LANES, element.per_register());
    for lane in lanes(context.active) {
        each_element(context, lane, slots, element, |register, index, value| {
            let place = register * width + index;
            if place < own {
                matrix[lane * own + place] = value;
            }
        });
    }
    matrix
}

/// Distributes the elements of a matrix to the lanes.
fn scatter(context: &mut Context<'_>, to: &[Destination], element: Element, matrix: &[u64]) {
    let (own, width) = (matrix.len() / LANES, element.per_register());
    for lane in lanes(context.active) {
        for (register, destination) in to.iter().enumerate() {
            let parts = (0..width).map(|index| matrix[lane * own + (register * width + index) % own]);
            let value = parts.rev().fold(0, |value, part| value << (element.bits() % 64) | part);
            context.set(*destination, lane, value);
        }
    }
}

/// Address of an element, and the number of bytes moved at once: one element, or eight narrow ones.
fn address_of(context: &Context<'_>, fragment: Fragment, memory: &Memory, lane: usize, element: usize) -> u64 {
    let (line, place) = (element / fragment.length, element % fragment.length);
    let (line, place, length) = match memory.is_along {
        true => (line, place, fragment.length),
        false => (place, line, fragment.lines),
    };
    let bits = u64::from(fragment.element.bits());
    // For single bits, strides count bits.
    let unit = if fragment.element == Element::Bits { 1 } else { bits };
    let line_bits = memory.stride.map_or(length as u64 * bits, |stride| context.value(stride, lane) * unit);
    context.address(memory.address, lane).wrapping_add((line as u64 * line_bits + place as u64 * bits) / 8)
}

/// Number of elements moved at once.
fn together(element: Element) -> usize {
    (8 / element.bits()).max(1) as usize
}

fn load(context: &mut Context<'_>, fragment: Fragment, memory: &Memory, to: &[Destination]) {
    require(context, memory);
    let (own, step) = (fragment.elements(), together(fragment.element));
    let bytes = (fragment.element.bits() as usize * step) / 8;
    let mut matrix = vec![0; fragment.lines * fragment.length];
    let (mut faults, mut traffic) = (Faults::default(), Traffic::new(bytes));
    for lane in lanes(context.active) {
        for element in (lane * own..(lane + 1) * own).step_by(step) {
            let address = address_of(context, fragment, memory, lane, element);
            let mut data = [0; 8];
            let place = Place::new(lane, memory.space, address, bytes as u64);
            context.read(&mut faults, place, &mut data[..bytes]);
            if element == lane * own {
                traffic.add(lane, place.space, address);
            }
            for index in 0..step {
                matrix[element + index] = fragment.element.extract(u64::from_le_bytes(data), index);
            }
        }
    }
    traffic.count(Direction::Read, &mut context.cluster.counters);
    context.report_faults(faults);
    scatter(context, to, fragment.element, &matrix);
}

fn store(context: &mut Context<'_>, fragment: Fragment, memory: &Memory, from: &[Slot]) {
    require(context, memory);
    context.require(from);
    let own = fragment.elements();
    let bytes = fragment.element.bits() as usize / 8;
    let matrix = gather(context, from, fragment.element, fragment.lines * fragment.length);
    let (mut faults, mut traffic) = (Faults::default(), Traffic::new(bytes));
    for lane in lanes(context.active) {
        for (element, value) in matrix.iter().enumerate().skip(lane * own).take(own) {
            let address = address_of(context, fragment, memory, lane, element);
            let place = Place::new(lane, memory.space, address, bytes as u64);
            context.write(&mut faults, place, &value.to_le_bytes()[..bytes]);
            if element == lane * own {
                traffic.add(lane, place.space, address);
            }
        }
    }
    traffic.count(Direction::Write, &mut context.cluster.counters);
    context.report_faults(faults);
}

fn require(context: &mut Context<'_>, memory: &Memory) {
    context.require(&[memory.address.base]);
    if let Some(stride) = memory.stride {
        context.require(&[stride]);
    }
}

//! Warp-level matrix instructions (PTX ISA, "mma", "ldmatrix", "stmatrix").

use super::{mma, sparse};
use crate::context::{Context, Direction, Faults, Left, Place, Traffic};
use crate::decode::{Decode, Form};
use crate::fused_sum::Factor;
use crate::fused_sums::{COLUMNS, Columns, Row, fused_sums};
use crate::lanes::{LANES, lanes};
use crate::numeric::Format;
use crate::parse::{Space, Type};
use crate::program::{Address, Destination, Slot};
use crate::unknown::{Unknown, UnknownBytes};

/// Rows of an `mma` tile.
const M: usize = 16;
/// Columns of an `mma` tile.
const N: usize = COLUMNS;
/// Depth of the deepest `mma` tile.
const DEEPEST: usize = 16;
/// Rows of an 8×8 matrix of `ldmatrix`.
const ROWS: usize = 8;
/// Bytes of a row of an 8×8 matrix of `ldmatrix`.
const ROW_BYTES: usize = 16;

/// A decoded matrix instruction.
pub(crate) enum Operation {
    /// `d = a · b + c` for f16 or bf16.
    Multiply(Multiply),
    /// `d = a · b + c` for other types.
    MultiplyOther(mma::Multiply),
    /// `mma.sp`.
    MultiplySparse(sparse::Multiply),
    /// `movmatrix`: the lanes' halves, transposed.
    Transpose { from: Slot, to: Destination },
    /// `ldmatrix`: one register for each matrix.
    Load { address: Address, to: Vec<Destination>, transposed: bool },
    /// `stmatrix`.
    Store { address: Address, from: Vec<Slot>, transposed: bool },
}

/// `mma.sync.aligned.m16n8k{8,16}`.
pub(crate) struct Multiply {
    depth: usize,
    /// Format of A and B.
    input: Format,
    /// Format of C and D.
    result: Format,
    a: Vec<Slot>,
    b: Vec<Slot>,
    c: Vec<Slot>,
    d: Vec<Destination>,
}

/// Decodes a matrix instruction; `None` when the opcode is none.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    if let Some(multiply) = sparse::decode(form)? {
        return Ok(Some(Operation::MultiplySparse(multiply)));
    }
    if let Some(multiply) = mma::decode(form)? {
        return Ok(Some(Operation::MultiplyOther(multiply)));
    }
    match form.opcode() {
        "mma" => multiply(form).map(Some),
        "movmatrix" => {
            let is_known = ["sync", "aligned", "m8n8", "trans", "b16"].into_iter().all(|modifier| form.flag(modifier));
            if !is_known {
                return form.refuse();
            }
            Ok(Some(Operation::Transpose { to: form.destination(Type::B32)?, from: form.source(Type::B32)? }))
        }
        "ldmatrix" | "stmatrix" => load_or_store(form).map(Some),
        _ => Ok(None),
    }
}

fn multiply(form: &mut Form<'_>) -> Decode<Operation> {
    let collective = form.flag("sync") && form.flag("aligned");
    let depth = form.choice(&[("m16n8k8", 8), ("m16n8k16", 16)]);
    let layout = form.flag("row") && form.flag("col");
    let (Some(depth), true, true) = (depth, collective, layout) else { return form.refuse() };
    let (d, a, b, c) = (form.kind()?, form.kind()?, form.kind()?, form.kind()?);
    let is_supported = matches!((a, d), (Type::F16, Type::F16 | Type::F32) | (Type::BF16, Type::F32));
    if a != b || c != d || !is_supported {
        return form.refuse();
    }
    // Two halves share a register, f32 accumulators have one each.
    let (count, register) = if d == Type::F32 { (4, Type::F32) } else { (2, Type::B32) };
    let d_registers = form.destination_vector(count, register)?;
    let a_registers = form.source_vector(depth / 4, Type::B32)?;
    let b_registers = form.source_vector(depth / 8, Type::B32)?;
    let c_registers = form.source_vector(count, register)?;
    Ok(Operation::Multiply(Multiply {
        depth,
        input: Format::of(a),
        result: Format::of(d),
        a: a_registers,
        b: b_registers,
        c: c_registers,
        d: d_registers,
    }))
}

fn load_or_store(form: &mut Form<'_>) -> Decode<Operation> {
    let shape = form.flag("sync") && form.flag("aligned") && form.flag("m8n8") && form.flag("b16");
    let count = form.choice(&[("x1", 1), ("x2", 2), ("x4", 4)]);
    let transposed = form.flag("trans");
    let space = form.take(Space::parse);
    let (Some(count), true, Some(Space::Shared)) = (count, shape, space) else { return form.refuse() };
    if form.opcode() == "ldmatrix" {
        let to = form.destination_vector(count, Type::B32)?;
        return Ok(Operation::Load { address: form.address(space)?, to, transposed });
    }
    let address = form.address(space)?;
    let from = form.source_vector(count, Type::B32)?;
    Ok(Operation::Store { address, from, transposed })
}

impl Operation {
    /// Executes it. Missing lanes have been reported and count as zeros.
    pub fn execute(&self, context: &mut Context<'_>) {
        match self {
            Operation::Multiply(multiply) => multiply.execute(context),
            Operation::MultiplyOther(multiply) => multiply.execute(context),
            Operation::MultiplySparse(multiply) => multiply.execute(context),
            Operation::Transpose { from, to } => transpose(context, *from, *to),
            Operation::Load { address, to, transposed } => load_matrices(context, *address, to, *transposed),
            Operation::Store { address, from, transposed } => store_matrices(context, *address, from, *transposed),
        }
    }
}

/// Row and column of the `index`-th element that `lane` holds of a 16-row tile, two neighbours per register: first rows
/// 0–7, then 8–15, then the next eight columns.
pub(super) fn element(lane: usize, index: usize) -> (usize, usize) {
    let (register, half) = (index / 2, index % 2);
    (lane / 4 + 8 * (register % 2), lane % 4 * 2 + half + 8 * (register / 2))
}

/// The elements that each lane holds of a tile of 16 rows and 8 columns, from those of the addend.
pub(super) fn multiply_tile(
    input: Format,
    a: &[Row; M],
    b: &Columns,
    result: Format,
    addends: &[[u64; 4]; LANES],
) -> [[u64; 4]; LANES] {
    let mut c = [[Factor::default(); N]; M];
    for (lane, addends) in addends.iter().enumerate() {
        for (index, addend) in addends.iter().enumerate() {
            let (row, column) = element(lane, index);
            c[row][column] = Factor::new(result, *addend);
        }
    }
    let d = fused_sums(input, a, b, result, &c);
    std::array::from_fn(|lane| {
        std::array::from_fn(|index| {
            let (row, column) = element(lane, index);
            d[row][column]
        })
    })
}

impl Multiply {
    fn execute(&self, context: &mut Context<'_>) {
        let unknown = self.unknown_results(context);
        let mut addends = [[0; 4]; LANES];
        for lane in lanes(context.active) {
            addends[lane] = std::array::from_fn(|index| self.addend(context, lane, index));
        }
        let (a, b) = (self.gather_a(context).map(Row::new), Columns::new(self.gather_b(context), self.depth));
        let sums = multiply_tile(self.input, &a, &b, self.result, &addends);
        for lane in lanes(context.active) {
            for (register, destination) in self.d.iter().enumerate() {
                let value = match self.result == Format::F32 {
                    true => sums[lane][register],
                    false => sums[lane][2 * register] | sums[lane][2 * register + 1] << 16,
                };
                context.set(*destination, lane, value);
            }
        }
        for (lane, register, value) in unknown {
            context.set_unknown(self.d[register].slot, lane, Some(value));
        }
        context.cluster.counters.mma += 1;
        context.cluster.counters.mma_multiply_accumulates += (M * N * self.depth) as u64;
    }

    /// The undetermined results by lane and register: those in a row that is undetermined in A, in a column that is in
    /// B, or of an element that is in C.
    fn unknown_results(&self, context: &Context<'_>) -> Vec<(usize, usize, Unknown)> {
        let slots: Vec<Slot> = [&self.a, &self.b, &self.c].into_iter().flatten().copied().collect();
        if context.unknown_in(&slots, context.active) == 0 {
            return Vec::new();
        }
        let registers = &context.warp.registers;
        let (mut rows, mut columns) = ([None; M], [None; N]);
        for lane in lanes(context.active) {
            for (register, half) in (0..self.a.len()).flat_map(|register| [(register, 0), (register, 1)]) {
                let row = element(lane, 2 * register + half).0;
                rows[row] = rows[row].or(half_of(registers.unknown(self.a[register], lane), half));
            }
            for (slot, half) in self.b.iter().flat_map(|slot| [(slot, 0), (slot, 1)]) {
                columns[lane / 4] = columns[lane / 4].or(half_of(registers.unknown(*slot, lane), half));
            }
        }
        let per_register = 4 / self.d.len();
        let mut results = Vec::new();
        for lane in lanes(context.active) {
            for register in 0..self.d.len() {
                let of_element = |part: usize| {
                    let (row, column) = element(lane, per_register * register + part);
                    let c = registers.unknown(self.c[register], lane);
                    let c = if per_register == 1 { c } else { half_of(c, part) };
                    let unknown = rows[row].or(columns[column]).or(c)?;
                    let (width, shift) = if per_register == 1 { (32, 0) } else { (16, 16 * part) };
                    Some(Unknown { bits: (u64::MAX >> (64 - width)) << shift, is_computed: true, ..unknown })
                };
                let value = (0..per_register).filter_map(of_element).reduce(|value, part| value.and(Some(part)));
                results.extend(value.map(|value| (lane, register, value)));
            }
        }
        results
    }

    /// The rows of A.
    fn gather_a(&self, context: &Context<'_>) -> [[Factor; DEEPEST]; M] {
        let mut a = [[Factor::default(); DEEPEST]; M];
        for lane in lanes(context.active) {
            for (register, slot) in self.a.iter().enumerate() {
                let pair = context.value(*slot, lane);
                for half in 0..2 {
                    let (row, column) = element(lane, 2 * register + half);
                    a[row][column] = Factor::new(self.input, pair >> (16 * half) & 0xffff);
                }
            }
        }
        a
    }

    /// The columns of B.
    fn gather_b(&self, context: &Context<'_>) -> [[Factor; DEEPEST]; N] {
        let mut b = [[Factor::default(); DEEPEST]; N];
        for lane in lanes(context.active) {
            for (register, slot) in self.b.iter().enumerate() {
                let pair = context.value(*slot, lane);
                for half in 0..2 {
                    let row = lane % 4 * 2 + half + 8 * register;
                    b[lane / 4][row] = Factor::new(self.input, pair >> (16 * half) & 0xffff);
                }
            }
        }
        b
    }

    /// The bits of the `index`-th element that a lane holds of C.
    fn addend(&self, context: &Context<'_>, lane: usize, index: usize) -> u64 {
        match self.result == Format::F32 {
            true => context.value(self.c[index], lane),
            false => context.value(self.c[index / 2], lane) >> (16 * (index % 2)) & 0xffff,
        }
    }
}

/// Each lane has two neighbours of a row of an 8×8 matrix of halves.
fn transpose(context: &mut Context<'_>, from: Slot, to: Destination) {
    context.require(&[from]);
    let mut rows = [[0; ROWS]; ROWS];
    for lane in lanes(context.active) {
        let pair = context.value(from, lane);
        for ((row, column), value) in halves(lane, false).into_iter().zip([pair & 0xffff, pair >> 16]) {
            rows[row][column] = value;
        }
    }
    for lane in lanes(context.active) {
        let [low, high] = halves(lane, true).map(|(row, column)| rows[row][column]);
        context.set(to, lane, low | high << 16);
    }
}

/// The undetermined bits of one half of a register.
fn half_of(register: Option<Unknown>, half: usize) -> Option<Unknown> {
    register.and_then(|unknown| unknown.with_bits(unknown.bits >> (16 * half) & 0xffff))
}

/// The row and column of the two elements of each matrix that a lane's register holds.
fn halves(lane: usize, transposed: bool) -> [(usize, usize); 2] {
    let (slow, fast) = (lane / 4, lane % 4 * 2);
    match transposed {
        false => [(slow, fast), (slow, fast + 1)],
        true => [(fast, slow), (fast + 1, slow)],
    }
}

/// Total number of rows of this many matrices.
fn rows_of(matrices: usize) -> usize {
    ROWS * matrices
}

/// The lanes whose addresses are those of the rows of `matrices` matrices.
fn row_lanes(matrices: usize) -> u32 {
    u32::MAX >> (32 - ROWS * matrices)
}

fn load_matrices(context: &mut Context<'_>, address: Address, to: &[Destination], transposed: bool) {
    let addressing = context.active & row_lanes(to.len());
    context.require_in(addressing, &[address.base]);
    context.note_load(Some(Space::Shared), address, ROW_BYTES, addressing);
    let mut rows = [[0; ROW_BYTES]; 32];
    let mut unknown: Vec<(usize, UnknownBytes)> = Vec::new();
    let mut faults = Faults::default();
    let mut traffic = Traffic::new(ROW_BYTES);
    for lane in lanes(addressing) {
        let address = context.address(address, lane);
        let place = Place::shared(lane, address, ROW_BYTES as u64);
        let unknown_bytes = context.read_values(&mut faults, place, &mut rows[lane]);
        if !unknown_bytes.is_empty() {
            unknown.push((lane, unknown_bytes));
        }
        traffic.add(lane, Space::Shared, address);
    }
    traffic.count(Direction::Read, &mut context.cluster.counters);
    context.report_faults(faults);
    for lane in lanes(context.active) {
        for (matrix, destination) in to.iter().enumerate() {
            let half = |(row, column): (usize, usize)| {
                let row: &[u8; ROW_BYTES] = &rows[matrix * ROWS + row];
                u64::from(u16::from_le_bytes([row[2 * column], row[2 * column + 1]]))
            };
            let [low, high] = halves(lane, transposed);
            context.set(*destination, lane, half(low) | half(high) << 16);
            let of_half = |(row, column): (usize, usize)| {
                let (_, bytes) = unknown.iter().find(|(lane, _)| *lane == matrix * ROWS + row)?;
                bytes.value(2 * column, 2)
            };
            if !unknown.is_empty() {
                let high = of_half(high).map(|high| Unknown { bits: high.bits << 16, ..high });
                let value = of_half(low).map(|low| low.and(high)).or(high);
                context.set_unknown(destination.slot, lane, value);
            }
        }
    }
}

fn store_matrices(context: &mut Context<'_>, address: Address, from: &[Slot], transposed: bool) {
    let addressing = context.active & row_lanes(from.len());
    context.require_in(addressing, &[address.base]);
    let lanes_with_unknown = context.unknown_in(from, context.active);
    let mut unknown = vec![UnknownBytes::default(); if lanes_with_unknown == 0 { 0 } else { rows_of(from.len()) }];
    let mut rows = [[0; ROW_BYTES]; 32];
    for lane in lanes(context.active) {
        for (matrix, slot) in from.iter().enumerate() {
            let pair = context.value(*slot, lane) as u32;
            for ((row, column), value) in halves(lane, transposed).into_iter().zip([pair as u16, (pair >> 16) as u16]) {
                rows[matrix * ROWS + row][2 * column..2 * column + 2].copy_from_slice(&value.to_le_bytes());
            }
            if let Some(value) = context.warp.registers.unknown(*slot, lane) {
                for ((row, column), half) in halves(lane, transposed).into_iter().zip(0..) {
                    if let Some(part) = half_of(Some(value), half) {
                        unknown[matrix * ROWS + row].push_value(2 * column, 2, part);
                    }
                }
            }
        }
    }
    let mut faults = Faults::default();
    let mut traffic = Traffic::new(ROW_BYTES);
    for lane in lanes(addressing) {
        let address = context.address(address, lane);
        let place = Place::shared(lane, address, ROW_BYTES as u64);
        match unknown.get(lane).filter(|unknown| !unknown.is_empty()) {
            None => context.write(&mut faults, place, &rows[lane]),
            // Storing them to shared memory is not a use.
            Some(unknown) => context.write_values(&mut faults, place, &rows[lane], unknown, &mut Left::default()),
        }
        traffic.add(lane, Space::Shared, address);
    }
    traffic.count(Direction::Write, &mut context.cluster.counters);
    context.report_faults(faults);
}

//! Matrix products of a warpgroup (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").
//!
//! Each warp computes its 16 rows when it executes the instruction, to the bit what an H200 does ([`fused_sum`](crate::fused_sum)). Operands
//! in shared memory are read at once; results are written to the registers when they are waited for.

use super::matrix::{element, multiply_tile};
use crate::context::{Context, Faults, Place};
use crate::decode::{Decode, Form, invalid};
use crate::finding::FindingClass;
use crate::fused_sum::Factor;
use crate::fused_sums::{COLUMNS, Columns, Row};
use crate::lanes::{LANES, lanes};
use crate::memory::{Swizzle, shared_base};
use crate::numeric::Format;
use crate::parse::{Operand, Type};
use crate::program::{Destination, Slot};
use crate::race::Agent;

/// Rows of a tile that one warp computes.
const WARP_ROWS: usize = 16;
/// Depth of a tile.
const DEPTH: usize = 16;
/// Warps of a warpgroup.
const WARPS: u32 = 4;
/// Bytes that operands are read in.
const CHUNK: u64 = 16;
/// Elements of a chunk.
const CHUNK_ELEMENTS: usize = 8;

/// A decoded `wgmma`.
pub(crate) enum Operation {
    /// `mma_async`.
    Multiply(Multiply),
    /// `fence`.
    Fence,
    /// `commit_group`.
    Commit,
    /// `wait_group n`: all but the latest `n` groups.
    Wait(u64),
}

/// Where A is.
enum OperandA {
    /// Fragments in registers.
    Registers(Vec<Slot>),
    /// In shared memory; transposed when its rows are contiguous along M.
    Shared { descriptor: Slot, transposed: bool },
}

/// `wgmma.mma_async`.
pub(crate) struct Multiply {
    columns: usize,
    input: Format,
    result: Format,
    d: Vec<Destination>,
    a: OperandA,
    b: Slot,
    b_transposed: bool,
    /// Whether D is added, and whether the predicate is negated.
    scale_d: (Slot, bool),
    /// Whether the products are subtracted.
    negated: bool,
}

/// Decodes a `wgmma`; `None` when the opcode is another.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    if form.opcode() != "wgmma" {
        return Ok(None);
    }
    if !(form.flag("sync") && form.flag("aligned")) {
        return form.refuse();
    }
    if form.flag("fence") {
        return Ok(Some(Operation::Fence));
    }
    if form.flag("commit_group") {
        return Ok(Some(Operation::Commit));
    }
    if form.flag("wait_group") {
        return Ok(Some(Operation::Wait(form.literal()?)));
    }
    if form.flag("mma_async") {
        multiply(form).map(|multiply| Some(Operation::Multiply(multiply)))
    } else {
        form.refuse()
    }
}

fn multiply(form: &mut Form<'_>) -> Decode<Multiply> {
    let columns = form.take(|modifier| modifier.strip_prefix("m64n")?.strip_suffix("k16")?.parse::<usize>().ok());
    let Some(columns) = columns.filter(|columns| (8..=256).contains(columns) && columns.is_multiple_of(8)) else {
        return form.refuse();
    };
    let (d, a, b) = (form.kind()?, form.kind()?, form.kind()?);
    let is_supported = matches!((d, a), (Type::F32, Type::F16 | Type::BF16) | (Type::F16, Type::F16));
    if a != b || !is_supported {
        return form.refuse();
    }
    let (count, register) = if d == Type::F32 { (columns / 2, Type::F32) } else { (columns / 4, Type::B32) };
    let accumulators = form.destination_vector(count, register)?;
    let fragments = match form.peek_operand() {
        Some(Operand::Vector(_)) => Some(form.source_vector(4, Type::B32)?),
        _ => None,
    };
    let descriptor = if fragments.is_none() { Some(form.source(Type::B64)?) } else { None };
    let b = form.source(Type::B64)?;
    let scale_d = form.predicate()?;
    let negated = is_negated(form)? != is_negated(form)?;
    let operand_a = match (fragments, descriptor) {
        (Some(fragments), _) => OperandA::Registers(fragments),
        (None, Some(descriptor)) => OperandA::Shared { descriptor, transposed: form.literal()? != 0 },
        (None, None) => return form.refuse(),
    };
    let b_transposed = form.literal()? != 0;
    let (input, result) = (Format::of(a), Format::of(d));
    Ok(Multiply { columns, input, result, d: accumulators, a: operand_a, b, b_transposed, scale_d, negated })
}

/// Takes a factor of an operand: 1, or −1, which negates it.
fn is_negated(form: &mut Form<'_>) -> Decode<bool> {
    match form.literal()? as i64 {
        1 => Ok(false),
        -1 => Ok(true),
        other => invalid(format!("`{}` scales by {other}; 1 and -1 are possible", form.name())),
    }
}

impl Operation {
    /// Whether the async proxy accesses shared memory for it.
    pub fn uses_shared(&self) -> bool {
        matches!(self, Operation::Multiply(_))
    }

    /// Executes it.
    pub fn execute(&self, context: &mut Context<'_>) {
        context.cluster.warpgroups.executed(context.pc, context.warp.name());
        let reader = Agent::matrix(context.warp.index);
        match self {
            Operation::Fence => context.warp.matrix.fence(),
            Operation::Commit => {
                context.warp.matrix.commit();
                context.commit_reads(reader);
            }
            Operation::Wait(allowed) => {
                context.land_results(*allowed);
                context.wait_for_reads(reader, *allowed);
            }
            Operation::Multiply(multiply) => multiply.execute(context),
        }
    }
}

/// A matrix descriptor (PTX ISA, "Matrix Descriptor").
#[derive(Clone, Copy)]
struct Descriptor {
    start: u64,
    leading: u64,
    stride: u64,
    swizzle: Swizzle,
    base_offset: u64,
}

impl Descriptor {
    /// That of a warp of the block of a rank: a descriptor has no room for more than the address in a block.
    fn new(bits: u64, rank: u32) -> Descriptor {
        let offset = |shift: u32| (bits >> shift & 0x3fff) << 4;
        let swizzle = match bits >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::Bytes128,
            2 => Swizzle::Bytes64,
            _ => Swizzle::Bytes32,
        };
        let (start, leading, stride) = (shared_base(rank.into()) + offset(0), offset(16), offset(32));
        Descriptor { start, leading, stride, swizzle, base_offset: bits >> 49 & 7 }
    }

    /// The address of the chunk of 8 elements along K that begins at `k` of the `row`-th row or column.
    fn chunk_along_k(self, row: usize, k: usize) -> u64 {
        let (row, k) = (row as u64, k as u64 / CHUNK_ELEMENTS as u64);
        // Rows of a core matrix are as far apart as the swizzle's are long.
        let (pitch, along_k) = match self.swizzle {
            Swizzle::None => (CHUNK, self.leading),
            swizzle => (swizzle.row_bytes(), CHUNK),
        };
        self.swizzle.apply(self.start + row % 8 * pitch + row / 8 * self.stride + k * along_k)
    }

    /// The address of the chunk of 8 elements along M or N that begins at `row`, at depth `k`.
    fn chunk_along_rows(self, row: usize, k: usize) -> u64 {
        let (chunk, k) = (row as u64 / CHUNK_ELEMENTS as u64, k as u64);
        let place = match self.swizzle {
            Swizzle::None => chunk * self.stride + k % 8 * CHUNK + k / 8 * self.leading,
            swizzle => {
                let chunks = swizzle.row_bytes() / CHUNK;
                chunk % chunks * CHUNK
                    + chunk / chunks * self.leading
                    + k % 8 * swizzle.row_bytes()
                    + k / 8 * self.stride
            }
        };
        self.swizzle.apply(self.start + place)
    }
}

/// Rows or columns of an operand, `DEPTH` elements each.
type Rows = Vec<[Factor; DEPTH]>;

impl Multiply {
    fn execute(&self, context: &mut Context<'_>) {
        self.check_fences(context);
        let mut faults = Faults::default();
        let first = WARP_ROWS * (context.warp.in_block % WARPS) as usize;
        let a = match &self.a {
            OperandA::Registers(slots) => self.fragments(context, slots),
            OperandA::Shared { descriptor, transposed } => {
                self.shared(context, &mut faults, *descriptor, *transposed, first..first + WARP_ROWS)
            }
        };
        let mut b = self.shared(context, &mut faults, self.b, self.b_transposed, 0..self.columns);
        if self.negated {
            b.iter_mut().flatten().for_each(|element| *element = -*element);
        }
        context.report_faults(faults);
        context.require(&[self.scale_d.0]);
        let adds = (context.uniform(self.scale_d.0, "scale-d") != 0) != self.scale_d.1;
        let a: [Row; WARP_ROWS] = std::array::from_fn(|row| Row::new(a[row]));
        let (halves, registers) = if self.result == Format::F32 { (1, 4) } else { (2, 2) };
        for (d, b) in self.d.chunks_exact(registers).zip(b.as_chunks::<COLUMNS>().0) {
            let mut addends = [[0; 4]; LANES];
            for (register, destination) in d.iter().enumerate() {
                let old = self.accumulator(context, destination.slot, adds);
                if adds {
                    for (addends, old) in addends.iter_mut().zip(old) {
                        for half in 0..halves {
                            addends[halves * register + half] = old >> (16 * half) & self.mask();
                        }
                    }
                }
            }
            let sums = multiply_tile(self.input, &a, &Columns::new(*b, DEPTH), self.result, &addends);
            for (register, destination) in d.iter().enumerate() {
                let value = |sums: [u64; 4]| {
                    (0..halves).fold(0, |value, half| value | sums[halves * register + half] << (16 * half))
                };
                context.warp.matrix.set_result(destination.slot, sums.map(value));
            }
        }
        context.cluster.counters.mma += 1;
        context.cluster.counters.mma_multiply_accumulates += (WARP_ROWS * self.columns * DEPTH) as u64;
    }

    /// The bits of one element of the result.
    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.result.bits())
    }

    /// The old value of an accumulator, which an earlier `wgmma` may still have in flight.
    fn accumulator(&self, context: &mut Context<'_>, slot: Slot, is_read: bool) -> [u64; 32] {
        if let Some(values) = context.warp.matrix.result(slot) {
            return *values;
        }
        if is_read {
            context.require(&[slot]);
        }
        context.warp.registers.values[slot as usize]
    }

    fn check_fences(&self, context: &mut Context<'_>) {
        let fragments = match &self.a {
            OperandA::Registers(slots) => slots.as_slice(),
            OperandA::Shared { .. } => &[],
        };
        let used = self.d.iter().map(|destination| destination.slot).chain(fragments.iter().copied());
        let matrix = &context.warp.matrix;
        let unfenced = used.filter(|slot| matrix.result(*slot).is_none()).find(|slot| !matrix.is_fenced(*slot));
        if let Some(slot) = unfenced {
            let name = &context.machine.program.register_names[slot as usize];
            context.report(FindingClass::MissingWgmmaFence, Vec::new(), || {
                format!("no wgmma.fence lies between the last write to `{name}` and this instruction, which uses it")
            });
        }
    }

    fn fragments(&self, context: &mut Context<'_>, slots: &[Slot]) -> Rows {
        context.require(slots);
        let mut rows = vec![[Factor::default(); DEPTH]; WARP_ROWS];
        for lane in lanes(context.active) {
            for (register, slot) in slots.iter().enumerate() {
                let pair = context.value(*slot, lane);
                for half in 0..2 {
                    let (row, column) = element(lane, 2 * register + half);
                    rows[row][column] = Factor::new(self.input, pair >> (16 * half) & 0xffff);
                }
            }
        }
        slots.iter().for_each(|slot| context.warp.matrix.read_fragment(*slot));
        rows
    }

    /// Reads rows of an operand in shared memory.
    fn shared(
        &self,
        context: &mut Context<'_>,
        faults: &mut Faults,
        slot: Slot,
        transposed: bool,
        range: std::ops::Range<usize>,
    ) -> Rows {
        context.require(&[slot]);
        let descriptor = Descriptor::new(context.uniform(slot, "the matrix descriptor"), context.warp.rank);
        if descriptor.base_offset != 0 {
            context.report(FindingClass::InvalidOperand, Vec::new(), || {
                format!(
                    "a matrix descriptor with a base offset of {}; only matrices whose swizzle begins at its period are \
                     supported",
                    descriptor.base_offset
                )
            });
        }
        let mut rows = vec![[Factor::default(); DEPTH]; range.len()];
        let chunk = CHUNK_ELEMENTS;
        match transposed {
            false => {
                for (index, row) in range.enumerate() {
                    for k in (0..DEPTH).step_by(chunk) {
                        let elements = self.chunk(context, faults, descriptor.chunk_along_k(row, k));
                        rows[index][k..k + chunk].copy_from_slice(&elements);
                    }
                }
            }
            true => {
                for (index, row) in range.enumerate().step_by(chunk) {
                    for k in 0..DEPTH {
                        let elements = self.chunk(context, faults, descriptor.chunk_along_rows(row, k));
                        elements.iter().zip(&mut rows[index..]).for_each(|(element, row)| row[k] = *element);
                    }
                }
            }
        }
        rows
    }

    fn chunk(&self, context: &mut Context<'_>, faults: &mut Faults, address: u64) -> [Factor; CHUNK_ELEMENTS] {
        let mut data = [0; CHUNK as usize];
        // Lane 0 stands for the warp, all of which is active.
        let lane = 0;
        context.read(faults, Place::shared(lane, address, CHUNK), &mut data);
        context.check_proxy(faults, lane, address, data.len(), "read");
        let reader = Agent::matrix(context.warp.index);
        context.begin_read(reader, address, CHUNK);
        let mut elements = [Factor::default(); CHUNK_ELEMENTS];
        for (element, bytes) in elements.iter_mut().zip(data.chunks_exact(2)) {
            *element = Factor::new(self.input, u64::from(u16::from_le_bytes([bytes[0], bytes[1]])));
        }
        elements
    }
}

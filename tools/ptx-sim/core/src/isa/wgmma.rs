//! Matrix products of a warpgroup (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").
//!
//! Each warp computes its 16 rows when it executes the instruction, bit-exact to an H200
//! ([`fused_sum`](crate::fused_sum)). Operands in shared memory are read immediately; results are written to registers
//! when they are waited for.

use super::descriptor::{CHUNK, CHUNK_ELEMENTS, Descriptor};
use super::product::Element;
use super::warp_product::{Bytes, ROW_BYTES, ROWS, Types};
use crate::context::{Context, Faults, Place};
use crate::decode::{Decode, Form, invalid};
use crate::finding::FindingClass;
use crate::fused_sums::COLUMNS;
use crate::lanes::{LANES, lanes};
use crate::parse::{Operand, Type};
use crate::program::{Destination, Slot};
use crate::race::Agent;

/// Warps of a warpgroup.
const WARPS: u32 = 4;

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
    /// In shared memory; transposed if its rows are contiguous along M.
    Shared { descriptor: Slot, transposed: bool },
}

/// `wgmma.mma_async`.
pub(crate) struct Multiply {
    columns: usize,
    types: Types,
    d: Vec<Destination>,
    a: OperandA,
    b: Slot,
    b_transposed: bool,
    /// Whether D is added, and whether the predicate is negated.
    scale_d: (Slot, bool),
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
    let shape = form.take(|modifier| {
        let (columns, depth) = modifier.strip_prefix("m64n")?.split_once('k')?;
        Some((columns.parse::<usize>().ok()?, depth.parse::<usize>().ok()?))
    });
    let saturate = form.flag("satfinite");
    let mut element = || form.take(Element::parse);
    let (Some((columns, depth)), Some(d), Some(a), Some(b)) = (shape, element(), element(), element()) else {
        return form.refuse();
    };
    let is_of_bits = a == Element::Bits && form.flag("and") && form.flag("popc");
    let mut types = Types { a, b, d, saturate, negated: false };
    let is_whole = d == Element::Signed(32);
    let is_known = types.exist() && depth == types.depth() && is_width(columns, is_whole);
    if !is_known || is_of_bits != (a == Element::Bits) || saturate && (!is_whole || is_of_bits) {
        return form.refuse();
    }
    let register = if d == Element::F32 { Type::F32 } else { Type::B32 };
    let count = columns / 2 / d.per_register();
    let accumulators = form.destination_vector(count, register)?;
    let fragments = match form.peek_operand() {
        Some(Operand::Vector(_)) => Some(form.source_vector(4, Type::B32)?),
        _ => None,
    };
    let descriptor = if fragments.is_none() { Some(form.source(Type::B64)?) } else { None };
    let b = form.source(Type::B64)?;
    let scale_d = form.predicate()?;
    if !is_whole {
        types.negated = is_negated(form)? != is_negated(form)?;
    }
    // Only 16-bit elements may be contiguous along M or N.
    let mut is_transposed = || if a.bits() == 16 { form.literal().map(|literal| literal != 0) } else { Ok(false) };
    let operand_a = match (fragments, descriptor) {
        (Some(fragments), _) => OperandA::Registers(fragments),
        (None, Some(descriptor)) => OperandA::Shared { descriptor, transposed: is_transposed()? },
        (None, None) => return form.refuse(),
    };
    let b_transposed = is_transposed()?;
    Ok(Multiply { columns, types, d: accumulators, a: operand_a, b, b_transposed, scale_d })
}

/// Whether products with this many columns exist, for integers or for other types.
fn is_width(columns: usize, is_whole: bool) -> bool {
    let step = if is_whole && columns > 32 { 16 } else { 8 };
    (8..=256).contains(&columns) && columns.is_multiple_of(step)
}

/// Takes the factor of an operand, 1 or −1; true if it is negated.
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

impl Multiply {
    fn execute(&self, context: &mut Context<'_>) {
        self.check_fences(context);
        let mut faults = Faults::default();
        let first = ROWS * (context.warp.in_block % WARPS) as usize;
        let a = match &self.a {
            OperandA::Registers(slots) => fragments(context, slots),
            OperandA::Shared { descriptor, transposed } => {
                shared(context, &mut faults, *descriptor, *transposed, first..first + ROWS)
            }
        };
        let b = shared(context, &mut faults, self.b, self.b_transposed, 0..self.columns);
        context.report_faults(faults);
        context.require(&[self.scale_d.0]);
        let adds = (context.uniform(self.scale_d.0, "scale-d") != 0) != self.scale_d.1;
        let operands = self.types.decode(&a, &b);
        let halves = self.types.d.per_register();
        for (d, first) in self.d.chunks_exact(4 / halves).zip((0..).step_by(COLUMNS)) {
            let mut addends = [[0; 4]; LANES];
            for (register, destination) in d.iter().enumerate() {
                let old = self.accumulator(context, destination.slot, adds);
                if adds {
                    for (addends, old) in addends.iter_mut().zip(old) {
                        for half in 0..halves {
                            addends[halves * register + half] = self.types.d.extract(old, half);
                        }
                    }
                }
            }
            let sums = self.types.multiply(&operands, first, &addends);
            for (register, destination) in d.iter().enumerate() {
                let value = |sums: [u64; 4]| {
                    (0..halves).fold(0, |value, half| value | sums[halves * register + half] << (16 * half))
                };
                context.warp.matrix.set_result(destination.slot, sums.map(value));
            }
        }
        context.cluster.counters.mma += 1;
        context.cluster.counters.mma_multiply_accumulates += (ROWS * self.columns * self.types.depth()) as u64;
    }

    /// The old value of an accumulator, which may be in flight from an earlier `wgmma`.
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
}

/// The rows of A that the lanes hold, four bytes per register: first rows 0–7, then 8–15, then the same 16 bytes
/// further on.
fn fragments(context: &mut Context<'_>, slots: &[Slot]) -> Vec<Bytes> {
    context.require(slots);
    let mut rows = vec![[0; ROW_BYTES]; ROWS];
    for lane in lanes(context.active) {
        for (register, slot) in slots.iter().enumerate() {
            let bytes = (context.value(*slot, lane) as u32).to_le_bytes();
            let first = lane % 4 * 4 + register / 2 * CHUNK as usize;
            rows[lane / 4 + 8 * (register % 2)][first..first + 4].copy_from_slice(&bytes);
        }
    }
    slots.iter().for_each(|slot| context.warp.matrix.read_fragment(*slot));
    rows
}

/// Reads rows of an operand in shared memory.
fn shared(
    context: &mut Context<'_>,
    faults: &mut Faults,
    slot: Slot,
    transposed: bool,
    range: std::ops::Range<usize>,
) -> Vec<Bytes> {
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
    let mut rows = vec![[0; ROW_BYTES]; range.len()];
    match transposed {
        false => {
            for (index, row) in range.enumerate() {
                for (number, bytes) in rows[index].chunks_exact_mut(CHUNK as usize).enumerate() {
                    bytes.copy_from_slice(&chunk(context, faults, descriptor.chunk_along_k(row, number)));
                }
            }
        }
        true => {
            for (index, row) in range.enumerate().step_by(CHUNK_ELEMENTS) {
                for k in 0..ROW_BYTES / 2 {
                    let bytes = chunk(context, faults, descriptor.chunk_along_rows(row, k));
                    for (row, element) in rows[index..].iter_mut().zip(bytes.chunks_exact(2)) {
                        row[2 * k..2 * k + 2].copy_from_slice(element);
                    }
                }
            }
        }
    }
    rows
}

fn chunk(context: &mut Context<'_>, faults: &mut Faults, address: u64) -> [u8; CHUNK as usize] {
    let mut data = [0; CHUNK as usize];
    // The whole warp is active; lane 0 represents it.
    let lane = 0;
    context.read(faults, Place::shared(lane, address, CHUNK), &mut data);
    context.check_proxy(faults, lane, address, data.len(), "read");
    let reader = Agent::matrix(context.warp.index);
    context.begin_read(reader, address, CHUNK);
    data
}

//! Bulk copies that reduce: each element of the source is atomically combined with that of the destination (PTX ISA,
//! "cp.reduce.async.bulk", "cp.reduce.async.bulk.tensor").
//!
//! They take effect when issued. An access that does not follow the wait for one races with it.

use super::atomic::{UPDATES, Update};
use super::bulk_copy::{ALIGNMENT, Source, StoredBox, global_side, read_own, read_shared, sectors, size, tensor_rank};
use super::cache_policy;
use crate::context::{Context, Faults, Place};
use crate::decode::{Decode, Form};
use crate::finding::FindingClass;
use crate::lanes::lanes;
use crate::memory::TensorElement;
use crate::parse::{Kind, Space, Type};
use crate::program::{Address, Slot};
use crate::race::{Semantics, Strength};

/// How two elements are combined.
#[derive(Clone, Copy)]
struct Reduction {
    name: &'static str,
    update: Update,
}

/// A decoded bulk reduction.
pub(crate) enum Operation {
    /// To global memory.
    ToGlobal { reduction: Reduce, from: Address, target: Source },
    /// To the shared memory of a block of the cluster, counted by an mbarrier there.
    ToBlock { reduction: Reduce, to: Address, from: Address, bytes: Slot, mbarrier: Address },
}

/// A reduction, with the type of the elements unless the tensor determines it.
#[derive(Clone, Copy)]
pub(crate) struct Reduce {
    reduction: Reduction,
    kind: Option<Type>,
}

/// Decodes one; `None` when it is another instruction.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    if form.opcode() != "cp" || !form.flag("reduce") {
        return Ok(None);
    }
    if !form.flag("async") || !form.flag("bulk") {
        return form.refuse();
    }
    let rank = tensor_rank(form)?;
    let is_to_cluster = form.has("shared::cluster");
    let spaces = (form.take(Space::parse), form.take(Space::parse));
    let reduction = UPDATES.iter().find(|(name, _)| form.flag(name));
    let Some(reduction) = reduction.map(|(name, update)| Reduction { name, update: *update }) else {
        return form.refuse();
    };
    let keeps_subnormals = form.flag("noftz");
    let kind = if rank.is_none() { Some(form.kind()?) } else { None };
    let is_global = spaces == (Some(Space::Global), Some(Space::Shared)) && form.flag("bulk_group");
    let is_block = spaces == (Some(Space::Shared), Some(Space::Shared))
        && is_to_cluster
        && rank.is_none()
        && form.flag("mbarrier::complete_tx::bytes");
    let needs_noftz = kind.is_some_and(|kind| reduction.name == "add" && kind.is_float() && kind.bits == 16);
    let is_known = kind.is_none_or(|kind| exists(reduction.name, kind, is_global)) && needs_noftz == keeps_subnormals;
    if !is_known || !(is_global || is_block) {
        return form.refuse();
    }
    let reduction = Reduce { reduction, kind };
    let operation = if is_global {
        let target = global_side(form, rank)?;
        let from = form.address(Some(Space::Shared))?;
        Operation::ToGlobal { reduction, from, target: target.with_size(form)? }
    } else {
        let (to, from) = (form.address(Some(Space::Shared))?, form.address(Some(Space::Shared))?);
        let bytes = form.source(Type::B32)?;
        Operation::ToBlock { reduction, to, from, bytes, mbarrier: form.address(Some(Space::Shared))? }
    };
    cache_policy::take(form)?;
    Ok(Some(operation))
}

/// Whether this reduction exists for elements of this type, in global memory or in a block's shared memory.
fn exists(name: &str, kind: Type, is_global: bool) -> bool {
    let is_half = kind.is_float() && kind.bits == 16 && kind.packed == 1;
    let is_bits = kind.kind == Kind::Bits;
    match (name, kind.bits) {
        ("and" | "or" | "xor", 32) => is_bits,
        ("and" | "or" | "xor", 64) => is_bits && is_global,
        ("inc" | "dec", _) => kind == Type::U32,
        ("add", 32) => kind.is_integer() && !is_bits || kind == Type::F32 && is_global,
        ("add", 64) => kind == Type::U64 || kind == Type::F64 && is_global,
        ("min" | "max", 32) => kind.is_integer() && !is_bits,
        ("min" | "max", 64) => kind.is_integer() && !is_bits && is_global,
        ("add" | "min" | "max", 16) => is_half && is_global,
        _ => false,
    }
}

/// The type that a tensor's elements have in this reduction; `None` if it does not support them.
fn kind_of(element: TensorElement, name: &str) -> Option<Type> {
    let is_logic = matches!(name, "and" | "or" | "xor");
    let text = match (element, is_logic) {
        (TensorElement::U32 | TensorElement::S32, true) => "b32",
        (TensorElement::U64, true) => "b64",
        // An H100 raises an illegal instruction error for these.
        (TensorElement::S64, true) => return None,
        (TensorElement::U32, _) => "u32",
        (TensorElement::S32, _) => "s32",
        (TensorElement::U64, _) => "u64",
        (TensorElement::S64, _) => "s64",
        (TensorElement::F16, _) => "f16",
        (TensorElement::Bf16, _) => "bf16",
        (TensorElement::F32, _) => "f32",
        (TensorElement::F64, _) => "f64",
        (TensorElement::U8 | TensorElement::U16, _) => return None,
    };
    Type::parse(text).filter(|kind| exists(name, *kind, true))
}

impl Operation {
    /// How its accesses are ordered.
    pub fn semantics(&self) -> Semantics {
        match self {
            Operation::ToGlobal { .. } => Semantics { strength: Strength::Gpu, ..Semantics::BULK_STORE },
            Operation::ToBlock { .. } => Semantics { strength: Strength::Cluster, ..Semantics::COPY },
        }
    }

    /// Whether it writes shared memory.
    pub fn writes_shared(&self) -> bool {
        matches!(self, Operation::ToBlock { .. })
    }

    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        let mut faults = Faults::default();
        for lane in lanes(context.active) {
            match self {
                Operation::ToGlobal { reduction, from, target } => {
                    context.require(&[from.base]);
                    reduction.apply_to_global(context, &mut faults, lane, *from, target);
                }
                Operation::ToBlock { reduction, to, from, bytes, mbarrier } => {
                    context.require(&[to.base, from.base, mbarrier.base]);
                    let target = (context.address(*to, lane), context.address(*mbarrier, lane));
                    reduction.apply_to_block(context, &mut faults, lane, target, (*from, *bytes));
                }
            }
        }
        context.report_faults(faults);
    }
}

impl Reduce {
    fn apply_to_global(
        &self,
        context: &mut Context<'_>,
        faults: &mut Faults,
        lane: usize,
        from: Address,
        target: &Source,
    ) {
        let source = context.address(from, lane);
        match (target, self.kind) {
            (Source::Bytes { address, bytes }, Some(kind)) => {
                context.require(&[address.base]);
                let Some(bytes) = size(context, faults, lane, *bytes) else { return };
                let target = context.address(*address, lane);
                let mut data = vec![0; bytes as usize];
                read_shared(context, faults, lane, (source, ALIGNMENT), &mut data);
                let place = Place::global(lane, target, ALIGNMENT);
                if context.check_alignment(faults, place, || format!("a reduction of {bytes} bytes")) {
                    // As single reductions in global memory do.
                    self.reduction.apply(
                        context,
                        faults,
                        (lane, Space::Global, target),
                        kind,
                        kind == Type::F32,
                        &data,
                    );
                }
            }
            (Source::Box { map, coordinates }, _) => {
                let map = (*map, coordinates.as_slice());
                let Some(stored) = StoredBox::read(context, faults, lane, source, map) else { return };
                let (element, name) = (stored.tile.map.element, self.reduction.name);
                let Some(kind) = kind_of(element, name) else {
                    faults.add(FindingClass::InvalidOperand, lane, source, || {
                        format!("a reduction by .{name} of a tensor of {element:?}, for which there is none")
                    });
                    return;
                };
                for (address, row) in stored.rows() {
                    self.reduction.apply(context, faults, (lane, Space::Global, address), kind, false, &row);
                }
            }
            (Source::Bytes { .. }, None) => {}
        }
    }

    fn apply_to_block(
        &self,
        context: &mut Context<'_>,
        faults: &mut Faults,
        lane: usize,
        (target, mbarrier): (u64, u64),
        (from, bytes): (Address, Slot),
    ) {
        let data = read_own(context, faults, lane, (target, mbarrier), (from, bytes));
        let (Some(data), Some(kind)) = (data, self.kind) else { return };
        let bytes = data.len() as u64;
        let Some(mbarrier) = context.mbarrier_address(faults, lane, Some(Space::Shared), mbarrier) else { return };
        let place = Place::shared(lane, target, ALIGNMENT);
        if context.check_alignment(faults, place, || format!("a reduction of {bytes} bytes")) {
            context.check_overwritten(faults, lane, target, data.len());
            self.reduction.apply(context, faults, (lane, Space::Shared, target), kind, false, &data);
            context.cluster.proxies.overwrite(target, data.len());
        }
        context.check_mbarrier_proxy(faults, lane, mbarrier);
        context.complete_copy(faults, lane, mbarrier, bytes);
    }
}

impl Reduction {
    /// Combines `data` with the memory at an address, element by element.
    fn apply(
        self,
        context: &mut Context<'_>,
        faults: &mut Faults,
        (lane, space, address): (usize, Space, u64),
        kind: Type,
        flushes: bool,
        data: &[u8],
    ) {
        let width = kind.bytes() as usize;
        for (bytes, address) in data.chunks_exact(width).zip((0..).step_by(width).map(|at| address.wrapping_add(at))) {
            let mut word = [0; 8];
            word[..width].copy_from_slice(bytes);
            let value = u64::from_le_bytes(word);
            let update = |old: u64| (self.update)(old, value, 0, kind, flushes);
            context.update(faults, lane, Some(space), address, width, &update);
        }
        if space == Space::Global {
            context.cluster.counters.global_bytes_written += data.len() as u64;
            context.cluster.counters.global_sectors += sectors(address, data.len());
        }
    }
}

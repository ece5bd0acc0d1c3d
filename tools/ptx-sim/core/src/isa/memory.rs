//! Loads, stores and prefetches (PTX ISA, "ld", "ld.global.nc", "ldu", "st", "prefetch", "applypriority").

use super::{cache_policy, halves};
use crate::context::{Context, Direction, Faults, Left, Place, Traffic};
use crate::decode::{Decode, Form, invalid};
use crate::lanes::{LANES, lanes};
use crate::memory::{TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES};
use crate::numeric::sign_extend;
use crate::parse::{Space, Type};
use crate::program::{Address, Destination, Slot};
use crate::race::{Semantics, Strength};
use crate::unknown::UnknownBytes;

/// Bytes of the widest access (`.v8.b32`, `.v4.b64`).
const WIDEST: usize = 32;

/// Bytes discarded by `discard`.
const LINE: u64 = 128;

/// A decoded load, store or prefetch.
pub(crate) enum Operation {
    /// `ld`.
    Load { space: Option<Space>, address: Address, kind: Type, to: Vec<Destination>, semantics: Semantics },
    /// `st`.
    Store { space: Option<Space>, address: Address, kind: Type, from: Vec<Slot>, semantics: Semantics },
    /// `prefetch`, `applypriority`: have no effect on results.
    Prefetch,
    /// `discard`: the data written there is lost.
    Discard { space: Option<Space>, address: Address },
    /// `prefetch.tensormap`: also without effect, but the map must exist.
    PrefetchTensorMap { space: Option<Space>, address: Address },
}

/// Caching modifiers, which do not change the result.
const HINTS: &[&str] = &[
    "weak",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "nc",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::evict_normal",
    "L2::evict_first",
    "L2::evict_last",
    "L2::64B",
    "L2::128B",
    "L2::256B",
];

/// The scope of a strong access; `.gpu` by default.
pub(super) fn scope(form: &Form<'_>) -> Strength {
    match () {
        () if form.has("cta") => Strength::Block,
        () if form.has("cluster") => Strength::Cluster,
        () => Strength::Gpu,
    }
}

/// Takes all [`HINTS`] and the modifiers for memory ordering.
pub(super) fn take_hints(form: &mut Form<'_>) -> Semantics {
    let (acquires, releases) = (form.flag("acquire"), form.flag("release"));
    let relaxed = form.flag("relaxed") | form.flag("mmio");
    let is_volatile = form.flag("volatile");
    let scope = scope(form);
    for hint in HINTS {
        form.flag(hint);
    }
    let strength = match acquires || releases || relaxed {
        true => scope,
        false if is_volatile => Strength::Volatile,
        false => Strength::Weak,
    };
    Semantics { strength, acquires, releases, ..Semantics::WEAK }
}

/// Decodes a load, store or prefetch; `None` when the opcode is none.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    match form.opcode() {
        "ld" | "ldu" => load(form).map(Some),
        "st" => store(form).map(Some),
        "prefetch" | "prefetchu" => prefetch(form).map(Some),
        "applypriority" => apply_priority(form).map(Some),
        "discard" => discard(form).map(Some),
        _ => Ok(None),
    }
}

/// Takes hints, the space, vector size and element type. A 128-bit value is treated as two of 64 bits.
fn shape(form: &mut Form<'_>) -> Decode<(Semantics, Option<Space>, Option<usize>, Type)> {
    let semantics = take_hints(form);
    let space = form.take(Space::parse).map(|space| match space {
        // Parameters of functions are in local memory.
        Space::Parameter if form.is_in_function() => Space::Local,
        space => space,
    });
    let count = form.choice(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1);
    let mut kind = form.kind()?;
    let is_wide = kind == Type::B128 && count == 1;
    if is_wide {
        kind = Type::B64;
    }
    let is_value = kind.bits >= 8 && kind.bits <= 64 && kind.packed == 1;
    if !is_value || count * kind.bytes() as usize > WIDEST {
        return form.refuse();
    }
    Ok((semantics, space, if is_wide { None } else { Some(count) }, kind))
}

fn load(form: &mut Form<'_>) -> Decode<Operation> {
    let (semantics, space, count, kind) = shape(form)?;
    let Some(count) = count else {
        let operand = form.operand()?;
        let to = halves::destinations(form, operand)?.to_vec();
        let address = form.address(space)?;
        cache_policy::take(form)?;
        return Ok(Operation::Load { space, address, kind, to, semantics });
    };
    let items = form.vector()?;
    if items.len() != count {
        return invalid(format!("`{}` loads {count} values, not {}", form.name(), items.len()));
    }
    let to = items.iter().map(|item| form.destination_of(item, kind, true)).collect::<Decode<_>>()?;
    let address = form.address(space)?;
    cache_policy::take(form)?;
    Ok(Operation::Load { space, address, kind, to, semantics })
}

fn store(form: &mut Form<'_>) -> Decode<Operation> {
    let (semantics, space, count, kind) = shape(form)?;
    if let Some(Space::Parameter | Space::Constant) = space {
        return invalid(format!("`{}` to memory that cannot be written", form.name()));
    }
    let address = form.address(space)?;
    let Some(count) = count else {
        let operand = form.operand()?;
        let from = halves::sources(form, operand)?.to_vec();
        cache_policy::take(form)?;
        return Ok(Operation::Store { space, address, kind, from, semantics });
    };
    let items = form.vector()?;
    if items.len() != count {
        return invalid(format!("`{}` stores {count} values, not {}", form.name(), items.len()));
    }
    let from = items.iter().map(|item| form.source_of(item, kind, true)).collect::<Decode<_>>()?;
    cache_policy::take(form)?;
    Ok(Operation::Store { space, address, kind, from, semantics })
}

fn prefetch(form: &mut Form<'_>) -> Decode<Operation> {
    take_hints(form);
    let space = form.take(Space::parse);
    if form.flag("tensormap") {
        return match space {
            None | Some(Space::Constant | Space::Parameter) => {
                Ok(Operation::PrefetchTensorMap { space, address: form.address(space)? })
            }
            _ => form.refuse(),
        };
    }
    if form.choice(&[("L1", ()), ("L2", ())]).is_none() {
        return form.refuse();
    }
    form.address(space)?;
    Ok(Operation::Prefetch)
}

/// `applypriority`: resets the eviction priority of the 128 bytes at an address, which is a multiple of 128.
fn apply_priority(form: &mut Form<'_>) -> Decode<Operation> {
    let space = form.take(Space::parse);
    if !form.flag("L2::evict_normal") || !matches!(space, None | Some(Space::Global)) {
        return form.refuse();
    }
    form.address(space)?;
    match form.literal()? {
        128 => Ok(Operation::Prefetch),
        bytes => invalid(format!("`{}` of {bytes} bytes: it takes 128", form.name())),
    }
}

/// `discard`: the 128 bytes at an address, which is a multiple of 128.
fn discard(form: &mut Form<'_>) -> Decode<Operation> {
    let space = form.take(Space::parse);
    if !form.flag("L2") || !matches!(space, None | Some(Space::Global)) {
        return form.refuse();
    }
    let address = form.address(space)?;
    match form.literal()? {
        LINE => Ok(Operation::Discard { space, address }),
        bytes => invalid(format!("`{}` of {bytes} bytes: it takes {LINE}", form.name())),
    }
}

impl Operation {
    /// How its accesses are ordered.
    pub fn semantics(&self) -> Semantics {
        match self {
            Operation::Load { semantics, .. } | Operation::Store { semantics, .. } => *semantics,
            Operation::Prefetch | Operation::Discard { .. } | Operation::PrefetchTensorMap { .. } => Semantics::WEAK,
        }
    }

    /// The bytes that a lane loads.
    pub fn loaded_bytes(&self) -> Option<u32> {
        match self {
            Operation::Load { kind, to, .. } => Some(kind.bytes() * to.len() as u32),
            _ => None,
        }
    }

    /// The address, if it is a plain load from memory that may be the thread's or block's own.
    pub fn loads_own(&self) -> Option<Address> {
        match self {
            Operation::Load { space, address, semantics: Semantics::WEAK, .. } if *space != Some(Space::Global) => {
                Some(*address)
            }
            _ => None,
        }
    }

    /// The address at which it keeps a register's value, if it is a plain store to such memory.
    pub fn keeps_own(&self, slot: Slot) -> Option<Address> {
        match self {
            Operation::Store { space, address, from, semantics: Semantics::WEAK, .. }
                if *space != Some(Space::Global) && from.contains(&slot) =>
            {
                Some(*address)
            }
            _ => None,
        }
    }

    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        match self {
            Operation::Load { space, address, kind, to, .. } => execute_load(context, *space, *address, *kind, to),
            Operation::Store { space, address, kind, from, .. } => {
                execute_store(context, *space, *address, *kind, from);
            }
            Operation::Prefetch => {}
            Operation::Discard { space, address } => execute_discard(context, *space, *address),
            Operation::PrefetchTensorMap { space, address } => prefetch_tensor_map(context, *space, *address),
        }
    }
}

/// Checks that the address is accessible; its contents are checked by the copy that uses the map.
fn prefetch_tensor_map(context: &mut Context<'_>, space: Option<Space>, address: Address) {
    context.require(&[address.base]);
    let mut faults = Faults::default();
    for lane in lanes(context.active) {
        let place = Place::new(lane, space, context.address(address, lane), TENSOR_MAP_ALIGNMENT);
        context.check_reachable(&mut faults, place, TENSOR_MAP_BYTES, || "a tensor map".to_owned());
    }
    context.report_faults(faults);
}

fn execute_discard(context: &mut Context<'_>, space: Option<Space>, address: Address) {
    context.require(&[address.base]);
    let mut faults = Faults::default();
    for lane in lanes(context.active) {
        let place = Place::new(lane, space, context.address(address, lane), LINE);
        if context.check_reachable(&mut faults, place, LINE as usize, || format!("a discard of {LINE} bytes")) {
            context.machine.memory.forget_range(place.address, LINE);
        }
    }
    context.report_faults(faults);
}

/// Calls a function with the number of bytes of an access as const parameter; false for numbers that no access has.
macro_rules! by_bytes {
    ($bytes:expr, $function:ident($($argument:expr),*)) => {
        match $bytes {
            1 => $function::<1>($($argument),*),
            2 => $function::<2>($($argument),*),
            4 => $function::<4>($($argument),*),
            8 => $function::<8>($($argument),*),
            16 => $function::<16>($($argument),*),
            32 => $function::<32>($($argument),*),
            _ => false,
        }
    };
}

fn execute_load(context: &mut Context<'_>, space: Option<Space>, address: Address, kind: Type, to: &[Destination]) {
    context.require(&[address.base]);
    let width = kind.bytes() as usize;
    let bytes = width * to.len();
    context.note_load(space, address, bytes, context.active);
    if by_bytes!(bytes, load_together(context, space, address, kind, to)) {
        return;
    }
    let mut faults = Faults::default();
    let mut traffic = Traffic::new(bytes);
    for lane in lanes(context.active) {
        let mut data = [0; WIDEST];
        let address = context.address(address, lane);
        let (unknown, place) = context.load_values(&mut faults, lane, space, address, &mut data[..bytes]);
        traffic.add(lane, place, address);
        for (destination, value) in to.iter().zip(data.chunks_exact(width)) {
            let mut word = [0; 8];
            word[..width].copy_from_slice(value);
            let value = u64::from_le_bytes(word);
            let value = if kind.is_signed() { sign_extend(value, kind.bits) as u64 } else { value };
            context.set(*destination, lane, value);
        }
        if let Some(unknown) = unknown {
            set_unknown(context, lane, kind, to, &unknown);
        }
    }
    traffic.count(Direction::Read, &mut context.cluster.counters);
    context.report_faults(faults);
    if context.instruction.semantics.strength == Strength::Volatile {
        context.check_lockstep();
    }
}

/// Loads in all active lanes at once; false, without effect, if it has to be done lane by lane.
fn load_together<const BYTES: usize>(
    context: &mut Context<'_>,
    space: Option<Space>,
    address: Address,
    kind: Type,
    to: &[Destination],
) -> bool {
    let Some(loaded) = context.load_together::<BYTES>(space, address) else { return false };
    let width = kind.bytes() as usize;
    for (destination, first) in to.iter().zip((0..).step_by(width)) {
        let row = match width {
            1 => values::<1, BYTES>(&loaded.data, first, kind, *destination),
            2 => values::<2, BYTES>(&loaded.data, first, kind, *destination),
            4 => values::<4, BYTES>(&loaded.data, first, kind, *destination),
            _ => values::<8, BYTES>(&loaded.data, first, kind, *destination),
        };
        context.warp.registers.set(destination.slot, context.active, &row);
    }
    for (lane, unknown) in loaded.unknown {
        set_unknown(context, lane, kind, to, &unknown);
    }
    true
}

/// The values of `WIDTH` bytes from byte `first` on, by lane, extended as in a register.
fn values<const WIDTH: usize, const BYTES: usize>(
    data: &[[u8; BYTES]; LANES],
    first: usize,
    kind: Type,
    destination: Destination,
) -> [u64; LANES] {
    let mut row = [0; LANES];
    for (value, data) in row.iter_mut().zip(data) {
        let mut word = [0; 8];
        word[..WIDTH].copy_from_slice(&data[first..first + WIDTH]);
        let word = u64::from_le_bytes(word);
        *value = if kind.is_signed() { sign_extend(word, kind.bits) as u64 } else { word } & destination.mask;
    }
    row
}

/// Stores in all active lanes at once; false, without effect, if it has to be done lane by lane.
fn store_together<const BYTES: usize>(
    context: &mut Context<'_>,
    space: Option<Space>,
    address: Address,
    kind: Type,
    from: &[Slot],
) -> bool {
    let width = kind.bytes() as usize;
    let mut data = [[0; BYTES]; LANES];
    for (slot, first) in from.iter().zip((0..).step_by(width)) {
        let row = &context.warp.registers.values[*slot as usize];
        match width {
            1 => put::<1, BYTES>(row, &mut data, first),
            2 => put::<2, BYTES>(row, &mut data, first),
            4 => put::<4, BYTES>(row, &mut data, first),
            _ => put::<8, BYTES>(row, &mut data, first),
        }
    }
    context.store_together(space, address, &data)
}

/// Places the low `WIDTH` bytes of values, by lane, at byte `first`.
fn put<const WIDTH: usize, const BYTES: usize>(row: &[u64; LANES], data: &mut [[u8; BYTES]; LANES], first: usize) {
    for (data, value) in data.iter_mut().zip(row) {
        data[first..first + WIDTH].copy_from_slice(&value.to_le_bytes()[..WIDTH]);
    }
}

fn execute_store(context: &mut Context<'_>, space: Option<Space>, address: Address, kind: Type, from: &[Slot]) {
    context.require(&[address.base]);
    let lanes_with_unknown = context.unknown_in(from, context.active);
    let width = kind.bytes() as usize;
    let bytes = width * from.len();
    if lanes_with_unknown == 0 && by_bytes!(bytes, store_together(context, space, address, kind, from)) {
        return;
    }
    let mut left = Left::default();
    let mut faults = Faults::default();
    let mut traffic = Traffic::new(bytes);
    for lane in lanes(context.active) {
        let mut data = [0; WIDEST];
        for (slot, value) in from.iter().zip(data.chunks_exact_mut(width)) {
            value.copy_from_slice(&context.value(*slot, lane).to_le_bytes()[..width]);
        }
        let address = context.address(address, lane);
        let place = Place::new(lane, space, address, bytes as u64);
        if lanes_with_unknown >> lane & 1 == 0 {
            context.write(&mut faults, place, &data[..bytes]);
        } else {
            let unknown = stored_unknown(context, lane, kind, from);
            context.write_values(&mut faults, place, &data[..bytes], &unknown, &mut left);
        }
        traffic.add(lane, place.space, address);
    }
    traffic.count(Direction::Write, &mut context.cluster.counters);
    context.report_faults(faults);
    context.note_left(left);
}

/// Sets the undetermined bits of values that a lane loaded.
#[cold]
pub(super) fn set_unknown(
    context: &mut Context<'_>,
    lane: usize,
    kind: Type,
    to: &[Destination],
    unknown: &UnknownBytes,
) {
    let width = kind.bytes() as usize;
    for (destination, first) in to.iter().zip((0..).step_by(width)) {
        let Some(value) = unknown.value(first, width) else { continue };
        let sign_is_unknown = kind.is_signed() && value.bits >> (kind.bits - 1) & 1 == 1;
        let above = if sign_is_unknown { u64::MAX << (kind.bits - 1) } else { 0 };
        context.set_unknown(destination.slot, lane, value.with_bits((value.bits | above) & destination.mask));
    }
}

/// The undetermined bits of the bytes that a lane stores.
#[cold]
pub(super) fn stored_unknown(context: &Context<'_>, lane: usize, kind: Type, from: &[Slot]) -> UnknownBytes {
    let width = kind.bytes() as usize;
    let mut bytes = UnknownBytes::default();
    for (slot, first) in from.iter().zip((0..).step_by(width)) {
        if let Some(value) = context.warp.registers.unknown(*slot, lane) {
            bytes.push_value(first, width, value);
        }
    }
    bytes
}

//! Bulk copies between global and shared memory (PTX ISA, "cp.async.bulk", "cp.async.bulk.tensor",
//! "cp.async.bulk.commit_group", "cp.async.bulk.wait_group").
//!
//! A copy reads its source and counts its bytes at its mbarrier when it is issued. What it wrote to shared memory stays
//! out of bounds for everybody until somebody waited for the phase of the mbarrier; what it reads from there may not be
//! overwritten until its thread waited for its group.

use super::cache_policy;
use crate::context::{Context, Faults, Place};
use crate::decode::{Decode, Form, invalid};
use crate::finding::FindingClass;
use crate::lanes::lanes;
use crate::machine::Landing;
use crate::memory::{TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES, TensorMap};
use crate::parse::{Space, Type};
use crate::program::{Address, Slot};
use crate::race::{Agent, Engine, Semantics};
use crate::unknown::UnknownBytes;

/// Alignment of both sides of a bulk copy, and what its size is a multiple of.
const ALIGNMENT: u64 = 16;
/// Alignment of a box in shared memory.
const BOX_ALIGNMENT: u64 = 128;
/// Bytes after which every swizzle repeats.
const SWIZZLE_PERIOD: u64 = 1024;
/// Bytes that boxes are stored in, and whose multiple their first coordinate has to be.
const CHUNK_BYTES: u64 = 16;
/// Bytes of a sector of global memory.
const SECTOR_BYTES: u64 = 32;

/// A decoded bulk copy.
pub(crate) enum Operation {
    /// From global to shared memory.
    Load { to: Address, source: Source, mbarrier: Address },
    /// From shared to global memory.
    Store { from: Address, target: Source },
    /// `commit_group`.
    Commit,
    /// `wait_group n`, `wait_group.read n`: all but the latest `n` groups.
    Wait(u64),
    /// `prefetch`: has no effect on results.
    Prefetch,
}

/// The side of a copy that lies in global memory.
pub(crate) enum Source {
    /// So many bytes there.
    Bytes { address: Address, bytes: Slot },
    /// A box of a tensor.
    Box { map: Address, coordinates: Vec<Slot> },
}

/// Decodes a bulk copy; `None` when the opcode is another.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    if form.opcode() != "cp" || !form.has("bulk") || !form.flag("async") || !form.flag("bulk") {
        return Ok(None);
    }
    if form.flag("commit_group") {
        return Ok(Some(Operation::Commit));
    }
    if form.flag("wait_group") {
        form.flag("read");
        return Ok(Some(Operation::Wait(form.literal()?)));
    }
    let rank = match form.flag("tensor") {
        true => form.choice(&[("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)]).map(Some),
        false => Some(None),
    };
    let Some(rank) = rank else { return form.refuse() };
    if rank.is_some() {
        form.flag("tile");
    }
    let operation = if form.flag("prefetch") { prefetch(form, rank)? } else { copy(form, rank)? };
    cache_policy::take(form)?;
    Ok(Some(operation))
}

fn prefetch(form: &mut Form<'_>, rank: Option<usize>) -> Decode<Operation> {
    form.flag("L2");
    form.take(Space::parse);
    global_side(form, rank)?.with_size(form)?;
    Ok(Operation::Prefetch)
}

fn copy(form: &mut Form<'_>, rank: Option<usize>) -> Decode<Operation> {
    match (form.take(Space::parse), form.take(Space::parse)) {
        (Some(Space::Shared), Some(Space::Global)) if form.flag("mbarrier::complete_tx::bytes") => {
            let to = form.address(Some(Space::Shared))?;
            let source = global_side(form, rank)?.with_size(form)?;
            Ok(Operation::Load { to, source, mbarrier: form.address(Some(Space::Shared))? })
        }
        (Some(Space::Global), Some(Space::Shared)) if form.flag("bulk_group") => {
            let target = global_side(form, rank)?;
            let from = form.address(Some(Space::Shared))?;
            Ok(Operation::Store { from, target: target.with_size(form)? })
        }
        _ => form.refuse(),
    }
}

/// The side in global memory before its size is known.
enum Side {
    Plain(Address),
    Box(Source),
}

impl Side {
    /// Takes the size of a plain copy.
    fn with_size(self, form: &mut Form<'_>) -> Decode<Source> {
        match self {
            Side::Plain(address) => Ok(Source::Bytes { address, bytes: form.source(Type::B32)? }),
            Side::Box(source) => Ok(source),
        }
    }
}

fn global_side(form: &mut Form<'_>, rank: Option<usize>) -> Decode<Side> {
    let Some(rank) = rank else { return Ok(Side::Plain(form.address(Some(Space::Global))?)) };
    let (map, coordinates) = form.tensor_address()?;
    if coordinates.len() != rank {
        return invalid(format!("`{}` takes {rank} coordinates, not {}", form.name(), coordinates.len()));
    }
    Ok(Side::Box(Source::Box { map, coordinates }))
}

impl Operation {
    /// How its accesses are ordered.
    pub fn semantics(&self) -> Semantics {
        match self {
            Operation::Load { .. } => Semantics::COPY,
            Operation::Store { .. } => Semantics::BULK_STORE,
            _ => Semantics::WEAK,
        }
    }

    /// Whether the async proxy accesses shared memory for it.
    pub fn uses_shared(&self) -> bool {
        matches!(self, Operation::Load { .. } | Operation::Store { .. })
    }

    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        let warp = context.warp.index;
        let mut faults = Faults::default();
        for lane in lanes(context.active) {
            let thread = Agent::new(warp, lane, Engine::BulkReads);
            match self {
                Operation::Load { to, source, mbarrier } => {
                    context.require(&[to.base, mbarrier.base]);
                    load(context, &mut faults, lane, *to, source, *mbarrier);
                }
                Operation::Store { from, target } => {
                    context.require(&[from.base]);
                    store(context, &mut faults, lane, *from, target);
                }
                Operation::Commit => context.commit_reads(thread),
                Operation::Wait(allowed) => context.wait_for_reads(thread, *allowed),
                Operation::Prefetch => {}
            }
        }
        context.report_faults(faults);
    }
}

/// A box of a tensor, for one copy.
struct Tile {
    map: TensorMap,
    /// Of its first element.
    origin: Vec<i64>,
}

/// A row of a box that lies in the tensor, at least in part.
struct Row {
    /// Where the part begins in the box, without swizzle.
    offset: u64,
    /// Where it begins in global memory.
    address: u64,
    bytes: u64,
}

impl Tile {
    /// The rows of the box that are not all outside the tensor, whose own rows end after `row_end` elements.
    fn rows_until(&self, row_end: u64) -> Vec<Row> {
        let TensorMap { element, address, sizes, strides, element_strides, .. } = &self.map;
        let extent = self.map.extent();
        let width = element.bytes();
        let (first, end) = (self.origin[0].max(0), (self.origin[0] + extent[0] as i64).min(row_end as i64));
        let count: u64 = extent[1..].iter().product();
        let mut rows = Vec::new();
        for row in 0..count {
            let (mut rest, mut base, mut inside) = (row, *address, first < end);
            for dimension in 1..extent.len() {
                let index = (rest % extent[dimension]) as i64;
                rest /= extent[dimension];
                let position = self.origin[dimension] + index * i64::from(element_strides[dimension]);
                inside &= (0..sizes[dimension] as i64).contains(&position);
                base = base.wrapping_add((position as u64).wrapping_mul(strides[dimension - 1]));
            }
            if inside {
                let offset = row * self.map.row_bytes() + (first - self.origin[0]) as u64 * width;
                let address = base.wrapping_add(first as u64 * width);
                rows.push(Row { offset, address, bytes: (end - first) as u64 * width });
            }
        }
        rows
    }

    /// The rows that a load reads; what lies outside the tensor becomes zeros.
    fn rows_to_load(&self) -> Vec<Row> {
        self.rows_until(self.map.sizes[0])
    }

    /// The rows that a store writes: in whole chunks of 16 bytes, of which the last can reach beyond the tensor, as an
    /// H200 does.
    fn rows_to_store(&self) -> Vec<Row> {
        let width = self.map.element.bytes();
        self.rows_until((self.map.sizes[0] * width).next_multiple_of(CHUNK_BYTES) / width)
    }

    /// Where a byte of the box, which begins at `target`, lies relative to that. A misaligned target, which is reported
    /// elsewhere, counts as the aligned one below it.
    fn place(&self, target: u64, offset: u64) -> usize {
        let base = target % SWIZZLE_PERIOD / BOX_ALIGNMENT * BOX_ALIGNMENT;
        (self.map.swizzle.apply(base + offset) - base) as usize
    }
}

/// The box that a lane copies; `None` when there is none, which is a fault.
fn tile(
    context: &mut Context<'_>,
    faults: &mut Faults,
    lane: usize,
    map: Address,
    coordinates: &[Slot],
) -> Option<Tile> {
    context.require(&[map.base]);
    context.require(coordinates);
    let place = Place::new(lane, None, context.address(map, lane), TENSOR_MAP_ALIGNMENT);
    let mut bytes = [0; TENSOR_MAP_BYTES];
    context.read(faults, place, &mut bytes);
    let found = TensorMap::decode(&bytes).ok_or_else(|| "there is no tensor map at the address".to_owned());
    let found = found.and_then(|map| match map.sizes.len() {
        rank if rank == coordinates.len() => Ok(map),
        rank => Err(format!("the tensor map has {rank} dimensions, not {}", coordinates.len())),
    });
    let map = match found {
        Ok(map) => map,
        Err(cause) => {
            faults.add(FindingClass::InvalidOperand, lane, place.address, || cause);
            return None;
        }
    };
    let origin: Vec<i64> = coordinates.iter().map(|slot| i64::from(context.value(*slot, lane) as u32 as i32)).collect();
    let offset = origin[0] * map.element.bytes() as i64;
    if offset % CHUNK_BYTES as i64 != 0 {
        faults.add(FindingClass::Misaligned, lane, place.address, || {
            format!(
                "a box at {} in the first dimension of a tensor, which are {offset} bytes; they must be a multiple of \
                 {CHUNK_BYTES}",
                origin[0]
            )
        });
    }
    Some(Tile { map, origin })
}

/// The size of a plain copy; `None` when it cannot be, which is a fault.
fn size(context: &mut Context<'_>, faults: &mut Faults, lane: usize, bytes: Slot) -> Option<u64> {
    context.require(&[bytes]);
    let size = context.value(bytes, lane);
    if size == 0 || !size.is_multiple_of(ALIGNMENT) || size > context.machine.shared_bytes as u64 {
        faults.add(FindingClass::InvalidOperand, lane, size, || {
            format!("a bulk copy of {size} bytes; it must be a multiple of {ALIGNMENT} and fit in shared memory")
        });
        return None;
    }
    Some(size)
}

fn load(context: &mut Context<'_>, faults: &mut Faults, lane: usize, to: Address, source: &Source, mbarrier: Address) {
    let (target, mbarrier) = (context.address(to, lane), context.address(mbarrier, lane));
    let Some(mbarrier) = context.mbarrier_address(faults, lane, Some(Space::Shared), mbarrier) else { return };
    let (data, alignment) = match source {
        Source::Bytes { address, bytes } => {
            context.require(&[address.base]);
            let Some(bytes) = size(context, faults, lane, *bytes) else { return };
            let mut data = vec![0; bytes as usize];
            read(context, faults, lane, (context.address(*address, lane), ALIGNMENT), &mut data);
            (data, ALIGNMENT)
        }
        Source::Box { map, coordinates } => {
            let Some(tile) = tile(context, faults, lane, *map, coordinates) else { return };
            let mut data = vec![0; tile.map.box_bytes() as usize];
            let mut row_data = vec![0; tile.map.row_bytes() as usize];
            let rows = tile.rows_to_load();
            if rows.is_empty() {
                check_beginning(context, faults, lane, tile.map.address);
            }
            for row in rows {
                let part = &mut row_data[..row.bytes as usize];
                read(context, faults, lane, (row.address, 1), part);
                for (byte, offset) in part.iter().zip(row.offset..) {
                    data[tile.place(target, offset)] = *byte;
                }
            }
            (data, BOX_ALIGNMENT)
        }
    };
    let bytes = data.len();
    let what = || format!("the destination of a {bytes}-byte bulk copy");
    if context.begin_copy(faults, Place::shared(lane, target, alignment), bytes, what) {
        context.check_proxy(faults, lane, target, bytes, "overwritten");
        context.block.proxies.overwrite(target, bytes);
        let landing = Landing::new(context.pc, context.warp.index, lane, target, (data, UnknownBytes::default()));
        if let Err(misuse) = context.block.mbarriers.add_landing(mbarrier, landing) {
            context.misuse(faults, lane, mbarrier, &misuse);
            return;
        }
    }
    context.check_mbarrier_proxy(faults, lane, mbarrier);
    // Whoever waits for the phase comes after the copy.
    let agent = Agent::new(context.warp.index, lane, Engine::Thread);
    if let (Some(races), Some(state)) = (&mut context.block.races, context.block.mbarriers.get(mbarrier)) {
        races.arrive_at_mbarrier(mbarrier, state.phase, agent, true);
    }
    // A faulty copy counts too, so that nobody waits for it forever.
    if let Err(misuse) = context.block.mbarriers.complete_bytes(mbarrier, bytes as u64) {
        context.misuse(faults, lane, mbarrier, &misuse);
    }
}

fn store(context: &mut Context<'_>, faults: &mut Faults, lane: usize, from: Address, target: &Source) {
    let source = context.address(from, lane);
    match target {
        Source::Bytes { address, bytes } => {
            context.require(&[address.base]);
            let Some(bytes) = size(context, faults, lane, *bytes) else { return };
            let mut data = vec![0; bytes as usize];
            read_shared(context, faults, lane, (source, ALIGNMENT), &mut data);
            write(context, faults, lane, (context.address(*address, lane), ALIGNMENT), &data);
        }
        Source::Box { map, coordinates } => {
            let Some(tile) = tile(context, faults, lane, *map, coordinates) else { return };
            if let Some(outside) = tile.origin.iter().find(|coordinate| **coordinate < 0) {
                let cause = || format!("a box stored at coordinate {outside}; only loads may begin before the tensor");
                faults.add(FindingClass::InvalidOperand, lane, source, cause);
                return;
            }
            let mut data = vec![0; tile.map.box_bytes() as usize];
            read_shared(context, faults, lane, (source, BOX_ALIGNMENT), &mut data);
            for row in tile.rows_to_store() {
                let offsets = row.offset..row.offset + row.bytes;
                let row_data: Vec<u8> = offsets.map(|offset| data[tile.place(source, offset)]).collect();
                write(context, faults, lane, (row.address, 1), &row_data);
            }
        }
    }
}

/// Requires memory where the tensor of a box begins that lies wholly outside of it: an H100 and an H200 read there, drop what they
/// read, and fault where no page is mapped (docs/results/head-dims.md). They do not for stores.
fn check_beginning(context: &mut Context<'_>, faults: &mut Faults, lane: usize, address: u64) {
    let what =
        || "a box wholly outside its tensor, for which a GPU reads the tensor's first bytes, which are".to_owned();
    context.check_reachable(faults, Place::global(lane, address, 1), 1, what);
}

/// Reads shared memory as the async proxy does, until the thread waits for the copy.
fn read_shared(
    context: &mut Context<'_>,
    faults: &mut Faults,
    lane: usize,
    (address, alignment): (u64, u64),
    data: &mut [u8],
) {
    context.read(faults, Place::shared(lane, address, alignment), data);
    context.check_proxy(faults, lane, address, data.len(), "read");
    let thread = Agent::new(context.warp.index, lane, Engine::BulkReads);
    context.begin_read(thread, address, data.len() as u64);
}

fn read(
    context: &mut Context<'_>,
    faults: &mut Faults,
    lane: usize,
    (address, alignment): (u64, u64),
    data: &mut [u8],
) {
    context.read(faults, Place::global(lane, address, alignment), data);
    context.block.counters.global_bytes_read += data.len() as u64;
    context.block.counters.global_sectors += sectors(address, data.len());
}

fn write(context: &mut Context<'_>, faults: &mut Faults, lane: usize, (address, alignment): (u64, u64), data: &[u8]) {
    context.write(faults, Place::global(lane, address, alignment), data);
    context.block.counters.global_bytes_written += data.len() as u64;
    context.block.counters.global_sectors += sectors(address, data.len());
}

fn sectors(address: u64, bytes: usize) -> u64 {
    address.wrapping_add(bytes as u64).div_ceil(SECTOR_BYTES).saturating_sub(address / SECTOR_BYTES)
}

//! Bulk copies between global and shared memory (PTX ISA, "cp.async.bulk", "cp.async.bulk.tensor",
//! "cp.async.bulk.commit_group", "cp.async.bulk.wait_group").
//!
//! A copy reads its source and signals its bytes to its mbarrier when it is issued. Its destination in shared memory
//! may not be accessed until the phase of the mbarrier was waited for; its source in shared memory may not be
//! overwritten until its thread waited for its group, if only with `.read`. Its writes to global memory are ordered
//! before what follows a wait without `.read`.

use super::cache_policy;
use super::tile::{BOX_ALIGNMENT, Tile, tile};
use crate::cluster_addresses::{own_shared, shared_base};
use crate::context::{Context, Faults, Place};
use crate::decode::{Decode, Form, invalid};
use crate::finding::FindingClass;
use crate::lanes::lanes;
use crate::launch::BoxLoad;
use crate::machine::Landing;
use crate::parse::{Space, Type};
use crate::program::{Address, Slot};
use crate::race::{Agent, Engine, Semantics};
use crate::unknown::UnknownBytes;

/// Required alignment of both addresses of a bulk copy, and of its size.
pub(super) const ALIGNMENT: u64 = 16;
/// Bytes of a sector of global memory.
const SECTOR_BYTES: u64 = 32;

/// A decoded bulk copy.
pub(crate) enum Operation {
    /// From global to shared memory, of one block of the cluster or of those in a mask.
    Load { to: Address, source: Source, mbarrier: Address, blocks: Option<Slot> },
    /// From shared memory to that of another block of the cluster.
    Send { to: Address, from: Address, bytes: Slot, mbarrier: Address },
    /// From shared to global memory.
    Store { from: Address, target: Source },
    /// `commit_group`.
    Commit,
    /// `wait_group n`, `wait_group.read n`: all but the latest `n` groups, or their reads.
    Wait { allowed: u64, reads_only: bool },
    /// `prefetch` to L2, without effect on results.
    Prefetch(Source),
}

/// The global-memory side of a copy.
pub(crate) enum Source {
    /// A range of bytes.
    Bytes { address: Address, bytes: Slot },
    /// A box of a tensor.
    Box { map: Address, coordinates: Vec<Slot> },
}

/// Decodes a bulk copy; `None` when the opcode is another.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    if form.opcode() != "cp" || !form.has("bulk") || form.has("reduce") || !form.flag("async") || !form.flag("bulk") {
        return Ok(None);
    }
    if form.flag("commit_group") {
        return Ok(Some(Operation::Commit));
    }
    if form.flag("wait_group") {
        let reads_only = form.flag("read");
        return Ok(Some(Operation::Wait { allowed: form.literal()?, reads_only }));
    }
    let rank = tensor_rank(form)?;
    let operation = if form.flag("prefetch") { prefetch(form, rank)? } else { copy(form, rank)? };
    cache_policy::take(form)?;
    Ok(Some(operation))
}

/// Takes `tensor`, its number of dimensions, and a following `tile`, if present; `None` otherwise.
pub(super) fn tensor_rank(form: &mut Form<'_>) -> Decode<Option<usize>> {
    if !form.flag("tensor") {
        return Ok(None);
    }
    let rank = form.choice(&[("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)]);
    let Some(rank) = rank else { return form.refuse() };
    form.flag("tile");
    Ok(Some(rank))
}

fn prefetch(form: &mut Form<'_>, rank: Option<usize>) -> Decode<Operation> {
    form.flag("L2");
    form.take(Space::parse);
    Ok(Operation::Prefetch(global_side(form, rank)?.with_size(form)?))
}

fn copy(form: &mut Form<'_>, rank: Option<usize>) -> Decode<Operation> {
    let is_to_cluster = form.has("shared::cluster");
    match (form.take(Space::parse), form.take(Space::parse)) {
        (Some(Space::Shared), Some(Space::Global)) if form.flag("mbarrier::complete_tx::bytes") => {
            let is_multicast = form.flag("multicast::cluster");
            if is_multicast && !is_to_cluster {
                return invalid(format!("`{}`: only .shared::cluster is copied to several blocks", form.name()));
            }
            let to = form.address(Some(Space::Shared))?;
            let source = global_side(form, rank)?.with_size(form)?;
            let mbarrier = form.address(Some(Space::Shared))?;
            let blocks = if is_multicast { Some(form.source(Type::B16)?) } else { None };
            Ok(Operation::Load { to, source, mbarrier, blocks })
        }
        (Some(Space::Shared), Some(Space::Shared))
            if rank.is_none() && is_to_cluster && form.flag("mbarrier::complete_tx::bytes") =>
        {
            let (to, from) = (form.address(Some(Space::Shared))?, form.address(Some(Space::Shared))?);
            let bytes = form.source(Type::B32)?;
            Ok(Operation::Send { to, from, bytes, mbarrier: form.address(Some(Space::Shared))? })
        }
        (Some(Space::Global), Some(Space::Shared)) if form.flag("bulk_group") => {
            let target = global_side(form, rank)?;
            let from = form.address(Some(Space::Shared))?;
            Ok(Operation::Store { from, target: target.with_size(form)? })
        }
        _ => form.refuse(),
    }
}

/// The global-memory side before its size is known.
pub(super) enum Side {
    Plain(Address),
    Box(Source),
}

impl Side {
    /// Takes the size operand of a plain copy.
    pub fn with_size(self, form: &mut Form<'_>) -> Decode<Source> {
        match self {
            Side::Plain(address) => Ok(Source::Bytes { address, bytes: form.source(Type::B32)? }),
            Side::Box(source) => Ok(source),
        }
    }
}

pub(super) fn global_side(form: &mut Form<'_>, rank: Option<usize>) -> Decode<Side> {
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
            Operation::Load { .. } | Operation::Send { .. } => Semantics::COPY,
            Operation::Store { .. } => Semantics::BULK_STORE,
            _ => Semantics::WEAK,
        }
    }

    /// Whether the async proxy accesses shared memory for it.
    pub fn uses_shared(&self) -> bool {
        matches!(self, Operation::Load { .. } | Operation::Send { .. } | Operation::Store { .. })
    }

    /// Whether it writes shared memory.
    pub fn writes_shared(&self) -> bool {
        matches!(self, Operation::Load { .. } | Operation::Send { .. })
    }

    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        let mut faults = Faults::default();
        for lane in lanes(context.active) {
            match self {
                Operation::Load { to, source, mbarrier, blocks } => {
                    context.require(&[to.base, mbarrier.base]);
                    context.require(blocks.as_slice());
                    let target = (context.address(*to, lane), context.address(*mbarrier, lane));
                    load(context, &mut faults, lane, target, source, *blocks);
                }
                Operation::Send { to, from, bytes, mbarrier } => {
                    context.require(&[to.base, from.base, mbarrier.base]);
                    let target = (context.address(*to, lane), context.address(*mbarrier, lane));
                    send(context, &mut faults, lane, target, (*from, *bytes));
                }
                Operation::Store { from, target } => {
                    context.require(&[from.base]);
                    store(context, &mut faults, lane, *from, target);
                }
                Operation::Commit => context.commit_bulk_group(lane),
                Operation::Wait { allowed, reads_only } => context.wait_for_bulk_groups(lane, *allowed, *reads_only),
                Operation::Prefetch(source) => prefetch_source(context, &mut faults, lane, source),
            }
        }
        context.report_faults(faults);
    }
}

/// The size of a plain copy; `None`, with a fault, if it is invalid.
pub(super) fn size(context: &mut Context<'_>, faults: &mut Faults, lane: usize, bytes: Slot) -> Option<u64> {
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

/// Copies from global memory to a place in shared memory, and to the same place in every block of the mask, if any.
/// `target` is that place, and the mbarrier that counts.
fn load(
    context: &mut Context<'_>,
    faults: &mut Faults,
    lane: usize,
    target: (u64, u64),
    source: &Source,
    blocks: Option<Slot>,
) {
    let Some(targets) = targets(context, faults, lane, target, blocks) else { return };
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
            list(context, &tile);
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
                    data[tile.place(target.0, offset)] = *byte;
                }
            }
            (data, BOX_ALIGNMENT)
        }
    };
    for target in targets {
        deliver(context, faults, lane, target, &data, alignment);
    }
}

/// Lists the load of a box for the report, if it shall.
fn list(context: &mut Context<'_>, tile: &Tile) {
    if context.machine.box_loads {
        let (place, warp) = context.machine.warp_place(context.cluster.number, context.warp.index);
        let (tensor, origin) = (tile.map.address, tile.origin.clone());
        context.cluster.box_loads.push(BoxLoad { block: place.block, warp, tensor, origin });
    }
}

/// The destination of a copy, and the mbarrier that counts it there: for each block of the mask, if any. `None`, with a
/// fault, if it is invalid.
fn targets(
    context: &mut Context<'_>,
    faults: &mut Faults,
    lane: usize,
    (target, mbarrier): (u64, u64),
    blocks: Option<Slot>,
) -> Option<Vec<(u64, u64)>> {
    let Some(blocks) = blocks else {
        return context.check_same_block(faults, lane, target, mbarrier).then(|| vec![(target, mbarrier)]);
    };
    let (mask, count) = (context.value(blocks, lane), context.cluster.blocks);
    if mask >> count != 0 {
        faults.add(FindingClass::InvalidOperand, lane, target, || {
            format!("a copy to the blocks in the mask {mask:#x}, of a cluster that has {count}")
        });
    }
    let ranks = (0..u64::from(count)).filter(|rank| mask >> rank & 1 == 1);
    let in_block = |rank: u64, address: u64| shared_base(rank) + own_shared(address);
    Some(ranks.map(|rank| (in_block(rank, target), in_block(rank, mbarrier))).collect())
}

/// Reads the source of a copy from the own block's shared memory to another block, next to the mbarrier that counts it.
/// `None`, with a fault, if it is invalid.
pub(super) fn read_own(
    context: &mut Context<'_>,
    faults: &mut Faults,
    lane: usize,
    (target, mbarrier): (u64, u64),
    (from, bytes): (Address, Slot),
) -> Option<Vec<u8>> {
    let source = context.address(from, lane);
    let is_right = context.check_same_block(faults, lane, target, mbarrier);
    if !context.check_own_block(faults, lane, source) || !is_right {
        return None;
    }
    let mut data = vec![0; size(context, faults, lane, bytes)? as usize];
    context.read(faults, Place::shared(lane, source, ALIGNMENT), &mut data);
    context.check_proxy(faults, lane, source, data.len(), "read");
    Some(data)
}

/// Copies from the own block's shared memory to another block's.
fn send(
    context: &mut Context<'_>,
    faults: &mut Faults,
    lane: usize,
    (target, mbarrier): (u64, u64),
    (from, bytes): (Address, Slot),
) {
    let Some(data) = read_own(context, faults, lane, (target, mbarrier), (from, bytes)) else { return };
    deliver(context, faults, lane, (target, mbarrier), &data, ALIGNMENT);
}

/// Writes a copy's data, to be visible to threads that wait for the mbarrier, and counts its bytes there.
fn deliver(
    context: &mut Context<'_>,
    faults: &mut Faults,
    lane: usize,
    (target, mbarrier): (u64, u64),
    data: &[u8],
    alignment: u64,
) {
    let Some(mbarrier) = context.mbarrier_address(faults, lane, Some(Space::Shared), mbarrier) else { return };
    let bytes = data.len();
    let what = || format!("the destination of a {bytes}-byte bulk copy");
    if context.begin_copy(faults, Place::shared(lane, target, alignment), bytes, what) {
        context.check_overwritten(faults, lane, target, bytes);
        context.cluster.proxies.overwrite(target, bytes);
        let data = (data.to_vec(), UnknownBytes::default());
        let landing = Landing::new(context.pc, context.warp.index, lane, target, data);
        if let Err(misuse) = context.cluster.mbarriers.add_landing(mbarrier, landing) {
            context.misuse(faults, lane, mbarrier, &misuse);
            return;
        }
    }
    context.check_mbarrier_proxy(faults, lane, mbarrier);
    context.complete_copy(faults, lane, mbarrier, bytes as u64);
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
            let Some(stored) = StoredBox::read(context, faults, lane, source, (*map, coordinates)) else { return };
            for (address, row) in stored.rows() {
                write(context, faults, lane, (address, 1), &row);
            }
        }
    }
}

/// Checks a prefetch: a box wholly outside its tensor is fetched from where the tensor begins, as it is loaded from there. If no page
/// is mapped, an H200 reports no fault, but the kernel takes some 100 µs longer (docs/results/packed.md).
fn prefetch_source(context: &mut Context<'_>, faults: &mut Faults, lane: usize, source: &Source) {
    if let Source::Box { map, coordinates } = source
        && let Some(tile) = tile(context, faults, lane, *map, coordinates)
        && tile.rows_to_load().is_empty()
    {
        context.cluster.counters.prefetches_outside += 1;
        check_beginning(context, faults, lane, tile.map.address);
    }
}

/// Checks that there is memory at the start of a tensor whose box lies wholly outside of it: an H100 and an H200 read
/// there, discard the data, and fault if no page is mapped (tools/ptx-sim/docs/conformance.md). They do not for stores.
fn check_beginning(context: &mut Context<'_>, faults: &mut Faults, lane: usize, address: u64) {
    let what =
        || "a box wholly outside its tensor, for which a GPU reads the tensor's first bytes, which are".to_owned();
    context.check_reachable(faults, Place::global(lane, address, 1), 1, what);
}

/// A box to be stored, read from shared memory.
pub(super) struct StoredBox {
    pub tile: Tile,
    source: u64,
    data: Vec<u8>,
}

impl StoredBox {
    /// Reads it; `None`, with a fault, if it cannot be stored.
    pub fn read(
        context: &mut Context<'_>,
        faults: &mut Faults,
        lane: usize,
        source: u64,
        (map, coordinates): (Address, &[Slot]),
    ) -> Option<StoredBox> {
        let tile = tile(context, faults, lane, map, coordinates)?;
        if let Some(outside) = tile.origin.iter().find(|coordinate| **coordinate < 0) {
            let cause = || format!("a box stored at coordinate {outside}; only loads may begin before the tensor");
            faults.add(FindingClass::InvalidOperand, lane, source, cause);
            return None;
        }
        let mut data = vec![0; tile.map.box_bytes() as usize];
        read_shared(context, faults, lane, (source, BOX_ALIGNMENT), &mut data);
        Some(StoredBox { tile, source, data })
    }

    /// Address and data of each row in global memory.
    pub fn rows(&self) -> impl Iterator<Item = (u64, Vec<u8>)> + '_ {
        self.tile.rows_to_store().into_iter().map(|row| {
            let offsets = row.offset..row.offset + row.bytes;
            (row.address, offsets.map(|offset| self.data[self.tile.place(self.source, offset)]).collect())
        })
    }
}

/// Reads shared memory through the async proxy; the source stays in use until the thread waits for the copy.
pub(super) fn read_shared(
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
    context.cluster.counters.global_bytes_read += data.len() as u64;
    context.cluster.counters.global_sectors += sectors(address, data.len());
}

fn write(context: &mut Context<'_>, faults: &mut Faults, lane: usize, (address, alignment): (u64, u64), data: &[u8]) {
    context.write(faults, Place::global(lane, address, alignment), data);
    context.cluster.counters.global_bytes_written += data.len() as u64;
    context.cluster.counters.global_sectors += sectors(address, data.len());
}

pub(super) fn sectors(address: u64, bytes: usize) -> u64 {
    address.wrapping_add(bytes as u64).div_ceil(SECTOR_BYTES).saturating_sub(address / SECTOR_BYTES)
}

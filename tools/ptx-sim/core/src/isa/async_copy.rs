//! Asynchronous copies from global to shared memory (PTX ISA, "cp.async", "cp.async.commit_group",
//! "cp.async.wait_group").
//!
//! The source is read when the copy is issued. The destination is written when the copy is waited for; accesses in
//! between are errors.

use super::cache_policy;
use crate::context::{Context, Direction, Faults, Place, Traffic, without_addresses};
use crate::decode::{Decode, Form, invalid};
use crate::finding::FindingClass;
use crate::lanes::lanes;
use crate::machine::PendingCopy;
use crate::parse::{Space, Type};
use crate::program::{Address, Slot};
use crate::race::{Agent, Engine};
use crate::unknown::UnknownBytes;

/// A decoded `cp.async`.
pub(crate) enum Operation {
    /// The copy itself.
    Copy { to: Address, from: Address, bytes: usize, limit: Limit },
    /// `commit_group`.
    Commit,
    /// `wait_group n`: all but the latest `n` groups.
    WaitGroup(u32),
    /// `wait_all`.
    WaitAll,
}

/// How much of the source is read; the rest of the destination becomes zeros.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    /// All of it.
    Whole,
    /// That many bytes.
    Bytes(Slot),
    /// All, or nothing if the predicate holds.
    Ignore(Slot),
}

/// Decodes a `cp.async`; `None` when the opcode is another.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    if form.opcode() != "cp" {
        return Ok(None);
    }
    if !form.flag("async") {
        return form.refuse();
    }
    if form.flag("commit_group") {
        return Ok(Some(Operation::Commit));
    }
    if form.flag("wait_all") {
        return Ok(Some(Operation::WaitAll));
    }
    if form.flag("wait_group") {
        let groups = form.literal()?;
        return Ok(Some(Operation::WaitGroup(u32::try_from(groups).unwrap_or(u32::MAX))));
    }
    copy(form).map(Some)
}

fn copy(form: &mut Form<'_>) -> Decode<Operation> {
    let bypass = form.choice(&[("ca", false), ("cg", true)]);
    let spaces = (form.take(Space::parse), form.take(Space::parse));
    form.choice(&[("L2::64B", ()), ("L2::128B", ()), ("L2::256B", ())]);
    let (Some(bypass), (Some(Space::Shared), Some(Space::Global))) = (bypass, spaces) else { return form.refuse() };
    let (to, from) = (form.address(Some(Space::Shared))?, form.address(Some(Space::Global))?);
    let bytes = form.literal()?;
    if !matches!(bytes, 4 | 8 | 16) || bypass && bytes != 16 {
        return invalid(format!("`{}` of {bytes} bytes: .ca copies 4, 8 or 16 bytes, .cg copies 16", form.name()));
    }
    let policy = usize::from(form.has("L2::cache_hint"));
    let limit = match form.remaining() {
        remaining if remaining <= policy => Limit::Whole,
        _ if form.next_is_predicate() => Limit::Ignore(form.source(Type::PREDICATE)?),
        _ => Limit::Bytes(form.source(Type::U32)?),
    };
    cache_policy::take(form)?;
    Ok(Operation::Copy { to, from, bytes: bytes as usize, limit })
}

impl Operation {
    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        match self {
            Operation::Copy { to, from, bytes, limit } => issue(context, *to, *from, *bytes, *limit),
            Operation::Commit => commit(context),
            Operation::WaitGroup(allowed) => wait(context, |committed| committed.saturating_sub(*allowed)),
            Operation::WaitAll => {
                commit(context);
                wait(context, |committed| committed);
            }
        }
    }
}

fn commit(context: &mut Context<'_>) {
    for lane in lanes(context.active) {
        context.warp.copies[lane].committed += 1;
    }
    if let Some(races) = &mut context.cluster.races {
        races.commit(context.warp.index, Engine::Copies);
    }
}

fn issue(context: &mut Context<'_>, to: Address, from: Address, bytes: usize, limit: Limit) {
    context.require(&[to.base, from.base]);
    if let Limit::Bytes(slot) | Limit::Ignore(slot) = limit {
        context.require(&[slot]);
    }
    let mut faults = Faults::default();
    let (mut read, mut written) = (Traffic::new(bytes), Traffic::new(bytes));
    let mut too_long = 0;
    for lane in lanes(context.active) {
        let wanted = match limit {
            Limit::Whole => bytes as u64,
            Limit::Bytes(slot) => context.value(slot, lane),
            Limit::Ignore(slot) => {
                if context.value(slot, lane) != 0 {
                    0
                } else {
                    bytes as u64
                }
            }
        };
        if wanted > bytes as u64 {
            too_long |= 1 << lane;
        }
        let wanted = wanted.min(bytes as u64) as usize;
        let (mut data, mut unknown) = ([0; 16], UnknownBytes::default());
        let (source, target) = (context.address(from, lane), context.address(to, lane));
        if wanted > 0 {
            let place = Place::global(lane, source, bytes as u64);
            unknown = context.read_values(&mut faults, place, &mut data[..wanted]);
            read.add(lane, Space::Global, source);
        }
        written.add(lane, Space::Shared, target);
        let what = || format!("the destination of a {bytes}-byte cp.async");
        if context.begin_copy(&mut faults, Place::shared(lane, target, bytes as u64), bytes, what) {
            let time = context.race_time(Agent::new(context.warp.index, lane, Engine::Copies));
            let copies = &mut context.warp.copies[lane];
            let group = copies.committed;
            let copy = PendingCopy {
                group,
                time,
                pc: context.pc,
                address: target,
                bytes: bytes as u8,
                data,
                unknown,
                tracked: None,
            };
            copies.pending.push_back(copy);
        }
    }
    read.count(Direction::Read, &mut context.cluster.counters);
    written.count(Direction::Write, &mut context.cluster.counters);
    context.report_faults(faults);
    if too_long != 0 {
        context.report(FindingClass::InvalidOperand, without_addresses(too_long), || {
            format!("the source size of cp.async exceeds the {bytes} bytes it copies")
        });
    }
}

/// Completes the copies of groups numbered below `end(groups committed)`.
fn wait(context: &mut Context<'_>, end: impl Fn(u32) -> u32) {
    for lane in lanes(context.active) {
        let copies = &mut context.warp.copies[lane];
        let end = end(copies.committed);
        while let Some(copy) = copies.pending.front().filter(|copy| copy.group < end) {
            if context.cluster.mbarriers.lands(copy.tracked) {
                let data = &copy.data[..copy.bytes as usize];
                context.cluster.shared.finish_copy(copy.address, data, &copy.unknown);
                context.cluster.ordinary_write(context.warp.index, copy.address, copy.bytes as usize);
            }
            if let Some(races) = &mut context.cluster.races {
                races.finish(Agent::new(context.warp.index, lane, Engine::Copies), copy.time);
            }
            copies.pending.pop_front();
        }
    }
}

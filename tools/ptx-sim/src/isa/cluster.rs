//! Thread block clusters (PTX ISA, "mapa", "barrier.cluster", "getctarank"). Every block is a cluster of its own, so that
//! its shared memory is all that a cluster has, and the barrier of the cluster is one of the block.

use super::barrier::arriving_threads;
use crate::context::{Context, Flow, without_addresses};
use crate::decode::{Decode, Form};
use crate::finding::FindingClass;
use crate::lanes::lanes;
use crate::machine::CLUSTER_BARRIER;
use crate::parse::{Space, Type};
use crate::program::{Collective, Destination, Slot};

/// A decoded instruction of clusters.
pub(crate) enum Operation {
    /// `mapa`: the address in the block of a rank.
    MapAddress { address: Slot, rank: Slot, to: Destination },
    /// `getctarank`: the rank of the block whose shared memory holds an address.
    Rank { to: Destination },
    /// `barrier.cluster.arrive`.
    Arrive { aligned: bool, releases: bool },
    /// `barrier.cluster.wait`.
    Wait { aligned: bool },
}

/// Decodes an instruction of clusters; `None` when the opcode is none.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    match form.opcode() {
        "mapa" => map_address(form).map(Some),
        "getctarank" => {
            form.take(Space::parse);
            let kind = form.kind()?;
            let to = form.destination(Type::B32)?;
            form.source(kind)?;
            Ok(Some(Operation::Rank { to }))
        }
        "barrier" if form.flag("cluster") => {
            let arrives = form.choice(&[("arrive", true), ("wait", false)]);
            let is_relaxed = form.choice(&[("release", false), ("relaxed", true), ("acquire", false)]);
            let aligned = form.flag("aligned");
            match arrives {
                Some(true) => Ok(Some(Operation::Arrive { aligned, releases: is_relaxed != Some(true) })),
                Some(false) => Ok(Some(Operation::Wait { aligned })),
                None => form.refuse(),
            }
        }
        _ => Ok(None),
    }
}

fn map_address(form: &mut Form<'_>) -> Decode<Operation> {
    form.take(Space::parse);
    let kind = form.kind()?;
    let to = form.destination(kind)?;
    let address = form.source(kind)?;
    Ok(Operation::MapAddress { address, rank: form.source(Type::U32)?, to })
}

impl Operation {
    /// Which lanes have to execute it together.
    pub fn collective(&self) -> Collective {
        match self {
            Operation::Arrive { aligned: true, .. } | Operation::Wait { aligned: true } => Collective::Barrier,
            _ => Collective::No,
        }
    }

    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) -> Flow {
        match self {
            Operation::MapAddress { address, rank, to } => map(context, *address, *rank, *to),
            Operation::Rank { to } => lanes(context.active).for_each(|lane| context.set(*to, lane, 0)),
            Operation::Arrive { releases, .. } => arrive(context, *releases),
            Operation::Wait { .. } => return wait(context),
        }
        Flow::Next
    }
}

fn map(context: &mut Context<'_>, address: Slot, rank: Slot, to: Destination) {
    context.require(&[address, rank]);
    let outside = lanes(context.active).filter(|lane| context.value(rank, *lane) != 0);
    let outside = outside.fold(0, |mask, lane| mask | 1 << lane);
    if outside != 0 {
        context.report(FindingClass::InvalidOperand, without_addresses(outside), || {
            "the rank of a block outside the cluster, which has one block".to_owned()
        });
    }
    for lane in lanes(context.active) {
        context.set(to, lane, context.value(address, lane));
    }
}

fn arrive(context: &mut Context<'_>, releases: bool) {
    let arriving = arriving_threads(context);
    let expected = context.block.threads;
    let barrier = &mut context.block.barriers[CLUSTER_BARRIER];
    context.warp.cluster_phase = Some(barrier.phase);
    if let Some(races) = context.block.races.as_mut().filter(|_| releases) {
        races.arrive(CLUSTER_BARRIER, barrier.phase, context.warp.index, context.active);
    }
    barrier.expected = expected;
    barrier.arrived += arriving;
    if barrier.arrived >= barrier.expected {
        barrier.complete();
    }
}

fn wait(context: &mut Context<'_>) -> Flow {
    match context.warp.cluster_phase {
        Some(phase) if phase == context.block.barriers[CLUSTER_BARRIER].phase => {
            Flow::Wait { barrier: CLUSTER_BARRIER, completes: false }
        }
        Some(phase) => {
            if let Some(races) = &mut context.block.races {
                races.pass(CLUSTER_BARRIER, phase, context.warp.index, context.active);
            }
            Flow::Next
        }
        None => {
            let active = context.active;
            context.report(FindingClass::InvalidOperand, without_addresses(active), || {
                "barrier.cluster.wait by threads that never executed barrier.cluster.arrive".to_owned()
            });
            Flow::Next
        }
    }
}

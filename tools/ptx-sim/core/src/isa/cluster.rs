//! Thread block clusters (PTX ISA, "mapa", "barrier.cluster", "getctarank"). Without clusters, each block is a cluster
//! of one.

use super::barrier::arriving_threads;
use crate::cluster_addresses::{own_shared, shared_base, shared_rank};
use crate::context::{Context, Flow, without_addresses};
use crate::decode::{Decode, Form};
use crate::finding::FindingClass;
use crate::lanes::{LANES, lanes};
use crate::memory::{generic_address, resolve};
use crate::parse::{Space, Type};
use crate::program::{Collective, Destination, Slot};

/// A decoded cluster instruction.
pub(crate) enum Operation {
    /// `mapa`: the address in the block of a rank, of shared memory or generic.
    MapAddress { generic: bool, address: Slot, rank: Slot, to: Destination },
    /// `getctarank`: the rank of the block whose shared memory holds an address.
    Rank { generic: bool, address: Slot, to: Destination },
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
            let generic = is_generic(form)?;
            let kind = form.kind()?;
            let to = form.destination(Type::B32)?;
            Ok(Some(Operation::Rank { generic, address: form.source(kind)?, to }))
        }
        "barrier" if form.flag("cluster") => {
            let arrives = form.choice(&[("arrive", true), ("wait", false)]);
            let order = form.choice(&[("release", "release"), ("relaxed", "relaxed"), ("acquire", "acquire")]);
            let aligned = form.flag("aligned");
            match arrives {
                Some(true) if order != Some("acquire") => {
                    Ok(Some(Operation::Arrive { aligned, releases: order != Some("relaxed") }))
                }
                Some(false) if matches!(order, None | Some("acquire")) => Ok(Some(Operation::Wait { aligned })),
                _ => form.refuse(),
            }
        }
        _ => Ok(None),
    }
}

/// Takes the space: whether an address is a generic one.
fn is_generic(form: &mut Form<'_>) -> Decode<bool> {
    match form.take(Space::parse) {
        None => Ok(true),
        Some(Space::Shared) => Ok(false),
        Some(_) => form.refuse(),
    }
}

fn map_address(form: &mut Form<'_>) -> Decode<Operation> {
    let generic = is_generic(form)?;
    let kind = form.kind()?;
    let to = form.destination(kind)?;
    let address = form.source(kind)?;
    Ok(Operation::MapAddress { generic, address, rank: form.source(Type::U32)?, to })
}

impl Operation {
    /// Which lanes have to execute it together.
    pub fn collective(&self) -> Collective {
        match self {
            Operation::Arrive { aligned: true, .. } | Operation::Wait { aligned: true } => Collective::Barrier,
            _ => Collective::No,
        }
    }

    /// Completes a wait.
    pub fn resume(&self, context: &mut Context<'_>) {
        context.warp.cluster_arrived &= !context.active;
    }

    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) -> Flow {
        match self {
            Operation::MapAddress { generic, address, rank, to } => map(context, *generic, *address, *rank, *to),
            Operation::Rank { generic, address, to } => rank_of(context, *generic, *address, *to),
            Operation::Arrive { releases, .. } => arrive(context, *releases),
            Operation::Wait { .. } => return wait(context),
        }
        Flow::Next
    }
}

/// The shared addresses of the active lanes in a register; 0, with a finding, for one that is not shared.
fn shared_addresses(context: &mut Context<'_>, generic: bool, address: Slot) -> [u64; LANES] {
    context.require(&[address]);
    let mut outside = 0;
    let mut addresses = [0; LANES];
    for lane in lanes(context.active) {
        let value = context.value(address, lane);
        addresses[lane] = match resolve(value) {
            _ if !generic => value,
            (Space::Shared, own) => own,
            _ => {
                outside |= 1 << lane;
                0
            }
        };
    }
    if outside != 0 {
        context.report(FindingClass::InvalidOperand, without_addresses(outside), || {
            "the address is not one of shared memory".to_owned()
        });
    }
    addresses
}

fn map(context: &mut Context<'_>, generic: bool, address: Slot, rank: Slot, to: Destination) {
    context.require(&[rank]);
    let addresses = shared_addresses(context, generic, address);
    let blocks = context.cluster.blocks;
    let outside = lanes(context.active).filter(|lane| context.value(rank, *lane) >= u64::from(blocks));
    let outside = outside.fold(0, |mask, lane| mask | 1 << lane);
    if outside != 0 {
        context.report(FindingClass::InvalidOperand, without_addresses(outside), || {
            let blocks = if blocks == 1 { "one block".to_owned() } else { format!("{blocks} blocks") };
            format!("the rank of a block outside the cluster, which has {blocks}")
        });
    }
    for lane in lanes(context.active & !outside) {
        let mapped = shared_base(context.value(rank, lane)) + own_shared(addresses[lane]);
        let mapped = if generic { generic_address(Space::Shared, mapped) } else { mapped };
        context.set(to, lane, mapped);
    }
    // For a block that does not exist, the own block is used.
    for lane in lanes(outside) {
        context.set(to, lane, context.value(address, lane));
    }
}

fn rank_of(context: &mut Context<'_>, generic: bool, address: Slot, to: Destination) {
    let addresses = shared_addresses(context, generic, address);
    for lane in lanes(context.active) {
        context.set(to, lane, shared_rank(addresses[lane]));
    }
}

fn arrive(context: &mut Context<'_>, releases: bool) {
    let again = context.warp.cluster_arrived & context.active;
    if again != 0 {
        context.report(FindingClass::InvalidOperand, without_addresses(again), || {
            "barrier.cluster.arrive by threads that have not executed barrier.cluster.wait since they arrived last"
                .to_owned()
        });
    }
    context.warp.cluster_arrived |= context.active;
    let arriving = arriving_threads(context);
    let expected = context.cluster.threads * context.cluster.blocks;
    let index = context.cluster.cluster_barrier();
    let barrier = &mut context.cluster.barriers[index];
    context.warp.cluster_phase = Some(barrier.phase);
    if let Some(races) = &mut context.cluster.races {
        races.arrive(index, barrier.phase, context.warp.index, context.active, releases);
    }
    barrier.expected = expected;
    barrier.arrived += arriving;
    if barrier.arrived >= barrier.expected {
        barrier.complete();
    }
}

fn wait(context: &mut Context<'_>) -> Flow {
    let barrier = context.cluster.cluster_barrier();
    match context.warp.cluster_phase {
        Some(phase) if phase == context.cluster.barriers[barrier].phase => Flow::Wait { barrier, completes: false },
        Some(phase) => {
            if let Some(races) = &mut context.cluster.races {
                races.pass(barrier, phase, context.warp.index, context.active);
            }
            context.warp.cluster_arrived &= !context.active;
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

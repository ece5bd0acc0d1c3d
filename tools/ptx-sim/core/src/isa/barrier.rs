//! Barriers and fences (PTX ISA, "bar", "barrier", "bar.warp.sync", "membar", "fence").
//!
//! Warps execute in turns and see each other's writes at once. So barriers and fences order memory only for race
//! detection.

use crate::context::{Context, Flow};
use crate::decode::{Decode, Form};
use crate::finding::FindingClass;
use crate::lanes::lanes;
use crate::machine::{NAMED_BARRIERS, Reduction, block_barrier};
use crate::parse::{Space, Type};
use crate::program::{Collective, Destination, Slot};
use crate::race::Scope;

/// The action of a thread at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Wait,
    Arrive,
    Reduce,
}

/// What a `bar.red` computes.
#[derive(Clone, Copy, Debug)]
enum Reduce {
    Count,
    All,
    Any,
}

/// A decoded barrier or fence.
pub(crate) enum Operation {
    /// A barrier of the block.
    Block(BlockBarrier),
    /// `bar.warp.sync`.
    Warp { mask: Slot },
    /// `membar`, `fence`.
    Fence(Scope),
    /// `fence.proxy.async` for shared memory.
    ProxyFence,
    /// `fence.mbarrier_init`.
    MbarrierInitFence,
}

/// `bar.sync`, `bar.arrive`, `bar.red` and their `barrier` twins.
pub(crate) struct BlockBarrier {
    barrier: Slot,
    /// Number of participating threads; all threads of the block if absent.
    threads: Option<Slot>,
    waits: bool,
    aligned: bool,
    reduction: Option<(Reduce, Destination, Slot, bool)>,
}

/// Decodes a barrier or fence; `None` when the opcode is none.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    match form.opcode() {
        "bar" | "barrier" if !form.has("cluster") => barrier(form).map(Some),
        "membar" | "fence" => fence(form).map(Some),
        _ => Ok(None),
    }
}

fn fence(form: &mut Form<'_>) -> Decode<Operation> {
    if form.flag("proxy") {
        if form.flag("tensormap::generic") {
            return tensor_map_fence(form);
        }
        if form.flag("alias") {
            return Ok(Operation::Fence(Scope::Block));
        }
        if !form.flag("async") {
            return form.refuse();
        }
        let is_global = form.take(Space::parse) == Some(Space::Global);
        let fence = Operation::Fence(Scope::Block);
        return Ok(if is_global { fence } else { Operation::ProxyFence });
    }
    let scope = match () {
        () if ["gpu", "gl", "sys"].into_iter().any(|scope| form.has(scope)) => Scope::Gpu,
        () if form.has("cluster") => Scope::Cluster,
        () => Scope::Block,
    };
    const MODIFIERS: &[&str] = &["sc", "acq_rel", "acquire", "release", "cta", "cluster", "gpu", "gl", "sys"];
    for modifier in MODIFIERS {
        form.flag(modifier);
    }
    Ok(if form.flag("mbarrier_init") { Operation::MbarrierInitFence } else { Operation::Fence(scope) })
}

/// A fence between modifications of tensor maps and their use; the acquiring side names the map.
fn tensor_map_fence(form: &mut Form<'_>) -> Decode<Operation> {
    let scopes = [("cta", Scope::Block), ("cluster", Scope::Cluster), ("gpu", Scope::Gpu), ("sys", Scope::Gpu)];
    let acquires = form.choice(&[("acquire", true), ("release", false)]);
    let (Some(acquires), Some(scope)) = (acquires, form.choice(&scopes)) else { return form.refuse() };
    if acquires {
        form.address(None)?;
        if form.literal()? != 128 {
            return form.refuse();
        }
    }
    Ok(Operation::Fence(scope))
}

fn barrier(form: &mut Form<'_>) -> Decode<Operation> {
    if form.flag("warp") {
        if !form.flag("sync") {
            return form.refuse();
        }
        return Ok(Operation::Warp { mask: form.source(Type::B32)? });
    }
    form.flag("cta");
    let aligned = form.flag("aligned") || form.opcode() == "bar";
    let kinds = [("sync", Kind::Wait), ("arrive", Kind::Arrive), ("red", Kind::Reduce)];
    let Some(kind) = form.choice(&kinds) else { return form.refuse() };
    let mut reduction = None;
    if kind == Kind::Reduce {
        let reduce = form.choice(&[("popc", Reduce::Count), ("and", Reduce::All), ("or", Reduce::Any)]);
        let Some(reduce) = reduce else { return form.refuse() };
        let result = form.kind()?;
        reduction = Some((reduce, form.destination(result)?));
    }
    let barrier = form.source(Type::U32)?;
    let values_after = usize::from(reduction.is_some());
    let threads = if form.remaining() > values_after { Some(form.source(Type::U32)?) } else { None };
    if kind == Kind::Arrive && threads.is_none() {
        return form.refuse();
    }
    let reduction = match reduction {
        Some((reduce, to)) => {
            let (predicate, negated) = form.predicate()?;
            Some((reduce, to, predicate, negated))
        }
        None => None,
    };
    Ok(Operation::Block(BlockBarrier { barrier, threads, waits: kind != Kind::Arrive, aligned, reduction }))
}

impl Operation {
    /// Which lanes must execute it together.
    pub fn collective(&self) -> Collective {
        match self {
            Operation::Block(barrier) if barrier.aligned => Collective::Barrier,
            Operation::Warp { mask } => Collective::Mask(*mask),
            Operation::Block(_) | Operation::Fence(_) | Operation::ProxyFence | Operation::MbarrierInitFence => {
                Collective::No
            }
        }
    }

    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) -> Flow {
        match self {
            Operation::Block(barrier) => barrier.arrive(context),
            Operation::Warp { .. } => {
                if let Some(races) = &mut context.cluster.races {
                    races.synchronise_warp(context.warp.index, context.active);
                }
                Flow::Next
            }
            Operation::Fence(scope) => {
                if let Some(races) = &mut context.cluster.races {
                    races.fence(context.warp.index, context.active, *scope);
                }
                Flow::Next
            }
            Operation::ProxyFence => {
                let epoch = context.cluster.epoch();
                context.cluster.proxies.fence(context.warp.index, epoch);
                context.cluster.mbarriers.fence(context.warp.index, epoch);
                context.fence_loads();
                Flow::Next
            }
            Operation::MbarrierInitFence => {
                let epoch = context.cluster.epoch();
                context.cluster.mbarriers.fence(context.warp.index, epoch);
                Operation::Fence(Scope::Cluster).execute(context)
            }
        }
    }

    /// Gives waiting lanes the result of a reduction.
    pub fn resume(&self, context: &mut Context<'_>) {
        if let Operation::Block(barrier) = self {
            barrier.resume(context);
        }
    }
}

impl BlockBarrier {
    fn arrive(&self, context: &mut Context<'_>) -> Flow {
        context.require(&[self.barrier]);
        let number = context.uniform(self.barrier, "the barrier number") as usize;
        if number >= NAMED_BARRIERS {
            context.report(FindingClass::InvalidOperand, Vec::new(), || {
                format!("there is no barrier {number}, only 0 to 15")
            });
            return Flow::Next;
        }
        let expected = self.expected(context);
        self.check_count(context, number, expected);
        let arriving = arriving_threads(context);
        let reduction = self.contribution(context);
        let index = block_barrier(context.warp.rank, number);
        let barrier = &mut context.cluster.barriers[index];
        if let Some(races) = &mut context.cluster.races {
            races.arrive(index, barrier.phase, context.warp.index, context.active, true);
        }
        if barrier.arrived == 0 {
            barrier.expected = expected;
            barrier.is_for_all = self.threads.is_none();
        }
        barrier.arrived += arriving;
        barrier.reduction.threads += reduction.threads;
        barrier.reduction.true_threads += reduction.true_threads;
        let completes = barrier.arrived >= barrier.expected;
        if self.waits {
            return Flow::Wait { barrier: index, completes };
        }
        if completes {
            barrier.complete();
        }
        Flow::Next
    }

    /// Number of threads that the barrier waits for.
    fn expected(&self, context: &mut Context<'_>) -> u32 {
        let all = context.cluster.threads;
        let Some(slot) = self.threads else { return all };
        context.require(&[slot]);
        let threads = context.uniform(slot, "the thread count of a barrier") as u32;
        if threads == 0 || !threads.is_multiple_of(32) || threads > all {
            context.report(FindingClass::InvalidOperand, Vec::new(), || {
                format!("a barrier of {threads} threads; it must be a multiple of 32, at least 32 and at most {all}")
            });
            return all;
        }
        threads
    }

    fn check_count(&self, context: &mut Context<'_>, number: usize, expected: u32) {
        let barrier = context.cluster.barriers[block_barrier(context.warp.rank, number)];
        if barrier.arrived > 0 && barrier.expected != expected {
            context.report(FindingClass::BarrierDivergence, Vec::new(), || {
                format!(
                    "barrier {number} is used for {expected} threads here, while others arrived at it for {}",
                    barrier.expected
                )
            });
        }
    }

    fn contribution(&self, context: &mut Context<'_>) -> Reduction {
        let Some((_, _, predicate, negated)) = self.reduction else { return Reduction::default() };
        context.require(&[predicate]);
        let holds = lanes(context.active).filter(|lane| (context.value(predicate, *lane) != 0) != negated).count();
        Reduction { threads: context.active.count_ones(), true_threads: holds as u32 }
    }

    fn resume(&self, context: &mut Context<'_>) {
        let Some((reduce, to, _, _)) = self.reduction else { return };
        let number = context.value(self.barrier, context.active.trailing_zeros() as usize) as usize;
        let barrier = context.cluster.barriers[block_barrier(context.warp.rank, number)];
        let Reduction { threads, true_threads } = barrier.results[((barrier.phase + 1) % 2) as usize];
        let result = match reduce {
            Reduce::Count => true_threads,
            Reduce::All => u32::from(true_threads == threads),
            Reduce::Any => u32::from(true_threads > 0),
        };
        lanes(context.active).for_each(|lane| context.set(to, lane, u64::from(result)));
    }
}

/// Number of threads that arrive with these lanes. Barriers count whole warps: lanes without a running thread arrive
/// with the lowest running one.
pub(super) fn arriving_threads(context: &Context<'_>) -> u32 {
    let live = context.warp.live();
    let lowest = live & live.wrapping_neg();
    let idle = if context.active & lowest != 0 { !live } else { 0 };
    (context.active | idle).count_ones()
}

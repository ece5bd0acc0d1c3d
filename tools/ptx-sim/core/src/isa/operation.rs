//! A typed instruction of any family.

use super::lanewise::{Lanewise, Selection};
use super::{
    arguments, async_copy, async_store, atomic, barrier, bulk_copy, bulk_reduce, cache_policy, call, cluster, compare,
    control, convert, float, integer, known, matrix, mbarrier, memory, moves, surface, tensor_map, texture, video,
    warp, warpgroup, wgmma, wide, wmma,
};
use crate::context::{Context, Flow};
use crate::decode::{Decode, Form};
use crate::parse::Instruction;
use crate::program::{Class, Collective};
use crate::race::Semantics;

/// A typed instruction.
pub(crate) enum Operation {
    /// Arithmetic, logic, conversion, comparison.
    Lanewise(Lanewise),
    /// An exponential; counted.
    Exponential(Lanewise, u32),
    /// `mov`.
    Move(moves::Operation),
    /// Loads and stores.
    Memory(memory::Operation),
    /// Textures.
    Texture(texture::Operation),
    /// Surfaces.
    Surface(surface::Operation),
    /// `createpolicy`.
    CachePolicy(cache_policy::Operation),
    /// `atom`, `red`.
    Atomic(atomic::Operation),
    /// `mov` and `atom` of 128 bits.
    Wide(wide::Operation),
    /// `cp.async`.
    AsyncCopy(async_copy::Operation),
    /// `st.async`, `red.async`.
    AsyncStore(async_store::Operation),
    /// `mma`, `ldmatrix`, `stmatrix`.
    Matrix(matrix::Operation),
    /// `wmma`.
    Wmma(wmma::Operation),
    /// `shfl`, `vote` and their relatives.
    Warp(warp::Operation),
    /// Barriers and fences.
    Barrier(barrier::Operation),
    /// `mapa` and `barrier.cluster`.
    Cluster(cluster::Operation),
    /// `setmaxnreg`.
    SetMaximum(warpgroup::SetMaximum),
    /// `wgmma`.
    Wgmma(wgmma::Operation),
    /// `cp.async.bulk`.
    BulkCopy(bulk_copy::Operation),
    /// `cp.reduce.async.bulk`.
    BulkReduce(bulk_reduce::Operation),
    /// `tensormap`.
    TensorMap(tensor_map::Operation),
    /// `mbarrier`.
    Mbarrier(mbarrier::Operation),
    /// Branches and ends.
    Control(control::Operation),
    /// Calls and returns.
    Call(call::Operation),
    /// Loads and stores of call parameters.
    Arguments(arguments::Operation),
}

/// Decodes an instruction: asks each family in turn whether it is theirs.
pub(crate) fn decode(form: &mut Form<'_>) -> Decode<(Class, Operation)> {
    let elements = form.peek_kind().map_or(1, |kind| kind.packed);
    if let Some((class, lanewise)) = decode_lanewise(form)? {
        // An instruction with untaken modifiers is refused later, naming them.
        if form.is_taken() && !matches!(form.opcode(), "cvta" | "isspacep") && !known::is_known(&form.name()) {
            return form.refuse();
        }
        let operation = match form.opcode() {
            "ex2" => Operation::Exponential(lanewise, elements),
            _ => Operation::Lanewise(lanewise),
        };
        return Ok((class, operation));
    }
    if let Some(operation) = wide::decode(form)? {
        let class = if form.opcode() == "mov" { Class::Move } else { Class::Memory };
        return Ok((class, Operation::Wide(operation)));
    }
    if let Some(operation) = moves::decode(form)? {
        return Ok((Class::Move, Operation::Move(operation)));
    }
    if let Some(operation) = cache_policy::decode(form)? {
        return Ok((Class::Move, Operation::CachePolicy(operation)));
    }
    if let Some(operation) = call::decode(form)? {
        return Ok((Class::Control, Operation::Call(operation)));
    }
    if let Some(operation) = arguments::decode(form)? {
        return Ok((Class::Move, Operation::Arguments(operation)));
    }
    if let Some(operation) = async_store::decode(form)? {
        return Ok((Class::AsyncCopy, Operation::AsyncStore(operation)));
    }
    if let Some(operation) = memory::decode(form)? {
        return Ok((Class::Memory, Operation::Memory(operation)));
    }
    if let Some(operation) = texture::decode(form)? {
        return Ok((Class::Memory, Operation::Texture(operation)));
    }
    if let Some(operation) = surface::decode(form)? {
        return Ok((Class::Memory, Operation::Surface(operation)));
    }
    if let Some(operation) = atomic::decode(form)? {
        return Ok((Class::Memory, Operation::Atomic(operation)));
    }
    if let Some(operation) = bulk_copy::decode(form)? {
        return Ok((Class::AsyncCopy, Operation::BulkCopy(operation)));
    }
    if let Some(operation) = bulk_reduce::decode(form)? {
        return Ok((Class::AsyncCopy, Operation::BulkReduce(operation)));
    }
    if let Some(operation) = tensor_map::decode(form)? {
        return Ok((Class::Memory, Operation::TensorMap(operation)));
    }
    if let Some(operation) = mbarrier::decode(form)? {
        return Ok((Class::Barrier, Operation::Mbarrier(operation)));
    }
    if let Some(operation) = async_copy::decode(form)? {
        return Ok((Class::AsyncCopy, Operation::AsyncCopy(operation)));
    }
    if let Some(operation) = matrix::decode(form)? {
        return Ok((Class::Matrix, Operation::Matrix(operation)));
    }
    if let Some(operation) = wmma::decode(form)? {
        return Ok((Class::Matrix, Operation::Wmma(operation)));
    }
    if let Some(operation) = wgmma::decode(form)? {
        return Ok((Class::Matrix, Operation::Wgmma(operation)));
    }
    if let Some(operation) = warp::decode(form)? {
        return Ok((Class::Warp, Operation::Warp(operation)));
    }
    if let Some(operation) = barrier::decode(form)? {
        return Ok((Class::Barrier, Operation::Barrier(operation)));
    }
    if let Some(operation) = cluster::decode(form)? {
        return Ok((Class::Barrier, Operation::Cluster(operation)));
    }
    if let Some(operation) = warpgroup::decode(form)? {
        return Ok((Class::Warp, Operation::SetMaximum(operation)));
    }
    if let Some(operation) = control::decode(form)? {
        return Ok((Class::Control, Operation::Control(operation)));
    }
    form.refuse()
}

/// Decodes an instruction that computes each lane's result from that lane's operands alone; `None` when it is another.
fn decode_lanewise(form: &mut Form<'_>) -> Decode<Option<(Class, Lanewise)>> {
    let is_float = form.peek_kind().is_some_and(|kind| kind.is_float());
    if is_float && let Some(lanewise) = float::decode(form)? {
        return Ok(Some((Class::Float, lanewise)));
    }
    if !is_float && let Some(lanewise) = integer::decode(form)? {
        return Ok(Some((Class::Integer, lanewise)));
    }
    if let Some(lanewise) = video::decode(form)? {
        return Ok(Some((Class::Integer, lanewise)));
    }
    if let Some(lanewise) = convert::decode(form)? {
        return Ok(Some((Class::Convert, lanewise)));
    }
    Ok(compare::decode(form)?.map(|lanewise| (Class::Compare, lanewise)))
}

/// Where the values go that an instruction reads.
pub(crate) enum Passes {
    /// Into its results only.
    ToResults,
    /// One of two into its result.
    Selected(Selection),
    /// Elsewhere, too: to memory, to other lanes, into a decision.
    Elsewhere,
}

impl Operation {
    /// Where the values go that it reads.
    pub fn passes(&self, instruction: &crate::program::Instruction) -> Passes {
        match self {
            Operation::Lanewise(lanewise) if instruction.name.starts_with("selp.") => {
                Passes::Selected(lanewise.selection())
            }
            Operation::Lanewise(_) | Operation::Exponential(..) | Operation::Move(_) => Passes::ToResults,
            _ => Passes::Elsewhere,
        }
    }

    /// The bytes that a lane loads, if it is an `ld`.
    pub fn loaded_bytes(&self) -> Option<u32> {
        match self {
            Operation::Memory(memory) => memory.loaded_bytes(),
            _ => None,
        }
    }

    /// Which lanes must execute it together.
    pub fn collective(&self) -> Collective {
        match self {
            Operation::Matrix(_) | Operation::Wmma(_) | Operation::SetMaximum(_) | Operation::Wgmma(_) => {
                Collective::Warp
            }
            Operation::Cluster(operation) => operation.collective(),
            Operation::TensorMap(operation) => operation.collective(),
            Operation::Warp(operation) => operation.collective(),
            Operation::Barrier(operation) => operation.collective(),
            _ => Collective::No,
        }
    }

    /// The memory semantics of its accesses.
    pub fn semantics(&self) -> Semantics {
        match self {
            Operation::Memory(operation) => operation.semantics(),
            Operation::Atomic(operation) => operation.semantics(),
            Operation::Wide(operation) => operation.semantics(),
            Operation::AsyncCopy(_) => Semantics::COPY,
            Operation::AsyncStore(operation) => operation.semantics(),
            Operation::BulkCopy(operation) => operation.semantics(),
            Operation::BulkReduce(operation) => operation.semantics(),
            Operation::Wgmma(_) => Semantics::MATRIX,
            Operation::Mbarrier(operation) => operation.semantics(),
            _ => Semantics::WEAK,
        }
    }

    /// Whether it accesses the shared memory of other blocks of the cluster: if it says so, or if it is a plain access
    /// to a generic address.
    pub fn reaches_cluster(&self, syntax: &Instruction) -> bool {
        let says = |space: &str| syntax.modifiers.iter().any(|modifier| modifier == space);
        let is_access = matches!(self, Operation::Memory(_) | Operation::Atomic(_) | Operation::Wide(_));
        says("shared::cluster") || is_access && !says("shared") && !says("shared::cta")
    }

    /// Whether it is a strong access to memory (PTX ISA, "Memory Consistency Model").
    pub fn is_strong_memory(&self) -> bool {
        matches!(self, Operation::Memory(_) | Operation::Atomic(_) | Operation::Wide(_))
            && self.semantics().strength.is_strong()
    }

    /// Whether it is an `atom.cas`.
    pub fn is_compare_and_swap(&self) -> bool {
        matches!(self, Operation::Atomic(operation) if operation.is_compare_and_swap())
    }

    /// Whether it reads a texture or a surface.
    pub fn reads_texels(&self) -> bool {
        matches!(self, Operation::Texture(_) | Operation::Surface(surface::Operation::Load { .. }))
    }

    /// Executes it in the active lanes, of which there is at least one.
    pub fn execute(&self, context: &mut Context<'_>) -> Flow {
        match self {
            Operation::Lanewise(lanewise) => lanewise.execute(context),
            Operation::Exponential(lanewise, elements) => {
                context.cluster.counters.ex2 += u64::from(context.active.count_ones() * elements);
                lanewise.execute(context);
            }
            Operation::Move(operation) => operation.execute(context),
            Operation::CachePolicy(operation) => operation.execute(context),
            Operation::Memory(operation) => operation.execute(context),
            Operation::Texture(operation) => operation.execute(context),
            Operation::Surface(operation) => operation.execute(context),
            Operation::Atomic(operation) => operation.execute(context),
            Operation::Wide(operation) => operation.execute(context),
            Operation::AsyncCopy(operation) => operation.execute(context),
            Operation::AsyncStore(operation) => operation.execute(context),
            Operation::Matrix(operation) => operation.execute(context),
            Operation::Wmma(operation) => operation.execute(context),
            Operation::Warp(operation) => operation.execute(context),
            Operation::Barrier(operation) => return operation.execute(context),
            Operation::Cluster(operation) => return operation.execute(context),
            Operation::SetMaximum(operation) => operation.execute(context),
            Operation::BulkCopy(operation) => operation.execute(context),
            Operation::BulkReduce(operation) => operation.execute(context),
            Operation::TensorMap(operation) => operation.execute(context),
            Operation::Wgmma(operation) => operation.execute(context),
            Operation::Mbarrier(operation) => return operation.execute(context),
            Operation::Control(operation) => return operation.execute(context),
            Operation::Call(operation) => return operation.execute(context),
            Operation::Arguments(operation) => operation.execute(context),
        }
        Flow::Next
    }

    /// Whether the async proxy accesses shared memory for it.
    pub fn uses_async_proxy(&self) -> bool {
        match self {
            Operation::BulkCopy(operation) => operation.uses_shared(),
            Operation::BulkReduce(_) => true,
            Operation::Wgmma(operation) => operation.uses_shared(),
            _ => false,
        }
    }

    /// Whether the async proxy writes shared memory for it.
    pub fn async_proxy_writes(&self) -> bool {
        match self {
            Operation::BulkCopy(operation) => operation.writes_shared(),
            Operation::BulkReduce(operation) => operation.writes_shared(),
            _ => false,
        }
    }

    /// Whether it only moves values between registers.
    pub fn is_move(&self) -> bool {
        matches!(self, Operation::Move(_))
    }

    /// Whether it waits for the grid before its own.
    pub fn waits_for_previous_grid(&self) -> bool {
        matches!(self, Operation::Control(control::Operation::WaitForPreviousGrid))
    }

    /// The function or the pointer that it calls, as an index into the program's calls.
    pub fn call(&self) -> Option<u32> {
        match self {
            Operation::Call(operation) => operation.call(),
            _ => None,
        }
    }

    /// Whether it allocates or frees memory of the device heap.
    pub fn uses_heap(&self) -> bool {
        matches!(self, Operation::Call(operation) if operation.uses_heap())
    }

    /// Whether it needs local memory even without local variables.
    pub fn uses_stack(&self) -> bool {
        matches!(self, Operation::Call(operation) if operation.uses_stack())
    }

    /// Whether it is a `wgmma`.
    pub fn is_wgmma(&self) -> bool {
        matches!(self, Operation::Wgmma(_))
    }

    /// Completes an instruction whose lanes were waiting at a barrier.
    pub fn resume(&self, context: &mut Context<'_>) {
        match self {
            Operation::Barrier(operation) => operation.resume(context),
            Operation::Cluster(operation) => operation.resume(context),
            _ => {}
        }
    }
}

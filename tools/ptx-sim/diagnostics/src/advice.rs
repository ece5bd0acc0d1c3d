//! Advice for findings, by class.

use ptx_sim::FindingClass;

/// One line of advice for each class.
const ADVICE: [(FindingClass, &str); 21] = [
    (
        FindingClass::Misaligned,
        "make the row pitch and every offset added to the base a multiple of the access size; a pitch of 130 bytes, for \
         instance, breaks 16-byte accesses in all rows but each eighth",
    ),
    (
        FindingClass::OutOfBounds,
        "compare the index with the length before the access, the buffer's size with the launch geometry, and for shared \
         memory the layout with the bytes the launch asks for",
    ),
    (
        FindingClass::Uninitialised,
        "write the bytes or the register on every path that leads here; for shared memory, check that the store or copy \
         that fills it comes before a barrier, and covers the tail",
    ),
    (
        FindingClass::BarrierDivergence,
        "move the barrier out of the branch, so that every thread it counts reaches the same one",
    ),
    (
        FindingClass::CollectiveLanesMissing,
        "execute it with all the lanes of its mask: take it out of the branch or loop that lanes leave at different times",
    ),
    (
        FindingClass::AsyncCopyNotWaited,
        "wait for the copy's group (cp.async.wait_group with few enough groups left) in the thread that issued it, then \
         pass a barrier before other threads use the bytes; for a bulk copy, every thread that uses the bytes waits for the \
         phase of the copy's mbarrier (mbarrier.try_wait, until it returns true)",
    ),
    (
        FindingClass::MissingProxyFence,
        "execute fence.proxy.async in every thread that wrote the bytes, then a barrier, before the asynchronous copy or wgmma \
         that uses them is started; after mbarrier.init, fence.mbarrier_init in the thread that initialised; after reads, use \
         their values or execute fence.proxy.async before the barrier behind which a copy overwrites the bytes",
    ),
    (
        FindingClass::WgmmaNotWaited,
        "execute wgmma.commit_group, then wgmma.wait_group with few enough groups left, before the first use of the \
         accumulator or of an A fragment in registers, and before the kernel ends",
    ),
    (
        FindingClass::MissingWgmmaFence,
        "execute wgmma.fence in all warps of the warpgroup between the last write of the accumulator or A registers and the \
         wgmma.mma_async, and before the first one",
    ),
    (
        FindingClass::MbarrierMisuse,
        "initialise the mbarrier once, by one thread, with a barrier before its first use; let exactly the counted threads \
         arrive, and expect exactly the bytes that the copies bring",
    ),
    (
        FindingClass::Race,
        "order the two accesses: a barrier that both threads pass in between, or within a warp bar.warp.sync; when a buffer is \
         used again, the barrier belongs between its last reader and its next writer; what atomic operations change is read by \
         strong reads only (ld.relaxed, a volatile or atomic load)",
    ),
    (
        FindingClass::VolatileRace,
        "use atomic operations (atomicAdd, atomicExch, cuda::atomic_ref) for the word, or order the accesses: a barrier in \
         between, a lock that all of them take, or a flag with __threadfence() before it is set and after it was seen",
    ),
    (
        FindingClass::BlockLifetime,
        "let all threads of the cluster pass barrier.cluster.arrive and barrier.cluster.wait (cluster.sync) before the first access \
         to the shared memory of another block, and again after the last one, before a block ends whose memory others use",
    ),
    (
        FindingClass::PreviousGridNotWaited,
        "let the thread execute griddepcontrol.wait before, or wait for a thread that has: at a barrier, or at the mbarrier of \
         a copy which that thread issued behind its wait",
    ),
    (
        FindingClass::Deadlock,
        "look for a barrier that counts more threads than arrive, or whose number some threads confuse; with mbarriers, for a \
         wait on the wrong phase parity, or a phase that fewer arrivals or bytes than expected never complete; with setmaxnreg, \
         for warps that do not give up the registers that others ask for",
    ),
    (FindingClass::InvalidOperand, "see the instruction's section in the PTX ISA for the values this operand may have"),
    (FindingClass::Trap, "an assertion or a panic of the kernel failed: follow the branch that led here"),
    (FindingClass::AssertionFailed, "follow the values in the condition back to where they come from"),
    (
        FindingClass::HeapMisuse,
        "free each block that malloc gave once, by the address that malloc gave; let one thread do it, behind a barrier if \
         others use the block",
    ),
    (
        FindingClass::StackOverflow,
        "check what ends the recursion; where it really is that deep, use a loop with a stack of its own in global memory",
    ),
    (
        FindingClass::InstructionLimit,
        "check the loop's exit condition; if the kernel really is that long, raise the limit",
    ),
];

/// The advice for findings of `class`; `None` if there is no usual remedy.
pub fn advice(class: FindingClass) -> Option<&'static str> {
    ADVICE.iter().find(|(known, _)| *known == class).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_advice() {
        let without: Vec<_> = FindingClass::ALL.iter().filter(|class| advice(**class).is_none()).collect();
        assert!(without.is_empty(), "no advice for {without:?}");
    }
}

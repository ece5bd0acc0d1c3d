//! What to do about a finding, by class.

use ptx_sim::FindingClass;

/// One line of advice for each class that has a usual remedy.
const ADVICE: [(FindingClass, &str); 13] = [
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
         pass a barrier before other threads use the bytes",
    ),
    (
        FindingClass::MissingProxyFence,
        "execute fence.proxy.async in every thread that wrote the bytes, then a barrier, before the asynchronous copy or wgmma \
         that reads them is started",
    ),
    (
        FindingClass::MbarrierMisuse,
        "initialise the mbarrier once, by one thread, with a barrier before its first use; let exactly the counted threads \
         arrive, and expect exactly the bytes that the copies bring",
    ),
    (
        FindingClass::Race,
        "order the two accesses: a barrier that both threads pass in between, or within a warp bar.warp.sync; when a buffer is \
         used again, the barrier belongs between its last reader and its next writer",
    ),
    (
        FindingClass::Deadlock,
        "look for a barrier that counts more threads than arrive, or whose number some threads confuse",
    ),
    (FindingClass::InvalidOperand, "see the instruction's section in the PTX ISA for the values this operand may have"),
    (FindingClass::Trap, "an assertion or a panic of the kernel failed: follow the branch that led here"),
    (
        FindingClass::InstructionLimit,
        "check the loop's exit condition; if the kernel really is that long, raise the limit",
    ),
];

/// What to do about findings of `class`; `None` for a class without a usual remedy.
pub fn advice(class: FindingClass) -> Option<&'static str> {
    ADVICE.iter().find(|(known, _)| *known == class).map(|(_, text)| *text)
}

//! Votes of a warp (PTX ISA, "Parallel Synchronization and Communication Instructions: vote.sync").

/// `vote.sync.all.pred` over the whole warp: whether `condition` holds in every lane.
///
/// # Safety
/// Every lane of the warp executes this together.
#[inline(always)]
pub unsafe fn all(condition: bool) -> bool {
    let every: u32;
    instruction!(
        "{{",
        "\t.reg .pred %mine, %every;",
        "\tsetp.ne.u32 %mine, {}, 0;",
        "\tvote.sync.all.pred %every, %mine, 0xffffffff;",
        "\tselp.b32 {}, 1, 0, %every;",
        // Indented, since a brace at the start of a line ends an entry.
        "\t}}",
        in(reg32) u32::from(condition),
        out(reg32) every,
        options(nomem, nostack)
    );
    every != 0
}

/// `vote.sync.ballot.b32` over the whole warp: in how many lanes `condition` holds.
///
/// # Safety
/// Every lane of the warp executes this together.
#[inline(always)]
pub unsafe fn count(condition: bool) -> u32 {
    let lanes: u32;
    instruction!(
        "{{",
        "\t.reg .pred %mine;",
        "\tsetp.ne.u32 %mine, {}, 0;",
        "\tvote.sync.ballot.b32 {}, %mine, 0xffffffff;",
        "\t}}",
        in(reg32) u32::from(condition),
        out(reg32) lanes,
        options(nomem, nostack)
    );
    lanes.count_ones()
}

//! Roles of warps and warpgroups (PTX ISA, "elect.sync", "setmaxnreg").

/// `elect.sync` over the whole warp: whether the calling lane was elected.
///
/// # Safety
/// Every lane of the warp executes this together.
#[inline(always)]
pub unsafe fn elect() -> bool {
    let elected: u32;
    instruction!(
        "{{ .reg .pred %elected; elect.sync _|%elected, 0xffffffff; selp.b32 {}, 1, 0, %elected; }}",
        out(reg32) elected,
        options(nomem, nostack)
    );
    elected != 0
}

/// `setmaxnreg.inc.sync.aligned.u32`: waits until every thread of the warpgroup has `REGISTERS` registers, released by
/// other warpgroups.
///
/// # Safety
/// All four warps of the warpgroup execute this together; `REGISTERS` is a multiple of 8 from 24 to 256, not fewer than
/// before. The threads of the block never need more than 65536 registers in total.
#[inline(always)]
pub unsafe fn increase_registers<const REGISTERS: u32>() {
    instruction!("setmaxnreg.inc.sync.aligned.u32 {};", const REGISTERS, options(nostack));
}

/// `setmaxnreg.dec.sync.aligned.u32`: every thread of the warpgroup keeps `REGISTERS` registers and releases the others.
///
/// # Safety
/// All four warps of the warpgroup execute this together; `REGISTERS` is a multiple of 8 from 24 to 256, not more than
/// before.
#[inline(always)]
pub unsafe fn decrease_registers<const REGISTERS: u32>() {
    instruction!("setmaxnreg.dec.sync.aligned.u32 {};", const REGISTERS, options(nostack));
}

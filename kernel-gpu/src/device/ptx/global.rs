//! Global memory through which blocks of a grid communicate (PTX ISA, "Memory Consistency Model").

/// `ld.acquire.gpu.global.u32`: what threads wrote before they released the value is visible afterwards.
///
/// # Safety
/// `address` is a 4-byte aligned global address of 4 initialised bytes.
#[inline(always)]
pub unsafe fn load_acquire(address: u64) -> u32 {
    let value;
    instruction!("ld.acquire.gpu.global.u32 {}, [{}];", out(reg32) value, in(reg64) address, options(nostack));
    value
}

/// `st.release.gpu.global.u32`: what the thread wrote and saw before is visible to those that acquire the value.
///
/// # Safety
/// `address` is a 4-byte aligned global address that no other thread writes meanwhile.
#[inline(always)]
pub unsafe fn store_release(address: u64, value: u32) {
    instruction!("st.release.gpu.global.u32 [{}], {};", in(reg64) address, in(reg32) value, options(nostack));
}

/// `atom.relaxed.gpu.global.add.u32`: the value before.
///
/// # Safety
/// `address` is a 4-byte aligned global address of 4 initialised bytes, which are only accessed by atomic operations.
#[inline(always)]
pub unsafe fn fetch_add(address: u64, value: u32) -> u32 {
    let before;
    instruction!(
        "atom.relaxed.gpu.global.add.u32 {}, [{}], {};",
        out(reg32) before, in(reg64) address, in(reg32) value,
        options(nostack)
    );
    before
}

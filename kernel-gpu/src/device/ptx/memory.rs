//! Ordinary loads and stores (PTX ISA, "Data Movement and Conversion Instructions: ld, st").

/// `st.shared.b32`.
///
/// # Safety
/// `address` is a 4-byte aligned shared-memory address inside a tile that nothing else accesses until a barrier.
#[inline(always)]
pub unsafe fn store_shared_4(address: u32, value: u32) {
    instruction!("st.shared.b32 [{}], {};", in(reg32) address, in(reg32) value, options(nostack));
}

/// `st.shared.v2.f32`.
///
/// # Safety
/// `address` is an 8-byte aligned shared-memory address of 8 bytes that nothing else accesses until a barrier.
#[inline(always)]
pub unsafe fn store_shared_pair(address: u32, values: [f32; 2]) {
    instruction!(
        "st.shared.v2.f32 [{}], {{{}, {}}};",
        in(reg32) address, in(reg32) values[0], in(reg32) values[1],
        options(nostack)
    );
}

/// `st.shared.v4.f32`.
///
/// # Safety
/// `address` is a 16-byte aligned shared-memory address of 16 bytes that nothing else accesses until a barrier.
#[inline(always)]
pub unsafe fn store_shared_four(address: u32, [a, b, c, d]: [f32; 4]) {
    instruction!(
        "st.shared.v4.f32 [{}], {{{}, {}, {}, {}}};",
        in(reg32) address, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
        options(nostack)
    );
}

/// `st.shared.v4.b32`.
///
/// # Safety
/// `address` is a 16-byte aligned shared-memory address of 16 bytes that nothing else accesses until a barrier.
#[inline(always)]
pub unsafe fn store_shared_16(address: u32, [a, b, c, d]: [u32; 4]) {
    instruction!(
        "st.shared.v4.b32 [{}], {{{}, {}, {}, {}}};",
        in(reg32) address, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
        options(nostack)
    );
}

/// `ld.shared.b32`.
///
/// # Safety
/// `address` is a 4-byte aligned shared-memory address of 4 initialised bytes.
#[inline(always)]
pub unsafe fn load_shared_4(address: u32) -> u32 {
    let value;
    instruction!("ld.shared.b32 {}, [{}];", out(reg32) value, in(reg32) address, options(nostack, readonly));
    value
}

/// `ld.shared.v2.f32`.
///
/// # Safety
/// `address` is an 8-byte aligned shared-memory address of 8 initialised bytes.
#[inline(always)]
pub unsafe fn load_shared_pair(address: u32) -> [f32; 2] {
    let (a, b);
    instruction!(
        "ld.shared.v2.f32 {{{}, {}}}, [{}];",
        out(reg32) a, out(reg32) b, in(reg32) address,
        options(nostack, readonly)
    );
    [a, b]
}

/// `ld.shared.v4.f32`.
///
/// # Safety
/// `address` is a 16-byte aligned shared-memory address.
/// Its 16 bytes are initialised.
#[inline(always)]
pub unsafe fn load_shared_four(address: u32) -> [f32; 4] {
    let (a, b, c, d);
    instruction!(
        "ld.shared.v4.f32 {{{}, {}, {}, {}}}, [{}];",
        out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) address,
        options(nostack, readonly)
    );
    [a, b, c, d]
}

/// `ld.shared.v4.b32`.
///
/// # Safety
/// `address` is a 16-byte aligned shared-memory address of 16 initialised bytes.
#[inline(always)]
pub unsafe fn load_shared_16(address: u32) -> [u32; 4] {
    let (a, b, c, d);
    instruction!(
        "ld.shared.v4.b32 {{{}, {}, {}, {}}}, [{}];",
        out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) address,
        options(nostack, readonly)
    );
    [a, b, c, d]
}

/// `st.global.v4.b32`.
///
/// # Safety
/// `address` is a 16-byte aligned global address of 16 bytes that only this thread writes.
#[inline(always)]
pub unsafe fn store_global_16(address: u64, value: [u32; 4]) {
    instruction!(
        "st.global.v4.b32 [{}], {{{}, {}, {}, {}}};",
        in(reg64) address, in(reg32) value[0], in(reg32) value[1], in(reg32) value[2], in(reg32) value[3],
        options(nostack)
    );
}

/// `st.global.v4.f32`.
///
/// # Safety
/// `address` is a 16-byte aligned global address of 16 bytes that only this thread writes.
#[inline(always)]
pub unsafe fn store_global_four(address: u64, [a, b, c, d]: [f32; 4]) {
    instruction!(
        "st.global.v4.f32 [{}], {{{}, {}, {}, {}}};",
        in(reg64) address, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
        options(nostack)
    );
}

/// `ld.global.v4.b32`.
///
/// # Safety
/// As for [`load_global_four`].
#[cfg(feature = "sm_90a")]
#[inline(always)]
pub unsafe fn load_global_16(address: u64) -> [u32; 4] {
    let (a, b, c, d);
    instruction!(
        "ld.global.v4.b32 {{{}, {}, {}, {}}}, [{}];",
        out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) address,
        options(nostack, readonly)
    );
    [a, b, c, d]
}

/// `st.global.u32`.
///
/// # Safety
/// `address` is a 4-byte aligned global address of 4 bytes that only this thread writes.
#[inline(always)]
pub unsafe fn store_global_4(address: u64, value: u32) {
    instruction!("st.global.u32 [{}], {};", in(reg64) address, in(reg32) value, options(nostack));
}

/// `st.global.b16` of the lower half of a register.
///
/// # Safety
/// `address` is a 2-byte aligned global address of 2 bytes that only this thread writes.
#[cfg(feature = "sm_80")]
#[inline(always)]
pub unsafe fn store_global_2(address: u64, value: u32) {
    instruction!(
        "{{ .reg .b16 half; cvt.u16.u32 half, {}; st.global.b16 [{}], half; }}",
        in(reg32) value, in(reg64) address,
        options(nostack)
    );
}

/// `st.global.f32`.
///
/// # Safety
/// `address` is a 4-byte aligned global address of 4 bytes that only this thread writes.
#[inline(always)]
pub unsafe fn store_global_f32(address: u64, value: f32) {
    instruction!("st.global.f32 [{}], {};", in(reg64) address, in(reg32) value, options(nostack));
}

/// `ld.global.b32`.
///
/// # Safety
/// `address` is a 4-byte aligned global address of 4 initialised bytes that are not written while the grid runs.
#[inline(always)]
pub unsafe fn load_global_4(address: u64) -> u32 {
    let value;
    instruction!("ld.global.b32 {}, [{}];", out(reg32) value, in(reg64) address, options(nostack, readonly));
    value
}

/// `prefetch.global.L2`: prefetches the cache line around an address, which need not have been written yet.
///
/// # Safety
/// `address` is a global address.
#[cfg(feature = "sm_90a")]
#[inline(always)]
pub unsafe fn prefetch_global(address: u64) {
    instruction!("prefetch.global.L2 [{}];", in(reg64) address, options(nostack));
}

/// `ld.global.v4.f32`.
///
/// # Safety
/// `address` is a 16-byte aligned global address of 16 initialised bytes that nothing writes at the same time.
#[inline(always)]
pub unsafe fn load_global_four(address: u64) -> [f32; 4] {
    let (a, b, c, d);
    instruction!(
        "ld.global.v4.f32 {{{}, {}, {}, {}}}, [{}];",
        out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) address,
        options(nostack, readonly)
    );
    [a, b, c, d]
}

/// Predicated `ld.global.b16`, without a branch: 0 if the predicate is false.
///
/// # Safety
/// If the predicate is true, `address` is a 2-byte aligned global address of 2 initialised bytes that are not written while the
/// grid runs.
#[inline(always)]
pub unsafe fn load_global_2_if(address: u64, condition: bool) -> u32 {
    let value;
    instruction!(
        "{{ .reg .pred p; .reg .b16 half; setp.ne.u32 p, {}, 0; mov.b16 half, 0; @p ld.global.b16 half, [{}]; \
         cvt.u32.u16 {}, half; }}",
        in(reg32) condition as u32, in(reg64) address, out(reg32) value,
        options(nostack, readonly)
    );
    value
}

/// `st.global.v2.b32`.
///
/// # Safety
/// `address` is an 8-byte aligned global address of 8 bytes that only this thread writes.
#[cfg(feature = "sm_90a")]
#[inline(always)]
pub unsafe fn store_global_8(address: u64, [a, b]: [u32; 2]) {
    instruction!("st.global.v2.b32 [{}], {{{}, {}}};", in(reg64) address, in(reg32) a, in(reg32) b, options(nostack));
}

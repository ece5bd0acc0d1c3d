//! Instructions that only planted kernels use, in forms that let a bug be written down.

use core::arch::asm;

use kernel_gpu::ptx::mma::FragmentC;

macro_rules! loads {
    ($($(#[$doc:meta])* $name:ident($address:ident, $address_class:ident) = $instruction:literal;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name(address: $address) -> u32 {
            let value;
            // SAFETY: passed on to the caller.
            unsafe {
                asm!(concat!($instruction, " {}, [{}];"), out(reg32) value, in($address_class) address, options(nostack))
            };
            value
        }
    )*};
}

loads! {
    /// `ld.shared.b32`
    load_shared_4(u32, reg32) = "ld.shared.b32";
    /// `ld.shared::cluster.b32`
    load_cluster_4(u32, reg32) = "ld.shared::cluster.b32";
    /// `ld.global.b32`
    load_global_4(u64, reg64) = "ld.global.b32";
    /// `ld.global.u16`, zero-extended
    load_global_2(u64, reg64) = "ld.global.u16";
}

macro_rules! stores {
    ($($(#[$doc:meta])* $name:ident($address:ident, $address_class:ident) = $instruction:literal;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name(address: $address, value: u32) {
            // SAFETY: passed on to the caller.
            unsafe {
                asm!(concat!($instruction, " [{}], {};"), in($address_class) address, in(reg32) value, options(nostack))
            };
        }
    )*};
}

stores! {
    /// `st.shared.u16` of the lower half
    store_shared_2(u32, reg32) = "st.shared.u16";
    /// `st.shared::cluster.b32`
    store_cluster_4(u32, reg32) = "st.shared::cluster.b32";
    /// `st.global.b32`
    store_global_4(u64, reg64) = "st.global.b32";
    /// `red.global.add.u32`: adds without asking for the old value
    add_global_4(u64, reg64) = "red.global.add.u32";
}

/// `ld.global.v4.b32`
#[inline(always)]
pub unsafe fn load_global_16(address: u64) -> [u32; 4] {
    let (a, b, c, d);
    // SAFETY: passed on to the caller.
    unsafe {
        asm!(
            "ld.global.v4.b32 {{{}, {}, {}, {}}}, [{}];",
            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) address,
            options(nostack)
        );
    }
    [a, b, c, d]
}

/// `st.global.v2.b32`
#[inline(always)]
pub unsafe fn store_global_8(address: u64, value: [u32; 2]) {
    // SAFETY: passed on to the caller.
    unsafe {
        asm!(
            "st.global.v2.b32 [{}], {{{}, {}}};",
            in(reg64) address, in(reg32) value[0], in(reg32) value[1],
            options(nostack)
        );
    }
}

/// `st.shared.v4.b32`
#[inline(always)]
pub unsafe fn store_shared_16(address: u32, value: [u32; 4]) {
    // SAFETY: passed on to the caller.
    unsafe {
        asm!(
            "st.shared.v4.b32 [{}], {{{}, {}, {}, {}}};",
            in(reg32) address, in(reg32) value[0], in(reg32) value[1], in(reg32) value[2], in(reg32) value[3],
            options(nostack)
        );
    }
}

/// `cp.async.ca.shared.global` of 8 bytes
#[inline(always)]
pub unsafe fn copy_8(shared: u32, global: u64) {
    // SAFETY: passed on to the caller.
    unsafe { asm!("cp.async.ca.shared.global [{}], [{}], 8;", in(reg32) shared, in(reg64) global, options(nostack)) };
}

/// `cp.async.wait_group`: waits until at most `PENDING` groups are in flight.
#[inline(always)]
pub unsafe fn wait_group<const PENDING: u32>() {
    // SAFETY: only waits.
    unsafe { asm!("cp.async.wait_group {};", const PENDING, options(nostack)) };
}

/// `bar.sync` with a barrier and a number of threads
#[inline(always)]
pub unsafe fn barrier<const BARRIER: u32, const THREADS: u32>() {
    // SAFETY: passed on to the caller.
    unsafe { asm!("bar.sync {}, {};", const BARRIER, const THREADS, options(nostack)) };
}

/// `bar.sync` with a barrier and a number of threads that come from registers
#[inline(always)]
pub unsafe fn barrier_of(barrier: u32, threads: u32) {
    // SAFETY: passed on to the caller.
    unsafe { asm!("bar.sync {}, {};", in(reg32) barrier, in(reg32) threads, options(nostack)) };
}

/// `bar.arrive` with a barrier and a number of threads
#[inline(always)]
pub unsafe fn arrive<const BARRIER: u32, const THREADS: u32>() {
    // SAFETY: passed on to the caller.
    unsafe { asm!("bar.arrive {}, {};", const BARRIER, const THREADS, options(nostack)) };
}

/// `bar.warp.sync` of the lanes in `LANES`
#[inline(always)]
pub unsafe fn warp_barrier<const LANES: u32>() {
    // SAFETY: passed on to the caller.
    unsafe { asm!("bar.warp.sync {};", const LANES, options(nostack)) };
}

/// `shfl.sync.idx.b32` among the lanes in `LANES`: the value of lane `source`
#[inline(always)]
pub unsafe fn shuffle<const LANES: u32>(value: u32, source: u32) -> u32 {
    let other;
    // SAFETY: passed on to the caller.
    unsafe {
        asm!(
            "shfl.sync.idx.b32 {}, {}, {}, 0x1f, {};",
            out(reg32) other, in(reg32) value, in(reg32) source, const LANES,
            options(nostack)
        );
    }
    other
}

/// `vote.sync.ballot.b32` of the whole warp: one bit for each lane whose `value` is not 0
#[inline(always)]
pub unsafe fn ballot(value: u32) -> u32 {
    let lanes;
    // SAFETY: passed on to the caller.
    unsafe {
        asm!(
            "{{ .reg .pred %set; setp.ne.b32 %set, {}, 0; vote.sync.ballot.b32 {}, %set, 0xffffffff; }}",
            in(reg32) value, out(reg32) lanes,
            options(nostack)
        );
    }
    lanes
}

/// `value + 1` where `written`, else one more than a register that nothing has written
#[inline(always)]
pub unsafe fn increment_if_written(value: u32, written: bool) -> u32 {
    let sum;
    // SAFETY: passed on to the caller.
    unsafe {
        asm!(
            "{{ .reg .pred %written; .reg .b32 %value; setp.ne.b32 %written, {}, 0; @%written mov.b32 %value, {}; \
             add.u32 {}, %value, 1; }}",
            in(reg32) u32::from(written), in(reg32) value, out(reg32) sum,
            options(nostack)
        );
    }
    sum
}

/// `trap`
#[inline(always)]
pub unsafe fn trap() {
    // SAFETY: ends the kernel.
    unsafe { asm!("trap;", options(nostack)) };
}

macro_rules! without_operands {
    ($($(#[$doc:meta])* $name:ident = $instruction:literal;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name() {
            // SAFETY: passed on to the caller.
            unsafe { asm!(concat!($instruction, ";"), options(nostack)) };
        }
    )*};
}

without_operands! {
    /// `barrier.cluster.arrive`
    arrive_at_cluster = "barrier.cluster.arrive.aligned";
    /// `barrier.cluster.arrive.relaxed`
    arrive_at_cluster_relaxed = "barrier.cluster.arrive.relaxed.aligned";
    /// `barrier.cluster.wait`
    wait_for_cluster = "barrier.cluster.wait.aligned";
}

/// `mbarrier.inval`: ends an mbarrier
#[inline(always)]
pub unsafe fn invalidate(barrier: u32) {
    // SAFETY: passed on to the caller.
    unsafe { asm!("mbarrier.inval.shared::cta.b64 [{}];", in(reg32) barrier, options(nostack)) };
}

/// `mbarrier.arrive` with a count
#[inline(always)]
pub unsafe fn arrive_for(barrier: u32, arrivals: u32) {
    // SAFETY: passed on to the caller.
    unsafe {
        asm!("mbarrier.arrive.shared::cta.b64 _, [{}], {};", in(reg32) barrier, in(reg32) arrivals, options(nostack));
    }
}

/// Cleared accumulators, in registers that are written here
#[inline(always)]
pub fn zeros() -> [FragmentC; 1] {
    let (a, b, c, d);
    // SAFETY: registers only. Volatile, so that it keeps its place among the instructions around it.
    unsafe {
        asm!(
            "mov.f32 {}, 0f00000000;", "mov.f32 {}, 0f00000000;", "mov.f32 {}, 0f00000000;", "mov.f32 {}, 0f00000000;",
            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d,
            options(nomem, nostack)
        );
    }
    [[a, b, c, d]]
}

/// Adds 1 to a register where it is
#[inline(always)]
pub fn increment(value: &mut u32) {
    // SAFETY: registers only. Volatile, so that it keeps its place among the instructions around it.
    unsafe { asm!("add.u32 {0}, {0}, 1;", inout(reg32) * value, options(nomem, nostack)) };
}

/// `barrier.cluster.arrive` and `barrier.cluster.wait`
#[inline(always)]
pub unsafe fn synchronise_cluster() {
    // SAFETY: passed on to the caller.
    unsafe {
        arrive_at_cluster();
        wait_for_cluster();
    }
}

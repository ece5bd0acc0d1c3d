//! Exchange between lanes (PTX ISA, "Data Movement and Conversion Instructions: shfl.sync").

#[cfg(feature = "sm_90a")]
use contract::config::WARP_SIZE;

macro_rules! exchange {
    ($(#[$doc:meta])* $name:ident, $type:ty) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// Every lane of the warp executes this together.
        #[inline(always)]
        pub unsafe fn $name<const LANE_MASK: u32>(value: $type) -> $type {
            let other;
            instruction!(
                "shfl.sync.bfly.b32 {}, {}, {}, 0x1f, 0xffffffff;",
                out(reg32) other, in(reg32) value, const LANE_MASK,
                options(nomem, nostack)
            );
            other
        }
    };
}

exchange! {
    /// `shfl.sync.bfly.b32` over the whole warp: the value of lane `lane ^ LANE_MASK`.
    exchange, f32
}
exchange! {
    /// [`exchange`] for bits.
    exchange_bits, u32
}

/// `shfl.sync.idx.b32` over the whole warp: the value of lane 0. ptxas knows that the result is uniform, and keeps values
/// derived from it in uniform registers.
///
/// # Safety
/// Every lane of the warp executes this together.
#[inline(always)]
pub unsafe fn first(value: u32) -> u32 {
    let first;
    instruction!(
        "shfl.sync.idx.b32 {}, {}, 0, 0x1f, 0xffffffff;",
        out(reg32) first, in(reg32) value,
        options(nomem, nostack)
    );
    first
}

/// `shfl.sync.idx.b32` over the whole warp: the value of lane `lane`.
///
/// # Safety
/// Every lane of the warp executes this together.
#[cfg(feature = "sm_90a")]
#[inline(always)]
pub unsafe fn from(value: u32, lane: u32) -> u32 {
    let other;
    instruction!(
        "shfl.sync.idx.b32 {}, {}, {}, 0x1f, 0xffffffff;",
        out(reg32) other, in(reg32) value, in(reg32) lane,
        options(nomem, nostack)
    );
    other
}

/// `shfl.sync.up.b32` over the whole warp: the value of the lane `distance` before this one; in the first lanes their own.
///
/// # Safety
/// Every lane of the warp executes this together.
#[cfg(feature = "sm_90a")]
#[inline(always)]
unsafe fn from_before(value: u32, distance: u32) -> u32 {
    let other;
    instruction!(
        "shfl.sync.up.b32 {}, {}, {}, 0, 0xffffffff;",
        out(reg32) other, in(reg32) value, in(reg32) distance,
        options(nomem, nostack)
    );
    other
}

/// The sum of the values of all lanes up to this one, which is `lane`.
///
/// # Safety
/// Every lane of the warp executes this together.
#[cfg(feature = "sm_90a")]
#[inline(always)]
pub unsafe fn sum_through(value: u32, lane: u32) -> u32 {
    let mut sum = value;
    let mut distance = 1;
    while distance < WARP_SIZE {
        // SAFETY: the caller's.
        let other = unsafe { from_before(sum, distance) };
        sum += if lane >= distance { other } else { 0 };
        distance *= 2;
    }
    sum
}

macro_rules! reduce {
    ($(#[$doc:meta])* $name:ident, $operation:literal) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// Every lane of the warp executes this together.
        #[cfg(feature = "sm_90a")]
        #[inline(always)]
        pub unsafe fn $name(value: u32) -> u32 {
            let reduced;
            instruction!(
                concat!("redux.sync.", $operation, ".u32 {}, {}, 0xffffffff;"),
                out(reg32) reduced, in(reg32) value,
                options(nomem, nostack)
            );
            reduced
        }
    };
}

reduce! {
    /// `redux.sync.add.u32` over the whole warp: the sum of the values of all lanes.
    sum, "add"
}
reduce! {
    /// `redux.sync.min.u32` over the whole warp: the least value of a lane.
    least, "min"
}
reduce! {
    /// `redux.sync.max.u32` over the whole warp: the greatest value of a lane.
    greatest, "max"
}

//! Exchange between lanes (PTX ISA, "Data Movement and Conversion Instructions: shfl.sync").

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

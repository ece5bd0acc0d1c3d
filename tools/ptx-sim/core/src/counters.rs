//! Counters of what the hardware would have done, which reveal performance regressions without a GPU.

use std::ops::AddAssign;

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident),* $(,)?) => {
        /// Counts of what the hardware would have done. An instruction counts once per warp that issues it with at
        /// least one active lane. Counters of several launches are added with `+=`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct Counters {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl AddAssign for Counters {
            fn add_assign(&mut self, other: Counters) {
                $(self.$field += other.$field;)*
            }
        }

        impl Counters {
            /// Name and value of every counter, in order.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Thread blocks executed.
    blocks,
    /// Instructions of every kind.
    instructions,
    /// Integer arithmetic, logic and shifts.
    integer_instructions,
    /// Floating-point arithmetic (f16, bf16, f32, f64).
    float_instructions,
    /// `cvt` and `cvta`.
    convert_instructions,
    /// Comparisons and selections.
    compare_instructions,
    /// `mov` and the packing and unpacking of vectors.
    move_instructions,
    /// Loads, stores, atomics and prefetches.
    memory_instructions,
    /// `cp.async` and its commit and wait instructions.
    async_copy_instructions,
    /// `mma`, `ldmatrix`, `stmatrix`.
    matrix_instructions,
    /// `shfl`, `vote`, `match`, `redux`, `elect`, `activemask`.
    warp_instructions,
    /// Barriers and fences.
    barrier_instructions,
    /// Branches, `exit`, `ret`.
    control_instructions,
    /// `mma` instructions.
    mma,
    /// Multiply-accumulates done by `mma`.
    mma_multiply_accumulates,
    /// Exponentials (`ex2`), counted per lane and per packed element.
    ex2,
    /// 128-byte shared-memory passes (wavefronts) of loads, stores, `ldmatrix` and `cp.async`.
    shared_wavefronts,
    /// The part of [`Counters::shared_wavefronts`] that is caused by bank conflicts.
    shared_bank_conflicts,
    /// 32-byte sectors touched by global loads and stores, counted once per instruction.
    global_sectors,
    /// Bytes loaded from global memory by lanes.
    global_bytes_read,
    /// Bytes stored to global memory by lanes.
    global_bytes_written,
    /// Prefetches of boxes wholly outside their tensor map. They have no effect, but read memory (docs/results/map.md).
    prefetches_outside,
    /// Instructions that access local memory (spills and indexed arrays).
    local_memory_instructions,
}

//! What the hardware would have done: counts that make a performance regression visible without a GPU.

use std::ops::AddAssign;

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident),* $(,)?) => {
        /// What the hardware would have done. Instructions are counted once per warp that issues them with at least one
        /// active lane; counters of several launches add up with `+=`.
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
    /// Those of [`Counters::shared_wavefronts`] that would not be needed if no two lanes met in a bank.
    shared_bank_conflicts,
    /// 32-byte sectors touched by global loads and stores, counted once per instruction.
    global_sectors,
    /// Bytes that lanes loaded from global memory.
    global_bytes_read,
    /// Bytes that lanes stored to global memory.
    global_bytes_written,
    /// Accesses to local memory (spills and indexed arrays), instructions.
    local_memory_instructions,
}

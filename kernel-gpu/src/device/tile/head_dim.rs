//! The width of rows of Q, K, V and O in shared memory and registers, as a type.

use crate::device::ptx::mma::{FragmentA, FragmentC};
use crate::shared_tile::{Row, RowLayout, Swizzle64, Swizzle128};
use contract::config::{MMA_K, MMA_N};

/// The columns of a kernel's tiles: at least D; the columns beyond D are zeros.
pub trait HeadDim: Copy + 'static {
    /// Columns.
    const COLUMNS: u32;
    /// Number of 16-column steps, the depth of QKᵀ.
    const K_STEPS: usize = (Self::COLUMNS / MMA_K) as usize;
    /// Number of 8-column tiles, the width of O.
    const N_TILES: usize = (Self::COLUMNS / MMA_N) as usize;
    /// Number of panels, each as wide as a swizzle of TMA and `wgmma`.
    #[cfg(feature = "sm_90a")]
    const PANELS: u32;

    /// A row in shared memory.
    type Row: RowLayout;
    /// A row of a panel.
    type Panel: RowLayout;
    /// 16 rows of Q: a fragment per 16 columns.
    type Queries: Fragments<Fragment = FragmentA>;
    /// 16 rows of O: a fragment per 8 columns.
    type Output: Fragments<Fragment = FragmentC>;
    /// Half of them: those of a warp that shares its rows with another one.
    #[cfg(feature = "sm_80")]
    type HalfOutput: Fragments<Fragment = FragmentC>;
}

/// Tiles of `COUNT` columns.
#[derive(Clone, Copy)]
pub struct Columns<const COUNT: u32>;

/// Implements [`HeadDim`] for tiles whose panels have `$columns` columns, the span of their swizzle.
macro_rules! head_dims {
    ($($panels:literal panels of $columns:literal columns, $swizzle:ty;)*) => {$(
        impl HeadDim for Columns<{ $panels * $columns }> {
            const COLUMNS: u32 = $panels * $columns;
            #[cfg(feature = "sm_90a")]
            const PANELS: u32 = $panels;
            type Row = Row<{ $panels * $columns }, $swizzle>;
            type Panel = Row<$columns, $swizzle>;
            type Queries = [FragmentA; $panels * $columns / MMA_K as usize];
            type Output = [FragmentC; $panels * $columns / MMA_N as usize];
            #[cfg(feature = "sm_80")]
            type HalfOutput = [FragmentC; $panels * $columns / MMA_N as usize / 2];
        }
    )*};
}

head_dims! {
    1 panels of 32 columns, Swizzle64;
    1 panels of 64 columns, Swizzle128;
    3 panels of 32 columns, Swizzle64;
    2 panels of 64 columns, Swizzle128;
    3 panels of 64 columns, Swizzle128;
    4 panels of 64 columns, Swizzle128;
}

/// An array of fragments, kept in registers.
pub trait Fragments: Copy {
    /// The type of its fragments.
    type Fragment: Copy;
    /// Their number.
    const COUNT: usize;

    /// Zero fragments.
    fn zeros() -> Self;

    /// The fragments.
    fn all(&self) -> &[Self::Fragment];

    /// The fragments.
    fn all_mut(&mut self) -> &mut [Self::Fragment];
}

macro_rules! fragments {
    ($($fragment:ty;)*) => {$(
        impl<const COUNT: usize> Fragments for [$fragment; COUNT] {
            type Fragment = $fragment;
            const COUNT: usize = COUNT;

            // Not `[zero; COUNT]`, which is a loop, nor a constant, which would be copied from memory.
            #[inline(always)]
            fn zeros() -> Self {
                // SAFETY: numbers whose bits are all zero are 0.
                unsafe { core::mem::zeroed() }
            }

            #[inline(always)]
            fn all(&self) -> &[Self::Fragment] {
                self
            }

            #[inline(always)]
            fn all_mut(&mut self) -> &mut [Self::Fragment] {
                self
            }
        }
    )*};
}

fragments! {
    FragmentA;
    FragmentC;
}

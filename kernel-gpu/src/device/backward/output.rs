//! The stores of gradients.

use crate::device::hidden;
use crate::device::kernel::{Kernel, OutputStrip};
use crate::device::lane::Lane;
use crate::device::ptx::mma::FragmentC;
use crate::device::stores;
use crate::device::tile::head_dim::Fragments;
use crate::device::tile::head_rows::HeadRows;
use crate::device::unrolled;
use contract::args::ForwardArgs;

/// Stores a gradient of 16 rows, multiplied by `scale`, to a head: the rows from the first of `rows` on, of its length.
///
/// # Safety
/// Warp together; no other warp writes these rows.
#[inline(always)]
pub unsafe fn store<K: Kernel>(
    gradient: &mut OutputStrip<K>,
    head: HeadRows,
    scale: f32,
    rows: (u32, u32),
    problem: &ForwardArgs,
    lane: Lane,
) {
    // SAFETY: the caller's promise.
    unsafe { store_share::<K, _>((gradient, 0), head, scale, rows, problem, lane) };
}

/// [`store`] of share `share` of the columns.
///
/// # Safety
/// Warp together; no other warp writes these columns of these rows.
#[inline(always)]
pub unsafe fn store_share<K: Kernel, F: Fragments<Fragment = FragmentC>>(
    (gradient, share): (&mut F, u32),
    head: HeadRows,
    scale: f32,
    rows: (u32, u32),
    problem: &ForwardArgs,
    lane: Lane,
) {
    unrolled!(at most 32; for n in F::COUNT => {
        unrolled!(at most 4; for i in 4 => { gradient.all_mut()[n][i] *= scale });
    });
    // Compared for every item, not kept from the block's beginning on.
    let problem = &ForwardArgs { head_dim: hidden::recompute(problem.head_dim), ..*problem };
    // SAFETY: the caller's promise.
    unsafe { stores::store_share::<K, F>((gradient, share), head, problem, rows, lane) };
}

//! Stores of accumulators of `mma.sync` to the rows of a head, in 16-byte pieces from registers.

use crate::device::kernel::Kernel;
#[cfg(feature = "sm_80")]
use crate::device::kernel::OutputStrip;
use crate::device::lane::{Lane, ROWS_PER_LANE};
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::{memory, shuffle};
use crate::device::sequence::Sequence;
use crate::device::tile::head_dim::{Fragments, HeadDim};
use crate::device::tile::head_rows::{HeadRows, has_chunk};
use crate::device::unrolled;
use contract::args::ForwardArgs;

/// Stores the 16 rows from `first_row` on of a head at `rows`, such as O, rounded to elements. Skips rows from `length` on and columns
/// that the head does not have.
///
/// # Safety
/// Warp together; no other warp writes these rows.
#[cfg(feature = "sm_80")]
#[inline(always)]
pub unsafe fn store_strip<K: Kernel>(
    strip: &OutputStrip<K>,
    rows: HeadRows,
    args: &ForwardArgs,
    first_and_length: (u32, u32),
    lane: Lane,
) {
    // SAFETY: the caller's promise.
    unsafe { store_share::<K, _>((strip, 0), rows, args, first_and_length, lane) };
}

/// [`store_strip`] of share `share` of the columns.
///
/// # Safety
/// Warp together; no other warp writes these columns of these rows.
#[inline(always)]
pub unsafe fn store_share<K: Kernel, F: Fragments<Fragment = FragmentC>>(
    (strip, share): (&F, u32),
    rows: HeadRows,
    args: &ForwardArgs,
    (first_row, length): (u32, u32),
    lane: Lane,
) {
    unrolled!(at most 2; for r in ROWS_PER_LANE => {
        let row = lane.row(first_row, 0, r);
        unrolled!(at most 8; for quad in const { F::COUNT / QUAD as usize } => {
            // SAFETY: warp together; a chunk of a row before the end, 16-byte aligned by the launch's checks.
            unsafe {
                let first = quad * QUAD as usize;
                let tile = |n: usize| strip.all()[first + n];
                let column = share * QUAD + const { distance::<K::HeadDim, F>(quad * QUAD as usize) };
                store_quad::<K>(&[tile(0), tile(1), tile(2), tile(3)], (r, column), rows, args, (row, length), lane);
            }
        });
    });
}

/// Stores a chunk of row `row` of a head at `rows`, of the four 8-column tiles from `first` on. Skips rows from `length` on and columns
/// that the head does not have.
///
/// # Safety
/// Warp together, each lane with its part `r` of the tiles; no other warp writes these rows.
#[inline(always)]
pub unsafe fn store_quad<K: Kernel>(
    tiles: &[FragmentC; QUAD as usize],
    (r, first): (usize, u32),
    rows: HeadRows,
    args: &ForwardArgs,
    (row, length): (u32, u32),
    lane: Lane,
) {
    let chunk = first + lane.index % QUAD;
    let pack = |n: usize| pack_pair::<K>(tiles[n], r);
    // SAFETY: warp together; a chunk of a row before the end, 16-byte aligned by the launch's checks.
    unsafe {
        let value = transpose([pack(0), pack(1), pack(2), pack(3)], lane);
        if !K::Sequence::HAS_TAIL || (row < length && has_chunk(args.head_dim, chunk)) {
            memory::store_global_16(rows.chunk(row, chunk), value);
        }
    }
}

/// Number of lanes that hold parts of the same rows, and of 8-column tiles that they store together.
pub const QUAD: u32 = 4;

/// How many 8-column tiles behind the first one of a warp its tile number `tile` is, if it has fragments `F` of rows of `H`: those of every
/// quad of tiles, or of every other one.
#[inline(always)]
pub const fn distance<H: HeadDim, F: Fragments>(tile: usize) -> u32 {
    const { assert!(F::COUNT.is_multiple_of(QUAD as usize) && H::N_TILES.is_multiple_of(F::COUNT)) };
    let (quad, shares) = (QUAD as usize, H::N_TILES / F::COUNT);
    (tile / quad * quad * shares + tile % quad) as u32
}

/// The lane's part `r` of a fragment, as packed elements.
#[inline(always)]
pub fn pack_pair<K: Kernel>(fragment: FragmentC, r: usize) -> u32 {
    K::Element::pack(fragment[2 * r], fragment[2 * r + 1])
}

/// Transposes four values of the four lanes of a quad: lane i gets the i-th value of each lane.
///
/// # Safety
/// Warp together.
#[inline(always)]
unsafe fn transpose([a, b, c, d]: [u32; QUAD as usize], lane: Lane) -> [u32; QUAD as usize] {
    let (odd, upper) = (lane.index & 1 != 0, lane.index & 2 != 0);
    // SAFETY: warp together.
    unsafe {
        let [a, b] = swap::<1>([a, b], odd);
        let [c, d] = swap::<1>([c, d], odd);
        let [a, c] = swap::<2>([a, c], upper);
        let [b, d] = swap::<2>([b, d], upper);
        [a, b, c, d]
    }
}

/// Exchanges a value with the lane at `LANE_MASK`: the lane with `is_second` sends its first value, the other its second.
///
/// # Safety
/// Warp together.
#[inline(always)]
unsafe fn swap<const LANE_MASK: u32>([first, second]: [u32; 2], is_second: bool) -> [u32; 2] {
    // SAFETY: warp together.
    let other = unsafe { shuffle::exchange_bits::<LANE_MASK>(if is_second { first } else { second }) };
    if is_second { [other, second] } else { [first, other] }
}

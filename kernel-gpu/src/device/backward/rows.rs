//! What the gradients need of a query row: LSE in base 2, and Δ = rowsum(dO ∘ O).

use crate::device::ptx::element::Element;
use crate::device::ptx::{math, memory};
use crate::device::unrolled;

/// `sums`, and the products of the elements of two chunks: those of even and of odd columns, which do not wait for each other.
///
/// # Safety
/// Both are addresses of chunks in shared memory that have arrived.
#[inline(always)]
pub unsafe fn add_products<E: Element>(sums: [f32; 2], a: u32, b: u32) -> [f32; 2] {
    // SAFETY: the caller's promise.
    let (a, b) = unsafe { (memory::load_shared_16(a), memory::load_shared_16(b)) };
    products::<E>(sums, a, b)
}

/// [`add_products`] of two chunks in registers.
#[inline(always)]
pub fn products<E: Element>([mut even, mut odd]: [f32; 2], a: [u32; 4], b: [u32; 4]) -> [f32; 2] {
    unrolled!(at most 4; for pair in 4 => {
        let ([a0, a1], [b0, b1]) = (E::unpack(a[pair]), E::unpack(b[pair]));
        even = math::fma(a0, b0, even);
        odd = math::fma(a1, b1, odd);
    });
    [even, odd]
}

/// LSE in base 2 of `row` of a head with `length` rows; +∞, under which every probability is 0, for a row that does not exist, and for one
/// without a key, whose LSE is −∞.
///
/// # Safety
/// `lse` is the address of LSE of row 0.
#[inline(always)]
pub unsafe fn base_2_lse(lse: u64, row: u32, length: u32) -> f32 {
    if row >= length {
        return f32::INFINITY;
    }
    // SAFETY: an element of LSE.
    let natural = f32::from_bits(unsafe { memory::load_global_4(lse + row as u64 * size_of::<f32>() as u64) });
    if natural == f32::NEG_INFINITY { f32::INFINITY } else { natural * core::f32::consts::LOG2_E }
}

/// P of a score: 2^(c·s − LSE₂).
#[inline(always)]
pub fn probability(score: f32, scale_log2: f32, minus_lse: f32) -> f32 {
    math::exp2(math::fma(score, scale_log2, minus_lse))
}

//! Rows of packed tensors that belong to no sequence: before the first and behind the last. O becomes 0 there, and LSE −∞.

use crate::device::ptx::memory;
#[cfg(feature = "sm_80")]
use crate::device::tile::head_rows::HeadRows;
use crate::shared_tile::CHUNK_BYTES;
use contract::args::ForwardArgs;
use contract::config::ELEMENT_BYTES;
use contract::packed::Bounds;

/// A share of the rows: every `of`-th from `number` on, in units of those that the threads write at once.
#[derive(Clone, Copy)]
pub struct Share {
    /// Which share.
    pub number: u32,
    /// How many there are.
    pub of: u32,
}

/// Whether there are other rows than `all`, those of all sequences.
#[inline(always)]
pub fn are_there(args: &ForwardArgs, all: Bounds) -> bool {
    all.begin > 0 || all.end < args.sequence
}

/// Clears a share of the rows of a head.
///
/// # Safety
/// Each thread of `thread` (number, of how many) calls this, with each share of each head once in the launch.
#[inline(always)]
pub unsafe fn clear(
    args: &ForwardArgs,
    all: Bounds,
    head: u32,
    Share { number, of }: Share,
    (thread, threads): (u32, u32),
) {
    // At least 1, which saves the check of a division.
    let chunks = (args.head_dim * ELEMENT_BYTES as u32 / CHUNK_BYTES).max(1);
    let (place, chunk, rows_at_once) = (thread / chunks, thread % chunks, threads / chunks);
    let of_sequences = all.end.max(all.begin) - all.begin;
    // More rows than 32 bits count are more than there are.
    let mut other = number.saturating_mul(rows_at_once).saturating_add(place);
    while place < rows_at_once && other < args.sequence - of_sequences {
        let row = other + if other < all.begin { 0 } else { of_sequences };
        let elements = head as u64 * args.o_strides.head + row as u64 * args.o_strides.row;
        let address = args.o + elements * ELEMENT_BYTES + (chunk * CHUNK_BYTES) as u64;
        // SAFETY: a chunk of a row of O that no sequence has, and that this thread alone writes; LSE has an element for each row.
        unsafe {
            memory::store_global_16(address, [0; 4]);
            if args.lse != 0 && chunk == 0 {
                let element = head as u64 * args.sequence as u64 + row as u64;
                memory::store_global_f32(args.lse + element * 4, f32::NEG_INFINITY);
            }
        }
        other = other.saturating_add(of.saturating_mul(rows_at_once));
    }
}

/// Clears a share of the rows of a head of a gradient, of `rows` rows.
///
/// # Safety
/// Each thread of `thread` (number, of how many) calls this, with each share of each head once in the launch; `all` are the rows of all
/// sequences in this tensor.
#[cfg(feature = "sm_80")]
#[inline(always)]
pub unsafe fn clear_gradient(
    head: HeadRows,
    (rows, head_dim): (u32, u32),
    all: Bounds,
    Share { number, of }: Share,
    (thread, threads): (u32, u32),
) {
    // At least 1, which saves the check of a division.
    let chunks = (head_dim * ELEMENT_BYTES as u32 / CHUNK_BYTES).max(1);
    let (place, chunk, rows_at_once) = (thread / chunks, thread % chunks, threads / chunks);
    let of_sequences = all.end.max(all.begin) - all.begin;
    let mut other = number.saturating_mul(rows_at_once).saturating_add(place);
    while place < rows_at_once && other < rows - of_sequences {
        let row = other + if other < all.begin { 0 } else { of_sequences };
        // SAFETY: a chunk of a row that no sequence has, and that this thread alone writes.
        unsafe { memory::store_global_16(head.chunk(row, chunk), [0; 4]) };
        other = other.saturating_add(of.saturating_mul(rows_at_once));
    }
}

//! Accepted sizes of a problem.

use crate::spec::limits::{MAXIMUM_HEAD_DIM, MAXIMUM_SEQUENCE, ROW_ALIGNMENT};
use crate::spec::refusal::Refusal;
use crate::spec::shape::Shape;

/// Checks that no dimension is 0 or too large, that heads can be shared evenly, and that rows are whole 16-byte chunks.
pub(super) fn check(shape: Shape) -> Result<(), Refusal> {
    let Shape { batch, heads, kv_heads, sequence, kv_sequence, head_dim } = shape;
    let sequences = [("sequence", sequence), ("kv_sequence", kv_sequence)];
    for (name, value) in [("batch", batch), ("heads", heads), ("kv_heads", kv_heads)].into_iter().chain(sequences) {
        if value == 0 {
            return Err(Refusal::EmptyDimension { name });
        }
    }
    if heads % kv_heads != 0 {
        return Err(Refusal::KvHeads { heads, kv_heads });
    }
    match sequences.into_iter().find(|&(_, rows)| rows > MAXIMUM_SEQUENCE) {
        None => check_head_dim(head_dim),
        Some((name, sequence)) => Err(Refusal::SequenceTooLong { name, sequence }),
    }
}

/// Checks that rows of `head_dim` columns are whole 16-byte chunks, so that contiguous rows are aligned, and no wider than
/// the widest tiles.
///
/// # Errors
/// [`Refusal::HeadDim`], with what is accepted.
pub fn check_head_dim(head_dim: u32) -> Result<(), Refusal> {
    match (1..=MAXIMUM_HEAD_DIM).contains(&head_dim) && u64::from(head_dim) % ROW_ALIGNMENT == 0 {
        true => Ok(()),
        false => Err(Refusal::HeadDim { head_dim }),
    }
}

//! Where a warp's scores are.

/// The position of a warp's scores: their rows and keys.
#[derive(Clone, Copy)]
pub struct Place {
    /// First row of the warp in Q; for packed sequences its position among the keys.
    pub first_row: u32,
    /// The first key.
    pub first_key: u32,
    /// Number of rows of Q in the sequence.
    pub length: u32,
    /// Number of keys in the sequence.
    pub kv_length: u32,
}

//! The GPU properties that a plan depends on.

/// A GPU, real or described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu<'a> {
    /// Its name, as the driver reports it; the key of the constants of predicted times.
    pub name: &'a str,
    /// Compute capability, such as 90 for 9.0.
    pub architecture: u32,
    /// Number of multiprocessors, which a persistent grid fills.
    pub multiprocessors: u32,
    /// Largest dynamic shared memory of a block, bytes (`CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`).
    pub shared_bytes_per_block: u32,
}

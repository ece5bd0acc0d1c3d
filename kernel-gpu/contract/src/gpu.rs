//! What a plan needs to know of a GPU.

/// A GPU, or what stands for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu<'a> {
    /// Its name, as the driver gives it: the tuned table is looked up by it.
    pub name: &'a str,
    /// Compute capability, as in 90 for 9.0.
    pub architecture: u32,
    /// Multiprocessors, which a persistent grid fills.
    pub multiprocessors: u32,
    /// Largest dynamic shared memory of a block, bytes (`CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`).
    pub shared_bytes_per_block: u32,
}

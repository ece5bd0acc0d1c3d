//! Limits of GPU architectures for thread blocks.

/// Per-block and per-multiprocessor limits of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchitectureLimits {
    /// Compute capability, such as 80 for `sm_80`.
    pub architecture: u32,
    /// Largest dynamic shared memory of a block, bytes.
    pub shared_bytes_per_block: u32,
    /// Shared memory of a multiprocessor, bytes.
    pub shared_bytes_per_multiprocessor: u32,
    /// Maximum resident threads of a multiprocessor.
    pub threads_per_multiprocessor: u32,
}

/// Limits of the architectures the kernels are checked for (CUDA C++ Programming Guide, "Compute Capabilities").
pub const ARCHITECTURES: [ArchitectureLimits; 4] =
    [limits(80, 163, 164, 2048), limits(86, 99, 100, 1536), limits(89, 99, 100, 1536), MOST_GENEROUS];

/// Limits of sm_90, the largest in [`ARCHITECTURES`].
pub const MOST_GENEROUS: ArchitectureLimits = limits(90, 227, 228, 2048);

/// Registers of a multiprocessor, the same on every architecture in [`ARCHITECTURES`].
pub const REGISTERS_PER_MULTIPROCESSOR: u32 = 65_536;
/// Registers a thread can address.
pub const REGISTERS_PER_THREAD: u32 = 255;
/// Maximum threads of a block.
pub const THREADS_PER_BLOCK: u32 = 1024;
/// Shared memory that the system reserves per resident block, bytes (CUDA C++ Programming Guide, "Shared Memory").
pub const SYSTEM_SHARED_BYTES_PER_BLOCK: u32 = 1024;
/// Registers of a thread are allocated in multiples of this.
pub const REGISTER_ALLOCATION_UNIT: u32 = 8;
/// Maximum registers allocated to a thread.
pub const LARGEST_REGISTER_COUNT: u32 = 256;

const fn limits(architecture: u32, block_kib: u32, multiprocessor_kib: u32, threads: u32) -> ArchitectureLimits {
    ArchitectureLimits {
        architecture,
        shared_bytes_per_block: block_kib * 1024,
        shared_bytes_per_multiprocessor: multiprocessor_kib * 1024,
        threads_per_multiprocessor: threads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_architecture_has_more_than_the_most_generous() {
        for limits in ARCHITECTURES {
            assert!(limits.shared_bytes_per_block <= MOST_GENEROUS.shared_bytes_per_block, "{limits:?}");
            assert!(
                limits.shared_bytes_per_multiprocessor <= MOST_GENEROUS.shared_bytes_per_multiprocessor,
                "{limits:?}"
            );
            assert!(limits.threads_per_multiprocessor <= MOST_GENEROUS.threads_per_multiprocessor, "{limits:?}");
        }
    }
}

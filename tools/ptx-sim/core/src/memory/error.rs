//! Errors of memory operations.

/// Why an access is impossible: a description of where the address lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutOfBounds(pub String);

/// Why memory could not be allocated, freed, filled or copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The address range of a memory is invalid.
    #[error(
        "a memory from {first:#x} to {end:#x}: it has to begin at a multiple of 256, not below 4 GiB, and end later, at or \
         below 2^46"
    )]
    Addresses {
        /// Its first address.
        first: u64,
        /// Its end (exclusive).
        end: u64,
    },
    /// The host is out of memory for a buffer of this size.
    #[error("cannot allocate buffer `{name}` of {bytes} bytes")]
    Allocation {
        /// The buffer.
        name: String,
        /// Its size.
        bytes: u64,
    },
    /// Kernels cannot access host memory at its address.
    #[error("{bytes} bytes of host memory `{name}` at {address:#x} lie where kernels have other memory")]
    Host {
        /// Its name.
        name: String,
        /// Its address.
        address: u64,
        /// Its size.
        bytes: u64,
    },
    /// A buffer of zero bytes was requested.
    #[error("buffer `{name}` has a size of 0 bytes; a buffer needs at least 1")]
    Empty {
        /// The buffer.
        name: String,
    },
    /// A tensor map that the hardware cannot use, or that is not supported.
    #[error("tensor map `{name}`: {what}")]
    TensorMap {
        /// The tensor map.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// A texture that a GPU cannot read, or that is not supported.
    #[error("a texture: {what}")]
    Texture {
        /// What is wrong with it.
        what: String,
    },
    /// No live buffer starts at the address.
    #[error("no buffer starts at {address:#x}")]
    NoBuffer {
        /// The address.
        address: u64,
    },
    /// A copy or fill does not lie inside one live buffer.
    #[error("a copy of {bytes} bytes at {address:#x}: {location}")]
    OutOfBounds {
        /// First address.
        address: u64,
        /// Size of the copy, bytes.
        bytes: u64,
        /// What is at the address, in words.
        location: String,
    },
    /// The address of a fill is not aligned to the size of its values.
    #[error("{address:#x} is filled with values of {alignment} bytes, of which it is not a multiple")]
    Misaligned {
        /// First address.
        address: u64,
        /// Size of a value, bytes.
        alignment: u64,
    },
    /// There is no texture or surface object with the handle.
    #[error("{handle:#x} is no {kind} object: it {what}")]
    NoObject {
        /// The handle.
        handle: u64,
        /// `texture` or `surface`.
        kind: &'static str,
        /// Why, in words.
        what: &'static str,
    },
}

/// The refusal of a plain access to an array.
pub(super) fn plain_access(name: &str) -> OutOfBounds {
    OutOfBounds(format!("`{name}` is a CUDA array, which textures, surfaces and copies reach, and no pointer does"))
}

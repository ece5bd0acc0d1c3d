//! Why memory refuses something.

/// Why an access cannot be done: a description of where the address lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutOfBounds(pub String);

/// Why memory could not be allocated, freed, filled or copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// A memory cannot lie there.
    #[error(
        "a memory from {first:#x} to {end:#x}: it has to begin at a multiple of 256, not below 4 GiB, and end later, at or \
         below 2^46"
    )]
    Addresses {
        /// The first address.
        first: u64,
        /// The address behind the last.
        end: u64,
    },
    /// There is no memory for a buffer of this size.
    #[error("cannot allocate buffer `{name}` of {bytes} bytes")]
    Allocation {
        /// The buffer.
        name: String,
        /// Its size.
        bytes: u64,
    },
    /// Kernels cannot reach memory of the host at its address.
    #[error("{bytes} bytes of host memory `{name}` at {address:#x} lie where kernels have other memory")]
    Host {
        /// What it is called.
        name: String,
        /// Its address.
        address: u64,
        /// Its size.
        bytes: u64,
    },
    /// A buffer of no bytes was asked for.
    #[error("buffer `{name}` has a size of 0 bytes; a buffer needs at least 1")]
    Empty {
        /// The buffer.
        name: String,
    },
    /// A tensor map that the hardware could not use, or whose use is not supported.
    #[error("tensor map `{name}`: {what}")]
    TensorMap {
        /// The tensor map.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// A texture that no GPU could read, or that is not supported.
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
    /// A copy or fill does not stay inside one live buffer.
    #[error("a copy of {bytes} bytes at {address:#x}: {location}")]
    OutOfBounds {
        /// First address.
        address: u64,
        /// Bytes of the copy.
        bytes: u64,
        /// Where that is, in words.
        location: String,
    },
    /// Memory is filled with values that are not aligned there.
    #[error("{address:#x} is filled with values of {alignment} bytes, of which it is not a multiple")]
    Misaligned {
        /// First address.
        address: u64,
        /// Bytes of a value.
        alignment: u64,
    },
    /// No texture or surface object has the handle.
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

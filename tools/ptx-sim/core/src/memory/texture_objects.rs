//! Texture and surface objects: the targets of the handles that kernels pass to `tex`, `suld` and related instructions.

use std::collections::BTreeMap;

use super::error::MemoryError;
use super::texels::{Channel, Texels};

/// Handles are above this, beyond all addresses, so that a handle used as an address hits nothing.
const FIRST_HANDLE: u64 = 1 << 62;

/// How coordinates outside the texture are handled (CUDA C++ Programming Guide, "Texture Memory", the addressing mode).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressMode {
    /// The texture repeats; acts as [`AddressMode::Clamp`] if coordinates are not normalised.
    Wrap,
    /// The nearest texel inside is read.
    #[default]
    Clamp,
    /// The texture repeats, mirrored every other time; acts as [`AddressMode::Clamp`] if coordinates are not
    /// normalised.
    Mirror,
    /// The border colour is read.
    Border,
}

/// How a fetch combines texels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// The nearest texel.
    #[default]
    Point,
    /// The neighbours in each dimension, weighted by distance (linear filtering).
    Linear,
}

/// How a texture is read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampler {
    /// Addressing mode of each dimension.
    pub address: [AddressMode; 3],
    /// Filter mode.
    pub filter: Filter,
    /// Whether coordinates are normalised (0 to 1).
    pub normalized_coordinates: bool,
    /// Whether 8- and 16-bit integers are read as normalised floats.
    pub normalized_values: bool,
    /// Colour for [`AddressMode::Border`].
    pub border: [f32; 4],
}

/// A texture object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Texture {
    texels: Texels,
    sampler: Sampler,
}

impl Texture {
    /// A texture of texels with a sampler.
    ///
    /// # Errors
    /// [`MemoryError::Texture`] if integers are filtered, or have a border colour other than 0, which is not supported.
    pub fn new(texels: Texels, sampler: Sampler) -> Result<Texture, MemoryError> {
        let texture = Texture { texels, sampler };
        let refused = |what: &str| Err(MemoryError::Texture { what: what.to_owned() });
        match texture.gives_floats() {
            false if sampler.filter == Filter::Linear && !texels.is_linear() => {
                refused("a linear filter of texels that are read as integers")
            }
            false if sampler.border != [0.0; 4] => refused("a border colour other than 0 of integers is not simulated"),
            _ => Ok(texture),
        }
    }

    /// The texels.
    pub fn texels(&self) -> &Texels {
        &self.texels
    }

    /// The sampler.
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Whether a fetch returns floating-point numbers.
    pub fn gives_floats(&self) -> bool {
        self.texels.format.channel() == Channel::Float || self.normalizes()
    }

    /// Whether integers are read as normalised floats.
    pub fn normalizes(&self) -> bool {
        let format = self.texels.format;
        self.sampler.normalized_values && format.channel() != Channel::Float && format.bits() < 32
    }
}

/// Object of a handle.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Object {
    Texture(Texture),
    Surface(Texels),
}

/// The objects of a memory; handles are never reused.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// `None` once destroyed.
    by_handle: BTreeMap<u64, Option<Object>>,
}

impl Objects {
    /// A new handle of a memory that begins at an address; handles of different memories are distinct.
    pub fn add(&mut self, memory: u64, object: Object) -> u64 {
        let handle = FIRST_HANDLE + memory + self.by_handle.len() as u64;
        self.by_handle.insert(handle, Some(object));
        handle
    }

    /// Destroys an object; fails with what is wrong with the handle.
    pub fn remove(&mut self, handle: u64) -> Result<(), &'static str> {
        let found = self.by_handle.get_mut(&handle).ok_or(NO_OBJECT)?;
        found.take().map(drop).ok_or(DESTROYED)
    }

    /// The object of a handle, or what is wrong with the handle.
    pub fn get(&self, handle: u64) -> Result<&Object, &'static str> {
        self.by_handle.get(&handle).ok_or(NO_OBJECT)?.as_ref().ok_or(DESTROYED)
    }
}

const NO_OBJECT: &str = "was never given to the program";
const DESTROYED: &str = "was destroyed before";

//! Texture and surface objects: what the handles stand for that kernels give to `tex`, `suld` and their relatives.

use std::collections::BTreeMap;

use super::error::MemoryError;
use super::texels::{Channel, Texels};

/// Handles of objects are above this, beyond all addresses: what is used as an address by mistake hits nothing.
const FIRST_HANDLE: u64 = 1 << 62;

/// What is read where a coordinate lies outside (CUDA C++ Programming Guide, "Texture Memory", the addressing mode).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressMode {
    /// The texture repeats itself; as [`AddressMode::Clamp`] where coordinates are not normalized.
    Wrap,
    /// The nearest texel inside.
    #[default]
    Clamp,
    /// The texture repeats itself, every other time reversed; as [`AddressMode::Clamp`] where coordinates are not normalized.
    Mirror,
    /// The border colour.
    Border,
}

/// Which texels a fetch consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// The nearest.
    #[default]
    Point,
    /// The neighbours in each dimension, weighted by their distance.
    Linear,
}

/// How a texture is read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampler {
    /// What lies outside, by dimension.
    pub address: [AddressMode; 3],
    /// Which texels a fetch consists of.
    pub filter: Filter,
    /// Whether coordinates go from 0 to 1.
    pub normalized_coordinates: bool,
    /// Whether integers of 8 and 16 bits are read as numbers up to 1.
    pub normalized_values: bool,
    /// What [`AddressMode::Border`] reads.
    pub border: [f32; 4],
}

/// A texture object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Texture {
    texels: Texels,
    sampler: Sampler,
}

impl Texture {
    /// Texels as a sampler reads them.
    ///
    /// # Errors
    /// [`MemoryError::Texture`] when integers are filtered, or have a border colour other than 0, which is not supported.
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

    /// What is read.
    pub fn texels(&self) -> &Texels {
        &self.texels
    }

    /// How it is read.
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Whether a fetch gives floating-point numbers.
    pub fn gives_floats(&self) -> bool {
        self.texels.format.channel() == Channel::Float || self.normalizes()
    }

    /// Whether integers become numbers up to 1.
    pub fn normalizes(&self) -> bool {
        let format = self.texels.format;
        self.sampler.normalized_values && format.channel() != Channel::Float && format.bits() < 32
    }
}

/// What a handle stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Object {
    Texture(Texture),
    Surface(Texels),
}

/// The objects of a memory; handles are never used twice.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// `None` once destroyed.
    by_handle: BTreeMap<u64, Option<Object>>,
}

impl Objects {
    /// The handle of a new object of a memory that begins at an address: two memories never give the same.
    pub fn add(&mut self, memory: u64, object: Object) -> u64 {
        let handle = FIRST_HANDLE + memory + self.by_handle.len() as u64;
        self.by_handle.insert(handle, Some(object));
        handle
    }

    /// Destroys an object; what is wrong with the handle, otherwise.
    pub fn remove(&mut self, handle: u64) -> Result<(), &'static str> {
        let found = self.by_handle.get_mut(&handle).ok_or(NO_OBJECT)?;
        found.take().map(drop).ok_or(DESTROYED)
    }

    /// The object of a handle; what is wrong with it, otherwise.
    pub fn get(&self, handle: u64) -> Result<&Object, &'static str> {
        self.by_handle.get(&handle).ok_or(NO_OBJECT)?.as_ref().ok_or(DESTROYED)
    }
}

const NO_OBJECT: &str = "was never given to the program";
const DESTROYED: &str = "was destroyed before";

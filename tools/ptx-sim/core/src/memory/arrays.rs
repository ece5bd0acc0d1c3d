//! CUDA arrays and texture and surface objects in global memory.

use super::error::MemoryError;
use super::global::GlobalMemory;
use super::texels::{Geometry, TexelFormat, Texels};
use super::texture_objects::{Object, Sampler, Texture};

/// Operations of a driver.
impl GlobalMemory {
    /// Allocates an array of unwritten texels. Plain accesses of kernels to it are out of bounds. Dimensions that the
    /// geometry lacks are 1. Freed by [`Self::free`].
    ///
    /// # Errors
    /// If a dimension is 0, or the memory is too small.
    pub fn allocate_array(
        &mut self,
        name: &str,
        geometry: Geometry,
        extent: [u64; 3],
        format: TexelFormat,
    ) -> Result<Texels, MemoryError> {
        if extent.contains(&0) {
            return Err(MemoryError::Empty { name: name.to_owned() });
        }
        let texels = Texels::array(geometry, extent, format);
        let bytes = texels.bytes().unwrap_or(u64::MAX);
        let texels = Texels { address: self.allocate(name, bytes)?, ..texels };
        self.set_texels(texels);
        Ok(texels)
    }

    /// Creates a texture object and returns its handle (`cuTexObjectCreate`).
    ///
    /// # Errors
    /// As [`Texture::new`].
    pub fn create_texture(&mut self, texels: Texels, sampler: Sampler) -> Result<u64, MemoryError> {
        let texture = Texture::new(texels, sampler)?;
        Ok(self.add_object(Object::Texture(texture)))
    }

    /// Creates a surface object of an array and returns its handle (`cuSurfObjectCreate`).
    pub fn create_surface(&mut self, texels: Texels) -> u64 {
        self.add_object(Object::Surface(texels))
    }

    /// Destroys a texture object (`cuTexObjectDestroy`).
    ///
    /// # Errors
    /// If there is no such object.
    pub fn destroy_texture(&mut self, handle: u64) -> Result<(), MemoryError> {
        self.texture(handle).map(drop).and_then(|()| self.remove_object(handle)).map_err(no_object(handle, "texture"))
    }

    /// Destroys a surface object (`cuSurfObjectDestroy`).
    ///
    /// # Errors
    /// If there is no such object.
    pub fn destroy_surface(&mut self, handle: u64) -> Result<(), MemoryError> {
        self.surface(handle).map(drop).and_then(|()| self.remove_object(handle)).map_err(no_object(handle, "surface"))
    }
}

fn no_object(handle: u64, kind: &'static str) -> impl Fn(&'static str) -> MemoryError {
    move |what| MemoryError::NoObject { handle, kind, what }
}

/// Accesses of kernels.
impl GlobalMemory {
    /// The texture object of a handle, or what is wrong with the handle.
    pub(crate) fn texture(&self, handle: u64) -> Result<&Texture, &'static str> {
        match self.object(handle)? {
            Object::Texture(texture) => Ok(texture),
            Object::Surface(_) => Err("is a surface object"),
        }
    }

    /// The texels of the surface object of a handle, or what is wrong with the handle.
    pub(crate) fn surface(&self, handle: u64) -> Result<&Texels, &'static str> {
        match self.object(handle)? {
            Object::Surface(texels) => Ok(texels),
            Object::Texture(_) => Err("is a texture object"),
        }
    }

    /// Name in messages of the memory that holds texels.
    pub(crate) fn name_of(&self, texels: &Texels) -> &str {
        self.allocation_at(texels.address).map_or("memory that is not there", |found| found.name)
    }
}

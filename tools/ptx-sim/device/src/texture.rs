//! Texture and surface objects.

use std::sync::Arc;

use ptx_sim::{Sampler, TexelFormat, Texels};

use crate::array::SURFACES;
use crate::code::Code;
use crate::error::{Error, Result};
use crate::memory::memory_error;
use crate::objects::{Array, Call, Context};
use crate::problem::Problem;

/// Alignment of memory that a texture reads. A GPU may require more; allocations here have this alignment.
const ALIGNMENT: u64 = 256;
/// Alignment of the pitch of pitched memory (`CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT`).
pub(crate) const PITCH_ALIGNMENT: u64 = 32;

/// The resource of a texture (`CUDA_RESOURCE_DESC`).
#[derive(Clone)]
pub enum Resource {
    /// An array.
    Array(Arc<Array>),
    /// Linear memory.
    Linear {
        /// First address.
        address: u64,
        /// Size, bytes.
        bytes: u64,
        /// Format of its texels.
        format: TexelFormat,
    },
    /// Pitched linear memory.
    Pitched {
        /// First address.
        address: u64,
        /// Texels per row, and rows.
        extent: [u64; 2],
        /// Distance between rows, bytes.
        pitch: u64,
        /// Format of its texels.
        format: TexelFormat,
    },
}

impl Resource {
    /// Layout and place of its texels.
    fn texels(&self, context: &Context) -> Result<Texels> {
        let texels = match *self {
            Resource::Array(ref array) => return texels_of(array, context),
            Resource::Linear { address, bytes, format } => Texels::linear(address, bytes / format.bytes(), format),
            Resource::Pitched { address, extent, pitch, format } => Texels::pitched(address, extent, pitch, format),
        };
        let Texels { address, extent: [width, height, _], pitch, format, .. } = texels;
        let bytes = texels.bytes().filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or_else(|| Error::invalid(format!("a texture of {width} x {height} texels")))?;
        if !address.is_multiple_of(ALIGNMENT) {
            return Err(Error::invalid(format!(
                "a texture of memory at {address:#x}, which is no multiple of {ALIGNMENT}; see CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT"
            )));
        }
        if !texels.is_linear() && (!pitch.is_multiple_of(PITCH_ALIGNMENT) || pitch < texels.row_bytes()) {
            return Err(Error::invalid(format!(
                "a texture of rows of {width} texels of {} bytes that lie {pitch} bytes apart, which has to be a multiple of {PITCH_ALIGNMENT}",
                format.bytes()
            )));
        }
        context.check_range(address, bytes)?;
        Ok(texels)
    }

    /// Its description in messages.
    fn describe(&self, context: &Context) -> String {
        match self {
            Resource::Array(array) => array.name().to_owned(),
            Resource::Linear { address, .. } | Resource::Pitched { address, .. } => {
                context.describe_address(*address).unwrap_or_default()
            }
        }
    }
}

fn texels_of(array: &Array, context: &Context) -> Result<Texels> {
    array.check_live()?;
    if array.context().id() != context.id() {
        let text = format!("{} belongs to {}", array.name(), array.context().describe());
        return Err(Error::new(Code::INVALID_HANDLE, text));
    }
    Ok(*array.texels())
}

/// Kinds of objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Texture,
    Surface,
}

impl Context {
    /// Creates a texture object for `owner`, for example `cuTexObjectCreate`, and returns its handle.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] for memory or a sampler that a texture cannot have; [`Code::INVALID_HANDLE`] for an
    /// array of another context or a destroyed one; those of [`Context::check`].
    pub fn create_texture(&self, owner: &str, resource: &Resource, sampler: Sampler) -> Result<u64> {
        let texels = resource.texels(self)?;
        let name = self.object_name("texture", &resource.describe(self), owner);
        let mut state = self.state(Call::Asynchronous)?;
        let handle = state.memory.global.create_texture(texels, sampler).map_err(memory_error)?;
        state.memory.objects.insert(handle, name);
        Ok(handle)
    }

    /// Creates a surface object for `owner`, for example `cuSurfObjectCreate`, and returns its handle.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] for an array created without surfaces; [`Code::INVALID_HANDLE`] for one of another
    /// context or a destroyed one; those of [`Context::check`].
    pub fn create_surface(&self, owner: &str, array: &Array) -> Result<u64> {
        let texels = texels_of(array, self)?;
        if array.descriptor().flags & SURFACES == 0 {
            return Err(Error::invalid(format!(
                "a surface of {}, which was made without CUDA_ARRAY3D_SURFACE_LDST (cudaArraySurfaceLoadStore)",
                array.name()
            )));
        }
        let name = self.object_name("surface", array.name(), owner);
        let mut state = self.state(Call::Asynchronous)?;
        let handle = state.memory.global.create_surface(texels);
        state.memory.objects.insert(handle, name);
        Ok(handle)
    }

    fn object_name(&self, kind: &str, of: &str, owner: &str) -> String {
        format!("a {kind} object by {owner}{}, of {of}", self.machine().caller(""))
    }

    /// Whether the context has a texture or surface object with this handle.
    pub fn has_object(&self, handle: u64) -> bool {
        self.state(Call::Asynchronous).is_ok_and(|state| state.memory.objects.contains_key(&handle))
    }

    /// Destroys a texture object (`cuTexObjectDestroy`).
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] if the context has no such object; those of [`Context::check`].
    pub fn destroy_texture(&self, handle: u64) -> Result<()> {
        self.destroy_object(Kind::Texture, handle)
    }

    /// Destroys a surface object (`cuSurfObjectDestroy`).
    ///
    /// # Errors
    /// As [`Context::destroy_texture`].
    pub fn destroy_surface(&self, handle: u64) -> Result<()> {
        self.destroy_object(Kind::Surface, handle)
    }

    fn destroy_object(&self, kind: Kind, handle: u64) -> Result<()> {
        let mut state = self.state(Call::Asynchronous)?;
        let memory = &mut state.memory;
        let destroyed = match kind {
            Kind::Texture => memory.global.destroy_texture(handle),
            Kind::Surface => memory.global.destroy_surface(handle),
        };
        let gone = memory.objects.remove(&handle).is_none();
        destroyed.map_err(|error| {
            let problem = if gone { Problem::DoubleFree } else { Problem::InvalidFree };
            memory_error(error).of(problem)
        })
    }
}

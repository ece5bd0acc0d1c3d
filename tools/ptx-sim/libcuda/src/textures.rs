//! Texture and surface objects.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ptx_sim::{AddressMode, Filter, Sampler};
use sim_device::{Error, Resource, Result};

use crate::arrays::{array, format};
use crate::border::driver_api;
use crate::driver::current;
use crate::types::{Handle, In, Out};

/// `CUtexObject`, `CUsurfObject`: the values that kernels receive.
type Object = u64;

/// `CU_RESOURCE_TYPE_ARRAY`, `_MIPMAPPED_ARRAY`, `_LINEAR`, `_PITCH2D`.
const ARRAY: u32 = 0;
const MIPMAPPED: u32 = 1;
const LINEAR: u32 = 2;
const PITCHED: u32 = 3;

/// `CU_TRSF_READ_AS_INTEGER`, `_NORMALIZED_COORDINATES`, `_SRGB`; trilinear optimisation and seamless cubemaps have no effect here.
const READ_AS_INTEGER: u32 = 1;
const NORMALIZED_COORDINATES: u32 = 2;
const SRGB: u32 = 0x10;
const WITHOUT_EFFECT: u32 = 0x60;

/// `CUDA_RESOURCE_DESC`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ResourceDescriptor {
    kind: u32,
    /// Handle of an array; or address, format, number of channels, and sizes.
    words: [u64; 16],
    flags: u32,
}

/// `CUDA_TEXTURE_DESC`.
#[repr(C)]
#[derive(Clone, Copy)]
struct TextureDescriptor {
    address: [u32; 3],
    filter: u32,
    flags: u32,
    anisotropy: u32,
    mipmap_filter: u32,
    mipmap_bias: f32,
    mipmap_limits: [f32; 2],
    border: [f32; 4],
    reserved: [u32; 12],
}

impl ResourceDescriptor {
    fn resource(&self) -> Result<Resource> {
        let [address, channel, width, height, pitch, ..] = self.words;
        let format = || format(channel as u32, (channel >> 32) as u32);
        if self.flags != 0 {
            return Err(Error::invalid(format!("the flags of a resource are {:#x}; they have to be 0", self.flags)));
        }
        match self.kind {
            ARRAY => Ok(Resource::Array(array(Handle(address as usize))?)),
            MIPMAPPED => Err(Error::unsupported("mipmapped arrays are not simulated")),
            LINEAR => Ok(Resource::Linear { address, bytes: width, format: format()? }),
            PITCHED => Ok(Resource::Pitched { address, extent: [width, height], pitch, format: format()? }),
            kind => Err(Error::invalid(format!("{kind} is no kind of resource"))),
        }
    }
}

impl TextureDescriptor {
    fn sampler(&self) -> Result<Sampler> {
        let modes = [AddressMode::Wrap, AddressMode::Clamp, AddressMode::Mirror, AddressMode::Border];
        let mut address = [AddressMode::Clamp; 3];
        for (mode, number) in address.iter_mut().zip(self.address) {
            let known = modes.get(number as usize);
            *mode = *known.ok_or_else(|| Error::invalid(format!("{number} is no address mode")))?;
        }
        let filter = match self.filter {
            0 => Filter::Point,
            1 => Filter::Linear,
            number => return Err(Error::invalid(format!("{number} is no filter mode"))),
        };
        if self.flags & SRGB != 0 {
            return Err(Error::unsupported("textures of sRGB values are not simulated"));
        }
        if self.flags & !(READ_AS_INTEGER | NORMALIZED_COORDINATES | WITHOUT_EFFECT) != 0 {
            return Err(Error::invalid(format!("the flags of a texture are {:#x}", self.flags)));
        }
        Ok(Sampler {
            address,
            filter,
            normalized_coordinates: self.flags & NORMALIZED_COORDINATES != 0,
            normalized_values: self.flags & READ_AS_INTEGER == 0,
            border: self.border,
        })
    }
}

/// Descriptors of live objects, for queries.
#[derive(Clone, Copy)]
enum Known {
    Texture(ResourceDescriptor, TextureDescriptor),
    Surface(ResourceDescriptor),
}

static KNOWN: Mutex<Option<HashMap<Object, Known>>> = Mutex::new(None);

fn remember(object: Object, known: Known) {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(object, known);
}

/// The descriptor of an object of the current context.
fn known(object: Object) -> Result<Known> {
    let is_live = current()?.has_object(object);
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.as_ref().and_then(|known| known.get(&object).copied()).filter(|_| is_live);
    known.ok_or_else(|| Error::invalid(format!("{object:#x} is no object of this context")))
}

fn forget(object: Object) {
    if let Some(known) = &mut *KNOWN.lock().unwrap_or_else(PoisonError::into_inner) {
        known.remove(&object);
    }
}

fn texture(object: Object) -> Result<(ResourceDescriptor, TextureDescriptor)> {
    match known(object)? {
        Known::Texture(resource, texture) => Ok((resource, texture)),
        Known::Surface(_) => Err(Error::invalid(format!("{object:#x} is a surface object"))),
    }
}

driver_api! {
    fn cuTexObjectCreate(result: Out<Object>, resource: In<ResourceDescriptor>, texture: In<TextureDescriptor>, view: In<u8>) {
        let context = current()?;
        result.require()?;
        if !view.is_null() {
            return Err(Error::unsupported("a resource view (another format or part of an array) is not simulated"));
        }
        let (resource, texture) = (resource.get()?, texture.get()?);
        let object = context.create_texture("cuTexObjectCreate", &resource.resource()?, texture.sampler()?)?;
        remember(object, Known::Texture(resource, texture));
        result.set(object)
    }

    fn cuTexObjectDestroy(object: Object) {
        current()?.destroy_texture(object)?;
        forget(object);
        Ok(())
    }

    fn cuTexObjectGetResourceDesc(result: Out<ResourceDescriptor>, object: Object) {
        result.set(texture(object)?.0)
    }

    fn cuTexObjectGetTextureDesc(result: Out<TextureDescriptor>, object: Object) {
        result.set(texture(object)?.1)
    }

    fn cuTexObjectGetResourceViewDesc(_result: Out<u8>, object: Object) {
        texture(object)?;
        Err(Error::invalid("the texture has no resource view"))
    }

    fn cuSurfObjectCreate(result: Out<Object>, resource: In<ResourceDescriptor>) {
        let context = current()?;
        result.require()?;
        let descriptor = resource.get()?;
        let Resource::Array(array) = descriptor.resource()? else {
            return Err(Error::invalid("surfaces are made of arrays only"));
        };
        let object = context.create_surface("cuSurfObjectCreate", &array)?;
        remember(object, Known::Surface(descriptor));
        result.set(object)
    }

    fn cuSurfObjectDestroy(object: Object) {
        current()?.destroy_surface(object)?;
        forget(object);
        Ok(())
    }

    fn cuSurfObjectGetResourceDesc(result: Out<ResourceDescriptor>, object: Object) {
        match known(object)? {
            Known::Surface(resource) => result.set(resource),
            Known::Texture(..) => Err(Error::invalid(format!("{object:#x} is a texture object"))),
        }
    }
}

//! Texture and surface objects; the runtime's descriptors differ from the driver's.

use std::ffi::c_void;

use crate::arrays::ChannelDescriptor;
use crate::context::enter;
use crate::driver::call;
use crate::status::{Result, Status, put, runtime_api};

/// `cudaTextureObject_t`, `cudaSurfaceObject_t`.
type Object = u64;

/// `cudaResourceTypeLinear` and `cudaResourceTypePitch2D`.
const LINEAR: u32 = 2;
const PITCHED: u32 = 3;

/// `CU_TRSF_READ_AS_INTEGER`, `_NORMALIZED_COORDINATES`, `_SRGB`, `_DISABLE_TRILINEAR_OPTIMIZATION`, `_SEAMLESS_CUBEMAP`.
const READ_AS_INTEGER: u32 = 1;
const FLAGS: [u32; 4] = [2, 0x10, 0x20, 0x40];

/// `cudaResourceDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Resource {
    kind: u32,
    /// An array, or an address.
    place: u64,
    channel: ChannelDescriptor,
    /// Bytes of linear memory, or texels per row.
    size: u64,
    height: u64,
    pitch: u64,
    rest: [u64; 9],
    flags: u32,
}

/// `cudaTextureDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Texture {
    address: [u32; 3],
    filter: u32,
    /// Whether integers are read as normalised floats.
    normalizes: u32,
    is_srgb: u32,
    border: [f32; 4],
    has_normalized_coordinates: u32,
    anisotropy: u32,
    mipmap_filter: u32,
    mipmap_bias: f32,
    mipmap_limits: [f32; 2],
    is_trilinear_exact: u32,
    is_seamless: u32,
}

/// `CUDA_RESOURCE_DESC`.
#[repr(C)]
#[derive(Default)]
struct DriverResource {
    kind: u32,
    words: [u64; 16],
    flags: u32,
}

/// `CUDA_TEXTURE_DESC`.
#[repr(C)]
#[derive(Default)]
struct DriverTexture {
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

const _: () = assert!(size_of::<Resource>() == 144 && size_of::<DriverResource>() == 144);
const _: () = assert!(size_of::<Texture>() == 72 && size_of::<DriverTexture>() == 104);

impl Resource {
    fn for_driver(&self) -> Result<DriverResource> {
        let mut words = [0; 16];
        words[0] = self.place;
        if matches!(self.kind, LINEAR | PITCHED) {
            let (format, channels) = self.channel.format()?;
            words[1] = u64::from(format) | u64::from(channels) << 32;
            words[2..5].copy_from_slice(&[self.size, self.height, self.pitch]);
        }
        Ok(DriverResource { kind: self.kind, words, flags: self.flags })
    }

    fn of_driver(found: &DriverResource) -> Resource {
        let [place, channel, size, height, pitch, ..] = found.words;
        let (channel, [size, height, pitch]) = match found.kind {
            LINEAR => (ChannelDescriptor::of(channel as u32, (channel >> 32) as u32), [size, 0, 0]),
            PITCHED => (ChannelDescriptor::of(channel as u32, (channel >> 32) as u32), [size, height, pitch]),
            _ => (ChannelDescriptor::default(), [0; 3]),
        };
        Resource { kind: found.kind, place, channel, size, height, pitch, rest: [0; 9], flags: found.flags }
    }

    /// Format of the texels that are read; `None` unless the resource is memory or a live array.
    fn texels(&self) -> Option<ChannelDescriptor> {
        if matches!(self.kind, LINEAR | PITCHED) {
            return Some(self.channel);
        }
        let mut found = ChannelDescriptor::default();
        // SAFETY: the pointer is to a local value.
        let status = unsafe { crate::arrays::cudaGetChannelDesc(&mut found, self.place as usize) };
        (self.kind == 0 && status == 0).then_some(found)
    }
}

impl Texture {
    fn for_driver(&self) -> DriverTexture {
        let switches = [self.has_normalized_coordinates, self.is_srgb, self.is_trilinear_exact, self.is_seamless];
        let flags = FLAGS.into_iter().zip(switches).filter(|(_, is_on)| *is_on != 0).map(|(flag, _)| flag);
        let reads = if self.normalizes == 0 { READ_AS_INTEGER } else { 0 };
        DriverTexture {
            address: self.address,
            filter: self.filter,
            flags: flags.sum::<u32>() | reads,
            anisotropy: self.anisotropy,
            mipmap_filter: self.mipmap_filter,
            mipmap_bias: self.mipmap_bias,
            mipmap_limits: self.mipmap_limits,
            border: self.border,
            reserved: [0; 12],
        }
    }

    fn of_driver(found: &DriverTexture) -> Texture {
        let [has_normalized_coordinates, is_srgb, is_trilinear_exact, is_seamless] =
            FLAGS.map(|flag| u32::from(found.flags & flag != 0));
        Texture {
            address: found.address,
            filter: found.filter,
            normalizes: u32::from(found.flags & READ_AS_INTEGER == 0),
            is_srgb,
            border: found.border,
            has_normalized_coordinates,
            anisotropy: found.anisotropy,
            mipmap_filter: found.mipmap_filter,
            mipmap_bias: found.mipmap_bias,
            mipmap_limits: found.mipmap_limits,
            is_trilinear_exact,
            is_seamless,
        }
    }

    /// The runtime's own checks, before it calls the driver.
    fn check(&self, texels: ChannelDescriptor, kind: u32) -> Result<()> {
        let (bits, is_float) = texels.channel();
        if self.normalizes != 0 && !is_float && bits == 32 {
            return Err(Status::INVALID_NORM);
        }
        match self.filter != 0 && !is_float && self.normalizes == 0 && kind != LINEAR {
            true => Err(Status::INVALID_FILTER),
            false => Ok(()),
        }
    }
}

fn resource(given: *const Resource) -> Result<Resource> {
    // SAFETY: not null, so the program provides a descriptor.
    unsafe { given.as_ref() }.copied().ok_or(Status::INVALID_VALUE)
}

/// Pointer to a descriptor for the driver to fill.
fn described<T: Default>(describe: impl FnOnce(*mut c_void) -> Result<()>) -> Result<T> {
    enter()?;
    let mut found = T::default();
    describe((&raw mut found).cast())?;
    Ok(found)
}

runtime_api! {
    fn cudaCreateTextureObject(
        result: *mut Object,
        from: *const Resource,
        texture: *const Texture,
        view: *const c_void,
    ) {
        enter()?;
        let from = resource(from)?;
        // SAFETY: not null, so the program provides a descriptor.
        let texture = unsafe { texture.as_ref() }.ok_or(Status::INVALID_VALUE)?;
        if let Some(texels) = from.texels() {
            texture.check(texels, from.kind)?;
        }
        let (from, texture) = (from.for_driver()?, texture.for_driver());
        call!(cuTexObjectCreate(result, (&raw const from).cast(), (&raw const texture).cast(), view))
    }

    fn cudaDestroyTextureObject(object: Object) {
        enter()?;
        if object == 0 { Ok(()) } else { call!(cuTexObjectDestroy(object)) }
    }

    fn cudaGetTextureObjectResourceDesc(result: *mut Resource, object: Object) {
        let found: DriverResource = described(|place| call!(cuTexObjectGetResourceDesc(place, object)))?;
        put(result, Resource::of_driver(&found))
    }

    fn cudaGetTextureObjectTextureDesc(result: *mut Texture, object: Object) {
        let found: DriverTexture = described(|place| call!(cuTexObjectGetTextureDesc(place, object)))?;
        put(result, Texture::of_driver(&found))
    }

    fn cudaCreateSurfaceObject(result: *mut Object, from: *const Resource) {
        enter()?;
        let from = resource(from)?.for_driver()?;
        call!(cuSurfObjectCreate(result, (&raw const from).cast()))
    }

    fn cudaDestroySurfaceObject(object: Object) {
        enter()?;
        if object == 0 { Ok(()) } else { call!(cuSurfObjectDestroy(object)) }
    }

    fn cudaGetSurfaceObjectResourceDesc(result: *mut Resource, object: Object) {
        let found: DriverResource = described(|place| call!(cuSurfObjectGetResourceDesc(place, object)))?;
        put(result, Resource::of_driver(&found))
    }
}

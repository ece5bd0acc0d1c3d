//! CUDA arrays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ptx_sim::{Geometry, TexelFormat, Texels};

use crate::code::Code;
use crate::context::{Call, Context};
use crate::error::{Error, Result};
use crate::memory::grouped;
use crate::problem::Problem;

/// The array has layers, as many as its depth (`CUDA_ARRAY3D_LAYERED`).
pub const LAYERED: u32 = 1;
/// Surfaces of it can be made (`CUDA_ARRAY3D_SURFACE_LDST`).
pub const SURFACES: u32 = 2;
/// `CUDA_ARRAY3D_TEXTURE_GATHER`.
const GATHER: u32 = 8;

/// Largest extent of each geometry (CUDA C++ Programming Guide, "Compute Capabilities"; as an H100 has them).
pub(crate) fn largest_extent(geometry: Geometry) -> [u32; 3] {
    match geometry {
        Geometry::Line => [131_072, 1, 1],
        Geometry::Plane => [131_072, 65_536, 1],
        Geometry::Volume => [16_384; 3],
        Geometry::Lines => [32_768, 1, 2048],
        Geometry::Planes => [32_768, 32_768, 2048],
    }
}

/// What a program asks for (`CUDA_ARRAY3D_DESCRIPTOR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayDescriptor {
    /// Width, height and depth or layers; 0 for a dimension that is not there.
    pub extent: [u64; 3],
    /// What the texels are.
    pub format: TexelFormat,
    /// [`LAYERED`], [`SURFACES`] and others.
    pub flags: u32,
}

impl ArrayDescriptor {
    /// The geometry; which of the dimensions contradict the others, otherwise.
    fn geometry(&self) -> Result<Geometry> {
        let is_layered = self.flags & LAYERED != 0;
        match (self.extent.map(|size| size > 0), is_layered) {
            ([true, false, false], false) => Ok(Geometry::Line),
            ([true, true, false], false) => Ok(Geometry::Plane),
            ([true, true, true], false) => Ok(Geometry::Volume),
            ([true, false, true], true) => Ok(Geometry::Lines),
            ([true, true, true], true) => Ok(Geometry::Planes),
            _ => {
                let kind = if is_layered { "a layered array" } else { "an array" };
                Err(Error::invalid(format!("{kind} of {:?} texels", self.extent)))
            }
        }
    }

    /// The geometry and the extent, with 1 for dimensions that are not there.
    fn check(&self) -> Result<(Geometry, [u64; 3])> {
        if self.flags & !(LAYERED | SURFACES | GATHER) != 0 {
            return Err(Error::unsupported(format!(
                "an array with the flags {:#x}: cubemaps, sparse and deferred arrays are not simulated",
                self.flags
            )));
        }
        let geometry = self.geometry()?;
        let (extent, largest) = (self.extent.map(|size| size.max(1)), largest_extent(geometry));
        if extent.iter().zip(largest).any(|(size, most)| *size > most.into()) {
            let text = format!("an array of {:?} texels; at most {largest:?} are possible", self.extent);
            return Err(Error::invalid(text));
        }
        Ok((geometry, extent))
    }
}

/// A CUDA array (`CUarray`).
pub struct Array {
    context: Arc<Context>,
    descriptor: ArrayDescriptor,
    texels: Texels,
    name: String,
    is_live: AtomicBool,
}

impl Context {
    /// Allocates an array for `owner`, as in `cuArrayCreate_v2`.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] for a shape that none has; [`Code::NOT_SUPPORTED`]; [`Code::OUT_OF_MEMORY`]; as
    /// [`Context::check`].
    pub fn create_array(self: &Arc<Self>, owner: &str, descriptor: ArrayDescriptor) -> Result<Arc<Array>> {
        let (geometry, extent) = descriptor.check()?;
        let number = self.machine().next_allocation();
        let from = self.machine().caller("");
        let shape = Texels::array(geometry, extent, descriptor.format);
        let name = format!("array {number} of {}, by {owner}{from}", with_thousands(&shape.describe()));
        let texels = self.allocate_array(number, &name, &shape)?;
        let is_live = AtomicBool::new(true);
        Ok(Arc::new(Array { context: self.clone(), descriptor, texels, name, is_live }))
    }
}

/// A text whose numbers are grouped.
fn with_thousands(text: &str) -> String {
    let group = |word: &str| word.parse::<u64>().map_or_else(|_| word.to_owned(), grouped);
    text.split(' ').map(group).collect::<Vec<_>>().join(" ")
}

impl Array {
    /// What was asked for.
    pub fn descriptor(&self) -> &ArrayDescriptor {
        &self.descriptor
    }

    /// Where its texels are.
    pub fn texels(&self) -> &Texels {
        &self.texels
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Requires that it was not destroyed.
    ///
    /// # Errors
    /// [`Code::INVALID_HANDLE`].
    pub fn check_live(&self) -> Result<()> {
        if self.is_live.load(Relaxed) {
            return Ok(());
        }
        let text = format!("{}, which was destroyed before", self.name);
        Err(Error::new(Code::INVALID_HANDLE, text).of(Problem::UseAfterFree))
    }

    /// Destroys it (`cuArrayDestroy`).
    ///
    /// # Errors
    /// [`Code::INVALID_HANDLE`] when it was destroyed before; as [`Context::check`].
    pub fn destroy(&self) -> Result<()> {
        self.check_live().map_err(|error| error.of(Problem::DoubleFree))?;
        self.context.free_array(self.texels.address)?;
        self.is_live.store(false, Relaxed);
        Ok(())
    }

    /// The offset of the first byte of a part of a row: `bytes` bytes from byte `x` of row `y` of layer or slice `z`.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] when it does not lie in the array, or cuts a texel; [`Code::INVALID_HANDLE`] when the array was
    /// destroyed.
    pub fn offset(&self, [x, y, z]: [u64; 3], bytes: u64) -> Result<u64> {
        self.check_live()?;
        let (texels, name) = (&self.texels, &self.name);
        let size = texels.format.bytes();
        if !x.is_multiple_of(size) || !bytes.is_multiple_of(size) {
            return Err(Error::invalid(format!("{bytes} bytes from byte {x} of a row of {name}: texels are cut")));
        }
        let is_inside = x.checked_add(bytes).is_some_and(|end| end <= texels.row_bytes());
        if !is_inside || y >= texels.extent[1] || z >= texels.extent[2] {
            let text = format!(
                "{bytes} bytes from byte {x} of row {y} of layer or slice {z} of {name}, which has {} bytes in a row",
                texels.row_bytes()
            );
            return Err(Error::invalid(text).of(Problem::OutOfBounds));
        }
        Ok(texels.place(x, y, z) - texels.address)
    }

    /// The bytes in a row, and how many rows the whole array has: one behind the other as copies without coordinates count them
    /// (`cuMemcpyHtoA`).
    pub fn rows(&self) -> (u64, u64) {
        (self.texels.row_bytes(), self.texels.extent[1] * self.texels.extent[2])
    }

    /// An array has no address that a program could know: only copies of its context ask for one.
    pub(crate) fn address(&self, offset: u64, call: Call) -> Result<u64> {
        self.check_live()?;
        self.context.check(call)?;
        Ok(self.texels.address + offset)
    }
}

//! CUDA arrays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ptx_sim::{Geometry, Texels};

use crate::code::Code;
use crate::error::{Error, Result};
use crate::memory::grouped;
use crate::objects::{Array, ArrayDescriptor, Call, Context};
use crate::problem::Problem;

/// The array is layered and its depth is the number of layers (`CUDA_ARRAY3D_LAYERED`).
pub const LAYERED: u32 = 1;
/// Surface objects can be made of the array (`CUDA_ARRAY3D_SURFACE_LDST`).
pub const SURFACES: u32 = 2;
/// `CUDA_ARRAY3D_TEXTURE_GATHER`.
const GATHER: u32 = 8;

/// Largest extent of each geometry (CUDA C++ Programming Guide, "Compute Capabilities"; values of an H100).
pub(crate) fn largest_extent(geometry: Geometry) -> [u32; 3] {
    match geometry {
        Geometry::Line => [131_072, 1, 1],
        Geometry::Plane => [131_072, 65_536, 1],
        Geometry::Volume => [16_384; 3],
        Geometry::Lines => [32_768, 1, 2048],
        Geometry::Planes => [32_768, 32_768, 2048],
    }
}

impl ArrayDescriptor {
    /// The geometry; an error names the dimensions that contradict each other.
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

    /// The geometry and the extent, with 1 for absent dimensions.
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

impl Context {
    /// Allocates an array for `owner`, as in `cuArrayCreate_v2`.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] for an impossible shape; [`Code::NOT_SUPPORTED`]; [`Code::OUT_OF_MEMORY`]; those of
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

/// `text` with thousands separators in its numbers.
fn with_thousands(text: &str) -> String {
    let group = |word: &str| word.parse::<u64>().map_or_else(|_| word.to_owned(), grouped);
    text.split(' ').map(group).collect::<Vec<_>>().join(" ")
}

impl Array {
    /// The descriptor that it was created with.
    pub fn descriptor(&self) -> &ArrayDescriptor {
        &self.descriptor
    }

    /// Layout and place of its texels.
    pub fn texels(&self) -> &Texels {
        &self.texels
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Requires that it has not been destroyed.
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
    /// [`Code::INVALID_HANDLE`] if it was destroyed before; those of [`Context::check`].
    pub fn destroy(&self) -> Result<()> {
        self.check_live().map_err(|error| error.of(Problem::DoubleFree))?;
        self.context.free_array(self.texels.address)?;
        self.is_live.store(false, Relaxed);
        Ok(())
    }

    /// The offset of the first byte of a part of a row: `bytes` bytes from byte `x` of row `y` of layer or slice `z`.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] if the part lies outside the array or cuts a texel; [`Code::INVALID_HANDLE`] if the
    /// array was destroyed.
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

    /// Bytes per row, and number of rows of the whole array. Copies without coordinates (`cuMemcpyHtoA`) treat the rows
    /// as contiguous.
    pub fn rows(&self) -> (u64, u64) {
        (self.texels.row_bytes(), self.texels.extent[1] * self.texels.extent[2])
    }

    /// Device address of byte `offset`. Programs cannot know an array's address: only copies of its own context ask for
    /// one.
    pub(crate) fn address(&self, offset: u64, call: Call) -> Result<u64> {
        self.check_live()?;
        self.context.check(call)?;
        Ok(self.texels.address + offset)
    }
}

//! Tensor maps (`cuTensorMapEncodeTiled`), which the bindings lack.

use std::ffi::c_void;

/// A tensor map in the hardware's format (`CUtensorMap`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct TensorMap(pub [u8; 128]);

/// A tensor in device memory and the box that one copy moves, without interleaving. Elements outside the tensor read as
/// zeros. The first dimension is the contiguous one.
#[derive(Clone, Copy, Debug)]
pub struct Tiled<'a> {
    /// Type of the elements, a `CUtensorMapDataType`.
    pub element: u32,
    /// Device address of the first element.
    pub address: u64,
    /// Elements in each dimension.
    pub sizes: &'a [u64],
    /// Bytes between neighbours in each dimension but the first.
    pub strides: &'a [u64],
    /// Elements of the box in each dimension.
    pub box_sizes: &'a [u32],
    /// Element stride in each dimension: n copies every n-th element.
    pub element_strides: &'a [u32],
    /// Swizzle of the box in shared memory, a `CUtensorMapSwizzle`.
    pub swizzle: u32,
}

/// `CUDA_ERROR_INVALID_VALUE`.
const INVALID_VALUE: u32 = 1;
/// `CU_TENSOR_MAP_L2_PROMOTION_L2_128B`: L2 fetches whole 128-byte lines for a copy.
const L2_PROMOTION_128_BYTES: u32 = 2;

impl Tiled<'_> {
    /// Encodes the tensor map.
    ///
    /// # Errors
    /// The driver's code: `CUDA_ERROR_INVALID_VALUE`, also for arrays whose lengths contradict each other, or
    /// [`crate::CUDA_ERROR_NOT_SUPPORTED`] from a driver older than CUDA 12.0.
    pub fn encode(&self) -> Result<TensorMap, u32> {
        let rank = self.sizes.len();
        if [self.strides.len() + 1, self.box_sizes.len(), self.element_strides.len()] != [rank; 3] {
            return Err(INVALID_VALUE);
        }
        let mut map = TensorMap([0; 128]);
        // SAFETY: the result goes to a live `CUtensorMap`, and the arrays have `rank` elements (`rank - 1` for the strides).
        let code = unsafe {
            cuTensorMapEncodeTiled(
                &mut map,
                self.element,
                rank as u32,
                std::ptr::without_provenance_mut(self.address as usize),
                self.sizes.as_ptr(),
                self.strides.as_ptr(),
                self.box_sizes.as_ptr(),
                self.element_strides.as_ptr(),
                0,
                self.swizzle,
                L2_PROMOTION_128_BYTES,
                0,
            )
        };
        if code == 0 { Ok(map) } else { Err(code) }
    }
}

unsafe extern "C" {
    fn cuTensorMapEncodeTiled(
        map: *mut TensorMap,
        element: u32,
        rank: u32,
        address: *mut c_void,
        sizes: *const u64,
        strides: *const u64,
        box_sizes: *const u32,
        element_strides: *const u32,
        interleave: u32,
        swizzle: u32,
        l2_promotion: u32,
        fill: u32,
    ) -> u32;
}

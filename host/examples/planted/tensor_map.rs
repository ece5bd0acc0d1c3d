//! Tensor maps of planted kernels (CUDA driver API, `cuTensorMapEncodeTiled`).

use std::ffi::{c_int, c_void};

use kernel_gpu::planted::{Swizzle, TensorMap};

/// A `CUtensorMap`.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Encoded(pub [u8; 128]);

/// The map of the tensor at `address`.
///
/// # Errors
/// When the driver does not accept the map, or is older than CUDA 12.0.
pub fn encode(map: TensorMap, address: u64) -> Result<Encoded, String> {
    const WORDS: c_int = 2;
    let swizzle = match map.swizzle {
        Swizzle::None => 0,
        Swizzle::Bytes128 => 3,
    };
    let mut encoded = Encoded([0; 128]);
    let sizes = [u64::from(map.columns), u64::from(map.rows)];
    let (strides, box_sizes, element_strides) = ([map.pitch()], [map.box_columns, map.box_rows], [1, 1]);
    // SAFETY: the results go to a live `CUtensorMap`, and the arrays are as long as the rank says, with one stride less.
    let code = unsafe {
        cuTensorMapEncodeTiled(
            &mut encoded,
            WORDS,
            sizes.len() as u32,
            std::ptr::without_provenance_mut(address as usize),
            sizes.as_ptr(),
            strides.as_ptr(),
            box_sizes.as_ptr(),
            element_strides.as_ptr(),
            0,
            swizzle,
            0,
            0,
        )
    };
    match code {
        0 => Ok(encoded),
        code => Err(format!("cuTensorMapEncodeTiled: CUDA error {code}")),
    }
}

unsafe extern "C" {
    fn cuTensorMapEncodeTiled(
        map: *mut Encoded,
        element: c_int,
        rank: u32,
        address: *mut c_void,
        sizes: *const u64,
        strides: *const u64,
        box_sizes: *const u32,
        element_strides: *const u32,
        interleave: c_int,
        swizzle: c_int,
        l2_promotion: c_int,
        fill: c_int,
    ) -> c_int;
}

//! Tensor maps of planted kernels.

use libcuda_delay_load::tensor_map::{self, Tiled};
use planted::{Swizzle, TensorMap};

/// `CU_TENSOR_MAP_DATA_TYPE_UINT32`.
const WORDS: u32 = 2;

/// The map of the tensor at `address`.
///
/// # Errors
/// When the driver does not accept the map, or is older than CUDA 12.0.
pub fn encode(map: TensorMap, address: u64) -> Result<tensor_map::TensorMap, String> {
    let tiled = Tiled {
        element: WORDS,
        address,
        sizes: &[map.columns.into(), map.rows.into()],
        strides: &[map.pitch()],
        box_sizes: &[map.box_columns, map.box_rows],
        element_strides: &[1, 1],
        swizzle: match map.swizzle {
            Swizzle::None => 0,
            Swizzle::Bytes128 => 3,
        },
    };
    tiled.encode().map_err(|code| format!("cuTensorMapEncodeTiled: CUDA error {code}"))
}

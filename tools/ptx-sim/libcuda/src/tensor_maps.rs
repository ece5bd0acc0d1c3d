//! Tensor maps.

use ptx_sim::{Swizzle, TENSOR_MAP_BYTES, TensorElement, TensorMap};
use sim_device::{Error, Result};

use crate::border::driver_api;
use crate::types::{DevicePointer, In, Out};

/// Numbers of values of `CUtensorMapDataType`, `CUtensorMapInterleave`, `CUtensorMapSwizzle`, `CUtensorMapL2promotion` and
/// `CUtensorMapFloatOOBfill`.
const NUMBERS: [(&str, u32); 5] =
    [("element type", 16), ("interleave", 3), ("swizzle", 7), ("L2 promotion", 4), ("fill", 2)];

/// Size of a tensor map, bytes; its alignment is 64.
type MapBytes = [u8; TENSOR_MAP_BYTES];

/// The value of `values` with a number; `what` names it in messages.
fn pick<T: Copy>(values: &[T], number: u32, what: &str) -> Result<T> {
    let value = values.get(number as usize).copied();
    value.ok_or_else(|| Error::unsupported(format!("{what} {number} is not simulated")))
}

driver_api! {
    fn cuTensorMapEncodeTiled(
        result: Out<MapBytes>,
        element: u32,
        rank: u32,
        address: DevicePointer,
        sizes: In<u64>,
        strides: In<u64>,
        box_sizes: In<u32>,
        element_strides: In<u32>,
        interleave: u32,
        swizzle: u32,
        l2_promotion: u32,
        fill: u32,
    ) {
        result.require()?;
        for ((what, count), number) in NUMBERS.into_iter().zip([element, interleave, swizzle, l2_promotion, fill]) {
            if number >= count {
                return Err(Error::invalid(format!("{number} is no {what}")));
            }
        }
        if !(1..=5).contains(&rank) {
            return Err(Error::invalid(format!("{rank} dimensions; 1 to 5 are possible")));
        }
        if !result.is_aligned(64) {
            return Err(Error::invalid("the place for the tensor map is not a multiple of 64"));
        }
        let rank = rank as usize;
        if interleave != 0 {
            return Err(Error::unsupported("interleaved tensor maps are not simulated"));
        }
        if fill != 0 {
            return Err(Error::unsupported("tensor maps that fill with NaN are not simulated"));
        }
        let map = TensorMap {
            // The remaining types flush subnormals, round to TF32, or have fewer than 8 bits.
            element: pick(&TensorElement::ALL, element, "element type")?,
            address,
            sizes: sizes.all(rank)?,
            strides: strides.all(rank - 1)?,
            box_sizes: box_sizes.all(rank)?,
            element_strides: element_strides.all(rank)?,
            swizzle: pick(&Swizzle::ALL, swizzle, "swizzle")?,
        };
        let bytes = map.encode("tensor map").map_err(|error| Error::invalid(error.to_string()))?;
        result.set(bytes)
    }
}

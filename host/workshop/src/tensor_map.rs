//! Tensor maps of Q, K, V and O, through which kernels with [`Loads::Tma`](contract::config::Loads::Tma) load and store
//! them.
//!
//! Every map has four dimensions, `[batch, head, row, column]` with the column innermost, and a box of
//! [`TENSOR_MAP_ROWS`] whole rows with the 128-byte swizzle of the kernels' shared tiles. Rows beyond the sequence read
//! as zeros and are not written.

use contract::args::{Strides, TENSOR_MAP_ROWS};
use contract::config::{HEAD_DIM, ROW_BYTES};
use half::f16;
use ptx_sim::{Swizzle, TensorElement, TensorMap};

use crate::error::{Error, Result};
use crate::problem::{Problem, Shape};

/// Strides of a tensor map, in bytes, are below this (CUDA driver API, `cuTensorMapEncodeTiled`). They may be 0 and in any
/// order: what an H200 copied through such maps is among the vectors of `tools/ptx-conformance`.
const STRIDE_LIMIT: u64 = 1 << 40;

/// The map of the tensor of `shape` with `strides` whose first element is at `address`.
pub fn describe(shape: Shape, strides: Strides, address: u64) -> TensorMap {
    let dimensions = dimensions(shape, strides);
    TensorMap {
        element: TensorElement::F16,
        address,
        sizes: [u64::from(HEAD_DIM)].into_iter().chain(dimensions.map(|(_, size, _)| size)).collect(),
        strides: dimensions.map(|(_, size, bytes)| if size > 1 { bytes } else { ROW_BYTES.into() }).to_vec(),
        box_sizes: vec![HEAD_DIM, TENSOR_MAP_ROWS, 1, 1],
        element_strides: vec![1; 4],
        swizzle: Swizzle::Bytes128,
    }
}

/// Requires that tensor maps can describe the tensors of `problem`.
///
/// # Errors
/// [`Error::Invalid`] with the stride that cannot be described; `kernel` is the one that copies through maps.
pub fn check(kernel: &str, problem: &Problem) -> Result<()> {
    let strides = problem.strides();
    for (name, strides) in [("Q", strides.q), ("K", strides.k), ("V", strides.v), ("O", strides.o)] {
        for (dimension, size, bytes) in dimensions(problem.shape(), strides) {
            if size > 1 && bytes >= STRIDE_LIMIT {
                return Err(Error::Invalid(format!(
                    "{kernel} copies {name} through a tensor map, which cannot describe its {dimension} stride of \
                     {bytes} bytes; it must be below {STRIDE_LIMIT}"
                )));
            }
        }
    }
    Ok(())
}

/// Name, size and stride in bytes of the dimensions but for the columns, the innermost first.
fn dimensions(shape: Shape, strides: Strides) -> [(&'static str, u64, u64); 3] {
    [("row", shape.sequence, strides.row), ("head", shape.heads, strides.head), ("batch", shape.batch, strides.batch)]
        .map(|(name, size, stride)| (name, size.into(), stride.saturating_mul(size_of::<f16>() as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Layout, TensorStrides};
    use contract::config::Mask;

    const SHAPE: Shape = Shape { batch: 2, heads: 3, sequence: 100 };

    /// A problem whose K has these strides.
    fn problem(shape: Shape, k: Strides) -> Problem {
        let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap();
        problem.with_strides(TensorStrides { k, ..*problem.strides() }).unwrap()
    }

    #[test]
    fn dimensions_are_those_of_the_tensor_in_either_layout() {
        for (layout, expected) in
            [(Layout::Bhsd, [128, 100 * 128, 300 * 128]), (Layout::Bshd, [3 * 128, 128, 300 * 128])]
        {
            let map = describe(SHAPE, layout.strides(SHAPE).unwrap(), 4096);
            assert_eq!((map.address, map.sizes), (4096, vec![64, 100, 3, 2]), "{layout:?}");
            assert_eq!(map.strides, expected, "{layout:?}");
        }
    }

    #[test]
    fn a_box_is_a_part_of_a_shared_tile() {
        let map = describe(SHAPE, Layout::Bhsd.strides(SHAPE).unwrap(), 4096);
        assert_eq!(map.box_sizes.iter().product::<u32>() * 2, TENSOR_MAP_ROWS * ROW_BYTES);
        assert_eq!(map.swizzle.row_bytes(), u64::from(ROW_BYTES), "the swizzle's row is the tile's");
    }

    #[test]
    fn the_simulator_accepts_every_map_that_is_not_refused() {
        let one = Shape { batch: 1, heads: 1, sequence: 1 };
        for (shape, k) in [
            (SHAPE, Strides { batch: 19200, head: 6400, row: 64 }),
            (SHAPE, Strides { batch: 8, head: (1 << 39) - 8, row: 72 }),
            (SHAPE, Strides { batch: 0, head: 0, row: 64 }),
            (SHAPE, Strides { batch: 6400, head: 64, row: 0 }),
            (one, Strides { batch: 0, head: 1 << 60, row: 3 }),
        ] {
            let problem = problem(shape, k);
            check("kernel", &problem).unwrap();
            let map = describe(shape, k, 4096);
            ptx_sim::GlobalMemory::new().encode_tensor_map("K", map).unwrap();
        }
    }

    #[test]
    fn strides_that_no_map_describes_are_refused_with_their_name() {
        let contiguous = Layout::Bhsd.strides(SHAPE).unwrap();
        for (k, expected) in [
            (
                Strides { head: 1 << 39, ..contiguous },
                "K through a tensor map, which cannot describe its head stride of 1099511627776 bytes",
            ),
            (Strides { batch: 1 << 40, ..contiguous }, "its batch stride of 2199023255552 bytes"),
        ] {
            let message = check("kernel", &problem(SHAPE, k)).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
        let apart = problem(SHAPE, contiguous);
        let o = Strides { batch: 1 << 40, ..contiguous };
        let apart = apart.with_strides(TensorStrides { o, ..*apart.strides() }).unwrap();
        let message = check("kernel", &apart).unwrap_err().to_string();
        assert!(message.contains("kernel copies O through a tensor map"), "{message}");
    }
}

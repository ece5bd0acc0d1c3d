//! Tensor maps of Q, K, V and O, through which kernels of kind [`Sm90Tma`](crate::schedule::tile::Sm90Tma) load and store
//! them.
//!
//! Every map has four dimensions, `[batch, head, row, column]`, the column innermost. Its box has [`TENSOR_MAP_ROWS`] rows of
//! a panel; the swizzle spans the width of the panel. Rows beyond the sequence and columns beyond the head dimension read as
//! zeros and are not written. Maps of packed sequences have the rows in two dimensions, so that the rows after the
//! sequence that is copied also count as beyond it.

use crate::schedule::tile::sm90_tma::{TENSOR_MAP_COLUMNS, TENSOR_MAP_ROWS, panel_columns};
use crate::spec::config::ELEMENT_BYTES;
use crate::spec::limits::STRIDE_LIMIT;
use crate::spec::problem::Problem;
use crate::spec::refusal::Refusal;
use crate::spec::shape::Shape;
use crate::spec::tensor::{Dimension, Strides, Tensor};
use crate::spec::view::View;

/// `CU_TENSOR_MAP_DATA_TYPE_FLOAT16`, also for bf16: copies move bits, and zero fill is zero in both types.
pub const ELEMENT_TYPE: u32 = 6;
/// `CU_TENSOR_MAP_L2_PROMOTION_L2_128B`: L2 fetches 128 bytes for any part of them that a copy reads.
pub const L2_PROMOTION: u32 = 2;
/// Every element is copied.
pub const ELEMENT_STRIDES: [u32; 4] = [1; 4];

/// Swizzle of the rows of a box in shared memory; spans a whole row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Swizzle {
    /// `CU_TENSOR_MAP_SWIZZLE_64B`.
    Bytes64 = 2,
    /// `CU_TENSOR_MAP_SWIZZLE_128B`.
    Bytes128 = 3,
}

/// A tensor as described to `cuTensorMapEncodeTiled`, without interleaving and with zero fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Device address of the first element.
    pub address: u64,
    /// Elements in each dimension, innermost first.
    pub sizes: [u64; 4],
    /// Strides in bytes of each dimension but the innermost.
    pub strides: [u64; 3],
    /// Columns of a box.
    pub box_columns: u32,
}

impl TensorMap {
    /// The map of Q, K, V or O of `problem`, with first element at address `first`, for tiles of `columns` columns.
    pub fn of(problem: &Problem, tensor: Tensor, first: u64, columns: u32) -> Self {
        Self::of_view(problem, (tensor, problem.views().of(tensor)), first, columns)
    }

    /// The map of a tensor with this view, of those of `problem` or of its gradient, likewise.
    pub fn of_view(problem: &Problem, (tensor, view): (Tensor, View), first: u64, columns: u32) -> Self {
        let map = Self::new(problem.shape().of(tensor), View { offset: 0, ..view }, first, columns);
        match problem.packing() {
            None => map,
            Some(_) => map.of_sequences(),
        }
    }

    /// Box size in elements in each dimension, innermost first.
    pub const fn box_sizes(&self) -> [u32; 4] {
        [self.box_columns, TENSOR_MAP_ROWS, 1, 1]
    }

    /// The swizzle of a box.
    ///
    /// # Panics
    /// When no tile has panels of this many columns.
    pub const fn swizzle(&self) -> Swizzle {
        match self.box_columns {
            32 => Swizzle::Bytes64,
            TENSOR_MAP_COLUMNS => Swizzle::Bytes128,
            _ => panic!("boxes are as wide as a swizzle"),
        }
    }

    /// A map through which the rows of any one sequence are copied, and none after its end: the rows are split into two dimensions of
    /// equal stride. With N rows in total, the coordinates (N − n + i, e) in these two dimensions address row i of the sequence of
    /// length n that ends before row e. That is row e − n + i of the tensor, since the map begins N rows before it. The first
    /// coordinate is outside the map for i ≥ n, whatever the tensor holds there.
    ///
    /// Boxes loaded through it must have an element inside. For a box wholly outside, a GPU reads at the map's address, where there
    /// may be no memory (tools/ptx-sim/docs/conformance.md).
    const fn of_sequences(self) -> Self {
        let [columns, rows, heads, _] = self.sizes;
        let [row, head, _] = self.strides;
        Self {
            // Nothing before the tensor is copied, since e ≥ n.
            address: self.address.wrapping_sub(rows.wrapping_mul(row)),
            sizes: [columns, rows, heads, rows + 1],
            strides: [row, head, row],
            box_columns: self.box_columns,
        }
    }

    /// The map of a tensor of `shape` with `view`, counted from `address`, for tiles of `columns` columns.
    fn new(shape: Shape, view: View, address: u64, columns: u32) -> Self {
        let [row, head, batch] = dimensions(shape, view.strides);
        // For a dimension of size 1 any multiple of 16 is valid.
        let bytes = |(_, size, bytes)| if size > 1 { bytes } else { shape.row_bytes() };
        Self {
            address: address.wrapping_add(view.offset.wrapping_mul(ELEMENT_BYTES)),
            sizes: [shape.head_dim.into(), row.1, head.1, batch.1],
            strides: [bytes(row), bytes(head), bytes(batch)],
            box_columns: panel_columns(columns),
        }
    }
}

/// Checks that tensor maps can describe the tensors of `problem`.
///
/// # Errors
/// [`Refusal::NoTensorMap`] with the stride that cannot be described.
pub fn check(problem: &Problem) -> Result<(), Refusal> {
    problem.views().named().into_iter().try_for_each(|named| check_view(problem.shape(), named))
}

/// [`check`] of one tensor, of a problem of this shape.
///
/// # Errors
/// As for [`check`].
pub fn check_view(shape: Shape, (tensor, view): (Tensor, View)) -> Result<(), Refusal> {
    for (dimension, size, bytes) in dimensions(shape.of(tensor), view.strides) {
        if size > 1 && bytes >= STRIDE_LIMIT {
            return Err(Refusal::NoTensorMap { tensor, dimension, bytes });
        }
    }
    Ok(())
}

/// Name, size and stride in bytes of the dimensions except the columns, innermost first.
fn dimensions(shape: Shape, strides: Strides) -> [(Dimension, u64, u64); 3] {
    [
        (Dimension::Row, shape.sequence, strides.row),
        (Dimension::Head, shape.heads, strides.head),
        (Dimension::Batch, shape.batch, strides.batch),
    ]
    .map(|(dimension, size, stride)| (dimension, size.into(), stride.saturating_mul(ELEMENT_BYTES)))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::spec::config::Mask;
    use crate::spec::packing::Packing;
    use crate::spec::view::{Layout, Views};
    use std::string::ToString;

    const SHAPE: Shape = Shape::new(2, 3, 100);

    /// The message for a problem whose K has these strides.
    fn message(shape: Shape, k: Strides) -> std::string::String {
        let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap();
        let problem = problem.with_views(Views { k: View::new(k), ..*problem.views() }).unwrap();
        check(&problem).map_or_else(|refusal| refusal.to_string(), |()| "accepted".into())
    }

    #[test]
    fn dimensions_are_those_of_the_tensor_in_either_layout() {
        for (layout, expected) in
            [(Layout::Bhsd, [128, 100 * 128, 300 * 128]), (Layout::Bshd, [3 * 128, 128, 300 * 128])]
        {
            let view = View { offset: 8, ..View::new(layout.strides(SHAPE).unwrap()) };
            let map = TensorMap::new(SHAPE, view, 4096, 64);
            assert_eq!((map.address, map.sizes), (4096 + 16, [64, 100, 3, 2]), "{layout:?}");
            assert_eq!(map.strides, expected, "{layout:?}");
        }
    }

    #[test]
    fn a_map_of_packed_sequences_ends_where_the_coordinates_say() {
        let shape = Shape::new(1, 3, 100);
        let problem = Problem::new(shape, Mask::Full, Layout::Bshd).unwrap();
        let problem = problem.packed(Packing::new(7, 20)).unwrap();
        let map = TensorMap::of(&problem, Tensor::Q, 1 << 20, 64);
        let [row, head] = [3 * 128, 128];
        assert_eq!((map.sizes, map.strides), ([64, 100, 3, 101], [row, head, row]));
        // The last row of the sequence in rows 30 to 49, and the first row after it.
        let (length, end) = (20, 50);
        let at = |i: u64| (100 - length + i, map.address + (100 - length + i) * row + end * row);
        let (last, address) = at(19);
        assert!(last < map.sizes[1]);
        assert_eq!(address, (1 << 20) + 49 * row);
        assert!(at(20).0 >= map.sizes[1], "a neighbour's row would be copied");
    }

    #[test]
    fn a_box_is_as_wide_as_its_tile_or_its_swizzle() {
        let view = View::new(Layout::Bhsd.strides(SHAPE).unwrap());
        for (columns, box_columns, swizzle) in
            [(32, 32, Swizzle::Bytes64), (64, 64, Swizzle::Bytes128), (128, 64, Swizzle::Bytes128)]
        {
            let map = TensorMap::new(SHAPE, view, 4096, columns);
            assert_eq!((map.box_sizes(), map.swizzle()), ([box_columns, TENSOR_MAP_ROWS, 1, 1], swizzle), "{columns}");
        }
    }

    #[test]
    fn columns_beyond_the_head_dim_are_beyond_the_map() {
        for head_dim in [8, 40, 72, 128] {
            let shape = SHAPE.with_head_dim(head_dim);
            let view = View::new(Layout::Bshd.strides(shape).unwrap());
            let map = TensorMap::new(shape, view, 4096, 128);
            let row = u64::from(head_dim) * 2;
            assert_eq!(map.sizes, [head_dim.into(), 100, 3, 2]);
            assert_eq!(map.strides, [3 * row, row, 300 * row]);
            let one = TensorMap::new(Shape::new(1, 1, 1).with_head_dim(head_dim), view, 4096, 128);
            assert!(one.strides.iter().all(|stride| *stride == row && stride % 16 == 0), "{:?}", one.strides);
        }
    }

    #[test]
    fn a_stride_of_a_dimension_of_size_one_is_not_described() {
        let one = Shape::new(1, 1, 1);
        let strides = Strides { batch: 0, head: 1 << 60, row: 3 };
        assert_eq!(TensorMap::new(one, View::new(strides), 4096, 64).strides, [128; 3]);
        assert_eq!(message(one, strides), "accepted");
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
            (Strides { batch: 0, head: 0, row: 64 }, "accepted"),
        ] {
            assert!(message(SHAPE, k).contains(expected), "{}", message(SHAPE, k));
        }
    }
}

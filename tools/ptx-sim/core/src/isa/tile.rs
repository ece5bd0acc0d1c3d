//! Boxes of tensors, as moved by bulk copies (PTX ISA, "Tensors").

use crate::context::{Context, Faults, Place};
use crate::finding::FindingClass;
use crate::memory::{TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES, TensorMap};
use crate::program::{Address, Slot};

/// Alignment of a box in shared memory.
pub(super) const BOX_ALIGNMENT: u64 = 128;
/// Bytes after which every swizzle pattern repeats.
const SWIZZLE_PERIOD: u64 = 1024;
/// Boxes are stored in units of this many bytes, and their first coordinate is a multiple of it.
const CHUNK_BYTES: u64 = 16;

/// A box of a tensor, for one copy.
pub(super) struct Tile {
    pub map: TensorMap,
    /// Of its first element.
    pub origin: Vec<i64>,
}

/// A row of a box that lies at least partly inside the tensor.
pub(super) struct Row {
    /// Offset of that part in the box, before the swizzle.
    pub offset: u64,
    /// Its address in global memory.
    pub address: u64,
    pub bytes: u64,
}

impl Tile {
    /// The rows of the box that are not completely outside the tensor, clipped to `row_end` elements of its rows.
    fn rows_until(&self, row_end: u64) -> Vec<Row> {
        let TensorMap { element, address, sizes, strides, element_strides, .. } = &self.map;
        let extent = self.map.extent();
        let width = element.bytes();
        let (first, end) = (self.origin[0].max(0), (self.origin[0] + extent[0] as i64).min(row_end as i64));
        let count: u64 = extent[1..].iter().product();
        let mut rows = Vec::new();
        for row in 0..count {
            let (mut rest, mut base, mut inside) = (row, *address, first < end);
            for dimension in 1..extent.len() {
                let index = (rest % extent[dimension]) as i64;
                rest /= extent[dimension];
                let position = self.origin[dimension] + index * i64::from(element_strides[dimension]);
                inside &= (0..sizes[dimension] as i64).contains(&position);
                base = base.wrapping_add((position as u64).wrapping_mul(strides[dimension - 1]));
            }
            if inside {
                let offset = row * self.map.row_bytes() + (first - self.origin[0]) as u64 * width;
                let address = base.wrapping_add(first as u64 * width);
                rows.push(Row { offset, address, bytes: (end - first) as u64 * width });
            }
        }
        rows
    }

    /// The rows that a load reads; elements outside the tensor become zeros.
    pub fn rows_to_load(&self) -> Vec<Row> {
        self.rows_until(self.map.sizes[0])
    }

    /// The rows that a store writes, in whole 16-byte chunks; the last one may reach beyond the tensor, as on an
    /// H200.
    pub fn rows_to_store(&self) -> Vec<Row> {
        let width = self.map.element.bytes();
        self.rows_until((self.map.sizes[0] * width).next_multiple_of(CHUNK_BYTES) / width)
    }

    /// Position of a byte of the box relative to its start `target`. A misaligned target, which is reported elsewhere,
    /// counts as the next lower aligned one.
    pub fn place(&self, target: u64, offset: u64) -> usize {
        let base = target % SWIZZLE_PERIOD / BOX_ALIGNMENT * BOX_ALIGNMENT;
        (self.map.swizzle.apply(base + offset) - base) as usize
    }
}

/// The box that a lane copies; `None`, with a fault, if there is none.
pub(super) fn tile(
    context: &mut Context<'_>,
    faults: &mut Faults,
    lane: usize,
    map: Address,
    coordinates: &[Slot],
) -> Option<Tile> {
    context.require(&[map.base]);
    context.require(coordinates);
    let place = Place::new(lane, None, context.address(map, lane), TENSOR_MAP_ALIGNMENT);
    let mut bytes = [0; TENSOR_MAP_BYTES];
    context.read(faults, place, &mut bytes);
    let found = TensorMap::decode(&bytes).ok_or_else(|| "there is no tensor map at the address".to_owned());
    let found = found.and_then(|map| match map.sizes.len() {
        rank if rank == coordinates.len() => Ok(map),
        rank => Err(format!("the tensor map has {rank} dimensions, not {}", coordinates.len())),
    });
    let map = match found {
        Ok(map) => map,
        Err(cause) => {
            faults.add(FindingClass::InvalidOperand, lane, place.address, || cause);
            return None;
        }
    };
    let origin: Vec<i64> = coordinates.iter().map(|slot| i64::from(context.value(*slot, lane) as u32 as i32)).collect();
    let offset = origin[0] * map.element.bytes() as i64;
    if offset % CHUNK_BYTES as i64 != 0 {
        faults.add(FindingClass::Misaligned, lane, place.address, || {
            format!(
                "a box at {} in the first dimension of a tensor, which are {offset} bytes; they must be a multiple of \
                 {CHUNK_BYTES}",
                origin[0]
            )
        });
    }
    Some(Tile { map, origin })
}

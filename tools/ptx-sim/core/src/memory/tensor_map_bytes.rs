//! The 128 bytes of a tensor map. The driver's format is opaque; this one is the simulator's own and holds the whole
//! map.

use super::error::MemoryError;
use super::tensor_map::{Swizzle, TENSOR_MAP_BYTES, TensorElement, TensorMap};

/// First bytes of a tensor map.
const MARK: &[u8; 16] = b"ptx-sim tensor m";
/// Maximum number of dimensions.
const MOST_DIMENSIONS: usize = 5;
/// Bytes that hold a stride, which is below 2^40.
const STRIDE_BYTES: usize = 5;

// Offsets of the fields.
const ADDRESS: usize = 16;
const SIZES: usize = ADDRESS + 8;
const STRIDES: usize = SIZES + 4 * MOST_DIMENSIONS;
const BOX_SIZES: usize = STRIDES + STRIDE_BYTES * (MOST_DIMENSIONS - 1);
const ELEMENT_STRIDES: usize = BOX_SIZES + MOST_DIMENSIONS;
const ELEMENT: usize = ELEMENT_STRIDES + MOST_DIMENSIONS;
const SWIZZLE: usize = ELEMENT + 1;
const DIMENSIONS: usize = SWIZZLE + 1;
const CHECKSUM: usize = TENSOR_MAP_BYTES - 8;

impl TensorMap {
    /// Encodes the map in bytes that are valid wherever they are copied, to a buffer or a kernel parameter: the
    /// counterpart of `cuTensorMapEncodeTiled`. `name` appears in messages.
    ///
    /// # Errors
    /// If `cuTensorMapEncodeTiled` would refuse the map. Rows shorter than those of the swizzle are refused too, since
    /// their padding is not known.
    pub fn encode(&self, name: &str) -> Result<[u8; TENSOR_MAP_BYTES], MemoryError> {
        self.check().map_err(|what| MemoryError::TensorMap { name: name.to_owned(), what })?;
        let mut bytes = [0; TENSOR_MAP_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, MARK);
        put(ADDRESS, &self.address.to_le_bytes());
        for (index, size) in self.sizes.iter().enumerate() {
            // A size goes up to 2^32.
            put(SIZES + 4 * index, &((size - 1) as u32).to_le_bytes());
        }
        for (index, stride) in self.strides.iter().enumerate() {
            put(STRIDES + STRIDE_BYTES * index, &stride.to_le_bytes()[..STRIDE_BYTES]);
        }
        for (index, (size, stride)) in self.box_sizes.iter().zip(&self.element_strides).enumerate() {
            // A size goes up to 256.
            put(BOX_SIZES + index, &[(size - 1) as u8]);
            put(ELEMENT_STRIDES + index, &[*stride as u8]);
        }
        put(ELEMENT, &[self.element as u8, self.swizzle as u8, self.sizes.len() as u8]);
        let checksum = checksum(&bytes[..CHECKSUM]);
        bytes[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        Ok(bytes)
    }

    /// Decodes a map; `None` if the bytes are not a tensor map.
    pub fn decode(bytes: &[u8; TENSOR_MAP_BYTES]) -> Option<TensorMap> {
        if !bytes.starts_with(MARK) {
            return None;
        }
        let number = |at: usize, count: usize| {
            bytes[at..at + count].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        let dimensions = Some(usize::from(bytes[DIMENSIONS])).filter(|count| (1..=MOST_DIMENSIONS).contains(count))?;
        let each = 0..dimensions;
        let map = TensorMap {
            element: *TensorElement::ALL.get(usize::from(bytes[ELEMENT]))?,
            address: number(ADDRESS, 8),
            sizes: each.clone().map(|index| number(SIZES + 4 * index, 4) + 1).collect(),
            strides: (1..dimensions).map(|index| number(STRIDES + STRIDE_BYTES * (index - 1), STRIDE_BYTES)).collect(),
            box_sizes: each.clone().map(|index| u32::from(bytes[BOX_SIZES + index]) + 1).collect(),
            element_strides: each.map(|index| u32::from(bytes[ELEMENT_STRIDES + index])).collect(),
            swizzle: *Swizzle::ALL.get(usize::from(bytes[SWIZZLE]))?,
        };
        // Encoding again detects everything else: a wrong checksum, an impossible field, stray bytes.
        (map.encode("").ok()? == *bytes).then_some(map)
    }
}

/// A field of a tensor map that kernels may replace (`tensormap.replace`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorMapField {
    /// Address of the first element.
    Address,
    /// One less than the number of dimensions.
    Rank,
    /// Elements of the box in a dimension.
    BoxSize,
    /// Elements of the tensor in a dimension.
    Size,
    /// Byte stride of the dimension after the given one.
    Stride,
    /// Element stride of a dimension.
    ElementStride,
    /// A [`TensorElement`].
    Element,
    /// A [`Swizzle`].
    Swizzle,
}

/// Replaces a field of an encoded tensor map, for dimension `index` if it has one value per dimension. Bytes that are
/// all zero are an empty map. The validity of the map is checked when it is used.
///
/// # Errors
/// If the bytes are not a map, or the dimension or value does not exist.
pub(crate) fn replace(
    bytes: &mut [u8; TENSOR_MAP_BYTES],
    field: TensorMapField,
    index: usize,
    value: u64,
) -> Result<(), String> {
    if *bytes == [0; TENSOR_MAP_BYTES] {
        bytes[..MARK.len()].copy_from_slice(MARK);
        bytes[DIMENSIONS] = 1;
    } else if !bytes.starts_with(MARK) || bytes[CHECKSUM..] != checksum(&bytes[..CHECKSUM]).to_le_bytes() {
        return Err("there is no tensor map at the address".to_owned());
    }
    let dimensions = usize::from(bytes[DIMENSIONS]);
    let (least, most, at, width, stored) = match field {
        TensorMapField::Address => (0, u64::MAX, ADDRESS, 8, value),
        TensorMapField::Rank => (0, MOST_DIMENSIONS as u64 - 1, DIMENSIONS, 1, value.wrapping_add(1)),
        TensorMapField::BoxSize => (1, 256, BOX_SIZES + index, 1, value.wrapping_sub(1)),
        TensorMapField::Size => (1, u64::from(u32::MAX), SIZES + 4 * index, 4, value.wrapping_sub(1)),
        TensorMapField::Stride => (0, (1 << 40) - 1, STRIDES + STRIDE_BYTES * index, STRIDE_BYTES, value),
        TensorMapField::ElementStride => (1, 8, ELEMENT_STRIDES + index, 1, value),
        TensorMapField::Element => (0, TensorElement::ALL.len() as u64 - 1, ELEMENT, 1, value),
        TensorMapField::Swizzle => (0, Swizzle::ALL.len() as u64 - 1, SWIZZLE, 1, value),
    };
    let end = if field == TensorMapField::Stride { dimensions.saturating_sub(1) } else { dimensions };
    let is_of_dimension = matches!(
        field,
        TensorMapField::BoxSize | TensorMapField::Size | TensorMapField::Stride | TensorMapField::ElementStride
    );
    if is_of_dimension && index >= end {
        return Err(format!("dimension {index} of a tensor map that has {dimensions}, of which {end} have this field"));
    }
    if !(least..=most).contains(&value) {
        return Err(format!("a value of {value} in a field of a tensor map that holds {least} to {most}"));
    }
    bytes[at..at + width].copy_from_slice(&stored.to_le_bytes()[..width]);
    if field == TensorMapField::Rank {
        forget_dimensions(bytes);
    }
    let checksum = checksum(&bytes[..CHECKSUM]);
    bytes[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// Clears the fields of dimensions that a map lacks.
fn forget_dimensions(bytes: &mut [u8; TENSOR_MAP_BYTES]) {
    let dimensions = usize::from(bytes[DIMENSIONS]);
    bytes[SIZES + 4 * dimensions..STRIDES].fill(0);
    bytes[STRIDES + STRIDE_BYTES * (dimensions - 1)..BOX_SIZES].fill(0);
    bytes[BOX_SIZES + dimensions..ELEMENT_STRIDES].fill(0);
    bytes[ELEMENT_STRIDES + dimensions..ELEMENT].fill(0);
}

/// 64-bit FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use rand::rngs::ChaCha8Rng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn largest() -> TensorMap {
        TensorMap {
            element: TensorElement::F16,
            address: u64::MAX - 15,
            sizes: vec![1 << 32, 1, 1 << 32, 2, 3],
            strides: vec![(1 << 40) - 16, 0, 16, 32],
            box_sizes: vec![256, 1, 2, 3, 4],
            element_strides: vec![1, 8, 1, 2, 3],
            swizzle: Swizzle::None,
        }
    }

    #[test]
    fn every_field_comes_back() {
        let mut maps = vec![largest()];
        for element in TensorElement::ALL {
            let sizes = vec![64];
            let box_sizes = vec![32 / element.bytes() as u32];
            let swizzle = Swizzle::Bytes32;
            maps.push(TensorMap {
                element,
                address: 16,
                sizes,
                strides: vec![],
                box_sizes,
                element_strides: vec![1],
                swizzle,
            });
        }
        for swizzle in Swizzle::ALL {
            let box_sizes = vec![swizzle.row_bytes().max(16) as u32, 8];
            let element_strides = vec![1, 1];
            let (element, address, sizes, strides) = (TensorElement::U8, 1 << 40, vec![200, 7], vec![208]);
            maps.push(TensorMap { element, address, sizes, strides, box_sizes, element_strides, swizzle });
        }
        for map in maps {
            let bytes = map.encode("map").unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(TensorMap::decode(&bytes), Some(map));
        }
    }

    #[test]
    fn numbers_of_elements_and_swizzles_are_those_of_the_driver() {
        assert!(TensorElement::ALL.into_iter().enumerate().all(|(number, element)| element as usize == number));
        assert!(Swizzle::ALL.into_iter().enumerate().all(|(number, swizzle)| swizzle as usize == number));
    }

    #[test]
    fn one_changed_bit_leaves_no_map() {
        let bytes = largest().encode("map").expect("a good map");
        for bit in 0..8 * TENSOR_MAP_BYTES {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(TensorMap::decode(&changed), None, "bit {bit}");
        }
    }

    #[test]
    fn a_right_checksum_does_not_make_a_map() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let good = largest().encode("map").expect("a good map");
        for _ in 0..100_000 {
            let mut bytes = good;
            for _ in 0..random.random_range(1..8) {
                bytes[random.random_range(MARK.len()..CHECKSUM)] = random.random();
            }
            let checksum = checksum(&bytes[..CHECKSUM]);
            bytes[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
            if let Some(map) = TensorMap::decode(&bytes) {
                assert_eq!(map.check(), Ok(()), "{map:?}");
            }
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_map() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        for _ in 0..10_000 {
            let mut bytes = [0; TENSOR_MAP_BYTES];
            random.fill(&mut bytes);
            assert_eq!(TensorMap::decode(&bytes), None);
            bytes[..MARK.len()].copy_from_slice(MARK);
            assert_eq!(TensorMap::decode(&bytes), None);
        }
        assert_eq!(TensorMap::decode(&[0; TENSOR_MAP_BYTES]), None);
        assert_eq!(TensorMap::decode(&[0xff; TENSOR_MAP_BYTES]), None);
    }
}

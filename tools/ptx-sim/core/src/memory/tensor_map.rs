//! Tensor maps: source or destination of `cp.async.bulk.tensor` (CUDA driver API, `cuTensorMapEncodeTiled`).

/// Size of a tensor map in memory, bytes.
pub const TENSOR_MAP_BYTES: usize = 128;
/// Alignment of a tensor map in memory.
pub(crate) const TENSOR_MAP_ALIGNMENT: u64 = 64;
/// Maximum size of a box, bytes: the shared memory of a block.
const LARGEST_BOX: u64 = 227 << 10;

/// The type of a tensor's elements, numbered as in `CUtensorMapDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TensorElement {
    U8 = 0,
    U16 = 1,
    U32 = 2,
    S32 = 3,
    U64 = 4,
    S64 = 5,
    F16 = 6,
    F32 = 7,
    F64 = 8,
    Bf16 = 9,
}

impl TensorElement {
    /// Every type, by its number.
    pub const ALL: [TensorElement; 10] = [
        TensorElement::U8,
        TensorElement::U16,
        TensorElement::U32,
        TensorElement::S32,
        TensorElement::U64,
        TensorElement::S64,
        TensorElement::F16,
        TensorElement::F32,
        TensorElement::F64,
        TensorElement::Bf16,
    ];

    /// Size of an element, bytes.
    pub fn bytes(self) -> u64 {
        match self {
            TensorElement::U8 => 1,
            TensorElement::U16 | TensorElement::F16 | TensorElement::Bf16 => 2,
            TensorElement::U32 | TensorElement::S32 | TensorElement::F32 => 4,
            TensorElement::U64 | TensorElement::S64 | TensorElement::F64 => 8,
        }
    }
}

/// How the 16-byte chunks of a box are permuted in shared memory (PTX ISA, "Swizzling Modes"), numbered as in
/// `CUtensorMapSwizzle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Swizzle {
    /// No permutation.
    #[default]
    None = 0,
    /// Within rows of 32 bytes; the pattern repeats after 256.
    Bytes32 = 1,
    /// Within rows of 64 bytes; the pattern repeats after 512.
    Bytes64 = 2,
    /// Within rows of 128 bytes; the pattern repeats after 1024.
    Bytes128 = 3,
}

impl Swizzle {
    /// Every mode, by its number.
    pub const ALL: [Swizzle; 4] = [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128];

    /// Size of a swizzled row, bytes; 0 for none.
    pub fn row_bytes(self) -> u64 {
        match self {
            Swizzle::None => 0,
            Swizzle::Bytes32 => 32,
            Swizzle::Bytes64 => 64,
            Swizzle::Bytes128 => 128,
        }
    }

    /// Swizzled offset of a byte of a tile: address bits 7 and up are added, without carry, to the bits from 4 up.
    pub(crate) fn apply(self, address: u64) -> u64 {
        let chunks = self.row_bytes() / 16;
        address ^ (address >> 3 & chunks.saturating_sub(1) << 4)
    }
}

/// A tensor in global memory and the box that one copy moves, in tiled mode without interleaving. Elements outside the
/// tensor read as zeros. The first dimension is contiguous; the others may have any strides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Type of the elements.
    pub element: TensorElement,
    /// Address of the first element; a multiple of 16.
    pub address: u64,
    /// Elements in each of 1 to 5 dimensions.
    pub sizes: Vec<u64>,
    /// Byte strides of all dimensions but the first; multiples of 16, or 0 for a broadcast dimension.
    pub strides: Vec<u64>,
    /// Elements of the box in each dimension, 1 to 256. The first must span a multiple of 16 bytes, as many as a row of
    /// the swizzle.
    pub box_sizes: Vec<u32>,
    /// Element stride in each dimension, 1 to 8: n copies every n-th element; the first must be 1.
    pub element_strides: Vec<u32>,
    /// Swizzle of the box in shared memory.
    pub swizzle: Swizzle,
}

impl TensorMap {
    /// Elements of the box in shared memory, in each dimension.
    pub(crate) fn extent(&self) -> Vec<u64> {
        let sizes = self.box_sizes.iter().zip(&self.element_strides);
        sizes.map(|(size, stride)| u64::from(size.div_ceil(*stride))).collect()
    }

    /// Size of a row of the box, bytes.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.extent()[0] * self.element.bytes()
    }

    /// Size of the box in shared memory, bytes.
    pub(crate) fn box_bytes(&self) -> u64 {
        self.extent().iter().product::<u64>() * self.element.bytes()
    }

    /// What is wrong with it.
    pub(super) fn check(&self) -> Result<(), String> {
        let rank = self.sizes.len();
        let counts = [self.strides.len() + 1, self.box_sizes.len(), self.element_strides.len()];
        if !(1..=5).contains(&rank) || counts != [rank; 3] {
            return Err(format!(
                "{rank} sizes, {} strides, {} box sizes, {} element strides; 1 to 5 dimensions are possible, with one stride less",
                counts[0] - 1,
                counts[1],
                counts[2]
            ));
        }
        if !self.address.is_multiple_of(16) {
            return Err(format!("the address {:#x} is not a multiple of 16", self.address));
        }
        if self.sizes.iter().any(|size| !(1..=1 << 32).contains(size)) {
            return Err(format!("sizes {:?}; each must be 1 to 2^32", self.sizes));
        }
        if self.strides.iter().any(|stride| !stride.is_multiple_of(16) || *stride >= 1 << 40) {
            return Err(format!("strides {:?}; each must be a multiple of 16 below 2^40", self.strides));
        }
        if self.box_sizes.iter().any(|size| !(1..=256).contains(size)) {
            return Err(format!("box sizes {:?}; each must be 1 to 256", self.box_sizes));
        }
        if self.element_strides[0] != 1 || self.element_strides.iter().any(|stride| !(1..=8).contains(stride)) {
            return Err(format!("element strides {:?}; each must be 1 to 8, the first 1", self.element_strides));
        }
        if self.box_bytes() > LARGEST_BOX {
            return Err(format!("a box of {} bytes; at most {LARGEST_BOX} fit in shared memory", self.box_bytes()));
        }
        let (row, swizzled) = (self.row_bytes(), self.swizzle.row_bytes());
        if !row.is_multiple_of(16) || swizzled != 0 && row != swizzled {
            return Err(format!(
                "rows of {row} bytes with {:?}; they must be a multiple of 16 bytes, and as long as the rows of the swizzle",
                self.swizzle
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swizzles_permute_chunks_of_a_row() {
        for (swizzle, repeats) in [(Swizzle::Bytes32, 256), (Swizzle::Bytes64, 512), (Swizzle::Bytes128, 1024)] {
            let row = swizzle.row_bytes();
            let mut targets: Vec<u64> = (0..2 * repeats).map(|address| swizzle.apply(address)).collect();
            for (address, target) in (0..).zip(&targets) {
                assert_eq!(address / row, target / row, "{swizzle:?} {address} leaves its row");
                assert_eq!(swizzle.apply(*target), address, "{swizzle:?} {address}");
                assert_eq!(swizzle.apply(address + repeats), target + repeats, "{swizzle:?} {address}");
            }
            targets.sort_unstable();
            assert!((0..).zip(&targets).all(|(address, target)| address == *target), "{swizzle:?}");
        }
        assert_eq!(Swizzle::Bytes128.apply(7 * 128 + 3 * 16 + 5), 7 * 128 + 4 * 16 + 5);
        assert_eq!(Swizzle::Bytes32.apply(128 + 3), 128 + 16 + 3);
    }
}

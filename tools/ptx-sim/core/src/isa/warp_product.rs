//! The product of 16 rows of A with eight columns of B, as computed by a warp in `wgmma`, in all of its types. A row of
//! A and a column of B have 32 bytes.

use super::matrix::{element, multiply_tile};
use super::product::{Element, Product, Sum};
use crate::fused_sum::{Factor, Precision, fused_sum_in};
use crate::fused_sums::{COLUMNS, Columns, Row};
use crate::lanes::LANES;
use crate::numeric::Format;
use crate::small::Small;

/// Rows of A.
pub(super) const ROWS: usize = 16;
/// Bytes of a row of A, and of a column of B.
pub(super) const ROW_BYTES: usize = 32;

/// A row of A or a column of B.
pub(super) type Bytes = [u8; ROW_BYTES];
/// The four elements that each lane holds.
pub(super) type Tile = [[u64; 4]; LANES];

/// The types of a product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Types {
    pub a: Element,
    pub b: Element,
    pub d: Element,
    /// Whether integers are clamped.
    pub saturate: bool,
    /// Whether the products are subtracted, which is the case if one of A and B is negated.
    pub negated: bool,
}

/// The operands of a product, decoded.
pub(super) enum Operands {
    /// Numbers of 16 or 19 bits.
    Halves { a: Box<[Row; ROWS]>, b: Vec<[Factor; 16]>, input: Format, count: usize },
    /// Numbers of 8 bits.
    Small { a: Vec<[Factor; ROW_BYTES]>, b: Vec<[Factor; ROW_BYTES]> },
    /// Integers and single bits.
    Whole { a: Vec<u64>, b: Vec<u64>, sum: Sum },
}

impl Types {
    /// Whether a `wgmma` of these types exists.
    pub fn exist(&self) -> bool {
        use Element::{Bf16, Bits, E4M3, E5M2, F16, F32, Signed, Tf32, Unsigned};
        matches!(
            (self.a, self.b, self.d),
            (F16, F16, F16 | F32)
                | (Bf16, Bf16, F32)
                | (Tf32, Tf32, F32)
                | (E4M3 | E5M2, E4M3 | E5M2, F16 | F32)
                | (Signed(8) | Unsigned(8), Signed(8) | Unsigned(8), Signed(32))
                | (Bits, Bits, Signed(32))
        )
    }

    /// Depth of a tile in elements; a single bit counts as one.
    pub fn depth(&self) -> usize {
        if self.a == Element::Bits { 8 * ROW_BYTES } else { self.row_elements(self.a) }
    }

    /// Stored elements per row.
    fn row_elements(&self, kind: Element) -> usize {
        8 * ROW_BYTES / kind.bits() as usize
    }

    /// Elements of the rows, one row after the other.
    fn elements(rows: &[Bytes], kind: Element) -> Vec<u64> {
        let width = kind.bits() as usize / 8;
        let element = |bytes: &[u8]| bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        rows.iter().flat_map(|row| row.chunks_exact(width).map(element)).collect()
    }

    /// Decodes the operands; `a` has [`ROWS`] rows.
    pub fn decode(&self, a: &[Bytes], b: &[Bytes]) -> Operands {
        let (a, b) = (Self::elements(a, self.a), Self::elements(b, self.b));
        let sign = |factor: Factor| if self.negated { -factor } else { factor };
        match self.a {
            Element::F16 | Element::Bf16 | Element::Tf32 => {
                let (input, dropped) = match self.a {
                    Element::F16 => (Format::F16, 0),
                    Element::Bf16 => (Format::BF16, 0),
                    // The low bits of the register are ignored.
                    _ => (Format::TF32, 13),
                };
                let count = self.row_elements(self.a);
                let factors = |values: &[u64], negate: bool| {
                    let mut row = [Factor::default(); 16];
                    for (factor, bits) in row.iter_mut().zip(values) {
                        let value = Factor::new(input, bits >> dropped);
                        *factor = if negate { sign(value) } else { value };
                    }
                    row
                };
                let rows = std::array::from_fn(|row| Row::new(factors(&a[row * count..(row + 1) * count], false)));
                let b = b.chunks_exact(count).map(|column| factors(column, true)).collect();
                Operands::Halves { a: Box::new(rows), b, input, count }
            }
            Element::E4M3 | Element::E5M2 => {
                let factors = |values: &[u64], kind: Element, negate: bool| {
                    let small = if kind == Element::E4M3 { Small::E4M3 } else { Small::E5M2 };
                    let rows = values.as_chunks::<ROW_BYTES>().0.iter();
                    let value = |bits: u64| if negate { sign(small.factor(bits)) } else { small.factor(bits) };
                    rows.map(|row| row.map(value)).collect()
                };
                Operands::Small { a: factors(&a, self.a, false), b: factors(&b, self.b, true) }
            }
            Element::Bits => Operands::Whole { a, b, sum: Sum::Population { and: true } },
            _ => Operands::Whole { a, b, sum: Sum::Integer { saturate: self.saturate } },
        }
    }

    /// The elements that each lane holds of the product with the eight columns from `first` on, plus the addends.
    pub fn multiply(&self, operands: &Operands, first: usize, addends: &Tile) -> Tile {
        let result = if self.d == Element::F16 { Format::F16 } else { Format::F32 };
        match operands {
            Operands::Halves { a, b, input, count } => {
                let columns = std::array::from_fn(|column| b[first + column]);
                multiply_tile(*input, a, &Columns::new(columns, *count), result, addends)
            }
            Operands::Small { a, b } => each(addends, |row, column, addend| {
                let addend = Factor::new(result, addend);
                fused_sum_in(Precision::SMALL, Small::PRODUCT_BITS, &a[row], &b[first + column], result, addend)
            }),
            Operands::Whole { a, b, sum } => {
                let k = self.row_elements(self.a);
                let product = Product { m: ROWS, n: COLUMNS, k, a: self.a, b: self.b, sum: *sum };
                let mut c = vec![0; ROWS * COLUMNS];
                each(addends, |row, column, addend| {
                    c[row * COLUMNS + column] = addend;
                    0
                });
                let d = product.multiply(a, &b[first * k..(first + COLUMNS) * k], &c);
                each(addends, |row, column, _| d[row * COLUMNS + column])
            }
        }
    }
}

/// Computes each element by `value` from its row, column and addend.
fn each(addends: &Tile, mut value: impl FnMut(usize, usize, u64) -> u64) -> Tile {
    let mut tile = [[0; 4]; LANES];
    for (lane, (values, addends)) in tile.iter_mut().zip(addends).enumerate() {
        for (index, (place, addend)) in values.iter_mut().zip(addends).enumerate() {
            let (row, column) = element(lane, index);
            *place = value(row, column, *addend);
        }
    }
    tile
}

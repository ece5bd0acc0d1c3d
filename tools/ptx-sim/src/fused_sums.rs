//! Eight of the sums of [`fused_sum`] at once, in steps over eight numbers that compilers turn into vector instructions.

use crate::fused_sum::{Factor, PLACES, PRODUCTS, aligned_addend, fused_sum, rounded};
use crate::numeric::Format;

/// Sums that are computed at once.
pub(crate) const COLUMNS: usize = 8;

/// The exponent of a zero, far below all others: it must not decide the largest one.
const OF_ZERO: i32 = -(1 << 20);
/// What the exponent field of an `f32` has added to it.
const BIAS: i32 = 127;
/// Bits of the fraction of an `f32`.
const FRACTION_BITS: u32 = 23;

/// The first factor of each product of a sum; zeros stand for products that there are not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    factors: [Factor; PRODUCTS],
    significands: [f32; PRODUCTS],
    exponents: [i32; PRODUCTS],
}

/// The second factor of each product of [`COLUMNS`] sums; zeros stand for products that there are not.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// By sum and product.
    factors: [[Factor; PRODUCTS]; COLUMNS],
    /// By product and sum.
    significands: [[f32; COLUMNS]; PRODUCTS],
    exponents: [[i32; COLUMNS]; PRODUCTS],
    has_special: bool,
}

/// The exponent of a factor as it counts for the largest one.
fn exponent(factor: Factor) -> i32 {
    if factor.significand == 0 { OF_ZERO } else { factor.exponent }
}

impl Row {
    /// Of these factors.
    pub fn new(factors: [Factor; PRODUCTS]) -> Row {
        Row { factors, significands: factors.map(|factor| factor.significand as f32), exponents: factors.map(exponent) }
    }
}

impl Columns {
    /// Of these factors, by sum.
    pub fn new(factors: [[Factor; PRODUCTS]; COLUMNS]) -> Columns {
        let (mut significands, mut exponents) = ([[0.0; COLUMNS]; PRODUCTS], [[0; COLUMNS]; PRODUCTS]);
        for (column, factors) in factors.iter().enumerate() {
            for (product, factor) in factors.iter().enumerate() {
                significands[product][column] = factor.significand as f32;
                exponents[product][column] = exponent(*factor);
            }
        }
        let has_special = factors.iter().flatten().any(|factor| factor.is_special());
        Columns { factors, significands, exponents, has_special }
    }
}

/// [`fused_sum`] of a row and each column.
pub(crate) fn fused_sums(
    input: Format,
    row: &Row,
    columns: &Columns,
    result: Format,
    addends: &[Factor; COLUMNS],
) -> [u64; COLUMNS] {
    if columns.has_special || row.factors.iter().chain(addends).any(|factor| factor.is_special()) {
        return std::array::from_fn(|column| {
            fused_sum(input, &row.factors, &columns.factors[column], result, addends[column])
        });
    }
    let (sums, largest) = sums_of_products(input, row, columns, addends.map(exponent));
    std::array::from_fn(|column| {
        let sum = i64::from(sums[column]) + aligned_addend(addends[column], result, largest[column]);
        rounded(sum, largest[column], result)
    })
}

/// The sums of the products, cut off [`PLACES`] below the largest exponent, in units of that place; and that exponent, which is
/// at least `largest`.
fn sums_of_products(
    input: Format,
    row: &Row,
    columns: &Columns,
    mut largest: [i32; COLUMNS],
) -> ([i32; COLUMNS], [i32; COLUMNS]) {
    let factors = row.significands.iter().zip(&row.exponents).zip(columns.significands.iter().zip(&columns.exponents));
    for ((_, one), (_, others)) in factors.clone() {
        for (largest, other) in largest.iter_mut().zip(others) {
            *largest = (one + other).max(*largest);
        }
    }
    let unit = BIAS + PLACES as i32 - 2 * input.fraction_bits() as i32;
    // 16 products of at most 11 bits each way, moved up to 27 bits, fit an i32.
    let mut sums = [0; COLUMNS];
    for ((significand, exponent), (significands, exponents)) in factors {
        for column in 0..COLUMNS {
            // Products have at most 22 bits, and a power of two changes none of them: what is lost lies behind the point.
            let field = (exponent + exponents[column] - largest[column] + unit).max(0);
            let scale = f32::from_bits((field as u32) << FRACTION_BITS);
            sums[column] += (significand * significands[column] * scale) as i32;
        }
    }
    (sums, largest)
}

#[cfg(test)]
mod tests {
    use rand::rngs::ChaCha8Rng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Bits of a number: any, or one of those that decide something.
    fn bits(random: &mut ChaCha8Rng, format: Format, with_special: bool) -> u64 {
        let sign = random.random_range(0..2_u64) << (format.bits() - 1);
        let limit = format.infinity() + if with_special { 2 } else { 0 };
        sign | match random.random_range(0..8) {
            0 => 0,
            1 => random.random_range(0..1 << format.fraction_bits()),
            2 => limit - 1,
            // Near one, where nothing is far below the largest.
            3..6 => {
                (format.bias() as u64) << format.fraction_bits() ^ random.random_range(0..4 << format.fraction_bits())
            }
            _ => random.random_range(0..limit),
        }
    }

    #[test]
    fn sums_are_those_computed_one_by_one() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let formats = [(Format::F16, Format::F32), (Format::F16, Format::F16), (Format::BF16, Format::F32)];
        for round in 0..4000 {
            let (input, result) = formats[round % formats.len()];
            let with_special = round % 16 == 0;
            let mut factor = |format| Factor::new(format, bits(&mut random, format, with_special));
            let row = [(); PRODUCTS].map(|()| factor(input));
            let columns = [(); COLUMNS].map(|()| [(); PRODUCTS].map(|()| factor(input)));
            let addends = [(); COLUMNS].map(|()| factor(result));
            let found = fused_sums(input, &Row::new(row), &Columns::new(columns), result, &addends);
            let expected: [u64; COLUMNS] =
                std::array::from_fn(|column| fused_sum(input, &row, &columns[column], result, addends[column]));
            assert_eq!(found, expected, "{input:?} {row:?} {columns:?} {addends:?}");
        }
    }

    #[test]
    fn the_largest_products_fit() {
        let largest = Factor::new(Format::F16, Format::F16.infinity() - 1);
        let addends = [Factor::new(Format::F32, 0x4f7f_ffff); COLUMNS];
        let columns = Columns::new([[largest; PRODUCTS]; COLUMNS]);
        let found = fused_sums(Format::F16, &Row::new([largest; PRODUCTS]), &columns, Format::F32, &addends);
        let expected = fused_sum(Format::F16, &[largest; PRODUCTS], &[largest; PRODUCTS], Format::F32, addends[0]);
        assert_eq!(found, [expected; COLUMNS]);
        assert!(f32::from_bits(expected as u32) > 16.0 * 65504.0 * 65504.0);
    }
}

//! Eight sums of [`fused_sum`] at once, in loops over eight numbers that compilers vectorise.

use crate::fused_sum::{Factor, PLACES, PRODUCTS, aligned_addend, fused_sum, rounded};
use crate::numeric::Format;

/// Number of sums computed at once.
pub(crate) const COLUMNS: usize = 8;

/// The exponent of zero, far below all others, so that it never is the largest one.
const OF_ZERO: i32 = -(1 << 20);
/// The first factor of each product of a sum, padded with zeros.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    factors: [Factor; PRODUCTS],
    /// Significand and exponent.
    products: [(f32, i32); PRODUCTS],
    has_special: bool,
}

/// The second factor of each product of [`COLUMNS`] sums, padded with zeros.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// By sum and product.
    factors: [[Factor; PRODUCTS]; COLUMNS],
    products: [Factors; PRODUCTS],
    /// Number of products per sum.
    count: usize,
    has_special: bool,
}

/// The factors of one product, for each sum.
#[derive(Clone, Copy, Debug, Default)]
struct Factors {
    significands: [f32; COLUMNS],
    exponents: [i32; COLUMNS],
}

/// The exponent of a factor as it counts for the largest one.
fn exponent(factor: Factor) -> i32 {
    if factor.significand == 0 { OF_ZERO } else { factor.exponent }
}

impl Row {
    /// Of these factors.
    pub fn new(factors: [Factor; PRODUCTS]) -> Row {
        Row {
            factors,
            products: factors.map(|factor| (factor.significand as f32, exponent(factor))),
            has_special: factors.iter().any(|factor| factor.is_special()),
        }
    }
}

impl Columns {
    /// Of these factors, by sum, of so many products.
    pub fn new(factors: [[Factor; PRODUCTS]; COLUMNS], count: usize) -> Columns {
        let mut products = [Factors::default(); PRODUCTS];
        for (column, factors) in factors.iter().enumerate() {
            for (product, factor) in products.iter_mut().zip(factors) {
                product.significands[column] = factor.significand as f32;
                product.exponents[column] = exponent(*factor);
            }
        }
        let has_special = factors.iter().flatten().any(|factor| factor.is_special());
        Columns { factors, products, count, has_special }
    }
}

/// [`fused_sum`] of each row and each column.
pub(crate) fn fused_sums<const ROWS: usize>(
    input: Format,
    rows: &[Row; ROWS],
    columns: &Columns,
    result: Format,
    addends: &[[Factor; COLUMNS]; ROWS],
) -> [[u64; COLUMNS]; ROWS] {
    let tile = Tile { input, rows, columns, result, addends };
    #[cfg(target_arch = "x86_64")]
    if let Some(vectors) = pulp::x86::V3::try_new() {
        return vectors.vectorize(x86::InVectors(vectors, tile));
    }
    tile.sums(sums_of_products)
}

/// Sums to compute.
struct Tile<'a, const ROWS: usize> {
    input: Format,
    rows: &'a [Row; ROWS],
    columns: &'a Columns,
    result: Format,
    addends: &'a [[Factor; COLUMNS]; ROWS],
}

/// Sums of products, in units of the last place that is kept, and the largest exponent of each sum.
type Sums = ([i32; COLUMNS], [i32; COLUMNS]);

impl<const ROWS: usize> Tile<'_, ROWS> {
    /// Computes the sums. `sum_products` sums the products of factors, given the offset that scales a product to the
    /// unit of the last place kept, relative to the largest exponent, and the exponents of the addends.
    #[inline(always)]
    fn sums(
        &self,
        sums_of_products: impl Fn(&[(f32, i32)], &[Factors], i32, [i32; COLUMNS]) -> Sums,
    ) -> [[u64; COLUMNS]; ROWS] {
        let unit = PLACES as i32 - 2 * self.input.fraction_bits() as i32;
        let products = &self.columns.products[..self.columns.count.min(PRODUCTS)];
        let mut all = [[0; COLUMNS]; ROWS];
        for ((sums, row), addends) in all.iter_mut().zip(self.rows).zip(self.addends) {
            if row.has_special || self.columns.has_special || addends.iter().any(|addend| addend.is_special()) {
                *sums = self.one_by_one(row, addends);
                continue;
            }
            let (exact, largest) = sums_of_products(&row.products, products, unit, addends.map(exponent));
            for (column, sum) in sums.iter_mut().enumerate() {
                let addend = aligned_addend(addends[column], self.result, largest[column]);
                *sum = rounded(i64::from(exact[column]) + addend, largest[column], self.result);
            }
        }
        all
    }

    #[cold]
    fn one_by_one(&self, row: &Row, addends: &[Factor; COLUMNS]) -> [u64; COLUMNS] {
        std::array::from_fn(|column| {
            fused_sum(self.input, &row.factors, &self.columns.factors[column], self.result, addends[column])
        })
    }
}

/// Bias of an `f32`'s exponent field.
const BIAS: i32 = 127;
/// Bits of the fraction of an `f32`.
const FRACTION_BITS: i32 = 23;

// Products have at most 22 bits, and scaling by a power of two is exact: the conversion to integer only drops what lies
// below the last place. 16 products of up to 27 bits fit an i32.
fn sums_of_products(row: &[(f32, i32)], columns: &[Factors], unit: i32, mut largest: [i32; COLUMNS]) -> Sums {
    let mut sums = [0; COLUMNS];
    for ((_, exponent), others) in row.iter().zip(columns) {
        for (largest, other) in largest.iter_mut().zip(others.exponents) {
            *largest = (exponent + other).max(*largest);
        }
    }
    for ((significand, exponent), others) in row.iter().zip(columns) {
        for (column, sum) in sums.iter_mut().enumerate() {
            let field = (exponent + others.exponents[column] - largest[column] + unit + BIAS).max(0);
            let scale = f32::from_bits((field as u32) << FRACTION_BITS);
            *sum += (significand * others.significands[column] * scale) as i32;
        }
    }
    (sums, largest)
}

/// The same with explicit vector instructions, which compilers do not find.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use pulp::x86::V3;
    use pulp::{NullaryFnOnce, cast, f32x8, i32x8};

    use super::{BIAS, COLUMNS, FRACTION_BITS, Factors, Sums, Tile};

    pub(super) struct InVectors<'a, const ROWS: usize>(pub V3, pub Tile<'a, ROWS>);

    impl<const ROWS: usize> NullaryFnOnce for InVectors<'_, ROWS> {
        type Output = [[u64; COLUMNS]; ROWS];

        #[inline(always)]
        fn call(self) -> Self::Output {
            let InVectors(v, tile) = self;
            tile.sums(|row, columns, unit, largest| sums_of_products(v, row, columns, unit, largest))
        }
    }

    #[inline(always)]
    fn sums_of_products(v: V3, row: &[(f32, i32)], columns: &[Factors], unit: i32, largest: [i32; COLUMNS]) -> Sums {
        let add = |a: i32x8, b: i32x8| -> i32x8 { cast(v.avx2._mm256_add_epi32(cast(a), cast(b))) };
        let max = |a: i32x8, b: i32x8| -> i32x8 { cast(v.avx2._mm256_max_epi32(cast(a), cast(b))) };
        let subtract = |a: i32x8, b: i32x8| -> i32x8 { cast(v.avx2._mm256_sub_epi32(cast(a), cast(b))) };
        let multiply = |a: f32x8, b: f32x8| -> f32x8 { cast(v.avx._mm256_mul_ps(cast(a), cast(b))) };
        let factors = row.iter().zip(columns);
        let mut largest: i32x8 = cast(largest);
        for ((_, exponent), others) in factors.clone() {
            largest = max(add(v.splat_i32x8(*exponent), cast(others.exponents)), largest);
        }
        // The field of the product with the largest exponent, less that.
        let beside = subtract(v.splat_i32x8(unit + BIAS), largest);
        let mut sums = v.splat_i32x8(0);
        for ((significand, exponent), others) in factors {
            let field = add(add(v.splat_i32x8(*exponent), cast(others.exponents)), beside);
            let scale = v.shl_const_i32x8::<FRACTION_BITS>(max(field, v.splat_i32x8(0)));
            let product = multiply(v.splat_f32x8(*significand), cast(others.significands));
            sums = add(sums, v.convert_f32x8_to_i32x8(multiply(product, cast(scale))));
        }
        (cast(sums), cast(largest))
    }
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
            let expected: [u64; COLUMNS] =
                std::array::from_fn(|column| fused_sum(input, &row, &columns[column], result, addends[column]));
            let (rows, columns) = ([Row::new(row)], Columns::new(columns, PRODUCTS));
            let found = fused_sums(input, &rows, &columns, result, &[addends]);
            let tile = Tile { input, rows: &rows, columns: &columns, result, addends: &[addends] };
            assert_eq!(tile.sums(sums_of_products), [expected], "portable: {rows:?} {columns:?} {addends:?}");
            assert_eq!(found, [expected], "{input:?} {row:?} {columns:?} {addends:?}");
        }
    }

    #[test]
    fn the_largest_products_fit() {
        let largest = Factor::new(Format::F16, Format::F16.infinity() - 1);
        let addends = [Factor::new(Format::F32, 0x4f7f_ffff); COLUMNS];
        let columns = Columns::new([[largest; PRODUCTS]; COLUMNS], PRODUCTS);
        let found = fused_sums(Format::F16, &[Row::new([largest; PRODUCTS])], &columns, Format::F32, &[addends]);
        let expected = fused_sum(Format::F16, &[largest; PRODUCTS], &[largest; PRODUCTS], Format::F32, addends[0]);
        assert_eq!(found, [[expected; COLUMNS]]);
        assert!(f32::from_bits(expected as u32) > 16.0 * 65504.0 * 65504.0);
    }
}

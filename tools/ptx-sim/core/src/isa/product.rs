//! Products of small matrices, in all types of `mma` and `wmma`, on plain arrays of elements.

use super::double;
use crate::fused_sum::{Factor, fused_sum};
use crate::numeric::{Exact, Format, Rounding, sign_extend};
use crate::parse::Type;
use crate::small::Small;

/// Number of products that a tensor core sums at once.
pub(crate) const FUSED: usize = 16;

/// The type of an element of a matrix (PTX ISA, "Matrix Data-types").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    E4M3,
    E5M2,
    /// Integers of this many bits: 4 or 8, or 32 for results.
    Signed(u32),
    Unsigned(u32),
    /// 32 single bits.
    Bits,
}

impl Element {
    /// The type called `name` (without its dot).
    pub fn parse(name: &str) -> Option<Element> {
        Some(match name {
            "f16" => Element::F16,
            "bf16" => Element::Bf16,
            "tf32" => Element::Tf32,
            "f32" => Element::F32,
            "f64" => Element::F64,
            "e4m3" => Element::E4M3,
            "e5m2" => Element::E5M2,
            "s4" => Element::Signed(4),
            "s8" => Element::Signed(8),
            "s32" => Element::Signed(32),
            "u4" => Element::Unsigned(4),
            "u8" => Element::Unsigned(8),
            "b1" => Element::Bits,
            _ => return None,
        })
    }

    /// Size in bits; 32 for single bits.
    pub fn bits(self) -> u32 {
        match self {
            Element::F16 | Element::Bf16 => 16,
            Element::Tf32 | Element::F32 | Element::Bits => 32,
            Element::F64 => 64,
            Element::E4M3 | Element::E5M2 => 8,
            Element::Signed(bits) | Element::Unsigned(bits) => bits,
        }
    }

    /// Elements per register.
    pub fn per_register(self) -> usize {
        (self.register().bits / self.bits()) as usize
    }

    /// The type of the registers that hold it.
    pub fn register(self) -> Type {
        if self == Element::F64 { Type::F64 } else { Type::B32 }
    }

    /// The element with this index in a register.
    pub fn extract(self, register: u64, index: usize) -> u64 {
        let bits = self.bits();
        register >> (bits * index as u32) & (u64::MAX >> (64 - bits))
    }
}

/// How products are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    /// Like a tensor core's floating-point sums, with results in this format: `at_once` neighbours at a time.
    Fused { result: Format, at_once: usize },
    /// The same for 8-bit numbers, which Hopper widens to f16.
    ///
    /// A register of four becomes two registers of two. One sum takes the first two of every four along the depth,
    /// another takes the other two and is added to it; the addend is added last, rounded to nearest. This is the code
    /// that `ptxas` generates for `sm_90a`, and all recorded results agree with it.
    Widened(Format),
    /// One after another, each rounded.
    Double,
    /// Modulo 2^32, or clamped to 32 bits.
    Integer { saturate: bool },
    /// Counts bits that differ, or that are set in both.
    Population { and: bool },
}

/// `d = a · b + c` of matrices with `m` rows, `n` columns and depth `k`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub m: usize,
    pub n: usize,
    /// In stored elements.
    pub k: usize,
    pub a: Element,
    pub b: Element,
    pub sum: Sum,
}

impl Product {
    /// How elements of types `a` and `b` are summed into `d`; `None` if the combination is not supported.
    pub fn sum_of(a: Element, b: Element, d: Element, saturate: bool, and: bool) -> Option<Sum> {
        use Element::{Bf16, Bits, E4M3, E5M2, F16, F32, F64, Signed, Tf32, Unsigned};
        let fused = |result| Some(Sum::Fused { result, at_once: FUSED });
        match (a, b, d) {
            (F16, F16, F16) => fused(Format::F16),
            (F16, F16, F32) | (Bf16, Bf16, F32) | (Tf32, Tf32, F32) => fused(Format::F32),
            (E4M3 | E5M2, E4M3 | E5M2, F16) => Some(Sum::Widened(Format::F16)),
            (E4M3 | E5M2, E4M3 | E5M2, F32) => Some(Sum::Widened(Format::F32)),
            (F64, F64, F64) => Some(Sum::Double),
            (Signed(x) | Unsigned(x), Signed(y) | Unsigned(y), Signed(32)) if x == y && x <= 8 => {
                Some(Sum::Integer { saturate })
            }
            (Bits, Bits, Signed(32)) => Some(Sum::Population { and }),
            _ => None,
        }
    }

    /// The elements of D, row by row. `a` is row by row, `b` column by column, `c` row by row.
    pub fn multiply(&self, a: &[u64], b: &[u64], c: &[u64]) -> Vec<u64> {
        let rows = a.chunks_exact(self.k);
        match self.sum {
            Sum::Fused { result, at_once } => self.fused(a, b, c, |a, b, c| {
                let parts = a.chunks(at_once).zip(b.chunks(at_once));
                parts.fold(c, |sum, (a, b)| self.fused_sum(a, b, result, sum))
            }),
            Sum::Widened(result) => self.fused(a, b, c, |a, b, c| {
                let parts = [0, 2].map(|first| [a, b].map(|factors| pairs_of_four(factors, first)));
                let sum = parts.iter().fold(0, |sum, [a, b]| self.fused_sum(a, b, result, sum));
                Exact::sum(result.value(c), result.value(sum), Rounding::Nearest).round(result, Rounding::Nearest)
            }),
            Sum::Double => self
                .each(rows, b, c, |a, b, c| a.iter().zip(b).fold(c, |sum, (a, b)| double::multiply_add(*a, *b, sum))),
            Sum::Integer { saturate } => self.each(rows, b, c, |a, b, c| {
                let terms = a.iter().zip(b).map(|(a, b)| value(self.a, *a) * value(self.b, *b));
                let sum = sign_extend(c, 32) + terms.sum::<i64>();
                let sum = if saturate { sum.clamp(i32::MIN.into(), i32::MAX.into()) } else { sum };
                u64::from(sum as u32)
            }),
            Sum::Population { and } => self.each(rows, b, c, |a, b, c| {
                let ones = |(a, b): (&u64, &u64)| if and { a & b } else { a ^ b }.count_ones();
                let sum = a.iter().zip(b).map(ones).sum::<u32>();
                u64::from((c as u32).wrapping_add(sum))
            }),
        }
    }

    fn each<'a>(
        &self,
        rows: impl Iterator<Item = &'a [u64]>,
        b: &[u64],
        c: &[u64],
        element: impl Fn(&[u64], &[u64], u64) -> u64,
    ) -> Vec<u64> {
        let pairs = rows.flat_map(|row| b.chunks_exact(self.k).map(move |column| (row, column)));
        pairs.zip(c).map(|((row, column), c)| element(row, column, *c)).collect()
    }

    /// Computes each element by `element` from the factors of its row and column and the bits of its addend.
    fn fused(&self, a: &[u64], b: &[u64], c: &[u64], element: impl Fn(&[Factor], &[Factor], u64) -> u64) -> Vec<u64> {
        let input = input_format(self.a);
        let factors = |kind: Element, values: &[u64]| {
            values.iter().map(|bits| Factor::new(input, input_bits(kind, *bits))).collect::<Vec<_>>()
        };
        let (a, b) = (factors(self.a, a), factors(self.b, b));
        let pairs = a.chunks_exact(self.k).flat_map(|row| b.chunks_exact(self.k).map(move |column| (row, column)));
        pairs.zip(c).map(|((row, column), c)| element(row, column, *c)).collect()
    }

    fn fused_sum(&self, a: &[Factor], b: &[Factor], result: Format, sum: u64) -> u64 {
        fused_sum(input_format(self.a), a, b, result, Factor::new(result, sum))
    }
}

/// Two of every four factors, from the `first` on.
fn pairs_of_four(factors: &[Factor], first: usize) -> Vec<Factor> {
    factors.chunks_exact(4).flat_map(|four| four[first..first + 2].iter().copied()).collect()
}

fn value(kind: Element, bits: u64) -> i64 {
    match kind {
        Element::Signed(width) => sign_extend(bits, width),
        _ => bits as i64,
    }
}

/// The format in which a tensor core holds an element: 8-bit numbers become f16.
fn input_format(kind: Element) -> Format {
    match kind {
        Element::Bf16 => Format::BF16,
        Element::Tf32 => Format::TF32,
        _ => Format::F16,
    }
}

/// The bits of an element in that format. For `.tf32`, the low bits of the register are ignored.
fn input_bits(kind: Element, bits: u64) -> u64 {
    let half = |small: Small| Exact::from(small.value(bits)).round(Format::F16, Rounding::Nearest);
    match kind {
        Element::E4M3 => half(Small::E4M3),
        Element::E5M2 => half(Small::E5M2),
        Element::Tf32 => bits >> 13,
        _ => bits,
    }
}

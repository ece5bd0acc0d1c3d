//! Operands: for each type the edge cases, and pseudo-random values.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// Which values of a type an operand takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// All.
    Any,
    /// All but zero.
    Nonzero,
    /// Numbers of bits, up to beyond the widest type.
    Shift,
    /// Positions in a value and lengths of fields, of which 8 bits count.
    Position,
    /// Angles within a hundred turns or so.
    Angle,
    /// Positions and lengths that are less than 256.
    Byte,
    /// Numbers that are not subnormal.
    Normal,
    /// Of `f32` and `f64`: NaN of several kinds, infinities, zeros and ones. Of other types, all.
    Special,
}

impl Domain {
    /// The domain called `name`.
    pub fn parse(name: &str) -> Option<Domain> {
        Some(match name {
            "nonzero" => Domain::Nonzero,
            "shift" => Domain::Shift,
            "position" => Domain::Position,
            "angle" => Domain::Angle,
            "byte" => Domain::Byte,
            "normal" => Domain::Normal,
            _ => return None,
        })
    }
}

/// A source of operands that gives the same ones for the same name.
pub struct Values {
    random: ChaCha8Rng,
}

impl Values {
    /// The operands of the case called `name`.
    pub fn of(name: &str) -> Values {
        // FNV-1a.
        let seed = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        Values { random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// Pseudo-random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.random.random()).collect()
    }

    /// A pseudo-random number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.random.random_range(0..end)
    }

    /// A NaN, an infinity, a zero or a one of `f64`.
    pub fn special_double(&mut self) -> u64 {
        self.operand("f64", Domain::Special, None)
    }

    /// A pseudo-random f16 or bf16 of magnitude 2^`exponents`.
    pub fn half(&mut self, is_bfloat: bool, exponents: std::ops::Range<i64>) -> u16 {
        let exponent = self.random.random_range(exponents);
        let bits: u16 = self.random.random();
        match is_bfloat {
            true => bits & 0x807f | ((exponent + 127) as u16) << 7,
            false => bits & 0x83ff | ((exponent + 15) as u16) << 10,
        }
    }

    /// The operands of one thread, of the given types. The first threads go through the edges of the first type.
    pub fn operands(&mut self, thread: usize, kinds: &[(String, Domain)]) -> Vec<u64> {
        let mut operands = Vec::new();
        for (index, (kind, domain)) in kinds.iter().enumerate() {
            let previous = index.checked_sub(1).filter(|previous| kinds[*previous].0 == *kind);
            let value = match previous.map(|previous| operands[previous]) {
                // Sums that cancel, and equal values.
                Some(previous) if *domain == Domain::Any && self.below(8) == 0 => self.neighbour(previous, kind),
                _ if index == 0 => self.operand(kind, *domain, Some(thread)),
                _ => self.operand(kind, *domain, None),
            };
            operands.push(value);
        }
        operands
    }

    fn neighbour(&mut self, value: u64, kind: &str) -> u64 {
        let bits = bits(kind);
        let sign = if self.below(2) == 0 { 0 } else { 1 << (bits - 1) };
        (value ^ sign ^ self.below(3)) & (u64::MAX >> (64 - bits))
    }

    fn operand(&mut self, kind: &str, domain: Domain, edge: Option<usize>) -> u64 {
        match kind {
            "f16x2" | "bf16x2" => {
                let half = kind.trim_end_matches("x2");
                let low = self.operand(half, domain, edge);
                low | self.operand(half, domain, edge.map(|edge| edge / 2)) << 16
            }
            "pred" => self.below(2),
            "f32" if domain == Domain::Special => SINGLE_SPECIALS[self.below(8) as usize],
            "f64" if domain == Domain::Special => DOUBLE_SPECIALS[self.below(8) as usize],
            _ => {
                let edges = edges(kind, domain);
                let choice = self.below(20);
                let value = match edge.and_then(|edge| edges.get(edge)) {
                    Some(value) => *value,
                    None if choice < 7 => edges[self.below(edges.len() as u64) as usize],
                    None if choice < 14 => self.moderate(kind, domain),
                    None => self.random.random::<u64>() & (u64::MAX >> (64 - bits(kind))),
                };
                self.fit(value, domain)
            }
        }
    }

    /// A value such as programs have: a small integer, a number with a small exponent.
    fn moderate(&mut self, kind: &str, domain: Domain) -> u64 {
        let raw: u64 = self.random.random();
        let exponent = self.below(40);
        match (kind, domain) {
            (_, Domain::Shift | Domain::Position | Domain::Byte) => self.below(80),
            ("f16", _) => raw & 0x83ff | (exponent % 20 + 6) << 10,
            ("bf16", _) => raw & 0x807f | (exponent + 107) << 7,
            ("f32", _) => raw & 0x807f_ffff | (exponent + 107) << 23,
            ("f64", _) => raw & 0x800f_ffff_ffff_ffff | (exponent + 1003) << 52,
            _ => {
                (raw as i64 >> (64 - bits(kind)) >> (raw % u64::from(bits(kind)))) as u64
                    & (u64::MAX >> (64 - bits(kind)))
            }
        }
    }

    fn fit(&mut self, value: u64, domain: Domain) -> u64 {
        match domain {
            Domain::Nonzero if value == 0 => 1,
            Domain::Angle => u64::from((f32::from_bits(value as u32) % 300.0).to_bits()),
            Domain::Shift if self.below(8) != 0 => value % 72,
            Domain::Byte => value % 256,
            Domain::Normal if f32::from_bits(value as u32).is_subnormal() => 0,
            _ => value,
        }
    }
}

/// Bits of a type.
pub fn bits(kind: &str) -> u32 {
    match kind {
        "pred" => 1,
        "bf16" => 16,
        "f16x2" | "bf16x2" => 32,
        _ => kind[1..].parse().unwrap_or_else(|_| panic!("no type {kind}")),
    }
}

/// The values of a type that a thread each begins with.
fn edges(kind: &str, domain: Domain) -> Vec<u64> {
    if matches!(domain, Domain::Shift | Domain::Position | Domain::Byte) {
        return vec![0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 127, 255, 256, 0x8000_0000, 0xffff_ffff];
    }
    match kind {
        "f16" => half_edges(10, 5),
        "bf16" => half_edges(7, 8),
        "f32" => single_edges().map(|value| u64::from(value.to_bits())).chain(SINGLE_NANS).collect(),
        "f64" => single_edges().map(|value| f64::from(value).to_bits()).chain(DOUBLE_EDGES).collect(),
        _ => integer_edges(bits(kind)),
    }
}

fn integer_edges(bits: u32) -> Vec<u64> {
    let ones = u64::MAX >> (64 - bits);
    let top = 1 << (bits - 1);
    let edges = [0, 1, 2, 3, ones, ones - 1, top, top - 1, top + 1, 0x5555_5555_5555_5555, 0xaaaa_aaaa_aaaa_aaaa];
    let narrow = [0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x1_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
    // What is negative in a narrower type.
    let negative = [0x7f, 0x80, 0x7fff, 0x8000, 0x7fff_ffff, 0x8000_0000_u64].map(u64::wrapping_neg);
    edges.into_iter().chain(narrow).chain(negative).map(|value| value & ones).collect()
}

const SINGLE_NANS: [u64; 4] = [0x7fff_ffff, 0xffc0_1234, 0x7f80_0001, 0xffa5_5a5a];
/// NaN that are quiet and that signal, of both signs; also those of which a conversion drops the whole payload.
const SINGLE_SPECIALS: [u64; 8] =
    [0x7fff_ffff, 0xffc0_1234, 0x7f80_0001, 0xffa5_5a5a, 0xff80_0000, 0x7f80_0000, 0x8000_0000, 0x3f80_0000];
const DOUBLE_SPECIALS: [u64; 8] = [
    0x7ff8_0000_0000_0000,
    0xfff8_0000_1234_5678,
    0x7ff4_0000_0000_0001,
    0xfff0_0000_0000_0002,
    0x7fff_ffff_ffff_ffff,
    0xfff0_0000_0000_0000,
    0x8000_0000_0000_0000,
    0x3ff0_0000_0000_0000,
];
const DOUBLE_EDGES: [u64; 8] = [
    1,
    0x800f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x7ff8_0000_0000_0000,
    0xfff8_0000_1234_5678,
    0x7ff4_0000_0000_0001,
    0x43e0_0000_0000_0000,
];

/// Zeros, subnormals, extremes, infinities, ties of rounding to integers and to halves, limits of the integer types.
fn single_edges() -> impl Iterator<Item = f32> {
    let positive = [
        0.0,
        f32::from_bits(1),
        f32::from_bits(0x007f_ffff),
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::INFINITY,
        1.0,
        f32::from_bits(0x3f80_0001),
        f32::from_bits(0x3f7f_ffff),
        0.5,
        1.5,
        2.5,
        0.3,
        3.0,
        127.5,
        255.5,
        32767.5,
        65519.0,
        65520.0,
        2_147_483_648.0,
        4_294_967_296.0,
        9.223_372e18,
        1.844_674_4e19,
        16_777_217.0,
        // Between neighbouring halves: a tie, and just beyond one.
        f32::from_bits(0x3f80_1000),
        f32::from_bits(0x3f80_3000),
        f32::from_bits(0x3f80_1001),
        // The same for bf16.
        f32::from_bits(0x3f80_8000),
        f32::from_bits(0x3f81_8000),
        // Subnormal halves: the smallest, and half of it.
        f32::from_bits(0x3380_0000),
        f32::from_bits(0x3300_0000),
    ];
    positive.into_iter().flat_map(|value| [value, -value])
}

fn half_edges(mantissa: u32, exponent: u32) -> Vec<u64> {
    let infinity = ((1_u64 << exponent) - 1) << mantissa;
    let one = ((1_u64 << (exponent - 1)) - 1) << mantissa;
    let top = 1 << mantissa;
    let positive = [
        0,
        1,
        top - 1,
        top,
        infinity - 1,
        infinity,
        one,
        one + 1,
        one - 1,
        one - top,
        one + top / 2,
        one + top + top / 4,
        one + 5 * top,
        one + 14 * top,
        infinity + 1,
        infinity + top / 2,
        infinity + top - 1,
    ];
    positive.into_iter().flat_map(|value| [value, value | 0x8000]).collect()
}

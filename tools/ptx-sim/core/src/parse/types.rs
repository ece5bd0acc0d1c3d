//! The fundamental types and state spaces of PTX.

use std::fmt;

/// Interpretation of the bits of a [`Type`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// `.b8` … `.b128`.
    Bits,
    /// `.u8` … `.u64`.
    Unsigned,
    /// `.s8` … `.s64`.
    Signed,
    /// `.f16`, `.f32`, `.f64`, and two in `.f16x2` and `.f32x2`.
    Float,
    /// `.bf16`, and two in `.bf16x2`.
    Bfloat,
    /// `.pred`.
    Predicate,
}

/// A fundamental type (PTX ISA, "Fundamental Types", "Packed Data Types").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Type {
    /// Meaning of the bits.
    pub kind: Kind,
    /// Size of the whole type in bits; 1 for predicates.
    pub bits: u32,
    /// Elements: 2 for `.f16x2`, `.bf16x2` and `.f32x2`, otherwise 1.
    pub packed: u32,
}

impl Type {
    /// The predicate type.
    pub const PREDICATE: Type = Type::new(Kind::Predicate, 1);
    /// `.b8`.
    pub const B8: Type = Type::new(Kind::Bits, 8);
    /// `.b16`.
    pub const B16: Type = Type::new(Kind::Bits, 16);
    /// `.b32`.
    pub const B32: Type = Type::new(Kind::Bits, 32);
    /// `.b64`.
    pub const B64: Type = Type::new(Kind::Bits, 64);
    /// `.b128`.
    pub const B128: Type = Type::new(Kind::Bits, 128);
    /// `.u32`.
    pub const U32: Type = Type::new(Kind::Unsigned, 32);
    /// `.u64`.
    pub const U64: Type = Type::new(Kind::Unsigned, 64);
    /// `.s32`.
    pub const S32: Type = Type::new(Kind::Signed, 32);
    /// `.f16`.
    pub const F16: Type = Type::new(Kind::Float, 16);
    /// `.bf16`.
    pub const BF16: Type = Type::new(Kind::Bfloat, 16);
    /// `.f32`.
    pub const F32: Type = Type::new(Kind::Float, 32);
    /// `.f64`.
    pub const F64: Type = Type::new(Kind::Float, 64);

    const fn new(kind: Kind, bits: u32) -> Type {
        Type { kind, bits, packed: 1 }
    }

    /// The type called `name` (without its dot).
    pub fn parse(name: &str) -> Option<Type> {
        let (kind, bits, packed) = match name {
            "pred" => (Kind::Predicate, 1, 1),
            "f16x2" => (Kind::Float, 32, 2),
            "f32x2" => (Kind::Float, 64, 2),
            "bf16x2" => (Kind::Bfloat, 32, 2),
            "bf16" => (Kind::Bfloat, 16, 1),
            "f16" => (Kind::Float, 16, 1),
            "f32" => (Kind::Float, 32, 1),
            "f64" => (Kind::Float, 64, 1),
            _ => {
                let kind = match name.as_bytes().first()? {
                    b'b' => Kind::Bits,
                    b'u' => Kind::Unsigned,
                    b's' => Kind::Signed,
                    _ => return None,
                };
                let bits = match &name[1..] {
                    "8" => 8,
                    "16" => 16,
                    "32" => 32,
                    "64" => 64,
                    "128" if kind == Kind::Bits => 128,
                    _ => return None,
                };
                (kind, bits, 1)
            }
        };
        Some(Type { kind, bits, packed })
    }

    /// Size in bytes in memory.
    pub fn bytes(self) -> u32 {
        self.bits.div_ceil(8)
    }

    /// Whether arithmetic on it is floating point.
    pub fn is_float(self) -> bool {
        matches!(self.kind, Kind::Float | Kind::Bfloat)
    }

    /// Whether it is an integer or untyped.
    pub fn is_integer(self) -> bool {
        matches!(self.kind, Kind::Bits | Kind::Unsigned | Kind::Signed)
    }

    /// Whether it is a signed integer.
    pub fn is_signed(self) -> bool {
        self.kind == Kind::Signed
    }

    /// One element of a packed type.
    pub fn element(self) -> Type {
        Type { bits: self.bits / self.packed, packed: 1, ..self }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self.kind {
            Kind::Bits => "b",
            Kind::Unsigned => "u",
            Kind::Signed => "s",
            Kind::Float => "f",
            Kind::Bfloat => "bf",
            Kind::Predicate => return formatter.write_str(".pred"),
        };
        match self.packed {
            1 => write!(formatter, ".{letter}{}", self.bits),
            packed => write!(formatter, ".{letter}{}x{packed}", self.bits / packed),
        }
    }
}

/// A state space (PTX ISA, "State Spaces").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// `.global`.
    Global,
    /// `.shared`, `.shared::cta`, and `.shared::cluster`, which is the same for a cluster of one block.
    Shared,
    /// `.local`.
    Local,
    /// `.const`.
    Constant,
    /// `.param`.
    Parameter,
}

impl Space {
    /// The space called `name` (without its dot).
    pub fn parse(name: &str) -> Option<Space> {
        Some(match name {
            "global" => Space::Global,
            "shared" | "shared::cta" | "shared::cluster" => Space::Shared,
            "local" => Space::Local,
            "const" => Space::Constant,
            "param" | "param::entry" => Space::Parameter,
            _ => return None,
        })
    }
}

impl fmt::Display for Space {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Space::Global => "global",
            Space::Shared => "shared",
            Space::Local => "local",
            Space::Constant => "constant",
            Space::Parameter => "parameter",
        })
    }
}

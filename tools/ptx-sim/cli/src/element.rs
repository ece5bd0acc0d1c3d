//! Types of scalars and buffer elements.

use half::{bf16, f16};

/// A number type. All are stored in little-endian order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// The name, for example `f32`.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unsigned,
    Signed,
    F16,
    Bf16,
    F32,
    F64,
}

const fn element(name: &'static str, bytes: usize, kind: Kind) -> Element {
    Element { name, bytes, kind }
}

/// Every type.
pub const ELEMENTS: [Element; 12] = [
    element("u8", 1, Kind::Unsigned),
    element("u16", 2, Kind::Unsigned),
    element("u32", 4, Kind::Unsigned),
    element("u64", 8, Kind::Unsigned),
    element("i8", 1, Kind::Signed),
    element("i16", 2, Kind::Signed),
    element("i32", 4, Kind::Signed),
    element("i64", 8, Kind::Signed),
    element("f16", 2, Kind::F16),
    element("bf16", 2, Kind::Bf16),
    element("f32", 4, Kind::F32),
    element("f64", 8, Kind::F64),
];

impl Element {
    /// `u8`.
    pub const BYTE: Element = ELEMENTS[0];

    /// The type that PTX names `name` (without its dot): `s32`, `b32` …
    pub fn of_ptx(name: &str) -> Option<Element> {
        match name.split_at_checked(1)? {
            ("s", bits) => Element::named(&format!("i{bits}")),
            ("b", bits) if !bits.starts_with('f') => Element::named(&format!("u{bits}")),
            _ => Element::named(name),
        }
    }

    /// The type called `name`.
    pub fn named(name: &str) -> Option<Element> {
        ELEMENTS.into_iter().find(|element| element.name == name)
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        !matches!(self.kind, Kind::Unsigned | Kind::Signed)
    }

    /// The bytes of a number written as text; integers may be hexadecimal (`0x…`).
    ///
    /// # Errors
    /// If it is not a number of this type.
    pub fn parse(self, text: &str) -> Result<Vec<u8>, String> {
        if self.is_float() {
            let value = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
            return Ok(self.encode_float(value));
        }
        let (digits, negative) = text.strip_prefix('-').map_or((text, false), |digits| (digits, true));
        let magnitude = match digits.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        let magnitude = magnitude.map_err(|_| format!("`{text}` is not an integer"))?;
        let value = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
        let bits = 8 * self.bytes as u32;
        let (least, most) = match self.kind {
            Kind::Signed => (-(1_i128 << (bits - 1)), (1 << (bits - 1)) - 1),
            _ => (0, (1 << bits) - 1),
        };
        if !(least..=most).contains(&value) {
            return Err(format!("{value} is not between {least} and {most}, as {} has to be", self.name));
        }
        Ok(self.encode_integer(value as u64))
    }

    /// The low bytes of an integer, or the nearest floating-point number.
    pub fn encode_integer(self, value: u64) -> Vec<u8> {
        match self.is_float() {
            true => self.encode_float(value as f64),
            false => value.to_le_bytes()[..self.bytes].to_vec(),
        }
    }

    /// The nearest number of a floating-point type; truncated for an integer type.
    pub fn encode_float(self, value: f64) -> Vec<u8> {
        match self.kind {
            Kind::Unsigned | Kind::Signed => (value as i64).to_le_bytes()[..self.bytes].to_vec(),
            Kind::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
            Kind::Bf16 => bf16::from_f64(value).to_le_bytes().to_vec(),
            Kind::F32 => (value as f32).to_le_bytes().to_vec(),
            Kind::F64 => value.to_le_bytes().to_vec(),
        }
    }

    /// The integer in `bytes`, which must have the size of the type; `None` for a floating-point type.
    pub fn integer(self, bytes: &[u8]) -> Option<i128> {
        let word = self.word(bytes);
        match self.kind {
            Kind::Unsigned => Some(word.into()),
            Kind::Signed => Some((word as i64).into()),
            _ => None,
        }
    }

    /// The number in `bytes`, which must have the size of the type; integers above 2^53 are rounded.
    pub fn number(self, bytes: &[u8]) -> f64 {
        let word = self.word(bytes);
        match self.kind {
            Kind::Unsigned => word as f64,
            Kind::Signed => word as i64 as f64,
            Kind::F16 => f16::from_bits(word as u16).to_f64(),
            Kind::Bf16 => bf16::from_bits(word as u16).to_f64(),
            Kind::F32 => f32::from_bits(word as u32).into(),
            Kind::F64 => f64::from_bits(word),
        }
    }

    /// `bytes`, sign-extended to 64 bits.
    fn word(self, bytes: &[u8]) -> u64 {
        let negative = self.kind == Kind::Signed && bytes.last().is_some_and(|byte| byte >> 7 == 1);
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(wide)
    }

    /// The number in `bytes`, which must have the size of the type, as text.
    pub fn show(self, bytes: &[u8]) -> String {
        let word = self.word(bytes);
        match self.kind {
            Kind::Unsigned => word.to_string(),
            Kind::Signed => (word as i64).to_string(),
            Kind::F16 => f16::from_bits(word as u16).to_string(),
            Kind::Bf16 => bf16::from_bits(word as u16).to_string(),
            Kind::F32 => f32::from_bits(word as u32).to_string(),
            Kind::F64 => f64::from_bits(word).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_shown_by_type() {
        for (name, text, shown) in [
            ("u8", "255", "255"),
            ("u32", "0xff", "255"),
            ("i8", "-128", "-128"),
            ("i64", "-9223372036854775808", "-9223372036854775808"),
            ("u64", "18446744073709551615", "18446744073709551615"),
            ("f16", "0.1", "0.099975586"),
            ("bf16", "-1.5", "-1.5"),
            ("f32", "1e3", "1000"),
            ("f64", "-inf", "-inf"),
        ] {
            let element = Element::named(name).expect("a type");
            let bytes = element.parse(text).expect(text);
            assert_eq!((bytes.len(), element.show(&bytes)), (element.bytes, shown.to_owned()), "{name} {text}");
        }
    }

    #[test]
    fn types_of_ptx_have_names_here() {
        for (ptx, expected) in [
            ("s32", Some("i32")),
            ("b8", Some("u8")),
            ("bf16", Some("bf16")),
            ("f32", Some("f32")),
            ("pred", None),
            ("", None),
        ] {
            assert_eq!(Element::of_ptx(ptx).map(|element| element.name), expected, "{ptx}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for (name, text) in
            [("u8", "256"), ("u32", "-1"), ("i8", "128"), ("i64", "9223372036854775808"), ("u16", "1.5")]
        {
            let element = Element::named(name).expect("a type");
            assert!(element.parse(text).is_err(), "{text} is no {name}");
        }
    }
}

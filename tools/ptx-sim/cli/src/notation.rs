//! Parameters and buffers of a kernel, and their notation:
//!
//! ```text
//! u32:1024                           a number
//! bytes:00ff12                       bytes, hexadecimal
//! f16[512]                           the address of a buffer that nothing was written to
//! f32[512]=random(7)                 … of one that is filled: zeros, range, range(NUMBERS), random(SEED), file(PATH), npy(PATH)
//! ptr[&x, &y+512, null]              … of one that holds addresses
//! &x, &x+512                         the address of something with a name, and of 512 bytes behind it
//! null                               no address
//! tensor_map:a                       a tensor map, by value
//! struct{f16[512]=zeros; u32:4}      several of these in one parameter, each at its natural alignment
//! ```

use std::path::{Path, PathBuf};

use ptx_sim::TENSOR_MAP_BYTES;

use crate::element::{ELEMENTS, Element};

/// Maximum size of a buffer, bytes.
pub const LARGEST_BUFFER: u64 = 4 << 30;
/// Alignment of a tensor map.
const TENSOR_MAP_ALIGNMENT: usize = 64;

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// One field that is the whole parameter.
    Plain(Field),
    /// A struct passed by value.
    Struct(Vec<Field>),
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// A number.
    Scalar(Element, Vec<u8>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// The address of a buffer.
    Buffer(BufferSpec),
    /// The address of a named object.
    Address(AddressOf),
    /// The tensor map of that name.
    TensorMap(String),
}

/// The address of a named object, or null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressOf {
    /// The name; `None` for a null pointer.
    pub name: Option<String>,
    /// Byte offset from its start.
    pub offset: u64,
}

/// A buffer in global memory.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferSpec {
    /// Type of the elements.
    pub element: Element,
    /// Number of elements.
    pub count: u64,
    /// Contents.
    pub fill: Fill,
}

/// Contents of a buffer before the first launch.
#[derive(Clone, Debug, PartialEq)]
pub enum Fill {
    /// Unwritten.
    Uninitialised,
    /// Zeros.
    Zeros,
    /// 0, 1, 2 …, again from 0 after that many numbers.
    Range(u64),
    /// Numbers from -1 to 1, or arbitrary integers.
    Random {
        /// Equal seeds give equal numbers.
        seed: u64,
    },
    /// The bytes of a file.
    File(PathBuf),
    /// The elements of a `.npy` file.
    Npy(PathBuf),
    /// Addresses.
    Addresses(Vec<AddressOf>),
}

/// Position and reason of a syntax error in a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotationError {
    /// Byte offset.
    pub offset: usize,
    /// What was found, and what would be accepted.
    pub message: String,
}

impl Parameter {
    /// Parses the notation; relative paths refer to `folder`.
    pub fn parse(text: &str, folder: &Path) -> Result<Parameter, NotationError> {
        let Some(fields) = text.trim_end().strip_prefix("struct{").and_then(|rest| rest.strip_suffix('}')) else {
            return field(text, 0, folder).map(Parameter::Plain);
        };
        let mut offset = "struct{".len();
        let mut parsed = Vec::new();
        for text in fields.split(';') {
            parsed.push(field(text, offset, folder)?);
            offset += text.len() + 1;
        }
        Ok(Parameter::Struct(parsed))
    }
}

impl Field {
    /// Alignment in a struct of a value of `bytes` bytes.
    pub fn alignment(&self, bytes: usize) -> usize {
        match self {
            Field::Bytes(_) => 1,
            Field::TensorMap(_) => TENSOR_MAP_ALIGNMENT,
            _ => bytes,
        }
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Field::Scalar(_, bytes) | Field::Bytes(bytes) => bytes.len(),
            Field::Buffer(_) | Field::Address(_) => size_of::<u64>(),
            Field::TensorMap(_) => TENSOR_MAP_BYTES,
        }
    }
}

impl BufferSpec {
    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.count * self.element.bytes as u64
    }
}

/// One field, which starts at byte `offset` of the notation.
fn field(text: &str, offset: usize, folder: &Path) -> Result<Field, NotationError> {
    let offset = offset + text.len() - text.trim_start().len();
    let text = text.trim();
    let error = |at: usize, message: String| Err(NotationError { offset: offset + at, message });
    if text == "null" || text.starts_with('&') {
        return AddressOf::parse(text).map(Field::Address).or_else(|message| error(0, message));
    }
    let end = text.find([':', '[']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match (name, rest.strip_prefix(':')) {
        ("bytes", Some(digits)) => {
            return match hexadecimal(digits.trim()) {
                Some(bytes) => Ok(Field::Bytes(bytes)),
                None => error(end + 1, "expected pairs of hexadecimal digits, as in `bytes:00ff`".to_owned()),
            };
        }
        ("tensor_map", Some(map)) => return Ok(Field::TensorMap(map.trim().to_owned())),
        ("ptr", None) => {
            return addresses(rest).map(Field::Buffer).or_else(|(at, message)| error(end + at, message));
        }
        _ => {}
    }
    let Some(element) = Element::named(name) else {
        let names: Vec<_> = ELEMENTS.iter().map(|element| element.name).collect();
        let known = names.join(", ");
        return error(0, format!("`{name}` is not a type; known are {known}, bytes, ptr, tensor_map and struct"));
    };
    if let Some(number) = rest.strip_prefix(':') {
        let scalar = element.parse(number.trim()).map(|bytes| Field::Scalar(element, bytes));
        return scalar.or_else(|message| error(end + 1, message));
    }
    let Some((count, fill)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return error(end, format!("expected a value as in `{name}:1` or a size as in `{name}[1024]`"));
    };
    let Some(count) = buffer_count(element, count) else {
        let most = LARGEST_BUFFER / element.bytes as u64;
        return error(
            end + 1,
            format!("`{count}` is not a size of a buffer; it must be between 1 and {most} elements"),
        );
    };
    match fill_of(fill.trim(), folder) {
        Some(fill) => Ok(Field::Buffer(BufferSpec { element, count, fill })),
        None => error(
            text.len() - fill.len(),
            format!(
                "`{}` is no contents; expected nothing, =zeros, =range, =range(NUMBERS), =random(SEED), =file(PATH) or =npy(PATH)",
                fill.trim()
            ),
        ),
    }
}

impl AddressOf {
    /// `null`, `&name` or `&name+bytes`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "null" {
            return Ok(Self { name: None, offset: 0 });
        }
        let Some(place) = text.strip_prefix('&') else {
            return Err(format!("`{text}` is not an address; expected &name, &name+bytes or null"));
        };
        let (name, offset) = place.split_once('+').unwrap_or((place, "0"));
        let (name, offset) = (name.trim(), offset.trim());
        let offset = offset.parse().ok().filter(|offset| *offset <= LARGEST_BUFFER);
        match offset {
            Some(offset) if !name.is_empty() => Ok(Self { name: Some(name.to_owned()), offset }),
            _ => Err(format!("`{text}` is not an address; expected &name or &name+bytes")),
        }
    }
}

/// A buffer of addresses, from its opening bracket on.
fn addresses(text: &str) -> Result<BufferSpec, (usize, String)> {
    let list = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let list = list.ok_or_else(|| (0, "expected addresses, as in `ptr[&x, &y+512, null]`".to_owned()))?;
    let addresses = list.split(',').map(|text| AddressOf::parse(text.trim()));
    let addresses: Vec<_> = addresses.collect::<Result<_, _>>().map_err(|message| (1, message))?;
    let element = Element::named("u64").expect("a type of the table");
    Ok(BufferSpec { element, count: addresses.len() as u64, fill: Fill::Addresses(addresses) })
}

fn buffer_count(element: Element, text: &str) -> Option<u64> {
    let count = text.trim().parse().ok()?;
    (1..=LARGEST_BUFFER / element.bytes as u64).contains(&count).then_some(count)
}

fn fill_of(text: &str, folder: &Path) -> Option<Fill> {
    let argument = |name: &str| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
    match text {
        "" => Some(Fill::Uninitialised),
        "=zeros" => Some(Fill::Zeros),
        "=range" => Some(Fill::Range(u64::MAX)),
        _ => match (argument("=random"), argument("=file"), argument("=npy"), argument("=range")) {
            (.., Some(count)) => count.trim().parse().ok().filter(|count| *count > 0).map(Fill::Range),
            (Some(seed), ..) => Some(Fill::Random { seed: seed.trim().parse().ok()? }),
            (_, Some(path), ..) => Some(Fill::File(folder.join(path))),
            (_, _, Some(path), _) => Some(Fill::Npy(folder.join(path))),
            _ => None,
        },
    }
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    (!pairs.is_empty() && rest.is_empty()).then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Parameter, NotationError> {
        Parameter::parse(text, Path::new(""))
    }

    #[test]
    fn addresses_have_names_and_offsets() {
        let at = |name: &str, offset| AddressOf { name: Some(name.to_owned()), offset };
        let null = AddressOf { name: None, offset: 0 };
        assert_eq!(parse("&x"), Ok(Parameter::Plain(Field::Address(at("x", 0)))));
        assert_eq!(parse(" & x.0 + 512 "), Ok(Parameter::Plain(Field::Address(at("x.0", 512)))));
        assert_eq!(parse("null"), Ok(Parameter::Plain(Field::Address(null.clone()))));
        let Ok(Parameter::Plain(Field::Buffer(buffer))) = parse("ptr[&x, &y+4, null]") else { panic!("no buffer") };
        assert_eq!((buffer.count, buffer.fill), (3, Fill::Addresses(vec![at("x", 0), at("y", 4), null])));
    }

    #[test]
    fn errors_name_the_place_and_what_would_be_accepted() {
        for (text, offset, expected) in [
            ("f33:1", 0, "known are u8"),
            ("", 0, "known are u8"),
            ("u32", 3, "as in `u32:1`"),
            ("u32:-1", 4, "between 0 and"),
            ("u32[0]", 4, "between 1 and 1073741824"),
            ("u32[99999999999]", 4, "between 1 and"),
            ("f32[8]=ones", 6, "=random(SEED)"),
            ("bytes:0g", 6, "hexadecimal"),
            ("struct{u32:1; f32[}", 17, "as in `f32:1`"),
            ("&", 0, "expected &name or &name+bytes"),
            ("&x+-1", 0, "expected &name or &name+bytes"),
            ("&x+99999999999", 0, "expected &name or &name+bytes"),
            ("ptr[&x, y]", 4, "`y` is not an address"),
            ("ptr:1", 0, "`ptr` is not a type"),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.offset, offset, "{text}: {}", error.message);
            assert!(error.message.contains(expected), "{text}: {}", error.message);
        }
    }
}

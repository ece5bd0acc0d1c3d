//! What a kernel is given, and the notation for it:
//!
//! ```text
//! u32:1024                           a number
//! bytes:00ff12                       bytes, hexadecimal
//! f16[512]                           the address of a buffer that nothing was written to
//! f32[512]=random(7)                 … of one that is filled: zeros, range, random(SEED), file(PATH)
//! struct{f16[512]=zeros; u32:4}      several of these in one parameter, each at its natural alignment
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use ptx_sim::GlobalMemory;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::element::{ELEMENTS, Element};

/// Largest buffer, bytes.
const LARGEST_BUFFER: u64 = 4 << 30;

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
    Scalar(Vec<u8>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// The address of a buffer.
    Buffer(BufferSpec),
}

/// A buffer in global memory.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferSpec {
    /// Type of the elements.
    pub element: Element,
    /// Number of elements.
    pub count: u64,
    /// Contents.
    fill: Fill,
}

#[derive(Clone, Debug, PartialEq)]
enum Fill {
    Uninitialised,
    Zeros,
    Range,
    Random { seed: u64 },
    File(PathBuf),
}

/// A buffer that was made for a parameter.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Name: that of the parameter, and the number of the field behind a dot.
    pub name: String,
    /// Address.
    pub address: u64,
    /// What it holds.
    pub spec: BufferSpec,
}

/// Where a text is not a parameter, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotationError {
    /// Byte offset.
    pub offset: usize,
    /// What was found and what would be accepted.
    pub message: String,
}

impl Parameter {
    /// Reads the notation; paths are relative to `folder`.
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

    /// The bytes of the parameter; its buffers are allocated, filled and added to `buffers`.
    ///
    /// # Errors
    /// When a buffer cannot be had or its file cannot be read.
    pub fn place(&self, name: &str, memory: &mut GlobalMemory, buffers: &mut Vec<Buffer>) -> Result<Vec<u8>, String> {
        match self {
            Parameter::Plain(field) => field.place(name, memory, buffers),
            Parameter::Struct(fields) => {
                let mut bytes = Vec::new();
                let mut largest = 1;
                for (index, field) in fields.iter().enumerate() {
                    let value = field.place(&format!("{name}.{index}"), memory, buffers)?;
                    let alignment = if matches!(field, Field::Bytes(_)) { 1 } else { value.len() };
                    largest = largest.max(alignment);
                    bytes.resize(bytes.len().next_multiple_of(alignment), 0);
                    bytes.extend(value);
                }
                bytes.resize(bytes.len().next_multiple_of(largest), 0);
                Ok(bytes)
            }
        }
    }
}

impl Field {
    fn place(&self, name: &str, memory: &mut GlobalMemory, buffers: &mut Vec<Buffer>) -> Result<Vec<u8>, String> {
        match self {
            Field::Scalar(bytes) | Field::Bytes(bytes) => Ok(bytes.clone()),
            Field::Buffer(spec) => {
                let address = memory.allocate(name, spec.bytes()).map_err(|error| error.to_string())?;
                if let Some(contents) = spec.contents()? {
                    memory.write(address, &contents).map_err(|error| error.to_string())?;
                }
                buffers.push(Buffer { name: name.to_owned(), address, spec: spec.clone() });
                Ok(address.to_le_bytes().to_vec())
            }
        }
    }
}

impl BufferSpec {
    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.count * self.element.bytes as u64
    }

    /// What it is filled with, if it is.
    fn contents(&self) -> Result<Option<Vec<u8>>, String> {
        let element = self.element;
        let each = |value: &mut dyn FnMut(u64) -> Vec<u8>| Some((0..self.count).flat_map(value).collect());
        Ok(match &self.fill {
            Fill::Uninitialised => None,
            Fill::Zeros => Some(vec![0; self.bytes() as usize]),
            Fill::Range => each(&mut |index| element.encode_integer(index)),
            Fill::Random { seed } => {
                let mut random = ChaCha8Rng::seed_from_u64(*seed);
                match element.is_float() {
                    true => each(&mut |_| element.encode_float(random.random_range(-1.0..1.0))),
                    false => each(&mut |_| element.encode_integer(random.random())),
                }
            }
            Fill::File(path) => {
                let contents = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
                if contents.len() as u64 != self.bytes() {
                    let (have, need) = (contents.len(), self.bytes());
                    return Err(format!("{}: has {have} bytes; the buffer has {need}", path.display()));
                }
                Some(contents)
            }
        })
    }
}

/// One field, which begins at `offset` of the whole notation.
fn field(text: &str, offset: usize, folder: &Path) -> Result<Field, NotationError> {
    let offset = offset + text.len() - text.trim_start().len();
    let text = text.trim();
    let error = |at: usize, message: String| Err(NotationError { offset: offset + at, message });
    let end = text.find([':', '[']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if let Some(digits) = rest.strip_prefix(':').filter(|_| name == "bytes") {
        return match hexadecimal(digits.trim()) {
            Some(bytes) => Ok(Field::Bytes(bytes)),
            None => error(end + 1, "expected pairs of hexadecimal digits, as in `bytes:00ff`".to_owned()),
        };
    }
    let Some(element) = Element::named(name) else {
        let names: Vec<_> = ELEMENTS.iter().map(|element| element.name).collect();
        return error(0, format!("`{name}` is no type; known are {}, bytes and struct", names.join(", ")));
    };
    if let Some(number) = rest.strip_prefix(':') {
        let scalar = element.parse(number.trim()).map(Field::Scalar);
        return scalar.or_else(|message| error(end + 1, message));
    }
    let Some((count, fill)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return error(end, format!("expected a value as in `{name}:1` or a size as in `{name}[1024]`"));
    };
    let Some(count) = buffer_count(element, count) else {
        let most = LARGEST_BUFFER / element.bytes as u64;
        return error(end + 1, format!("`{count}` is no size of a buffer; it must be between 1 and {most} elements"));
    };
    match fill_of(fill.trim(), folder) {
        Some(fill) => Ok(Field::Buffer(BufferSpec { element, count, fill })),
        None => error(
            text.len() - fill.len(),
            format!("`{}` is no contents; expected nothing, =zeros, =range, =random(SEED) or =file(PATH)", fill.trim()),
        ),
    }
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
        "=range" => Some(Fill::Range),
        _ => match (argument("=random"), argument("=file")) {
            (Some(seed), _) => Some(Fill::Random { seed: seed.trim().parse().ok()? }),
            (None, Some(path)) => Some(Fill::File(folder.join(path))),
            (None, None) => None,
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

    fn placed(text: &str) -> (Vec<u8>, Vec<Buffer>, GlobalMemory) {
        let (mut memory, mut buffers) = (GlobalMemory::new(), Vec::new());
        let parameter = Parameter::parse(text, Path::new("")).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        let bytes = parameter.place("p", &mut memory, &mut buffers).expect("placing");
        (bytes, buffers, memory)
    }

    #[test]
    fn a_struct_lies_in_memory_as_c_lays_it_out() {
        let (bytes, buffers, _) = placed("struct{u8:1; u16[4]; u32:7; bytes:aabbcc}");
        assert_eq!(bytes.len(), 24, "padded to the alignment of the address");
        assert_eq!((bytes[0], &bytes[8..16]), (1, &buffers[0].address.to_le_bytes()[..]));
        assert_eq!(bytes[16..], [7, 0, 0, 0, 0xaa, 0xbb, 0xcc, 0]);
    }

    #[test]
    fn buffers_are_filled_as_asked() {
        let contents = |text: &str| {
            let (_, buffers, memory) = placed(text);
            let mut data = vec![0xee; buffers[0].spec.bytes() as usize];
            memory.read(buffers[0].address, &mut data).expect("reading");
            data
        };
        assert_eq!(contents("u16[3]=range"), [0, 0, 1, 0, 2, 0]);
        assert_eq!(contents("f32[1]=zeros"), [0; 4]);
        assert_eq!(contents("f32[64]=random(7)"), contents("f32[64]=random(7)"));
        assert_ne!(contents("f32[64]=random(7)"), contents("f32[64]=random(8)"));
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
        ] {
            let error = Parameter::parse(text, Path::new("")).expect_err(text);
            assert_eq!(error.offset, offset, "{text}: {}", error.message);
            assert!(error.message.contains(expected), "{text}: {}", error.message);
        }
    }
}

//! Reads and writes tensors in NumPy's `.npy` files: fp16, bf16 and f32.
//!
//! NumPy has no bf16. It is stored as its bits, `'<u2'`, or as two bytes without a type, `'<V2'`, which is how NumPy
//! stores an `ml_dtypes.bfloat16` array.

mod header;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use half::f16;
use header::Header;

use crate::element::{Bits, Element, Encoding};
use crate::error::{Error, Result};
use crate::files;
use contract::problem::Shape;
use contract::view::Layout;

/// How a file of f32 is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum F32 {
    /// It is refused.
    Refused,
    /// Numbers are rounded to the element type (to nearest, ties to even). A number beyond its range is refused.
    Rounded,
    /// As [`Self::Rounded`], but a number beyond the range is clamped to the largest of its sign.
    Clamped,
}

/// A tensor read from a file, in C order, with the dimensions of [`Layout::dimensions`] in the layout it was read with.
#[derive(Clone, Debug)]
pub struct Array {
    /// B, H, S and D.
    pub shape: Shape,
    /// Elements in the order of the file.
    pub elements: Vec<Bits>,
}

#[derive(Clone, Copy)]
enum Stored {
    /// The elements' bits.
    Bits,
    /// f32, to be rounded.
    F32,
}

impl Stored {
    fn size(self) -> u64 {
        match self {
            Stored::Bits => 2,
            Stored::F32 => 4,
        }
    }

    /// The elements, and the number of finite ones beyond the range of `element`.
    fn decode(self, bytes: &[u8], element: Element) -> (Vec<Bits>, usize) {
        match self {
            Stored::Bits => (bytes.as_chunks().0.iter().map(|&bytes| Bits::from_le_bytes(bytes)).collect(), 0),
            Stored::F32 => {
                let numbers = || bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
                let is_beyond = |number: &f32| number.is_finite() && f64::from(number.abs()) >= element.overflow();
                let round = |number| match is_beyond(&number) {
                    true => element.encode(element.largest().copysign(number.into())),
                    false => element.encode(number.into()),
                };
                (numbers().map(round).collect(), numbers().filter(is_beyond).count())
            }
        }
    }
}

/// Reads a tensor with four dimensions, `[B,H,S,D]` or `[B,S,H,D]` by `layout`, in little-endian C order.
///
/// # Errors
/// [`Error::File`] when the file cannot be read; [`Error::Invalid`] when it is not a `.npy` file, or has another
/// element type, order, rank or shape, or too few or too many bytes.
pub fn read(path: &Path, layout: Layout, element: Element, f32: F32) -> Result<Array> {
    let file_error = |source| Error::File { path: path.to_owned(), source };
    let refuse = |found: String| Error::Invalid(format!("{}: {found}", path.display()));
    let mut file = BufReader::new(File::open(path).map_err(file_error)?);
    let header = Header::read(&mut file).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof => {
            refuse(format!("not a .npy file ({error}); expected what numpy.save writes"))
        }
        _ => file_error(error),
    })?;
    let stored = stored(&header.descr, element, f32).map_err(refuse)?;
    let shape = tensor_shape(&header, layout).map_err(refuse)?;
    let bytes = element_bytes(shape, stored)
        .ok_or_else(|| refuse(format!("{} is larger than can be addressed", tuple(&header.shape))))?;
    let mut data = Vec::new();
    // One byte more than expected, to notice trailing bytes; the header alone must not determine how much memory is
    // allocated.
    file.take(bytes + 1).read_to_end(&mut data).map_err(file_error)?;
    match (data.len() as u64).cmp(&bytes) {
        std::cmp::Ordering::Equal => {
            let (elements, beyond) = stored.decode(&data, element);
            if beyond > 0 && f32 != F32::Clamped {
                let (count, name, largest) = (elements.len(), element.name(), element.largest());
                return Err(refuse(format!(
                    "{beyond} of {count} numbers are beyond {name}, whose largest is {largest:e}; scale them, or make them \
                     ±{largest:e} by --clamp"
                )));
            }
            Ok(Array { shape, elements })
        }
        std::cmp::Ordering::Less => {
            Err(refuse(format!("truncated: {} bytes of elements, expected {bytes}", data.len())))
        }
        std::cmp::Ordering::Greater => Err(refuse(format!("more than the expected {bytes} bytes of elements"))),
    }
}

/// Writes a C-order array to `path`, replacing the file atomically.
///
/// # Errors
/// As [`files::replace`].
pub fn write<T: Number>(path: &Path, dimensions: &[u64], elements: &[T]) -> Result<()> {
    let header = Header { descr: T::DESCR.into(), fortran_order: false, shape: dimensions.to_vec() };
    files::replace(path, |file| {
        file.write_all(&header.bytes())?;
        elements.iter().try_for_each(|element| file.write_all(element.to_little_endian().as_ref()))
    })
}

/// A number that a `.npy` file can hold.
pub trait Number: Copy {
    /// NumPy's name of the type.
    const DESCR: &str;

    /// Its bytes in a file.
    fn to_little_endian(self) -> impl AsRef<[u8]>;
}

impl Number for f16 {
    const DESCR: &str = "<f2";

    fn to_little_endian(self) -> impl AsRef<[u8]> {
        self.to_le_bytes()
    }
}

impl Number for Bits {
    const DESCR: &str = "<u2";

    fn to_little_endian(self) -> impl AsRef<[u8]> {
        self.to_le_bytes()
    }
}

impl Number for f32 {
    const DESCR: &str = "<f4";

    fn to_little_endian(self) -> impl AsRef<[u8]> {
        self.to_le_bytes()
    }
}

/// [`write()`] for elements of type `element`; bf16 as its bits, `'<u2'`.
///
/// # Errors
/// As [`files::replace`].
pub fn write_elements(path: &Path, dimensions: &[u64], element: Element, elements: &[Bits]) -> Result<()> {
    match element {
        Element::F16 => write::<f16>(path, dimensions, bytemuck::cast_slice(elements)),
        Element::Bf16 => write(path, dimensions, elements),
    }
}

/// How elements of type `element` are stored in a file with this `descr`.
fn stored(descr: &str, element: Element, f32: F32) -> std::result::Result<Stored, String> {
    let expected = match element {
        Element::F16 => "'<f2' (fp16)",
        Element::Bf16 => "'<u2' or '<V2' (the bits of bf16)",
    };
    match (descr, element) {
        ("<f2", Element::F16) | ("<u2" | "<V2" | "|V2", Element::Bf16) => Ok(Stored::Bits),
        ("<f4", _) if f32 != F32::Refused => Ok(Stored::F32),
        ("<f4", _) => Err(format!("holds f32 ('<f4'); expected {expected}, or --allow-f32 to round it")),
        ("<f2", Element::Bf16) => Err(format!("holds fp16 ('<f2'); expected {expected}, or --type f16")),
        (">f2" | ">f4" | ">u2", _) => Err(format!("holds big-endian elements ('{descr}'); expected {expected}")),
        ("<u2" | "<V2" | "|V2", Element::F16) => Err(format!(
            "holds elements of type '{descr}'; expected {expected}, or --type bf16 if they are bits of bf16"
        )),
        _ => Err(format!("holds elements of type '{descr}'; expected {expected}")),
    }
}

fn tensor_shape(header: &Header, layout: Layout) -> std::result::Result<Shape, String> {
    if header.fortran_order {
        return Err("is in Fortran order; expected C order (numpy.ascontiguousarray)".into());
    }
    let expected = match layout {
        Layout::Bhsd => "(batch, heads, sequence, head_dim)",
        Layout::Bshd => "(batch, sequence, heads, head_dim)",
    };
    <[u64; 4]>::try_from(header.shape.as_slice())
        .ok()
        .and_then(|dimensions| layout.shape(dimensions))
        .ok_or_else(|| format!("has shape {}; expected {expected}", tuple(&header.shape)))
}

fn element_bytes(shape: Shape, stored: Stored) -> Option<u64> {
    let elements = shape.rows() * u128::from(shape.head_dim);
    isize::try_from(elements.checked_mul(stored.size().into())?).ok()?.try_into().ok()
}

fn tuple(dimensions: &[u64]) -> String {
    let dimensions: Vec<_> = dimensions.iter().map(u64::to_string).collect();
    format!("({})", dimensions.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const SHAPE: Shape = Shape::new(1, 2, 3);

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        /// A file with a header in numpy's form, followed by `bytes` bytes of ones.
        fn file(&self, dtype: &str, fortran: &str, shape: &str, bytes: usize) -> PathBuf {
            let mut header =
                format!("{{'descr': '{dtype}', 'fortran_order': {fortran}, 'shape': {shape}, }}").into_bytes();
            header.resize(117, b' ');
            header.push(b'\n');
            let mut content = b"\x93NUMPY\x01\x00".to_vec();
            content.extend((header.len() as u16).to_le_bytes());
            content.extend(header);
            content.resize(content.len() + bytes, 1);
            self.raw(&content)
        }

        fn raw(&self, content: &[u8]) -> PathBuf {
            let path = self.0.path().join("tensor.npy");
            std::fs::write(&path, content).unwrap();
            path
        }
    }

    fn refusal(path: &Path) -> String {
        let message = read(path, Layout::Bhsd, Element::F16, F32::Refused).unwrap_err().to_string();
        assert!(message.contains("tensor.npy"), "the file is not named: {message}");
        message
    }

    const BYTES: usize = 2 * 3 * 64 * 2;

    #[test]
    fn what_is_written_is_read_back() {
        let folder = Folder::new();
        let path = folder.0.path().join("out.npy");
        for element in Element::ALL {
            for shape in [SHAPE, SHAPE.with_head_dim(40)] {
                let elements: Vec<Bits> =
                    (0..2 * 3 * shape.head_dim).map(|index| element.encode(index.into())).collect();
                write_elements(&path, &Layout::Bshd.dimensions(shape), element, &elements).unwrap();
                let array = read(&path, Layout::Bshd, element, F32::Refused).unwrap();
                assert_eq!((array.shape, array.elements), (shape, elements));
            }
        }
        assert_eq!(std::fs::read_dir(folder.0.path()).unwrap().count(), 1, "a temporary file was left behind");
    }

    #[test]
    fn f32_is_rounded_only_on_request() {
        let folder = Folder::new();
        let path = folder.file("<f4", "False", "(1, 2, 3, 64)", 2 * BYTES);
        assert!(refusal(&path).contains("--allow-f32"));
        let array = read(&path, Layout::Bhsd, Element::F16, F32::Rounded).unwrap();
        assert_eq!(array.elements[0], Element::F16.encode(f32::from_le_bytes([1; 4]).into()));
        assert_eq!(array.elements.len(), 2 * 3 * 64);
    }

    #[test]
    fn f32_beyond_fp16_is_refused_or_clamped() {
        let folder = Folder::new();
        let path = folder.file("<f4", "False", "(1, 2, 3, 64)", 0);
        let mut content = std::fs::read(&path).unwrap();
        let numbers = [65_519.9, -65_520.0, 1e30, f32::INFINITY, f32::NAN];
        let rest = std::iter::repeat_n(0.5, 2 * 3 * 64 - numbers.len());
        content.extend(numbers.into_iter().chain(rest).flat_map(f32::to_le_bytes));
        let path = folder.raw(&content);
        let error = read(&path, Layout::Bhsd, Element::F16, F32::Rounded).unwrap_err().to_string();
        assert!(
            error.contains("2 of 384 numbers are beyond f16, whose largest is 6.5504e4") && error.contains("--clamp"),
            "{error}"
        );
        let elements = read(&path, Layout::Bhsd, Element::F16, F32::Clamped).unwrap().elements;
        let numbers: Vec<f64> = elements.iter().map(|&bits| Element::F16.decode(bits)).collect();
        assert_eq!(numbers[..4], [65_504.0, -65_504.0, 65_504.0, f64::INFINITY]);
        assert!(numbers[4].is_nan() && numbers[5] == 0.5);
    }

    #[test]
    fn other_element_types_are_refused() {
        let folder = Folder::new();
        assert!(refusal(&folder.file("<f8", "False", "(1, 2, 3, 64)", 4 * BYTES)).contains("'<f8'; expected '<f2'"));
        assert!(refusal(&folder.file(">f2", "False", "(1, 2, 3, 64)", BYTES)).contains("big-endian"));
    }

    #[test]
    fn bf16_is_read_from_its_bits_or_from_f32_where_that_is_said() {
        let folder = Folder::new();
        let read = |path: &Path, f32| read(path, Layout::Bhsd, Element::Bf16, f32).map_err(|error| error.to_string());
        for dtype in ["<u2", "<V2", "|V2"] {
            let path = folder.file(dtype, "False", "(1, 2, 3, 64)", BYTES);
            assert_eq!(read(&path, F32::Refused).unwrap().elements, [0x0101; 2 * 3 * 64], "{dtype}");
            assert!(refusal(&path).contains("or --type bf16 if they are bits of bf16"), "{dtype}");
        }
        let f16 = folder.file("<f2", "False", "(1, 2, 3, 64)", BYTES);
        assert!(read(&f16, F32::Rounded).unwrap_err().contains("holds fp16 ('<f2'); expected '<u2' or '<V2'"));
        let f32 = folder.file("<f4", "False", "(1, 2, 3, 64)", 2 * BYTES);
        assert!(read(&f32, F32::Refused).unwrap_err().contains("--allow-f32"));
        assert_eq!(read(&f32, F32::Rounded).unwrap().elements, [0x0101; 2 * 3 * 64]);
    }

    #[test]
    fn other_shapes_and_orders_are_refused() {
        let folder = Folder::new();
        for shape in ["(6, 64)", "(1, 2, 4294967296, 64)", "()"] {
            let message = refusal(&folder.file("<f2", "False", shape, BYTES));
            assert!(message.contains(&format!("has shape {shape}; expected (batch, heads")), "{message}");
        }
        assert!(refusal(&folder.file("<f2", "True", "(1, 2, 3, 64)", BYTES)).contains("Fortran order"));
    }

    #[test]
    fn a_file_of_another_length_is_refused() {
        let folder = Folder::new();
        let file = |bytes| folder.file("<f2", "False", "(1, 2, 3, 64)", bytes);
        assert!(refusal(&file(BYTES - 1)).contains("truncated: 767 bytes of elements, expected 768"));
        assert!(refusal(&file(BYTES + 1)).contains("more than the expected 768 bytes"));
        let huge = folder.file("<f2", "False", "(1, 4294967295, 4294967295, 64)", BYTES);
        assert!(read(&huge, Layout::Bhsd, Element::F16, F32::Refused).is_err());
        let larger = folder.file("<f2", "False", "(4294967295, 4294967295, 4294967295, 4294967295)", BYTES);
        assert!(refusal(&larger).contains("larger than can be addressed"));
    }

    #[test]
    fn what_is_not_npy_is_refused() {
        let folder = Folder::new();
        for content in [&b""[..], b"\x93NUM", b"PK\x03\x04 an npz file", b"\x93NUMPY\x01\x00\xff\xff{"] {
            assert!(refusal(&folder.raw(content)).contains("not a .npy file"), "{content:?}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read(Path::new("no/such/tensor.npy"), Layout::Bhsd, Element::F16, F32::Refused).unwrap_err();
        assert!(error.to_string().starts_with("no/such/tensor.npy: "), "{error}");
    }
}

//! Tensors in NumPy's `.npy` files: fp16 in, fp16 and f32 out.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use half::f16;
use npyz::{AutoSerialize, DType, NpyFile, NpyHeader, Order, Serialize, WriterBuilder};

use crate::error::{Error, Result};
use crate::files;
use contract::problem::Shape;
use contract::view::Layout;

/// Element types that a file may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// fp16 only.
    F16,
    /// fp16, or f32 that is rounded to fp16 (to nearest, ties to even). A number beyond fp16 is refused.
    F16OrF32,
    /// As before, but a number beyond fp16 becomes the largest of its sign.
    F16OrClampedF32,
}

/// Smallest number that is rounded to infinity: halfway from the largest one of fp16 to where the next would be.
const BEYOND_F16: f32 = 65_520.0;

/// A tensor that was read from a file: C order, of [`Layout::dimensions`] in the layout it was read with.
#[derive(Clone, Debug)]
pub struct Array {
    /// `[B,H,S]`.
    pub shape: Shape,
    /// Elements in the order of the file.
    pub elements: Vec<f16>,
}

#[derive(Clone, Copy)]
enum ElementType {
    F16,
    F32,
}

impl ElementType {
    fn size(self) -> u64 {
        match self {
            ElementType::F16 => 2,
            ElementType::F32 => 4,
        }
    }

    /// The elements, and how many of them are finite numbers beyond fp16.
    fn decode(self, bytes: &[u8]) -> (Vec<f16>, usize) {
        match self {
            ElementType::F16 => (bytes.as_chunks().0.iter().map(|&bytes| f16::from_le_bytes(bytes)).collect(), 0),
            ElementType::F32 => {
                let numbers = || bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
                let is_beyond = |number: &f32| number.is_finite() && number.abs() >= BEYOND_F16;
                let round = |number| match is_beyond(&number) {
                    true => f16::MAX.copysign(f16::from_f32(number)),
                    false => f16::from_f32(number),
                };
                (numbers().map(round).collect(), numbers().filter(is_beyond).count())
            }
        }
    }
}

/// Reads a tensor of four dimensions, `[B,H,S,64]` or `[B,S,H,64]` by `layout`, in little-endian C order.
///
/// # Errors
/// [`Error::File`] when the file cannot be read; [`Error::Invalid`] when it is not a `.npy` file, or holds another
/// element type, order, rank or shape, or too few or too many bytes.
pub fn read(path: &Path, layout: Layout, accept: Accept) -> Result<Array> {
    let file_error = |source| Error::File { path: path.to_owned(), source };
    let refuse = |found: String| Error::Invalid(format!("{}: {found}", path.display()));
    let file = BufReader::new(File::open(path).map_err(file_error)?);
    let file = NpyFile::new(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof => {
            refuse(format!("not a .npy file ({error}); expected what numpy.save writes"))
        }
        _ => file_error(error),
    })?;
    let element = element_type(file.header(), accept).map_err(refuse)?;
    let shape = tensor_shape(file.header(), layout).map_err(refuse)?;
    let bytes = element_bytes(shape, element)
        .ok_or_else(|| refuse(format!("{} is larger than can be addressed", tuple(file.header().shape()))))?;
    let mut data = Vec::new();
    // One byte more than expected, so that trailing bytes are noticed; the header alone must not decide how much
    // memory is taken.
    file.into_inner().take(bytes + 1).read_to_end(&mut data).map_err(file_error)?;
    match (data.len() as u64).cmp(&bytes) {
        std::cmp::Ordering::Equal => {
            let (elements, beyond) = element.decode(&data);
            match accept {
                Accept::F16 | Accept::F16OrF32 if beyond > 0 => Err(refuse(format!(
                    "{beyond} of {} numbers are beyond fp16, whose largest is 65504; scale them, or make them ±65504 by --clamp",
                    elements.len()
                ))),
                _ => Ok(Array { shape, elements }),
            }
        }
        std::cmp::Ordering::Less => {
            Err(refuse(format!("truncated: {} bytes of elements, expected {bytes}", data.len())))
        }
        std::cmp::Ordering::Greater => Err(refuse(format!("more than the expected {bytes} bytes of elements"))),
    }
}

/// Writes a C-order array to `path`, which is replaced in one step.
///
/// # Errors
/// As [`files::replace`].
pub fn write<T: Serialize + AutoSerialize + Copy>(path: &Path, dimensions: &[u64], elements: &[T]) -> Result<()> {
    files::replace(path, |file| {
        let mut writer = npyz::WriteOptions::new().default_dtype().shape(dimensions).writer(file).begin_nd()?;
        writer.extend(elements.iter().copied())?;
        writer.finish()
    })
}

fn element_type(header: &NpyHeader, accept: Accept) -> std::result::Result<ElementType, String> {
    let name = match header.dtype() {
        DType::Plain(name) => name.to_string(),
        other => other.descr(),
    };
    match (name.as_str(), accept) {
        ("<f2", _) => Ok(ElementType::F16),
        ("<f4", Accept::F16OrF32 | Accept::F16OrClampedF32) => Ok(ElementType::F32),
        ("<f4", Accept::F16) => Err("holds f32 ('<f4'); expected fp16 ('<f2'), or --allow-f32 to round it".into()),
        (">f2" | ">f4", _) => Err(format!("holds big-endian elements ('{name}'); expected '<f2' (fp16)")),
        _ => Err(format!("holds elements of type '{name}'; expected '<f2' (fp16)")),
    }
}

fn tensor_shape(header: &NpyHeader, layout: Layout) -> std::result::Result<Shape, String> {
    if header.order() != Order::C {
        return Err("is in Fortran order; expected C order (numpy.ascontiguousarray)".into());
    }
    let expected = match layout {
        Layout::Bhsd => "(batch, heads, sequence, 64)",
        Layout::Bshd => "(batch, sequence, heads, 64)",
    };
    <[u64; 4]>::try_from(header.shape())
        .ok()
        .and_then(|dimensions| layout.shape(dimensions))
        .ok_or_else(|| format!("has shape {}; expected {expected}", tuple(header.shape())))
}

fn element_bytes(shape: Shape, element: ElementType) -> Option<u64> {
    let elements = shape.rows() * u128::from(contract::config::HEAD_DIM);
    isize::try_from(elements * u128::from(element.size())).ok()?.try_into().ok()
}

fn tuple(dimensions: &[u64]) -> String {
    let dimensions: Vec<_> = dimensions.iter().map(u64::to_string).collect();
    format!("({})", dimensions.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const SHAPE: Shape = Shape { batch: 1, heads: 2, sequence: 3 };

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        /// A file with a header as numpy writes it, followed by `bytes` bytes of ones.
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
        let message = read(path, Layout::Bhsd, Accept::F16).unwrap_err().to_string();
        assert!(message.contains("tensor.npy"), "the file is not named: {message}");
        message
    }

    const BYTES: usize = 2 * 3 * 64 * 2;

    #[test]
    fn what_is_written_is_read_back() {
        let folder = Folder::new();
        let path = folder.0.path().join("out.npy");
        let elements: Vec<f16> = (0..2 * 3 * 64).map(|index| f16::from_f32(index as f32)).collect();
        write(&path, &Layout::Bshd.dimensions(SHAPE), &elements).unwrap();
        let array = read(&path, Layout::Bshd, Accept::F16).unwrap();
        assert_eq!((array.shape, array.elements), (SHAPE, elements));
        assert_eq!(std::fs::read_dir(folder.0.path()).unwrap().count(), 1, "a temporary file was left behind");
    }

    #[test]
    fn f32_is_rounded_only_on_request() {
        let folder = Folder::new();
        let path = folder.file("<f4", "False", "(1, 2, 3, 64)", 2 * BYTES);
        assert!(refusal(&path).contains("--allow-f32"));
        let array = read(&path, Layout::Bhsd, Accept::F16OrF32).unwrap();
        assert_eq!(array.elements[0], f16::from_f32(f32::from_le_bytes([1; 4])));
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
        let error = read(&path, Layout::Bhsd, Accept::F16OrF32).unwrap_err().to_string();
        assert!(error.contains("2 of 384 numbers are beyond fp16") && error.contains("--clamp"), "{error}");
        let elements = read(&path, Layout::Bhsd, Accept::F16OrClampedF32).unwrap().elements;
        assert_eq!(elements[..4], [f16::MAX, f16::MIN, f16::MAX, f16::INFINITY]);
        assert!(elements[4].is_nan() && elements[5] == f16::from_f32(0.5));
    }

    #[test]
    fn other_element_types_are_refused() {
        let folder = Folder::new();
        assert!(refusal(&folder.file("<f8", "False", "(1, 2, 3, 64)", 4 * BYTES)).contains("'<f8'; expected '<f2'"));
        assert!(refusal(&folder.file(">f2", "False", "(1, 2, 3, 64)", BYTES)).contains("big-endian"));
    }

    #[test]
    fn other_shapes_and_orders_are_refused() {
        let folder = Folder::new();
        for shape in ["(6, 64)", "(1, 2, 3, 32)", "(1, 2, 4294967296, 64)", "()"] {
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
        assert!(read(&huge, Layout::Bhsd, Accept::F16).is_err());
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
        let error = read(Path::new("no/such/tensor.npy"), Layout::Bhsd, Accept::F16).unwrap_err();
        assert!(error.to_string().starts_with("no/such/tensor.npy: "), "{error}");
    }
}

//! Reading of NumPy's `.npy` files.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use npyz::{DType, NpyFile, Order};

use crate::element::Element;
use crate::notation::LARGEST_BUFFER;

/// An array of one element type.
#[derive(Clone, Debug)]
pub struct Array {
    /// Element type.
    pub element: Element,
    /// Elements, contiguous in C order.
    pub data: Vec<u8>,
}

impl Array {
    /// Reads the elements of a file in C order. Untyped two-byte elements, as `ml_dtypes.bfloat16` is saved, are bf16.
    ///
    /// # Errors
    /// If the file cannot be read, is not an `.npy` file, or is not supported; the text names the file.
    pub fn read(path: &Path) -> Result<Array, String> {
        let refuse = |what: String| format!("{}: {what}", path.display());
        let file = File::open(path).map_err(|error| refuse(error.to_string()))?;
        let file = NpyFile::new(BufReader::new(file))
            .map_err(|error| refuse(format!("not a .npy file ({error}); expected what numpy.save writes")))?;
        let header = file.header();
        let (kind, shape) = (header.dtype(), header.shape());
        let element = element(&kind).ok_or_else(|| {
            let what = kind.descr();
            refuse(format!("holds {what}; save little-endian numbers, as in numpy.save(path, x.astype(numpy.float32))"))
        })?;
        let more_than_one = shape.iter().filter(|size| **size > 1).count();
        if header.order() == Order::Fortran && more_than_one > 1 {
            return Err(refuse("is in Fortran order; save numpy.ascontiguousarray(x)".to_owned()));
        }
        let count = shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size));
        let bytes = count.and_then(|count| count.checked_mul(element.bytes as u64));
        let bytes = bytes
            .filter(|bytes| *bytes <= LARGEST_BUFFER)
            .ok_or_else(|| refuse(format!("has the shape {shape:?}; at most {LARGEST_BUFFER} bytes are possible")))?;
        // The header alone must not decide how much memory is allocated.
        let mut data = Vec::new();
        let read = file.into_inner().take(bytes + 1).read_to_end(&mut data);
        read.map_err(|error| refuse(error.to_string()))?;
        if data.len() as u64 != bytes {
            let what = if (data.len() as u64) < bytes { "fewer" } else { "more" };
            return Err(refuse(format!("holds {what} than the {bytes} bytes that its header says; save it again")));
        }
        Ok(Array { element, data })
    }

    /// Number of elements.
    pub fn count(&self) -> u64 {
        (self.data.len() / self.element.bytes) as u64
    }
}

fn element(kind: &DType) -> Option<Element> {
    let DType::Plain(kind) = kind else { return None };
    Element::named(match kind.to_string().as_str() {
        "|u1" | "|b1" => "u8",
        "<u2" => "u16",
        "<u4" => "u32",
        "<u8" => "u64",
        "|i1" => "i8",
        "<i2" => "i16",
        "<i4" => "i32",
        "<i8" => "i64",
        "<f2" => "f16",
        "<f4" => "f32",
        "<f8" => "f64",
        "<V2" | "|V2" => "bf16",
        _ => return None,
    })
}

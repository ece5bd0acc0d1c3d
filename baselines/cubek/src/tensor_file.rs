//! Tensors in `.npy` files, as bits.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;

use half::f16;
use npyz::{AutoSerialize, NpyFile, WriterBuilder};

use crate::protocol::Refusal;
use crate::shape::{Element, Layout, Shape};

/// A tensor of four dimensions.
pub struct Tensor {
    /// B, H, S and D.
    pub shape: Shape,
    /// Bits of the elements, in the order of the layout.
    pub bits: Vec<u16>,
}

/// Reads a file of fp16, or of bf16 stored as unsigned integers.
///
/// # Errors
/// If it cannot be read, or has other contents.
pub fn read(path: &Path, layout: Layout, element: Element) -> Result<Tensor, Refusal> {
    let failed = |error: std::io::Error| Refusal::failed(format!("{}: {error}", path.display()));
    let file = NpyFile::new(BufReader::new(File::open(path).map_err(failed)?)).map_err(failed)?;
    let dimensions: Vec<usize> = file.shape().iter().map(|&size| size as usize).collect();
    let dimensions: [usize; 4] = dimensions.try_into().map_err(|dimensions: Vec<usize>| {
        Refusal::invalid(format!("{} is of {dimensions:?}, not of four dimensions", path.display()))
    })?;
    let bits = match element {
        Element::F16 => {
            let elements: Vec<f16> = file.into_vec().map_err(failed)?;
            elements.into_iter().map(f16::to_bits).collect()
        }
        Element::Bf16 => file.into_vec().map_err(failed)?,
    };
    Ok(Tensor { shape: Shape::of(dimensions, layout), bits })
}

/// Writes a file in the same format.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: &Path, layout: Layout, element: Element, shape: Shape, bits: &[u16]) -> Result<(), Refusal> {
    let dimensions = shape.dimensions(layout).map(|size| size as u64);
    match element {
        Element::F16 => write_rows(path, &dimensions, bits.iter().map(|&bits| f16::from_bits(bits))),
        Element::Bf16 => write_rows(path, &dimensions, bits.iter().copied()),
    }
    .map_err(|error| Refusal::failed(format!("{}: {error}", path.display())))
}

fn write_rows<T: AutoSerialize>(
    path: &Path,
    dimensions: &[u64],
    elements: impl Iterator<Item = T>,
) -> std::io::Result<()> {
    let file = BufWriter::new(File::create(path)?);
    let mut file = npyz::WriteOptions::new().default_dtype().shape(dimensions).writer(file).begin_nd()?;
    file.extend(elements)?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("o.npy");
        let shape = Shape { batch: 1, heads: 2, sequence: 3, columns: 8 };
        let bits: Vec<u16> = (0..shape.elements() as u16).map(|number| 0x3c00 + number).collect();
        for element in [Element::F16, Element::Bf16] {
            write(&path, Layout::Bshd, element, shape, &bits).unwrap();
            let tensor = read(&path, Layout::Bshd, element).unwrap();
            assert_eq!((tensor.shape, tensor.bits), (shape, bits.clone()));
        }
        let other = read(&path, Layout::Bshd, Element::F16).err().expect("bits of bf16 are no fp16");
        assert!(other.error().contains("o.npy"), "{other:?}");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let refusal = read(Path::new("no/such.npy"), Layout::Bhsd, Element::F16).err().expect("no file");
        assert!(refusal.error().starts_with("no/such.npy: "), "{refusal:?}");
    }
}

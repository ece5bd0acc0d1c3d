//! Comparison of buffers with their expected contents.

use serde::Serialize;

use crate::description::{Expected, Number, Numbers};
use crate::element::Element;
use crate::npy::Array;
use crate::world::World;

/// Maximum differing elements listed.
const SHOWN: usize = 4;
/// Default tolerances of floating-point numbers: those of numpy.allclose.
const RELATIVE: f64 = 1e-5;
const ABSOLUTE: f64 = 1e-8;

/// Result of comparing a buffer with its expected contents.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// Name of the buffer.
    pub buffer: String,
    /// Number of elements.
    pub elements: u64,
    /// Number of elements outside the tolerance.
    pub differing: u64,
    /// The largest difference.
    pub largest_difference: f64,
    /// Relative tolerance.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
    /// Index of the first unwritten element.
    pub first_unwritten: Option<u64>,
    /// The first differing elements.
    pub first: Vec<Difference>,
}

/// An element that differs.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// Its index.
    pub index: u64,
    /// Actual value.
    pub found: String,
    /// Expected value.
    pub expected: String,
}

impl Comparison {
    /// Whether the buffer matches.
    pub fn passed(&self) -> bool {
        self.differing == 0 && self.first_unwritten.is_none()
    }

    /// The comparison as text.
    pub fn text(&self) -> String {
        let Self { buffer, elements, differing, largest_difference, rtol, atol, .. } = self;
        if self.passed() {
            return format!("{buffer}: {elements} elements as expected, largest difference {largest_difference:e}\n");
        }
        let mut text = format!(
            "error: unexpected values: {differing} of {elements} elements of `{buffer}` differ by more than {atol:e} + {rtol:e} \
             of the expected value, at most by {largest_difference:e}\n"
        );
        for Difference { index, found, expected } in &self.first {
            text += &format!("  {buffer}[{index}] is {found}, expected {expected}\n");
        }
        if let Some(index) = self.first_unwritten {
            text += &format!("  {buffer}[{index}] was never written\n");
        }
        text
    }
}

/// Compares a buffer of `world` with its expected contents.
///
/// # Errors
/// If there is no such buffer, or the expected numbers cannot be read or have another count.
pub fn compare(world: &World, name: &str, expected: &Expected) -> Result<Comparison, String> {
    let place = world.named(name)?;
    let wanted = match &expected.numbers {
        Numbers::Npy(path) => Array::read(path)?,
        Numbers::List(numbers) => list(numbers),
    };
    if wanted.count() != place.count {
        return Err(format!("expect.{name}: {} elements are expected; it has {}", wanted.count(), place.count));
    }
    let mut data = vec![0; place.bytes() as usize];
    let read = world
        .memory
        .read(place.address, &mut data)
        .and_then(|()| world.memory.first_unwritten(place.address, place.bytes()));
    let unwritten = read.map_err(|error| error.to_string())?;
    let element = place.element;
    let is_exact = !element.is_float() && !wanted.element.is_float();
    let mut comparison = Comparison {
        buffer: name.to_owned(),
        elements: place.count,
        differing: 0,
        largest_difference: 0.0,
        rtol: expected.relative.unwrap_or(if is_exact { 0.0 } else { RELATIVE }),
        atol: expected.absolute.unwrap_or(if is_exact { 0.0 } else { ABSOLUTE }),
        first_unwritten: unwritten.map(|address| (address - place.address) / element.bytes as u64),
        first: Vec::new(),
    };
    let pairs = data.chunks_exact(element.bytes).zip(wanted.data.chunks_exact(wanted.element.bytes));
    for (index, (found, wanted_bytes)) in (0..).zip(pairs) {
        let (difference, scale) = difference((element, found), (wanted.element, wanted_bytes));
        comparison.largest_difference = comparison.largest_difference.max(difference);
        if difference > comparison.atol + comparison.rtol * scale {
            comparison.differing += 1;
            if comparison.first.len() < SHOWN {
                let (found, expected) = (element.show(found), wanted.element.show(wanted_bytes));
                comparison.first.push(Difference { index, found, expected });
            }
        }
    }
    Ok(comparison)
}

/// Distance of two numbers, and magnitude of the second.
fn difference((kind, bytes): (Element, &[u8]), (wanted_kind, wanted_bytes): (Element, &[u8])) -> (f64, f64) {
    if let (Some(found), Some(wanted)) = (kind.integer(bytes), wanted_kind.integer(wanted_bytes)) {
        return ((found - wanted).unsigned_abs() as f64, wanted.unsigned_abs() as f64);
    }
    let (found, wanted) = (kind.number(bytes), wanted_kind.number(wanted_bytes));
    if found == wanted || found.is_nan() && wanted.is_nan() {
        return (0.0, 0.0);
    }
    let difference = (found - wanted).abs();
    // Infinity is close only to itself.
    if difference.is_finite() { (difference, wanted.abs()) } else { (f64::INFINITY, 0.0) }
}

/// Numbers of a list as an array.
fn list(numbers: &[Number]) -> Array {
    let integers = numbers.iter().map(|number| match number {
        Number::Integer(value) => Some(*value),
        Number::Float(_) => None,
    });
    let integers: Option<Vec<i64>> = integers.collect();
    let named = |name| Element::named(name).expect("a type of the table");
    match integers {
        Some(integers) => {
            Array { element: named("i64"), data: integers.into_iter().flat_map(i64::to_le_bytes).collect() }
        }
        None => {
            let values = numbers.iter().map(|number| match number {
                Number::Integer(value) => *value as f64,
                Number::Float(value) => *value,
            });
            Array { element: named("f64"), data: values.flat_map(f64::to_le_bytes).collect() }
        }
    }
}

//! The texels of a fetch and their weights (CUDA C++ Programming Guide, "Texture Fetching").

use crate::memory::{AddressMode, Filter, Sampler, Texels};

/// Weights have 8 fractional bits: they are multiples of one over this.
const WEIGHT_STEPS: f64 = 256.0;

/// A texel of a fetch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tap {
    /// Column, row and slice or layer; `None` if it is outside.
    pub at: Option<[u64; 3]>,
    pub weight: f64,
}

/// The texel at integer coordinates, which must be inside.
pub(super) fn texel(texels: &Texels, coordinates: &[i64]) -> Tap {
    let mut at = [0; 3];
    for (dimension, coordinate) in coordinates.iter().enumerate() {
        match u64::try_from(*coordinate) {
            Ok(index) if index < texels.extent[dimension] => at[dimension] = index,
            _ => return Tap { at: None, weight: 1.0 },
        }
    }
    Tap { at: Some(at), weight: 1.0 }
}

/// The texels of a fetch at floating-point coordinates.
pub(super) fn taps(texels: &Texels, sampler: &Sampler, coordinates: &[f32]) -> Vec<Tap> {
    let mut taps = vec![Tap { at: Some([0; 3]), weight: 1.0 }];
    for (dimension, coordinate) in coordinates.iter().enumerate() {
        let axis = Axis::new(texels, sampler, dimension);
        let of_axis = match sampler.filter {
            Filter::Point => vec![(axis.nearest(*coordinate), 1.0)],
            Filter::Linear => {
                let ([low, high], weight) = axis.neighbours(*coordinate);
                vec![(low, 1.0 - weight), (high, weight)]
            }
        };
        let both = of_axis.iter().flat_map(|(index, weight)| {
            taps.iter().map(move |tap| Tap { at: with(tap.at, dimension, *index), weight: tap.weight * weight })
        });
        // A texel with weight 0 is not read.
        taps = both.filter(|tap| tap.weight != 0.0).collect();
    }
    taps
}

/// The four texels that a linear filter of a plane reads, counter-clockwise from the one at the lower left.
pub(super) fn corners(texels: &Texels, sampler: &Sampler, [x, y]: [f32; 2]) -> [Tap; 4] {
    let ([left, right], _) = Axis::new(texels, sampler, 0).neighbours(x);
    let ([upper, lower], _) = Axis::new(texels, sampler, 1).neighbours(y);
    let corner = |x, y| Tap { at: with(with(Some([0; 3]), 0, x), 1, y), weight: 1.0 };
    [corner(left, lower), corner(right, lower), corner(right, upper), corner(left, upper)]
}

fn with(at: Option<[u64; 3]>, dimension: usize, index: Option<u64>) -> Option<[u64; 3]> {
    let (mut at, index) = (at?, index?);
    at[dimension] = index;
    Some(at)
}

/// One dimension of a texture.
struct Axis {
    extent: f64,
    mode: AddressMode,
    is_normalized: bool,
}

impl Axis {
    fn new(texels: &Texels, sampler: &Sampler, dimension: usize) -> Axis {
        let is_normalized = sampler.normalized_coordinates;
        let mode = match sampler.address[dimension] {
            AddressMode::Wrap | AddressMode::Mirror if !is_normalized => AddressMode::Clamp,
            mode => mode,
        };
        Axis { extent: texels.extent[dimension].max(1) as f64, mode, is_normalized }
    }

    /// A coordinate in texels, from 0 to the extent if the texture repeats.
    fn position(&self, coordinate: f32) -> f64 {
        let coordinate = f64::from(coordinate);
        if !self.is_normalized {
            return coordinate;
        }
        let whole = coordinate.floor();
        let fraction = coordinate - whole;
        self.extent
            * match self.mode {
                AddressMode::Mirror if whole.rem_euclid(2.0) == 1.0 => 1.0 - fraction,
                AddressMode::Wrap | AddressMode::Mirror => fraction,
                AddressMode::Clamp | AddressMode::Border => coordinate,
            }
    }

    /// The index of the texel with this number, which may be outside.
    fn index(&self, number: f64) -> Option<u64> {
        let last = self.extent - 1.0;
        let number = match self.mode {
            AddressMode::Border if !(0.0..=last).contains(&number) => return None,
            AddressMode::Wrap => number.rem_euclid(self.extent),
            AddressMode::Mirror if number < 0.0 => -1.0 - number,
            AddressMode::Mirror if number > last => 2.0 * self.extent - 1.0 - number,
            _ => number,
        };
        // NaN becomes 0.
        Some(number.clamp(0.0, last) as u64)
    }

    fn nearest(&self, coordinate: f32) -> Option<u64> {
        self.index(self.position(coordinate).floor())
    }

    /// The texels on both sides, and the weight of the second one.
    fn neighbours(&self, coordinate: f32) -> ([Option<u64>; 2], f64) {
        let steps = ((self.position(coordinate) - 0.5) * WEIGHT_STEPS + 0.5).floor();
        let low = (steps / WEIGHT_STEPS).floor();
        let weight = (steps - low * WEIGHT_STEPS) / WEIGHT_STEPS;
        ([self.index(low), self.index(low + 1.0)], if weight.is_finite() { weight } else { 0.0 })
    }
}

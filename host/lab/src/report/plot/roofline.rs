//! The roofline (Williams, Waterman & Patterson 2009): achieved operations per second against operations per byte.

use super::axis::Axis;
use super::canvas::{chart, line, markers, svg};
use super::palette::{AXIS, Style};
use cli::error::Result;

/// Height of the plot.
const HEIGHT: u32 = 620;
/// Margin left and right of the points, as a factor.
const ROOM: f64 = 3.0;

/// The performance of one contender in one case.
pub struct Point {
    /// Operations per byte of inputs and outputs.
    pub intensity: f64,
    /// 10¹² operations per second.
    pub teraflops: f64,
    /// How it is drawn.
    pub style: Style,
}

/// The measured limits, at least one.
#[derive(Clone, Copy)]
pub struct Roofline {
    /// 10¹² bytes per second.
    pub terabytes_per_second: Option<f64>,
    /// 10¹² operations per second.
    pub teraflops: Option<f64>,
}

impl Roofline {
    /// The attainable rate at `intensity`.
    pub fn limit(&self, intensity: f64) -> f64 {
        let memory = self.terabytes_per_second.map_or(f64::INFINITY, |rate| rate * intensity);
        memory.min(self.teraflops.unwrap_or(f64::INFINITY))
    }

    /// The intensity from which the tensor cores are the limit.
    pub fn ridge(&self) -> Option<f64> {
        Some(self.teraflops? / self.terabytes_per_second?)
    }
}

/// The SVG of `points` under `limits`; both axes are logarithmic.
pub fn roofline(points: &[Point], limits: Roofline) -> Result<String> {
    let intensities = points.iter().map(|point| point.intensity).chain(limits.ridge());
    let x = Axis::logarithmic("operations per byte", intensities.flat_map(|value| [value / ROOM, value * ROOM]));
    let ends = (10f64.powf(x.ends.0), 10f64.powf(x.ends.1));
    let mut corners = vec![ends.0, ends.1];
    corners.extend(limits.ridge());
    corners.sort_by(f64::total_cmp);
    let roof: Vec<(f64, f64)> = corners.into_iter().map(|intensity| (intensity, limits.limit(intensity))).collect();
    let rates = points.iter().map(|point| point.teraflops).chain(roof.iter().map(|corner| corner.1));
    let y = Axis::logarithmic("TFLOP/s", rates);
    svg(HEIGHT, |area| {
        let mut chart = chart(area, &x, &y)?;
        let roof = roof.iter().map(|&(intensity, rate)| (x.position(intensity), y.position(rate)));
        line(&mut chart, roof.collect(), AXIS, 6)?;
        for point in points {
            markers(&mut chart, [(x.position(point.intensity), y.position(point.teraflops))], point.style)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roof_is_the_lower_limit() {
        let both = Roofline { terabytes_per_second: Some(4.0), teraflops: Some(800.0) };
        assert_eq!(
            (both.ridge(), both.limit(100.0), both.limit(200.0), both.limit(1e4)),
            (Some(200.0), 400.0, 800.0, 800.0)
        );
        let memory = Roofline { teraflops: None, ..both };
        assert_eq!((memory.ridge(), memory.limit(1e4)), (None, 40_000.0));
    }
}

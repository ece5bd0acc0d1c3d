//! Ratios of times with their intervals, relative to 1.

use super::axis::Axis;
use super::canvas::{line, markers};
use super::palette::{AXIS, Style};
use super::rows::{BOTTOM, Label, MIDDLE, TOP, rows};
use cli::error::Result;
use cli::statistics::Interval;

/// Range beyond which the axis is logarithmic.
const WIDEST_LINEAR: f64 = 4.0;

/// A ratio.
pub struct Ratio {
    /// The label of the row.
    pub label: Label,
    /// The ratio.
    pub ratio: f64,
    /// Its interval.
    pub interval: Interval,
    /// How it is drawn.
    pub style: Style,
}

/// The SVG of `ratios`; those that are not positive numbers are left out.
pub fn ratios(ratios: Vec<Ratio>) -> Result<String> {
    let drawable = |row: &Ratio| [row.ratio, row.interval.low, row.interval.high].iter().all(|value| *value > 0.0);
    let ratios: Vec<_> = ratios.into_iter().filter(drawable).collect();
    let values: Vec<f64> =
        ratios.iter().flat_map(|row| [row.ratio, row.interval.low, row.interval.high]).chain([1.0]).collect();
    let wide = values.iter().any(|&value| !(1.0 / WIDEST_LINEAR..=WIDEST_LINEAR).contains(&value));
    const NAME: &str = "ratio of medians; left of 1 is faster";
    let x = if wide { Axis::logarithmic(NAME, values) } else { Axis::linear(NAME, values) };
    let one = x.position(1.0);
    let count = ratios.len() as f64;
    let (labels, ratios): (Vec<_>, Vec<_>) =
        ratios.into_iter().map(|row| (row.label, (row.ratio, row.interval, row.style))).unzip();
    rows(&labels, &x, |chart| {
        for row in 0..count as usize {
            let at = |part: f64| row as f64 + part;
            line(chart, vec![(one, at(TOP)), (one, at(BOTTOM))], AXIS, 3)?;
        }
        for (row, &(ratio, Interval { low, high }, style)) in ratios.iter().enumerate() {
            let at = |part: f64| row as f64 + part;
            let whisker = vec![(x.position(low), at(MIDDLE)), (x.position(high), at(MIDDLE))];
            line(chart, whisker, style.colour, 5)?;
            markers(chart, [(x.position(ratio), at(MIDDLE))], style)?;
        }
        Ok(())
    })
}

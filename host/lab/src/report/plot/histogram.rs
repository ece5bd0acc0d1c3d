//! Distributions of samples, one below another.

use super::axis::Axis;
use super::canvas::{line, polygon};
use super::palette::{INK, Style};
use super::rows::{BOTTOM, Label, TOP, rows};
use cli::error::Result;
use cli::statistics::Samples;

/// Bins across the axis.
const BINS: usize = 60;

/// The samples of one row.
pub struct Distribution<'a> {
    /// The label of the row.
    pub label: Label,
    /// The samples.
    pub samples: &'a Samples,
    /// How they are drawn.
    pub style: Style,
}

/// The SVG of histograms of each row's samples relative to their median, in per cent. Each histogram fills its row's
/// height.
pub fn histograms(distributions: Vec<Distribution>) -> Result<String> {
    let deviations: Vec<Vec<f64>> = distributions.iter().map(|row| deviations(row.samples)).collect();
    let x = Axis::linear("difference from the contender’s own median, %", deviations.iter().flatten().copied());
    let (labels, styles): (Vec<_>, Vec<_>) = distributions.into_iter().map(|row| (row.label, row.style)).unzip();
    rows(&labels, &x, |chart| {
        for (row, (deviations, style)) in deviations.iter().zip(styles).enumerate() {
            let at = |part: f64| row as f64 + part;
            polygon(chart, outline(deviations, x.ends, at(BOTTOM), at(TOP)), style.colour)?;
            line(chart, vec![(0.0, at(TOP)), (0.0, at(BOTTOM))], INK, 3)?;
        }
        Ok(())
    })
}

fn deviations(samples: &Samples) -> Vec<f64> {
    let median = samples.median();
    samples.in_order().iter().map(|sample| 100.0 * (sample / median - 1.0)).collect()
}

/// A step outline of the histogram, from `base` up to `top` for the fullest bin.
fn outline(values: &[f64], (low, high): (f64, f64), base: f64, top: f64) -> Vec<(f64, f64)> {
    let mut counts = [0u32; BINS];
    for value in values {
        let bin = (value - low) / (high - low) * BINS as f64;
        counts[(bin as usize).min(BINS - 1)] += 1;
    }
    let fullest = counts.iter().copied().max().unwrap_or(0).max(1);
    let edge = |bin: usize| low + (high - low) * bin as f64 / BINS as f64;
    let mut outline = vec![(edge(0), base)];
    for (bin, &count) in counts.iter().enumerate() {
        let height = base + (top - base) * f64::from(count) / f64::from(fullest);
        outline.extend([(edge(bin), height), (edge(bin + 1), height)]);
    }
    outline.push((edge(BINS), base));
    outline.dedup();
    outline
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_bin_is_as_high_as_the_row_and_empty_ones_are_flat() {
        let outline = outline(&[0.0, 0.0, 59.5], (0.0, 60.0), 1.0, 0.0);
        assert_eq!(&outline[..4], &[(0.0, 1.0), (0.0, 0.0), (1.0, 0.0), (1.0, 1.0)]);
        let heights: Vec<f64> = outline.iter().map(|point| point.1).filter(|&height| height < 1.0).collect();
        assert_eq!(heights, [0.0, 0.0, 0.5, 0.5], "2 samples in the first bin, 1 in the last");
    }
}

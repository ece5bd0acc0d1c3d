//! Axes with ticks at round numbers.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::report::number::tick;

/// Maximum number of ticks on an axis.
const MOST_MARKS: usize = 6;
/// Fraction of the axis left free at each end.
const MARGIN: f64 = 0.05;

/// A linear or logarithmic axis. Coordinates on it are positions: values, or their logarithms.
#[derive(Clone)]
pub struct Axis {
    /// What it shows, with its unit.
    pub name: &'static str,
    logarithmic: bool,
    /// Ends, as positions.
    pub ends: (f64, f64),
    /// Ticks: positions and labels.
    pub marks: Vec<(f64, String)>,
}

impl Axis {
    /// A linear axis that covers `values`.
    pub fn linear(name: &'static str, values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = wide_enough(extent(values), |low, _| 0.01 * low.abs().max(1.0));
        Self::new(name, false, padded(low, high))
    }

    /// A linear axis from 0 that covers `values`, which are not negative.
    pub fn from_zero(name: &'static str, values: impl IntoIterator<Item = f64>) -> Self {
        let (_, high) = extent(values);
        let high = if high > 0.0 { high } else { 1.0 };
        Self::new(name, false, (0.0, high * (1.0 + MARGIN)))
    }

    /// A logarithmic axis that covers `values`, which are positive.
    pub fn logarithmic(name: &'static str, values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = extent(values.into_iter().map(f64::log10));
        let (low, high) = wide_enough((low, high), |_, _| 0.1);
        Self::new(name, true, padded(low, high))
    }

    /// An axis without ticks for rows from top to bottom: row i extends from i to i + 1.
    pub fn of_rows(count: usize) -> Self {
        Self { name: "", logarithmic: false, ends: (count as f64, 0.0), marks: Vec::new() }
    }

    /// The same axis with ticks at `values`, as far as they fit.
    pub fn with_marks_at(mut self, values: &[f64]) -> Self {
        let step = values.len().div_ceil(MOST_MARKS).max(1);
        let gap = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).fold(f64::INFINITY, f64::min);
        let gap = if gap.is_finite() { gap } else { 1e-3 };
        self.marks = values.iter().step_by(step).map(|&value| (self.position(value), tick(value, gap))).collect();
        self
    }

    /// Where `value` lies.
    pub fn position(&self, value: f64) -> f64 {
        if self.logarithmic { value.log10() } else { value }
    }

    /// The label of the tick nearest to `position`.
    fn label(&self, position: f64) -> String {
        let distance = |mark: &&(f64, String)| (mark.0 - position).abs();
        let nearest = self.marks.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        nearest.map_or_else(String::new, |(_, label)| label.clone())
    }

    fn new(name: &'static str, logarithmic: bool, ends: (f64, f64)) -> Self {
        let values = if logarithmic { logarithmic_marks(ends) } else { linear_marks(ends) };
        Self { name, logarithmic, ends, marks: Vec::new() }.with_marks_at(&values)
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, position: &f64, limit: (i32, i32)) -> i32 {
        let part = (position - self.ends.0) / (self.ends.1 - self.ends.0);
        limit.0 + (part * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.iter().map(|mark| mark.0).collect()
    }

    fn range(&self) -> Range<f64> {
        self.ends.0..self.ends.1
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, position: &f64) -> String {
        self.label(*position)
    }
}

fn extent(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .into_iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

/// Widens equal ends by `least` to each side.
fn wide_enough((low, high): (f64, f64), least: impl Fn(f64, f64) -> f64) -> (f64, f64) {
    let least = least(low, high);
    if high - low > least * 1e-6 { (low, high) } else { (low - least, high + least) }
}

fn padded(low: f64, high: f64) -> (f64, f64) {
    let margin = (high - low) * MARGIN;
    (low - margin, high + margin)
}

fn linear_marks((low, high): (f64, f64)) -> Vec<f64> {
    let rough = (high - low) / (MOST_MARKS - 1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|&step| step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    (first..).map(|index| index as f64 * step).take_while(|&mark| mark <= high).take(MOST_MARKS).collect()
}

/// Powers of ten, with their multiples 2 and 5, or 3, if they fit; linear ticks if there would be fewer than two.
fn logarithmic_marks((low, high): (f64, f64)) -> Vec<f64> {
    let within = |factors: &[f64]| -> Vec<f64> {
        let powers = low.floor() as i32..=high.ceil() as i32;
        let marks = powers.flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        marks.filter(|mark| (low..=high).contains(&mark.log10())).collect()
    };
    let fine = within(&[1.0, 2.0, 5.0]);
    match fine.len() {
        0..=2 => linear_marks((10f64.powf(low), 10f64.powf(high))),
        3..=MOST_MARKS => fine,
        _ => Some(within(&[1.0, 3.0])).filter(|marks| marks.len() <= MOST_MARKS).unwrap_or_else(|| within(&[1.0])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.marks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn marks_are_round_few_and_on_the_axis() {
        let wide = Axis::logarithmic("µs", [10.0, 600.0]);
        assert_eq!(labels(&wide), ["10", "20", "50", "100", "200", "500"]);
        assert_eq!(labels(&Axis::logarithmic("µs", [10.0, 1500.0])), ["10", "30", "100", "300", "1000"]);
        assert_eq!(labels(&Axis::logarithmic("µs", [10.0, 12.0])), ["10", "10.5", "11", "11.5", "12"]);
        assert_eq!(labels(&Axis::linear("%", [-1.9, 4.0])), ["−2", "0", "2", "4"]);
        for axis in [wide, Axis::logarithmic("", [1e-9, 1e9]), Axis::linear("", [-1e300, 1e300])] {
            assert!((2..=MOST_MARKS).contains(&axis.marks.len()), "{:?}", axis.marks);
            assert!(axis.marks.iter().all(|mark| axis.ends.0 <= mark.0 && mark.0 <= axis.ends.1), "{:?}", axis.marks);
        }
    }

    #[test]
    fn no_value_or_a_single_one_still_makes_an_axis() {
        for axis in [
            Axis::linear("", []),
            Axis::linear("", [7.0, 7.0]),
            Axis::logarithmic("", [7.0]),
            Axis::from_zero("", [0.0]),
            Axis::linear("", [1e15, 1e15]),
        ] {
            assert!(axis.ends.0 < axis.ends.1 && !axis.marks.is_empty(), "{:?} {:?}", axis.ends, axis.marks);
        }
    }
}

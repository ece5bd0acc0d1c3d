//! Times against sequence length.

use super::axis::Axis;
use super::canvas::{Chart, Drawn, chart, line, markers, svg};
use super::palette::Style;
use cli::error::Result;
use cli::statistics::Interval;

/// Height of the plot.
const HEIGHT: u32 = 620;

/// The times of one contender.
pub struct Line {
    /// Sequence lengths with medians and their intervals, µs; all positive.
    pub points: Vec<(f64, f64, Interval)>,
    /// How it is drawn.
    pub style: Style,
}

/// The SVG of `lines`; both axes are logarithmic.
pub fn lines(lines: &[Line]) -> Result<String> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let mut sequences: Vec<f64> = points().map(|point| point.0).collect();
    sequences.sort_by(f64::total_cmp);
    sequences.dedup();
    let x = Axis::logarithmic("sequence length S", sequences.iter().copied()).with_marks_at(&sequences);
    let y = Axis::logarithmic("µs", points().flat_map(|&(_, median, Interval { low, high })| [median, low, high]));
    svg(HEIGHT, |area| {
        let mut chart = chart(area, &x, &y)?;
        lines.iter().try_for_each(|line| draw(&mut chart, line, &x, &y))
    })
}

fn draw(chart: &mut Chart, contender: &Line, x: &Axis, y: &Axis) -> Drawn {
    let Line { points, style } = contender;
    let medians: Vec<_> = points.iter().map(|&(s, median, _)| (x.position(s), y.position(median))).collect();
    line(chart, medians.clone(), style.colour, 4)?;
    for (s, _, Interval { low, high }) in points {
        line(chart, vec![(x.position(*s), y.position(*low)), (x.position(*s), y.position(*high))], style.colour, 3)?;
    }
    markers(chart, medians, *style)
}

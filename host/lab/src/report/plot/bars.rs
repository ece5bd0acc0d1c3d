//! Bars from 0: times, or shares of a whole.

use super::axis::Axis;
use super::canvas::{line, markers, polygon};
use super::palette::{INK, Style};
use super::rows::{BOTTOM, Label, MIDDLE, TOP, rows};
use cli::error::Result;
use cli::statistics::Interval;

/// One bar.
pub struct Bar {
    /// Its label.
    pub label: Label,
    /// Its length; not negative.
    pub value: f64,
    /// Its uncertainty.
    pub interval: Option<Interval>,
    /// How it is drawn.
    pub style: Style,
    /// Whether a marker is drawn at its end.
    pub marked: bool,
}

/// The SVG of `bars` over an axis called `axis`.
pub fn bars(bars: Vec<Bar>, axis: &'static str) -> Result<String> {
    let ends = bars.iter().map(|bar| bar.interval.map_or(bar.value, |interval| interval.high.max(bar.value)));
    let x = Axis::from_zero(axis, ends);
    let (labels, bars): (Vec<_>, Vec<_>) = bars
        .into_iter()
        .map(|Bar { label, value, interval, style, marked }| (label, (value, interval, style, marked)))
        .unzip();
    rows(&labels, &x, |chart| {
        for (row, &(value, interval, style, marked)) in bars.iter().enumerate() {
            let at = |part: f64| row as f64 + part;
            polygon(
                chart,
                vec![(0.0, at(TOP)), (value, at(TOP)), (value, at(BOTTOM)), (0.0, at(BOTTOM))],
                style.colour,
            )?;
            if let Some(Interval { low, high }) = interval {
                line(chart, vec![(low, at(MIDDLE)), (high, at(MIDDLE))], INK, 4)?;
            }
            if marked {
                markers(chart, [(value, at(MIDDLE))], Style { colour: INK, ..style })?;
            }
        }
        Ok(())
    })
}

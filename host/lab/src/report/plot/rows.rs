//! Plots with one row per item. Name and number are above the row's drawing, so that long names need no room beside
//! it.

use plotters::element::Text;
use plotters::style::text_anchor::HPos;

use super::axis::Axis;
use super::canvas::{AXIS_HEIGHT, Chart, Drawn, chart, svg, text};
use crate::report::number::shortened;
use cli::error::Result;

/// Height of a row.
const ROW: u32 = 84;
/// Upper end of a row's drawing, as a fraction of its height from above.
pub const TOP: f64 = 0.52;
/// Lower end of a row's drawing.
pub const BOTTOM: f64 = 0.94;
/// Middle of a row's drawing.
pub const MIDDLE: f64 = (TOP + BOTTOM) / 2.0;
/// Characters that fit above a row.
const CHARACTERS: usize = 55;

/// The text above a row.
pub struct Label {
    /// Text on the left.
    pub name: String,
    /// Text on the right.
    pub value: String,
}

/// The SVG of rows with these labels over axis `x`. `paint` draws into the chart, in which row i extends from i to i +
/// 1, downwards.
pub fn rows(labels: &[Label], x: &Axis, paint: impl FnOnce(&mut Chart) -> Drawn) -> Result<String> {
    let count = labels.len().max(1);
    let height = ROW * count as u32 + AXIS_HEIGHT + 12;
    let y = Axis::of_rows(count);
    svg(height, |area| {
        let mut chart = chart(area, x, &y)?;
        paint(&mut chart)?;
        for (row, Label { name, value }) in labels.iter().enumerate() {
            let above = row as f64 + 0.04;
            let name = shortened(name, CHARACTERS.saturating_sub(value.chars().count() + 1).max(8));
            chart.draw_series([Text::new(name, (x.ends.0, above), text(HPos::Left))])?;
            chart.draw_series([Text::new(value.clone(), (x.ends.1, above), text(HPos::Right))])?;
        }
        Ok(())
    })
}

//! Drawing areas and charts in the page's style.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::palette::{AXIS, GRID, INK, Style};
use cli::error::{Error, Result};

/// Width of every plot, in units of about half a pixel if two plots share a screen, and a third on a phone.
pub const WIDTH: u32 = 1040;
/// Height of an axis with its name.
pub const AXIS_HEIGHT: u32 = 96;
/// Size of texts.
const TEXT: u32 = 34;
/// Half the width of a marker's own image.
const MARKER: i32 = 12;

/// A drawing area.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Result of drawing.
pub type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;
/// A chart whose coordinates are positions on its axes.
pub type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// The SVG that `paint` draws in a plot of this height.
pub fn svg(height: u32, paint: impl FnOnce(&Area) -> Drawn) -> Result<String> {
    image((WIDTH, height), paint)
}

/// The marker of `style` alone.
pub fn marker(style: Style) -> Result<String> {
    let size = (2 * MARKER) as u32;
    image((size, size), |area| {
        area.draw(&(EmptyElement::at((MARKER, MARKER)) + Polygon::new(style.marker, style.colour.filled())))?;
        Ok(())
    })
}

fn image(size: (u32, u32), paint: impl FnOnce(&Area) -> Drawn) -> Result<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    paint(&area)
        .and_then(|()| Ok(area.present()?))
        .map_err(|error| Error::Invalid(format!("a plot cannot be drawn: {error}")))?;
    drop(area);
    Ok(svg)
}

/// Style of text whose start or end is at its point, hanging below it.
pub fn text(position: HPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", TEXT).into_font()).color(&INK).pos(Pos::new(position, VPos::Top))
}

/// A chart with ticks and axis names; a `y` axis without ticks takes no room.
pub fn chart<'a, 'b>(
    area: &'a Area<'b>,
    x: &Axis,
    y: &Axis,
) -> std::result::Result<Chart<'a, 'b>, Box<dyn std::error::Error>> {
    let (margin, label_area) = if y.marks.is_empty() { (16, 0) } else { (0, 104) };
    let mut chart = ChartBuilder::on(area)
        .margin_top(12)
        .margin_right(24)
        .margin_left(margin)
        .x_label_area_size(AXIS_HEIGHT)
        .y_label_area_size(label_area)
        .build_cartesian_2d(x.clone(), y.clone())?;
    let style = TextStyle::from(("sans-serif", TEXT).into_font()).color(&INK);
    chart
        .configure_mesh()
        .max_light_lines(0)
        .bold_line_style(GRID.stroke_width(2))
        .axis_style(AXIS.stroke_width(2))
        .label_style(style.clone())
        .axis_desc_style(style)
        .x_desc(x.name)
        .draw()?;
    Ok(chart)
}

/// A line through positions.
pub fn line(chart: &mut Chart, points: Vec<(f64, f64)>, colour: RGBColor, width: u32) -> Drawn {
    chart.draw_series([PathElement::new(points, colour.stroke_width(width))])?;
    Ok(())
}

/// A filled area.
pub fn polygon(chart: &mut Chart, outline: Vec<(f64, f64)>, colour: RGBColor) -> Drawn {
    chart.draw_series([Polygon::new(outline, colour.filled())])?;
    Ok(())
}

/// A marker at each of `points`.
pub fn markers(chart: &mut Chart, points: impl IntoIterator<Item = (f64, f64)>, style: Style) -> Drawn {
    let element = |point| EmptyElement::at(point) + Polygon::new(style.marker, style.colour.filled());
    chart.draw_series(points.into_iter().map(element))?;
    Ok(())
}

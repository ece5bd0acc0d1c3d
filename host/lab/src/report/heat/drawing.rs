//! Draws panels of squares, with axes and a legend.

use std::fmt::Write;
use std::ops::RangeInclusive;

use contract::config::Mask;

use crate::map::summary::{Standing, by_ratio};
use crate::report::drawn::{Drawing, escaped, put};
use crate::report::number::{microseconds, ratio};
use crate::report::plot::HEAT;

/// Ratios that separate the tones.
const ENDS: [f64; HEAT.len() - 1] = [0.75, 0.9, 1.0, 1.15, 1.33, 1.65, 2.0];
/// Height of a panel relative to its width.
const HEIGHT: f64 = 0.75;
/// Side length of a square in pixels, from many points to few.
const SIDES: RangeInclusive<f64> = 5.0..=24.0;
/// Spacing between parts, relative to the text size.
const SPACE: f64 = 0.6;

/// Dimensions of a drawing, in pixels.
pub struct Geometry {
    width: f64,
    text: f64,
    /// Number of panels side by side, and of legend entries side by side.
    columns: (usize, usize),
}

/// For a document.
pub const DOCUMENT: Geometry = Geometry { width: 760.0, text: 13.0, columns: (2, 8) };
/// For a page on a screen.
pub const WIDE: Geometry = Geometry { width: 1160.0, text: 14.0, ..DOCUMENT };
/// For a page on a phone.
pub const NARROW: Geometry = Geometry { width: 360.0, text: 14.0, columns: (1, 3) };

/// Draws the points of `standings` that have a peer; `None` if there are none.
pub fn draw(standings: &[Standing], geometry: &Geometry) -> Option<Drawing> {
    // Lowest ratio last, so that no other square hides it.
    let points: Vec<_> = by_ratio(standings).into_iter().rev().collect();
    let axes = Axes::of(&points)?;
    let panels = [Mask::Full, Mask::Causal].map(|mask| {
        let of_mask = points.iter().filter(|(_, standing)| standing.case.mask == mask);
        (mask, of_mask.copied().collect::<Vec<_>>())
    });
    let panels: Vec<_> = panels.into_iter().filter(|(_, points)| !points.is_empty()).collect();
    let &Geometry { width, text, columns } = geometry;
    let columns_there = columns.0.min(panels.len());
    let (mut body, mut bottom) = (String::new(), 0.0);
    let column = width / columns_there as f64;
    for (index, (mask, points)) in panels.iter().enumerate() {
        let corner = ((index % columns_there) as f64 * column, (index / columns_there) as f64);
        let (left, top) = (corner.0, corner.1 * Panel::height(column, text));
        let panel = Panel { axes, text, left, top, width: column, side: Panel::side(column, points.len()) };
        panel.draw(&mut body, *mask, points);
        bottom = panel.top + Panel::height(column, text);
    }
    let height = legend(&mut body, (width, bottom), text, columns.1);
    Some(Drawing { width, height, text, body })
}

/// Binary logarithms of the ends of both axes.
#[derive(Clone, Copy)]
struct Axes {
    heads: (f64, f64),
    sequence: (f64, f64),
}

impl Axes {
    fn of(points: &[(f64, &Standing)]) -> Option<Self> {
        let ends = |size: fn(&Standing) -> u32| {
            let sizes = points.iter().map(|(_, standing)| f64::from(size(standing)).log2());
            let (low, high) =
                sizes.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), size| (size.min(low), size.max(high)));
            (low.floor(), high.ceil().max(low.floor() + 1.0))
        };
        (!points.is_empty())
            .then(|| Self { heads: ends(heads), sequence: ends(|standing| standing.case.shape.sequence) })
    }
}

fn heads(standing: &Standing) -> u32 {
    standing.case.shape.batch * standing.case.shape.heads
}

/// The points of one mask.
struct Panel {
    axes: Axes,
    text: f64,
    left: f64,
    top: f64,
    width: f64,
    /// Side of a square.
    side: f64,
}

impl Panel {
    /// Side length of each of `points` squares in a panel of this width.
    fn side(width: f64, points: usize) -> f64 {
        (0.8 * width * (HEIGHT / points as f64).sqrt()).clamp(*SIDES.start(), *SIDES.end())
    }

    /// Height of a panel including its text.
    fn height(width: f64, text: f64) -> f64 {
        HEIGHT * width + 5.0 * text
    }

    /// The area of the squares' centres: left, top, width, height.
    fn field(&self) -> (f64, f64, f64, f64) {
        let (before, behind, above) = (4.0 * self.text, 1.5 * self.text, 2.0 * self.text);
        let (width, height) = (self.width - before - behind - self.side, HEIGHT * self.width - self.side);
        (self.left + before + 0.5 * self.side, self.top + above + 0.5 * self.side, width, height)
    }

    fn draw(&self, body: &mut String, mask: Mask, points: &[(f64, &Standing)]) {
        let (left, top, width, height) = self.field();
        put(body, (left, self.top + 0.8 * self.text), "font-weight=\"600\"", &format!("{} mask", mask.name()));
        self.draw_axes(body);
        let side = self.side;
        for &(of_peer, standing) in points {
            let part = |size: u32, ends: (f64, f64)| (f64::from(size).log2() - ends.0) / (ends.1 - ends.0);
            let x = left + part(heads(standing), self.axes.heads) * width - 0.5 * side;
            let y = top + (1.0 - part(standing.case.shape.sequence, self.axes.sequence)) * height - 0.5 * side;
            let tone = HEAT[ENDS.partition_point(|&end| end <= of_peer)].name;
            let said = escaped(&said(of_peer, standing));
            let _ = writeln!(
                body,
                r#"<rect class="{tone}" x="{x:.1}" y="{y:.1}" width="{side:.1}" height="{side:.1}" rx="1"><title>{said}</title></rect>"#
            );
        }
    }

    /// Ticks at every fourth power of two, and axis names.
    fn draw_axes(&self, body: &mut String) {
        let (left, top, width, height) = self.field();
        let text = self.text;
        let mut grid = |x: f64, y: f64, width: f64, height: f64| {
            let _ = writeln!(
                body,
                r#"<rect class="plot-grid" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"/>"#
            );
        };
        let marks = |ends: (f64, f64)| {
            let step = if ends.1 - ends.0 > 6.0 { 2 } else { 1 };
            let marks = (ends.0 as u32..=ends.1 as u32).step_by(step);
            marks.map(move |exponent| (1u64 << exponent, (f64::from(exponent) - ends.0) / (ends.1 - ends.0)))
        };
        marks(self.axes.heads).for_each(|(_, part)| grid(left + part * width, top, 1.0, height));
        marks(self.axes.sequence).for_each(|(_, part)| grid(left, top + (1.0 - part) * height, width, 1.0));
        for (size, part) in marks(self.axes.heads) {
            let below = top + height + 0.5 * self.side + text;
            put(body, (left + part * width, below), "text-anchor=\"middle\"", &size.to_string());
        }
        for (size, part) in marks(self.axes.sequence) {
            let at = (left - 0.5 * self.side - SPACE * text, top + (1.0 - part) * height);
            put(body, at, "text-anchor=\"end\"", &size.to_string());
        }
        let below = top + height + 0.5 * self.side + 2.2 * text;
        put(body, (left + width / 2.0, below), "text-anchor=\"middle\"", "batch × heads");
        put(body, (left - 0.5 * self.side - SPACE * text, self.top + text), "text-anchor=\"end\"", "S");
    }
}

/// Description of a point.
fn said(of_peer: f64, standing: &Standing) -> String {
    let (peer, peer_us) = standing.peer.unwrap_or_default();
    format!(
        "{}: {} ({} {} µs, {peer} {} µs)",
        standing.case,
        ratio(of_peer),
        standing.kernel,
        microseconds(standing.ours_us),
        microseconds(peer_us)
    )
}

/// Draws the legend of the tones below `top`, and returns where it ends.
fn legend(body: &mut String, (width, top): (f64, f64), text: f64, columns: usize) -> f64 {
    put(body, (SPACE * text, top + text), "", "The best peer's time over ours:");
    let entry = width / columns as f64;
    let mut bottom = top;
    for (index, tone) in HEAT.iter().enumerate() {
        let low = index.checked_sub(1).map(|before| ENDS[before]);
        let name = match (low, ENDS.get(index)) {
            (None, Some(high)) => format!("< {high}"),
            (Some(low), Some(high)) => format!("{low}–{high}"),
            (low, None) => format!("≥ {}", low.unwrap_or_default()),
        };
        let (x, y) =
            ((index % columns) as f64 * entry + SPACE * text, top + (2.0 + 1.6 * (index / columns) as f64) * text);
        let tone = tone.name;
        let _ = writeln!(body, r#"<rect class="{tone}" x="{x:.1}" y="{y:.1}" width="{text}" height="{text}" rx="1"/>"#);
        put(body, (x + (1.0 + SPACE) * text, y + text / 2.0), "", &name);
        bottom = y + 1.6 * text;
    }
    bottom
}

//! Draws bars with names before or above them and numbers after them.

use std::fmt::Write;

use super::groups::Group;
use crate::report::drawn::{Drawing, put};
use crate::report::number::{self, shortened};

/// Maximum length of a bar, relative to the reference's; longer ones are cut off.
const LONGEST: f64 = 10.0;
/// Width of a character, relative to the text size: wide enough for most fonts.
const CHARACTER: f64 = 0.57;
/// Spacing beside text.
const SPACE: f64 = 8.0;

/// Position of contenders' names.
#[derive(PartialEq)]
enum Names {
    /// Before their bars, after the name of the case.
    Before,
    /// Above their bars.
    Above,
}

/// Dimensions of a drawing, in pixels.
pub struct Geometry {
    /// Total width.
    pub width: f64,
    names: Names,
    text: f64,
    bar: f64,
    /// Distance from one bar to the next.
    pitch: f64,
    /// Space between cases.
    gap: f64,
}

/// For a document.
pub const DOCUMENT: Geometry =
    Geometry { width: 760.0, names: Names::Before, text: 13.0, bar: 17.0, pitch: 21.0, gap: 14.0 };
/// For a page on a screen.
pub const WIDE: Geometry = Geometry { width: 1160.0, text: 14.0, gap: 16.0, ..DOCUMENT };
/// For a page on a phone.
pub const NARROW: Geometry =
    Geometry { width: 360.0, names: Names::Above, text: 14.0, bar: 14.0, pitch: 38.0, gap: 16.0 };

/// Draws `groups`.
pub fn draw(groups: &[Group], geometry: &Geometry) -> Drawing {
    let Geometry { width, text, gap, .. } = *geometry;
    let bars = || {
        groups.iter().flat_map(|group| group.bars.iter().map(move |bar| (group.ratio(bar.1), number_of(group, bar.1))))
    };
    let longest = bars().map(|bar| bar.0).fold(1.0, f64::max).min(LONGEST);
    let numbers = bars().map(|bar| geometry.length(&bar.1)).fold(0.0, f64::max) + SPACE;
    let left = geometry.left(groups);
    let scale = (width - left - numbers) / longest;
    let (mut body, mut y) = (String::new(), gap / 2.0);
    for group in groups {
        y = draw_group(&mut body, group, geometry, (left, y), scale);
    }
    Drawing { width, height: y - gap / 2.0, text, body }
}

impl Geometry {
    /// Approximate width of `words`.
    fn length(&self, words: &str) -> f64 {
        words.chars().count() as f64 * CHARACTER * self.text
    }

    /// Characters that fit in `width`.
    fn characters(&self, width: f64) -> usize {
        (width / (CHARACTER * self.text)).max(8.0) as usize
    }

    /// Width of the names of cases, which are bold.
    fn cases(&self, groups: &[Group]) -> f64 {
        groups.iter().map(|group| 1.1 * self.length(&group.case.to_string())).fold(0.0, f64::max) + 2.0 * SPACE
    }

    /// Left end of the bars.
    fn left(&self, groups: &[Group]) -> f64 {
        if self.names == Names::Above {
            return 0.0;
        }
        let labels = groups.iter().flat_map(|group| &group.bars).map(|bar| self.length(&bar.0.label));
        let names = labels.fold(0.0, f64::max) + SPACE;
        (self.cases(groups) + names).min(self.width / 2.0)
    }
}

/// Draws `group` from (`left`, `y`), and returns where the next one begins.
fn draw_group(body: &mut String, group: &Group, geometry: &Geometry, (left, mut y): (f64, f64), scale: f64) -> f64 {
    let &Geometry { ref names, width, text, bar, pitch, gap } = geometry;
    let above = *names == Names::Above;
    put(body, (0.0, y + 0.5 * bar), "font-weight=\"600\"", &group.case.to_string());
    if above {
        y += 1.6 * text;
    }
    for &(entry, median) in &group.bars {
        let top = if above { y + 1.3 * text } else { y };
        if above {
            put(body, (0.0, y + 0.6 * text), "", &shortened(&entry.label, geometry.characters(width)));
        } else {
            let room = left - SPACE - geometry.cases(std::slice::from_ref(group));
            let label = shortened(&entry.label, geometry.characters(room));
            put(body, (left - SPACE, y + 0.5 * bar), "text-anchor=\"end\"", &label);
        }
        let length = group.ratio(median).min(LONGEST) * scale;
        let tone = entry.tone;
        let _ = writeln!(
            body,
            r#"<rect class="{tone}" x="{left:.1}" y="{top:.1}" width="{length:.1}" height="{bar}" rx="2"/>"#
        );
        put(body, (left + length + SPACE, top + 0.5 * bar), "", &number_of(group, median));
        y += pitch;
    }
    y + gap
}

/// The text after the bar of `median`.
fn number_of(group: &Group, median: f64) -> String {
    let ratio = group.ratio(median);
    let cut = if ratio > LONGEST { "→ " } else { "" };
    format!("{cut}{} µs ({ratio:.2}×)", number::microseconds(median))
}

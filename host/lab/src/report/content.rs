//! The content of a page: sections of blocks of text, plots and tables.

use super::plot::Plot;

/// A section, listed in the table of contents.
pub struct Section {
    /// Anchor within the page, such as `record-1`.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Blocks, the first usually without a heading.
    pub blocks: Vec<Block>,
}

/// A block of a section; empty parts are left out.
#[derive(Default)]
pub struct Block {
    /// Heading.
    pub title: Option<String>,
    /// The conclusion, in a sentence or two.
    pub verdict: Option<String>,
    /// A full-width plot, below the text.
    pub wide_plot: Option<WidePlot>,
    /// Paragraphs.
    pub text: Vec<String>,
    /// Warnings about the rest.
    pub warnings: Vec<Notice>,
    /// Names and values.
    pub facts: Vec<(&'static str, String)>,
    /// The legend of the plots.
    pub legend: Vec<LegendEntry>,
    /// Plots.
    pub plots: Vec<Plot>,
    /// Tables.
    pub tables: Vec<Table>,
}

/// A warning.
pub struct Notice {
    /// The warning itself.
    pub what: String,
    /// What to do about it.
    pub advice: Option<String>,
    /// The rows that it concerns.
    pub place: Option<String>,
}

impl Notice {
    /// A notice with advice.
    pub fn new(what: String, advice: &str) -> Self {
        Self { what, advice: Some(advice.into()), place: None }
    }
}

/// A plot drawn twice, for wide and for narrow screens.
pub struct WidePlot {
    /// What it shows.
    pub caption: String,
    /// The same for a screen reader.
    pub description: String,
    /// SVG.
    pub wide: String,
    /// SVG for a phone.
    pub narrow: String,
}

/// A legend entry: the marker of a contender.
pub struct LegendEntry {
    /// SVG.
    pub marker: String,
    /// Its name.
    pub name: String,
}

/// A table; the first cell of a row is its heading.
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Headings of the columns.
    pub header: Vec<String>,
    /// Cells.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Default)]
pub struct Cell {
    /// The displayed text.
    pub text: String,
    /// Its number, for programs.
    pub value: Option<f64>,
    /// Whether it is highlighted as the best of its kind.
    pub best: bool,
}

impl Cell {
    /// A number written by `format`; a dash if it is not finite, such as a ratio to 0.
    pub fn number(value: f64, format: impl Fn(f64) -> String) -> Self {
        if !value.is_finite() {
            return Self::from("–");
        }
        Self { text: format(value), value: Some(value), best: false }
    }

    /// A number that may be absent.
    pub fn optional(value: Option<f64>, format: impl Fn(f64) -> String) -> Self {
        value.map_or_else(|| Self::from("–"), |value| Self::number(value, format))
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

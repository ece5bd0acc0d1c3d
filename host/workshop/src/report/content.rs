//! What a page consists of: sections of blocks, with text, plots and tables.

use super::plot::Plot;

/// What the table of contents lists.
pub struct Section {
    /// Name within the page, as in `record-1`.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Parts, the first usually without a heading.
    pub blocks: Vec<Block>,
}

/// A part of a section; what is empty is left out.
#[derive(Default)]
pub struct Block {
    /// Heading.
    pub title: Option<String>,
    /// What all comes down to, in a sentence or two.
    pub verdict: Option<String>,
    /// A plot as wide as the page, below the text.
    pub wide_plot: Option<WidePlot>,
    /// Paragraphs.
    pub text: Vec<String>,
    /// What must be known before believing the rest.
    pub warnings: Vec<Notice>,
    /// Names and values.
    pub facts: Vec<(&'static str, String)>,
    /// What the markers of the plots mean.
    pub legend: Vec<LegendEntry>,
    /// Plots.
    pub plots: Vec<Plot>,
    /// Tables.
    pub tables: Vec<Table>,
}

/// Something to know before believing the rest.
pub struct Notice {
    /// What it is.
    pub what: String,
    /// What to do about it.
    pub advice: Option<String>,
    /// What it is about.
    pub place: Option<String>,
}

impl Notice {
    /// One with advice.
    pub fn new(what: String, advice: &str) -> Self {
        Self { what, advice: Some(advice.into()), place: None }
    }
}

/// A plot that is drawn twice, for wide screens and for narrow ones.
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

/// The marker of a contender.
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
    /// What people read.
    pub text: String,
    /// The number behind it, for programs.
    pub value: Option<f64>,
    /// Whether it stands out as the best of its kind.
    pub best: bool,
}

impl Cell {
    /// A number as `format` writes it; a dash for what is none, as a ratio to 0.
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

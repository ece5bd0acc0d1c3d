//! The page as its template needs it.

use askama::Template;

use super::contenders::Contenders;
use super::plot::{PALETTE, Plot, Tone};
use super::{Report, section};
use crate::error::Result;

/// A whole page.
#[derive(Template)]
#[template(path = "report.html")]
pub struct Page {
    title: String,
    version: &'static str,
    palette: &'static [Tone],
    sections: Vec<Section>,
}

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
    /// Paragraphs.
    pub text: Vec<String>,
    /// What must be known before believing the rest.
    pub warnings: Vec<String>,
    /// Names and values.
    pub facts: Vec<(&'static str, String)>,
    /// What the markers of the plots mean.
    pub legend: Vec<LegendEntry>,
    /// Plots.
    pub plots: Vec<Plot>,
    /// Tables.
    pub tables: Vec<Table>,
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

impl Page {
    /// The page of `report`.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub fn new(report: &Report, contenders: &Contenders) -> Result<Self> {
        let mut sections = Vec::new();
        for (index, record) in report.records.iter().enumerate() {
            sections.push(section::record(index + 1, record, contenders)?);
        }
        sections.extend(section::comparisons(&report.comparisons)?);
        sections.extend(section::profiles(&report.profiles)?);
        sections.extend(section::simulations(&report.simulations)?);
        sections.extend(section::campaigns(&report.campaigns));
        let title = match report.records.first() {
            Some(record) => format!("fa512 on {}", record.content.environment.device.name),
            None => "fa512 report".into(),
        };
        Ok(Self { title, version: env!("CARGO_PKG_VERSION"), palette: &PALETTE, sections })
    }
}

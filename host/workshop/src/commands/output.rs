//! Writing to the standard streams.

use std::path::Path;

use crate::document::Format;
use crate::error::{Error, Result};
use comfy_table::{Cell, Color, Table};
pub use ptx_diagnostics::streams::note;
use ptx_diagnostics::{Renderer, Sources, streams};

/// Writes `text` to standard output, as [`streams::print`].
pub fn print(text: &str) -> Result<()> {
    streams::print(text).map_err(|source| Error::File { path: "standard output".into(), source })
}

/// As [`print()`], with lines that fit the terminal. Commands that are to be copied do not go through it.
pub fn print_wrapped(text: &str) -> Result<()> {
    print(&wrapped(text))
}

/// `text` with lines that fit the terminal.
pub fn wrapped(text: &str) -> String {
    fitted_table::wrapped(text, table().width())
}

/// Writes `content` to standard output as one JSON document, which says its kind and version.
pub fn print_json(format: Format, content: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(&format.document(content))
        .map_err(|error| Error::Invalid(format!("the result cannot be written as JSON: {error}")))?;
    print(&(text + "\n"))
}

/// An empty table without borders that fits the terminal.
pub fn table() -> Table {
    fitted_table::table()
}

/// `table` as text that fits the terminal.
pub fn fitted(table: Table) -> String {
    let width = table.width();
    fitted_table::fitted(table, width)
}

/// A cell that is green when all is well and red when not, on a terminal.
pub fn verdict_cell(text: impl ToString, good: bool) -> Cell {
    Cell::new(text).fg(if good { Color::Green } else { Color::Red })
}

/// What shows findings on standard output, in colour on a terminal, with the lines of sources below `folder`.
pub fn findings(folder: Option<&Path>) -> Renderer {
    Renderer::for_standard_output(Sources::below_or_nearby(folder))
}

//! Writing to the standard streams.

use std::path::Path;

use crate::document::Format;
use crate::error::{Error, Result};
use comfy_table::{Cell, Color, Table};
pub use ptx_diagnostics::streams::note;
use ptx_diagnostics::{Renderer, Sources, streams};

/// Writes `text` to standard output, by [`streams::print`].
pub fn print(text: &str) -> Result<()> {
    streams::print(text).map_err(|source| Error::File { path: "standard output".into(), source })
}

/// [`print()`], with lines wrapped to the terminal's width. Not for commands that are meant to be copied.
pub fn print_wrapped(text: &str) -> Result<()> {
    print(&wrapped(text))
}

/// `text` with lines wrapped to the terminal's width.
pub fn wrapped(text: &str) -> String {
    fitted_table::wrapped(text, table().width())
}

/// Writes `content` to standard output as one JSON document with its kind and version.
pub fn print_json(format: Format, content: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(&format.document(content))
        .map_err(|error| Error::Invalid(format!("the result cannot be written as JSON: {error}")))?;
    print(&(text + "\n"))
}

/// An empty table without borders, limited to the terminal's width.
pub fn table() -> Table {
    fitted_table::table()
}

/// `table` as text, limited to the terminal's width.
pub fn fitted(table: Table) -> String {
    let width = table.width();
    fitted_table::fitted(table, width)
}

/// A cell that is green if `good` and red otherwise, on a terminal.
pub fn verdict_cell(text: impl ToString, good: bool) -> Cell {
    Cell::new(text).fg(if good { Color::Green } else { Color::Red })
}

/// A renderer of findings for standard output: in colour on a terminal, with source lines from `folder`.
pub fn findings(folder: Option<&Path>) -> Renderer {
    Renderer::for_standard_output(Sources::below_or_nearby(folder))
}

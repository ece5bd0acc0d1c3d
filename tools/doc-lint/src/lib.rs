//! Checks the Markdown documents of a workspace: link targets exist ([`links`]), named files exist ([`paths`]), and commands are
//! accepted by their programs ([`commands`]). Checks its records of measurements ([`records`]), too.
//!
//! Each program checks its own commands in a test, since only it knows its arguments.

pub mod commands;
mod document;
pub mod links;
pub mod paths;
pub mod records;
mod tree;

pub use document::Document;
pub use tree::Tree;

use std::fmt;
use std::path::{Path, PathBuf};

/// An error in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The document, relative to the root of the workspace.
    pub document: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.document.display(), self.line, self.what)
    }
}

/// The root of the workspace this crate belongs to.
pub fn workspace_root() -> &'static Path {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.expect("the crate lies two folders below the root of the workspace")
}

/// Fails a test with a list of `problems`, if there are any.
///
/// # Panics
/// If there are problems.
pub fn assert_none(problems: &[Problem]) {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    assert!(problems.is_empty(), "{} problems in the documents:\n{}", problems.len(), lines.join("\n"));
}

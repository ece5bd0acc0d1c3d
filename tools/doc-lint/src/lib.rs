//! Checks the Markdown documents of a workspace: links lead somewhere ([`links`]), files that are named exist
//! ([`paths`]), and commands that are shown are accepted by the programs they are for ([`commands`]).
//!
//! Programs check their own commands, in a test of theirs: only they know their arguments.

pub mod commands;
mod document;
pub mod links;
pub mod paths;
mod tree;

pub use document::Document;
pub use tree::Tree;

use std::fmt;
use std::path::{Path, PathBuf};

/// Something a document says that is not so.
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

/// Ends a test with a list of `problems`, if there are any.
///
/// # Panics
/// When there are problems.
pub fn assert_none(problems: &[Problem]) {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    assert!(problems.is_empty(), "{} problems in the documents:\n{}", problems.len(), lines.join("\n"));
}

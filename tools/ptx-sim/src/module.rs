//! A parsed PTX module.
use crate::*;
/// Why a text is not PTX.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct ParseError {
    /// The file name given to [`Module::parse`].
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// What was found and what was expected.
    pub message: String,
}
/// A parsed PTX module.
#[derive(Debug)]
pub struct Module {
    entries: Vec<String>,
}
impl Module {
    /// Parses PTX; `file_name` appears in messages.
    ///
    /// # Errors
    /// When `text` is not PTX.
    pub fn parse(_text: &str, file_name: &str) -> Result<Module, ParseError> {
        Err(ParseError { file: file_name.to_owned(), line: 1, column: 1, message: "not implemented".into() })
    }
    /// Names of the entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(String::as_str)
    }
    /// The PTX ISA version, `.version`.
    pub fn version(&self) -> (u32, u32) {
        (8, 0)
    }
    /// The `.target`, as in `sm_80`.
    pub fn target(&self) -> &str {
        ""
    }
}
/// Runs a kernel.
pub fn run(_: &Module, _: &mut GlobalMemory, launch: &Launch, _: &Options) -> Result<Report, LaunchError> {
    Err(LaunchError::Geometry(launch.entry.to_owned()))
}

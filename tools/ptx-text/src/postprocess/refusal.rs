//! Why PTX cannot be shipped, and where.

use std::fmt;

/// Location in the PTX and in the Rust source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The entry.
    pub entry: String,
    /// Line of the compiler's PTX, from 1.
    pub line: usize,
    /// File and line of the Rust source, if the PTX has them.
    pub source: Option<String>,
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "entry {}, PTX line {}", self.entry, self.line)?;
        self.source.as_ref().map_or(Ok(()), |source| write!(formatter, " (from {source})"))
    }
}

/// Why PTX cannot be shipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An entry calls a function: something was not inlined, or may panic.
    Call(Location, String),
    /// An entry keeps variables in local memory instead of registers.
    LocalMemory(Location),
    /// The variant list has an entry that the PTX lacks.
    MissingEntry(String),
    /// The PTX has an entry that the variant list lacks.
    UnlistedEntry(String, usize),
    /// The text lacks a `.version` or `.target` line.
    MissingDirective(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Call(location, callee) => write!(formatter, "{location}: calls {callee}"),
            Refusal::LocalMemory(location) => write!(formatter, "{location}: uses local memory"),
            Refusal::MissingEntry(name) => write!(formatter, "entry {name} is in the variant list but not in the PTX"),
            Refusal::UnlistedEntry(name, line) => {
                write!(formatter, "entry {name}, PTX line {line}: is not in the variant list")
            }
            Refusal::MissingDirective(directive) => write!(formatter, "the PTX has no {directive} line"),
        }
    }
}

/// One indented line for each of `refusals`, after a heading.
pub fn list(refusals: &[Refusal]) -> String {
    refusals.iter().map(|refusal| format!("\n  {refusal}")).collect()
}

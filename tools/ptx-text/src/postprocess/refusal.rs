//! Why PTX cannot be shipped, and where.

use std::fmt;

/// Where in the PTX, and in the Rust source, something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The entry.
    pub entry: String,
    /// Line of the compiler's PTX, from 1.
    pub line: usize,
    /// File and line of the Rust source, when the PTX says.
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
    /// An entry calls a function: not everything was inlined, or something may panic.
    Call(Location, String),
    /// An entry keeps variables in local memory instead of registers.
    LocalMemory(Location),
    /// The variant list has an entry that the PTX has not.
    MissingEntry(String),
    /// The PTX has an entry that the variant list has not.
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

/// One line for each of `refusals`, indented, behind a line that says what is refused.
pub fn list(refusals: &[Refusal]) -> String {
    refusals.iter().map(|refusal| format!("\n  {refusal}")).collect()
}

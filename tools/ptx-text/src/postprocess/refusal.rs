//! Why PTX cannot be shipped, and where.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::mem::discriminant;

/// Location in the PTX and in the Rust source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The entry.
    pub entry: String,
    /// Line of the compiler's PTX, from 1.
    pub line: usize,
    /// File and line of the Rust source and of the caller, if the PTX has them.
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

impl Refusal {
    /// The refused instruction, if it is about one.
    fn location(&self) -> Option<&Location> {
        match self {
            Self::Call(location, _) | Self::LocalMemory(location) => Some(location),
            Self::MissingEntry(_) | Self::UnlistedEntry(..) | Self::MissingDirective(_) => None,
        }
    }
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

/// One indented line for each of `refusals`. Those of one kind from one line of the source are one line: the first, and how many other entries
/// have one.
pub fn list(refusals: &[Refusal]) -> String {
    let (mut lines, mut entries) = (Vec::new(), HashMap::<_, BTreeSet<&str>>::new());
    for refusal in refusals {
        let group = refusal.location().map(|location| (discriminant(refusal), &location.source));
        if group.is_none_or(|group| !entries.contains_key(&group)) {
            lines.push((refusal, group));
        }
        if let Some((group, location)) = group.zip(refusal.location()) {
            entries.entry(group).or_default().insert(&location.entry);
        }
    }
    let of = |group: Option<_>| group.and_then(|group| entries.get(&group)).map_or(0, BTreeSet::len);
    lines.into_iter().map(|(first, group)| format!("\n  {first}{}", others(of(group).saturating_sub(1)))).collect()
}

/// How many other entries a line is about.
fn others(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => ", and so does another entry".into(),
        _ => format!(", and so do {count} other entries"),
    }
}

//! A parsed module.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::architecture;
use crate::memory::{GlobalMemory, MemoryError};
use crate::parse::{Entry, ParseError, Space, Syntax};
use crate::program::{Layout, ModuleVariable};
use crate::signature::{self, Use};
use crate::source_location::SourceLocation;

/// A `.param` of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its alignment in bytes.
    pub alignment: u64,
}

/// A parsed PTX module.
#[derive(Debug)]
pub struct Module {
    file: String,
    text: String,
    /// Start of each line.
    lines: Vec<usize>,
    syntax: Syntax,
    /// Distinguishes modules whose variables are in the same memory.
    identity: u64,
    uses_dependent_launches: bool,
}

impl Module {
    /// Parses PTX; `file_name` appears in messages. Instructions are not checked before an entry is run.
    ///
    /// # Errors
    /// If `text` is not PTX, with line and column.
    pub fn parse(text: &str, file_name: &str) -> Result<Module, ParseError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let syntax = Syntax::parse(text, file_name)?;
        Ok(Module {
            file: file_name.to_owned(),
            text: text.to_owned(),
            lines: std::iter::once(0).chain(text.match_indices('\n').map(|(end, _)| end + 1)).collect(),
            syntax,
            identity: NEXT.fetch_add(1, Relaxed),
            uses_dependent_launches: text.contains("griddepcontrol"),
        })
    }

    /// Names of the entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.syntax.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The parameters of an entry, in order; `None` if there is no such entry.
    pub fn parameters(&self, entry: &str) -> Option<impl Iterator<Item = Parameter<'_>>> {
        let entry = self.entry(entry)?;
        Some(entry.parameters.iter().map(|parameter| Parameter {
            name: &parameter.name,
            bytes: parameter.bytes.unwrap_or(0),
            alignment: parameter.alignment,
        }))
    }

    /// The use of each parameter of an entry, in order; `None` if there is no such entry.
    pub fn uses(&self, entry: &str) -> Option<Vec<Use>> {
        self.entry(entry).map(signature::uses)
    }

    /// Whether it declares a shared array whose size the launch sets (`extern __shared__`).
    pub fn uses_dynamic_shared(&self) -> bool {
        let mut variables = self.syntax.variables.iter();
        variables.any(|variable| variable.space == Space::Shared && variable.bytes.is_none())
    }

    /// Maximum threads of a block of an entry in each dimension, if it has such a launch bound (`.maxntid`).
    pub fn block_limit(&self, entry: &str) -> Option<[u32; 3]> {
        let entry = self.entry(entry)?;
        entry.required_threads.or(entry.maximum_threads)
    }

    /// Required threads of a block of an entry in each dimension, if it has such a launch bound (`.reqntid`).
    pub fn required_block(&self, entry: &str) -> Option<[u32; 3]> {
        self.entry(entry)?.required_threads
    }

    /// Required blocks of a cluster of an entry in each dimension, if specified (`.reqnctapercluster`).
    pub fn required_cluster(&self, entry: &str) -> Option<[u32; 3]> {
        self.entry(entry)?.cluster
    }

    /// Whether launches of an entry must specify a cluster size (`.explicitcluster`).
    pub fn needs_cluster(&self, entry: &str) -> bool {
        self.entry(entry).is_some_and(|entry| entry.needs_cluster && entry.cluster.is_none())
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.syntax.entries.iter().find(|candidate| candidate.name == name)
    }

    /// Names and sizes in bytes of managed variables, which the host accesses too (`.attribute(.managed)`).
    pub fn managed_variables(&self) -> impl Iterator<Item = (&str, u64)> {
        let managed = self.syntax.variables.iter().filter(|variable| variable.is_managed);
        managed.filter_map(|variable| Some((variable.name.as_str(), variable.bytes?)))
    }

    /// Sets the address of a variable of the module in `memory`, which must have enough bytes there. A variable already
    /// placed stays where it is.
    pub fn reserve_variable(&self, name: &str, address: u64, memory: &mut GlobalMemory) {
        memory.reserve_variable(self.identity, name, address);
    }

    /// Places the variables of the module in `memory`, unless a launch already has, and returns all of them. Launches
    /// use them there and keep their contents.
    ///
    /// # Errors
    /// If the memory is full.
    pub fn place_variables(&self, memory: &mut GlobalMemory) -> Result<Vec<ModuleVariable>, MemoryError> {
        Layout::place_variables(&self.syntax, self.identity, memory)
    }

    /// The lowest architecture that runs the module, 80 for `sm_80`; `None` for an unknown target.
    pub fn architecture(&self) -> Option<u32> {
        architecture::first_that_runs(self.target())
    }

    /// Whether it has kernels that overlap the previous or the next grid (`griddepcontrol`).
    pub fn uses_dependent_launches(&self) -> bool {
        self.uses_dependent_launches
    }

    /// The PTX ISA version (`.version`): (8, 0) for 8.0.
    pub fn version(&self) -> (u32, u32) {
        self.syntax.version
    }

    /// The target (`.target`), for example `sm_80`.
    pub fn target(&self) -> &str {
        &self.syntax.target
    }

    /// The file name given to [`Module::parse`].
    pub fn file(&self) -> &str {
        &self.file
    }

    /// A line of the text, from 1.
    pub(crate) fn line(&self, number: u32) -> &str {
        let start = (number as usize).checked_sub(1).and_then(|index| self.lines.get(index));
        start.and_then(|start| self.text[*start..].lines().next()).unwrap_or_default()
    }

    /// A location in the source and the calls it was inlined through.
    pub(crate) fn source(&self, location: Option<u32>) -> (Option<SourceLocation>, Vec<SourceLocation>) {
        let mut chain = Vec::new();
        let mut next = location;
        while let Some(index) = next {
            let location = &self.syntax.locations[index as usize];
            let file = self.syntax.files.get(&location.file).cloned();
            chain.push(SourceLocation {
                file: file.unwrap_or_else(|| format!("file {}", location.file)),
                line: location.line,
                column: location.column,
            });
            // A location only refers to earlier ones.
            next = location.inlined_at.filter(|caller| *caller < index);
        }
        let mut chain = chain.into_iter();
        (chain.next(), chain.collect())
    }

    /// The syntax tree.
    pub(crate) fn syntax(&self) -> &Syntax {
        &self.syntax
    }

    /// Distinguishes modules whose variables are in the same memory.
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }
}

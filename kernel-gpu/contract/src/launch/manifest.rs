//! The manifest next to the PTX: what each entry is, how to launch it, and which compiler built it.
//!
//! `cargo xtask ptx` writes it. It is the host program's only source of information about entries.

extern crate alloc;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::launch::args::{FORWARD_ARGS_FIELDS, FORWARD_ARGS_LAYOUT};
use crate::launch::variants::Variant;
use crate::schedule::architecture::MOST_GENEROUS;
use crate::schedule::tile::{Configuration, Rejection};
use crate::spec::config::{Element, Family, Mask, Scores, Sequence};

/// Version of this format; a reader refuses any other.
pub const FORMAT: u32 = 7;
/// File name of the manifest beside the PTX files.
pub const FILE_NAME: &str = "manifest.json";

/// The contents of a PTX folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// The compiler that wrote the PTX.
    pub code_generator: CodeGenerator,
    /// Commit of the source, with `-dirty` appended if the tree had changes; absent outside a checkout.
    pub git_commit: Option<String>,
    /// Version of the ptxas that reported the entries' resources; absent if there was none.
    pub ptxas: Option<String>,
    /// The PTX files.
    pub modules: Vec<Module>,
}

/// A compiler that turns kernel-gpu into PTX.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CodeGenerator {
    /// `rustc`, `rust-cuda`, or `nvcc` for the CUDA C++ twins.
    pub name: String,
    /// The compiler's own version line.
    pub version: String,
}

/// One PTX file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Module {
    /// File name, relative to the manifest.
    pub file: String,
    /// SHA-256 of the file, lower-case hexadecimal.
    pub sha256: String,
    /// The file's `.version`, such as `8.0`.
    pub ptx_version: String,
    /// The file's `.target`, such as `sm_80`.
    pub target: String,
    /// Forward entries of the file.
    pub entries: Vec<Entry>,
    /// Its backward entries ([`crate::launch::backward::variants`]), which are in a file of their own. Absent in manifests from before there were any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backward: Vec<BackwardEntry>,
}

/// A backward entry. The list of variants says how to launch it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackwardEntry {
    /// Name of the `.entry`.
    pub name: String,
    /// What ptxas reported, once per architecture it compiled for; empty if there was no ptxas.
    pub resources: Vec<Resources>,
}

/// One kernel entry and how to launch it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Name of the `.entry`.
    pub name: String,
    /// Tile configuration.
    pub config: Configuration,
    /// Element type of its tensors.
    pub element: Element,
    /// Sequence lengths the entry accepts.
    pub sequence: Sequence,
    /// Mask the entry applies.
    pub mask: Mask,
    /// Whether it supports score modifications. Absent in manifests of entries that do not.
    #[serde(default)]
    pub scores: Scores,
    /// Threads of a block (x dimension; y and z are 1).
    pub threads: u32,
    /// Dynamic shared memory of a block, bytes.
    pub dynamic_shared_bytes: u32,
    /// Whether its PTX has a `griddepcontrol.wait` before it accesses the tensors, so that its launch may begin before the previous
    /// one ends (programmatic dependent launch). Absent in manifests of entries that do not.
    #[serde(default)]
    pub waits_for_previous_grid: bool,
    /// Whether its PTX leaves [parts](crate::schedule::parts) of an item if the launch says so. Absent in manifests of entries that do not.
    #[serde(default)]
    pub leaves_parts: bool,
    /// Layout of the entry's single argument.
    pub arguments: ArgumentLayout,
    /// What ptxas reported, once per architecture it compiled for; empty if there was no ptxas.
    pub resources: Vec<Resources>,
}

/// Layout of an entry's by-value argument struct.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArgumentLayout {
    /// Size in bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// Fields in order.
    pub fields: Vec<ArgumentField>,
}

/// One field of an argument struct.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArgumentField {
    /// Field name.
    pub name: String,
    /// Offset in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
}

/// Resources of an entry on one architecture, as ptxas reports them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Compute capability, such as 80 for `sm_80`.
    pub architecture: u32,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of spill stores.
    pub spill_stores: u32,
    /// Bytes of spill loads.
    pub spill_loads: u32,
    /// Bytes of stack frame.
    pub stack: u32,
    /// Bytes of static shared memory.
    pub static_shared: u32,
}

impl ArgumentLayout {
    /// The layout of [`crate::launch::args::ForwardArgs`] in this build. A manifest with another one is from another build.
    pub fn forward() -> Self {
        let fields = FORWARD_ARGS_FIELDS.iter().map(|field| ArgumentField {
            name: field.name.to_string(),
            offset: field.offset,
            size: field.size,
        });
        Self { size: FORWARD_ARGS_LAYOUT.size(), align: FORWARD_ARGS_LAYOUT.align(), fields: fields.collect() }
    }
}

impl Entry {
    /// The entry as a variant.
    pub fn variant(&self) -> Variant<'_> {
        let Self { name, config, element, sequence, mask, scores, waits_for_previous_grid, leaves_parts, .. } = self;
        Variant {
            entry: name,
            config: *config,
            element: *element,
            sequence: *sequence,
            mask: *mask,
            scores: *scores,
            waits_for_previous_grid: *waits_for_previous_grid,
            leaves_parts: *leaves_parts,
        }
    }

    /// Instruction family.
    pub const fn family(&self) -> Family {
        self.config.family()
    }

    /// Checks that its configuration can work for its sequences on some architecture: the manifest may have been edited
    /// by hand.
    ///
    /// # Errors
    /// The gate that it does not pass.
    pub const fn check(&self) -> Result<(), Rejection> {
        self.config.check(self.sequence, MOST_GENEROUS)
    }

    /// An entry without score modifications and resources.
    pub fn new(name: &str, config: Configuration, element: Element, sequence: Sequence, mask: Mask) -> Self {
        Self {
            name: name.to_string(),
            config,
            element,
            sequence,
            mask,
            scores: Scores::Unmodified,
            threads: config.threads(),
            dynamic_shared_bytes: config.shared_bytes(),
            waits_for_previous_grid: false,
            leaves_parts: false,
            arguments: ArgumentLayout::forward(),
            resources: Vec::new(),
        }
    }
}

impl From<&Variant<'_>> for Entry {
    fn from(variant: &Variant<'_>) -> Self {
        let Variant { scores, waits_for_previous_grid, leaves_parts, .. } = *variant;
        let entry = Self::new(variant.entry, variant.config, variant.element, variant.sequence, variant.mask);
        Self { scores, waits_for_previous_grid, leaves_parts, ..entry }
    }
}

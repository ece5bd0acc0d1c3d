//! Findings: what is wrong with a kernel, how occurrences are merged, and how messages read.

use std::collections::HashMap;
use std::fmt;

use crate::race::{Engine, Kind};
use crate::source_location::SourceLocation;

/// Declares the classes of findings: the enumeration, the list of all, and their names in messages.
macro_rules! finding_classes {
    ($(#[$attribute:meta])* { $($(#[$doc:meta])* $class:ident = $name:literal,)* }) => {
        $(#[$attribute])*
        pub enum FindingClass {
            $($(#[$doc])* $class,)*
        }

        impl FindingClass {
            /// Every class, in the order of their declaration.
            pub const ALL: &'static [FindingClass] = &[$(FindingClass::$class),*];
        }

        impl fmt::Display for FindingClass {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(match self {
                    $(FindingClass::$class => $name,)*
                })
            }
        }
    };
}

finding_classes! {
    /// The kind of error a [`Finding`] reports.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
    #[non_exhaustive]
    {
        /// An address that is not a multiple of the required alignment (access size, vector width, `cp.async` size, 16
        /// bytes for a row of `ldmatrix`).
        Misaligned = "misaligned access",
        /// An access outside every buffer, beyond the shared memory of the launch, a parameter or local memory, or to a
        /// freed buffer; also a write to read-only memory.
        OutOfBounds = "out-of-bounds access",
        /// A value that matters (an address, a decision, a result in global memory) and originates from an
        /// uninitialised register or byte of memory.
        Uninitialised = "uninitialised read",
        /// A barrier that some threads of a warp or block do not reach, or reach with contradicting thread counts.
        BarrierDivergence = "barrier divergence",
        /// A warp-collective instruction (`mma`, `ldmatrix`, `shfl`, `vote` …) without all lanes that it needs, or with
        /// lanes that disagree about operands that must be uniform.
        CollectiveLanesMissing = "collective instruction with lanes missing",
        /// Destination bytes of a `cp.async` that were read or overwritten before the copy was waited for; also a copy
        /// that was never waited for.
        AsyncCopyNotWaited = "asynchronous copy not waited for",
        /// Bytes of shared memory that ordinary instructions wrote and an asynchronous copy or `wgmma` reads, without a
        /// `fence.proxy.async` in between. Also bytes that they read and a bulk copy overwrites, if the copy may overtake the
        /// read; [`Finding::other`] is the copy.
        MissingProxyFence = "missing proxy fence",
        /// Registers of a `wgmma.mma_async` in flight that were accessed before it was waited for; also a
        /// `wgmma.mma_async` that was never waited for.
        WgmmaNotWaited = "wgmma not waited for",
        /// Registers used by a `wgmma.mma_async` that were written since the last `wgmma.fence`.
        MissingWgmmaFence = "missing wgmma fence",
        /// An `mbarrier` that is not initialised, is used after its invalidation, is accessed like ordinary memory,
        /// gets an impossible count of arrivals or bytes, or is waited for by a parity that may belong to an earlier
        /// phase.
        MbarrierMisuse = "mbarrier misuse",
        /// Two accesses to the same bytes of shared or global memory, at least one of them a write, without an order
        /// between them: in another schedule they may happen the other way round. [`Finding::other`] is the second one.
        Race = "data race",
        /// A volatile store and a volatile or atomic access to the same bytes, without an order between them: volatile makes
        /// accesses neither atomic nor ordered. Excepted are lanes of one warp, and reads whose value is tested: a flag
        /// that is waited for. [`Finding::other`] is the second one.
        VolatileRace = "race of volatile accesses",
        /// Access to another block's shared memory that may happen, in this or another schedule, before that block has
        /// begun or after it has ended.
        BlockLifetime = "shared memory of a block that may not be there",
        /// Global memory that a grid accesses without a preceding `griddepcontrol.wait`, although it may begin while
        /// the previous grid still uses it ([`Options::overlaps_previous`](crate::Options)).
        PreviousGridNotWaited = "previous grid not waited for",
        /// An assertion of the kernel failed.
        AssertionFailed = "assertion failed",
        /// `free` was called with a pointer that is not a block of the device heap, or was freed before.
        HeapMisuse = "device heap misuse",
        /// A call, or an allocation in local memory, that exceeds the thread's memory, such as endless recursion.
        StackOverflow = "stack overflow",
        /// No warp of a block can continue.
        Deadlock = "deadlock",
        /// An operand outside the values for which the PTX ISA defines a meaning.
        InvalidOperand = "invalid operand",
        /// The kernel executed `trap`.
        Trap = "trap",
        /// A warp executed more instructions than [`Options::instructions_per_warp`](crate::Options).
        InstructionLimit = "instruction limit exceeded",
    }
}

impl From<Kind> for FindingClass {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Plain => FindingClass::Race,
            Kind::Volatile => FindingClass::VolatileRace,
        }
    }
}

/// A lane in the first occurrence of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LaneAddress {
    /// Lane, 0 to 31.
    pub lane: u32,
    /// The address that the lane used, if any.
    pub address: Option<u64>,
}

/// An active call of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CallSite {
    /// The function that is called.
    pub function: String,
    /// Line of the call in the PTX, from 1.
    pub ptx_line: u32,
    /// Source location of the call, if the PTX has line information.
    pub source: Option<SourceLocation>,
    /// The calls through which that was inlined, innermost first.
    pub inlined_at: Vec<SourceLocation>,
}

impl fmt::Display for CallSite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` is called in line {} of the PTX", self.function, self.ptx_line)?;
        self.source.as_ref().map_or(Ok(()), |source| write!(formatter, ", from {source}"))
    }
}

/// An executed instruction: its line, its source location, and who executed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Location {
    /// Line of the instruction in the PTX, from 1; 0 if unknown.
    pub ptx_line: u32,
    /// Text of that line.
    pub instruction: String,
    /// Source location of the instruction, if the PTX has line information.
    pub source: Option<SourceLocation>,
    /// The calls through which [`Location::source`] was inlined, innermost first.
    pub inlined_at: Vec<SourceLocation>,
    /// The active calls of its thread, innermost first; only for the current access, not for an earlier one.
    pub called_from: Vec<CallSite>,
    /// Block (`%ctaid`).
    pub block: [u32; 3],
    /// Warp of the block.
    pub warp: u32,
    /// First lane concerned, if the finding concerns lanes.
    pub lane: Option<u32>,
}

/// The access that another one races with, or the read of an undetermined value that is used elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct OtherAccess {
    /// Whether it is a write.
    pub writes: bool,
    /// The engine that performed it for the thread.
    pub engine: Engine,
    /// The instruction, and who executed it.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub at: Location,
}

/// An error in a kernel. Occurrences of one class at one PTX line are merged into one finding, which describes the
/// first (in block order, then execution order) and counts the others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Finding {
    /// Kind of error.
    pub class: FindingClass,
    /// What happened, with numbers.
    pub message: String,
    /// The file name given to [`Module::parse`](crate::Module::parse).
    pub ptx_file: String,
    /// The instruction, and who executed it in the first occurrence.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub at: Location,
    /// The address that this lane used, if any. Shared, local and param addresses count from the start of the
    /// window.
    pub address: Option<u64>,
    /// All lanes concerned in the first occurrence.
    pub lanes: Vec<LaneAddress>,
    /// For a race, the access that the first lane's access races with. For an uninitialised value, the read that
    /// returned it, if that is another instruction. For a read that a copy may overtake, the copy.
    pub other: Option<OtherAccess>,
    /// Number of occurrences: lanes over all warps and blocks, or warps if it does not concern lanes.
    pub occurrences: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}: {}", self.class, self.message)?;
        write!(formatter, "  --> {}:{}", self.ptx_file, self.at)?;
        if let Some(address) = self.address {
            write!(formatter, ", address {address:#x}")?;
        }
        if self.occurrences != 1 {
            write!(formatter, "; {} occurrences", self.occurrences)?;
        }
        let Some(other) = &self.other else { return Ok(()) };
        match self.class {
            FindingClass::Uninitialised => write!(formatter, "\n  the value was read in line {}", other.at),
            FindingClass::MissingProxyFence => write!(formatter, "\n  overtaken by line {}", other.at),
            _ => write!(formatter, "\n{other}"),
        }
    }
}

impl fmt::Display for OtherAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "  races with line {}", self.at)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}: {}", self.ptx_line, self.instruction.trim())?;
        if let Some(source) = &self.source {
            writeln!(formatter, "  from {source}")?;
        }
        for caller in &self.inlined_at {
            writeln!(formatter, "  inlined at {caller}")?;
        }
        for call in &self.called_from {
            writeln!(formatter, "  {call}")?;
        }
        let [x, y, z] = self.block;
        write!(formatter, "  block ({x}, {y}, {z}), warp {}", self.warp)?;
        self.lane.map_or(Ok(()), |lane| write!(formatter, ", lane {lane}"))
    }
}

/// Findings of one block, or of several merged.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
    index: HashMap<(FindingClass, u32), usize>,
}

impl Findings {
    /// Adds `occurrences` to the finding of `class` at `ptx_line`, made by `describe` if this is the first of its kind.
    pub fn add(&mut self, class: FindingClass, ptx_line: u32, occurrences: u64, describe: impl FnOnce() -> Finding) {
        let next = self.list.len();
        let index = *self.index.entry((class, ptx_line)).or_insert(next);
        if index == next {
            self.list.push(describe());
            self.list[index].occurrences = 0;
        }
        self.list[index].occurrences += occurrences;
    }

    /// Whether there is one of `class` at `ptx_line`.
    pub fn has(&self, class: FindingClass, ptx_line: u32) -> bool {
        self.index.contains_key(&(class, ptx_line))
    }

    /// Adds the findings of a later block.
    pub fn merge(&mut self, later: Findings) {
        for finding in later.list {
            self.add(finding.class, finding.at.ptx_line, finding.occurrences, || finding.clone());
        }
    }

    /// The findings in the order they were made, at most `limit`.
    pub fn into_list(mut self, limit: usize) -> Vec<Finding> {
        self.list.truncate(limit);
        self.list
    }
}

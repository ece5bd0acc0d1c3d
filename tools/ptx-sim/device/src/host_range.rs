//! Host memory known to the driver.

use std::collections::BTreeMap;
use std::sync::Arc;

use ptx_sim::HostWords;

/// The origin of host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// Page-locked, allocated by the driver.
    PageLocked,
    /// Allocated by the program and registered with the driver.
    Registered,
    /// Managed memory, allocated by the driver.
    Managed {
        /// The GPU of the context in which it was allocated.
        gpu: u32,
    },
    /// A managed variable of a module.
    Variable {
        /// The GPU of the context into which the module was loaded.
        gpu: u32,
    },
}

/// Host memory that the driver allocated or that was registered with it.
#[derive(Clone)]
pub struct HostRange {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Allocation flags.
    pub flags: u32,
    /// The context in which it was allocated.
    pub context: u64,
    /// Its origin.
    pub kind: HostKind,
    /// Its name in messages.
    pub name: String,
    /// Its contents.
    pub words: Arc<dyn HostWords>,
}

impl HostRange {
    /// Whether it is managed memory.
    pub fn is_managed(&self) -> bool {
        matches!(self.kind, HostKind::Managed { .. } | HostKind::Variable { .. })
    }

    /// Whether it is managed memory that the program must free.
    pub(crate) fn is_allocated_managed(&self) -> bool {
        matches!(self.kind, HostKind::Managed { .. })
    }
}

/// By address.
pub(crate) type HostRanges = BTreeMap<u64, HostRange>;

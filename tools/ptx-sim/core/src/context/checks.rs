//! Checks of an access's place, and their messages.

use super::faults::Faults;
use super::place::Place;
use super::view::Context;
use crate::cluster_addresses::{own_shared, shared_rank};
use crate::finding::FindingClass;
use crate::parse::Space;

impl Context<'_> {
    /// Whether a place is aligned; otherwise adds a fault.
    pub fn check_alignment(&self, faults: &mut Faults, place: Place, what: impl FnOnce() -> String) -> bool {
        let Place { lane, space, address, alignment, .. } = place;
        let aligned = address.is_multiple_of(alignment);
        if !aligned {
            let cause = || {
                let location = self.location(space, address, 1);
                format!("{} in {space} memory needs an address that is a multiple of {alignment}{location}", what())
            };
            faults.add(FindingClass::Misaligned, lane, address, cause);
        }
        aligned
    }

    /// Whether an ordinary access is allowed at its place: aligned, and outside of mbarriers; otherwise adds a fault.
    pub(super) fn check_place(
        &self,
        faults: &mut Faults,
        place: Place,
        bytes: usize,
        what: impl Fn() -> String,
    ) -> bool {
        if !self.check_alignment(faults, place, &what) || !self.check_block(faults, place, &what) {
            return false;
        }
        let Place { lane, space, address, .. } = place;
        let found = match space {
            Space::Shared => self.cluster.mbarriers.overlapping(address, bytes),
            _ => None,
        };
        if let Some(mbarrier) = found {
            let cause = || format!("{} touches the mbarrier at {mbarrier:#x}, which only mbarrier may access", what());
            faults.add(FindingClass::MbarrierMisuse, lane, address, cause);
        }
        found.is_none()
    }

    /// Describes an address, for messages.
    pub(super) fn location(&self, space: Space, address: u64, bytes: usize) -> String {
        match space {
            Space::Global | Space::Constant => format!(", {}", self.machine.memory.describe(address, bytes as u64)),
            Space::Parameter => format!(", {}", self.machine.parameters.describe(address, bytes as u64)),
            Space::Shared | Space::Local => self.variable(space, address),
        }
    }

    /// The shared variable at or below an address, for messages.
    pub fn variable(&self, space: Space, address: u64) -> String {
        let names = &self.machine.program.layout.shared_names;
        let own = own_shared(address);
        let below = names.iter().filter(|(_, first)| space == Space::Shared && *first <= own);
        let nearest = below.max_by_key(|(_, first)| *first);
        let text = nearest.map_or(String::new(), |(name, first)| format!(", offset {} of `{name}`", own - first));
        match self.cluster.blocks {
            1 => text,
            _ if space != Space::Shared => text,
            _ => format!("{text} of the block of rank {}", shared_rank(address)),
        }
    }
}

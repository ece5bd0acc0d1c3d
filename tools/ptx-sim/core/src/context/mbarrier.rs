//! Checks of mbarrier addresses and their misuse.

use super::faults::Faults;
use super::place::Place;
use super::view::Context;
use crate::finding::FindingClass;
use crate::machine::MBARRIER_BYTES;
use crate::parse::Space;

impl Context<'_> {
    /// The shared address of an mbarrier; `None`, with a fault, if no mbarrier can be there.
    pub fn mbarrier_address(
        &self,
        faults: &mut Faults,
        lane: usize,
        space: Option<Space>,
        address: u64,
    ) -> Option<u64> {
        let place = Place::new(lane, space, address, MBARRIER_BYTES);
        let Place { space, address, .. } = place;
        if space != Space::Shared || !self.cluster.shared.contains(address, MBARRIER_BYTES as usize) {
            let bytes = self.machine.shared_bytes;
            let cause = || format!("an mbarrier at {address:#x} of {space} memory, outside the {bytes} bytes shared");
            faults.add(FindingClass::OutOfBounds, lane, address, cause);
            return None;
        }
        let what = || "an mbarrier".to_owned();
        let is_right = self.check_alignment(faults, place, what) && self.check_block(faults, place, what);
        is_right.then_some(address)
    }

    /// Adds a fault about an mbarrier.
    pub fn misuse(&self, faults: &mut Faults, lane: usize, place: u64, misuse: &str) {
        let cause = || format!("the mbarrier{}: {misuse}", self.variable(Space::Shared, place));
        faults.add(FindingClass::MbarrierMisuse, lane, place, cause);
    }
}

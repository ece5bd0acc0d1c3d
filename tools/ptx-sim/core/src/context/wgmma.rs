//! Checks of the registers of `wgmma` instructions in flight.

use super::view::Context;
use crate::finding::FindingClass;
use crate::program::Destination;

impl Context<'_> {
    /// Checks the registers of an instruction other than `wgmma` against those in flight, and notes what it writes.
    pub fn check_async_matrix(&mut self) {
        let instruction = self.instruction;
        if let Some((slot, what)) = self.warp.matrix.touch(&instruction.reads, &instruction.writes) {
            let name = &self.machine.program.register_names[slot as usize];
            self.report(FindingClass::WgmmaNotWaited, Vec::new(), || {
                format!("`{name}` is the {what} of a wgmma.mma_async that was not waited for (wgmma.wait_group)")
            });
        }
    }

    /// Reports accumulators that a warp never waited for.
    pub fn check_matrix_finished(&mut self) {
        if self.warp.matrix.is_busy() {
            self.report(FindingClass::WgmmaNotWaited, Vec::new(), || {
                "the warp ends without having waited for its wgmma.mma_async".to_owned()
            });
        }
    }

    /// Writes the accumulators of completed groups.
    pub fn land_results(&mut self, allowed: u64) {
        for (slot, values) in self.warp.matrix.wait(allowed) {
            for (lane, value) in values.into_iter().enumerate() {
                self.set(Destination { slot, mask: u64::from(u32::MAX) }, lane, value);
            }
        }
    }
}

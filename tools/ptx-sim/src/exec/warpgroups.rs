//! Instructions that the four warps of a warpgroup have to execute together.
//!
//! Each warp executes its part when it gets there: nothing such an instruction does depends on the other three. That all
//! four executed it equally often is checked when the block ends.

use std::collections::BTreeMap;

use super::block::Block;
use crate::finding::FindingClass;

/// Warps of a warpgroup, the first of which has an index that is a multiple of this.
pub(crate) const WARPS: usize = 4;
/// Most warps of a block.
const BLOCK_WARPS: usize = 32;

/// How often each warp of a block executed each instruction of warpgroups, by index of the instruction.
#[derive(Debug, Default)]
pub(crate) struct Warpgroups {
    counts: BTreeMap<u32, [u64; BLOCK_WARPS]>,
}

impl Warpgroups {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.clear();
    }

    /// Notes that a warp executed the instruction at `pc`.
    pub fn executed(&mut self, pc: u32, warp: u32) {
        self.counts.entry(pc).or_insert([0; BLOCK_WARPS])[warp as usize] += 1;
    }
}

impl Block<'_> {
    /// Reports instructions that only some warps of a warpgroup executed.
    pub(super) fn report_split_warpgroups(&mut self) {
        let counts = std::mem::take(&mut self.state.warpgroups.counts);
        for (pc, counts) in counts {
            for (group, counts) in counts.chunks(WARPS).enumerate() {
                if counts.iter().all(|count| *count == counts[0]) {
                    continue;
                }
                let most = counts.iter().max().map_or(0, |most| *most);
                let first = group * WARPS;
                let warp = first + counts.iter().position(|count| *count == most).unwrap_or(0);
                self.with_instruction(warp, pc, |context| {
                    context.report(FindingClass::CollectiveLanesMissing, Vec::new(), || {
                        format!(
                            "all four warps of a warpgroup must execute this together: warps {first}-{} executed it \
                             {counts:?} times",
                            first + WARPS - 1
                        )
                    });
                });
            }
        }
    }
}

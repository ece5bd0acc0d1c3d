//! Shared memory of other blocks in the cluster: which accesses are allowed, and when (PTX ISA, ".shared", "Cooperative
//! Thread Arrays in a Cluster").

use super::faults::Faults;
use super::place::Place;
use super::view::Context;
use crate::cluster_addresses::shared_rank;
use crate::finding::FindingClass;
use crate::parse::Space;
use crate::race::{Agent, Engine};

/// The problem of a block that ends while others use its shared memory.
pub(crate) const ENDS_TOO_EARLY: &str = "which may have ended before: it has to wait, at a barrier of the cluster or for an \
    mbarrier, for those that still use its memory";

impl Context<'_> {
    /// Whether a place is in the memory of another block of the cluster.
    pub fn is_elsewhere(&self, space: Space, address: u64) -> bool {
        space == Space::Shared && self.cluster.blocks > 1 && shared_rank(address) != u64::from(self.warp.rank)
    }

    /// Whether an access is allowed in the block of its place: its own block, or another one that the instruction can
    /// reach and that is alive; otherwise adds a fault. Accesses to blocks that do not exist are found elsewhere.
    pub(super) fn check_block(&self, faults: &mut Faults, place: Place, what: impl FnOnce() -> String) -> bool {
        let Place { lane, space, address, .. } = place;
        let rank = shared_rank(address);
        if !self.is_elsewhere(space, address) || rank >= u64::from(self.cluster.blocks) {
            return true;
        }
        if !self.instruction.reaches_cluster {
            faults.add(FindingClass::OutOfBounds, lane, address, || {
                format!(
                    "{} in the shared memory of the block of rank {rank}: only instructions with .shared::cluster reach that \
                     of other blocks",
                    what()
                )
            });
            return false;
        }
        self.check_life(faults, lane, address, what)
    }

    /// Whether the block of an address is known to the thread to have begun and not ended; otherwise adds a fault.
    fn check_life(&self, faults: &mut Faults, lane: usize, address: u64, what: impl FnOnce() -> String) -> bool {
        let rank = shared_rank(address);
        let has_ended = self.cluster.has_ended(rank);
        let agent = Agent::new(self.warp.index, lane, Engine::Thread);
        let may_be_early = self.cluster.races.as_ref().is_some_and(|races| !races.is_after_begin(agent, rank));
        if has_ended || may_be_early {
            faults.add(FindingClass::BlockLifetime, lane, address, || {
                let why = match has_ended {
                    true => ENDS_TOO_EARLY,
                    false => {
                        "which may not have begun: a barrier of the cluster has to lie between the beginning of the kernel and \
                         the first access to the memory of another block"
                    }
                };
                format!("{} in the shared memory of the block of rank {rank}, {why}", what())
            });
        }
        !has_ended
    }

    /// Whether two shared addresses of an instruction are in the same block, as required; otherwise adds a fault.
    pub fn check_same_block(&self, faults: &mut Faults, lane: usize, target: u64, mbarrier: u64) -> bool {
        let (one, other) = (shared_rank(target), shared_rank(mbarrier));
        // With a single block, addresses outside of it are reported elsewhere.
        let is_right = one == other || self.cluster.blocks == 1;
        if !is_right {
            faults.add(FindingClass::InvalidOperand, lane, target, || {
                format!(
                    "the destination is in the block of rank {one} and the mbarrier in that of rank {other}: they have to be in \
                     the same one"
                )
            });
        }
        is_right
    }

    /// Whether a source in shared memory is in the thread's own block, as required; otherwise adds a fault.
    pub fn check_own_block(&self, faults: &mut Faults, lane: usize, source: u64) -> bool {
        let is_own = !self.is_elsewhere(Space::Shared, source);
        if !is_own {
            faults.add(FindingClass::OutOfBounds, lane, source, || {
                let rank = shared_rank(source);
                format!(
                    "a source in the shared memory of the block of rank {rank}: .shared::cta is that of the own block"
                )
            });
        }
        is_own
    }
}

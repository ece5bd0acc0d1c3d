//! Pairs of warps with the same rows, where one warp has no registers for all columns.
//!
//! The first warp of a pair computes P, the second one dP. Scores pass through shared memory, where O was, which nobody reads after Δ. The lanes
//! of both warps hold the same elements, so a lane reads what its twin wrote.

use super::kernel::Sm80Backward;
use crate::device::lane::{Lane, Scores};
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::{memory, sync};
use crate::device::unrolled;
use contract::config::{MMA_K, WARP_SIZE};

/// Threads of a pair.
const THREADS: u32 = 2 * WARP_SIZE;
/// Bytes of a lane's part of an 8-column tile.
const FRAGMENT_BYTES: u32 = size_of::<FragmentC>() as u32;
/// Bytes of an 8-column tile of scores.
const TILE_BYTES: u32 = WARP_SIZE * FRAGMENT_BYTES;
/// Named barriers that a block has besides barrier 0.
const BARRIERS: u32 = 15;

/// The calling warp's place in its pair.
#[derive(Clone, Copy)]
pub struct Pair {
    /// Index of the pair in the block.
    pub number: u32,
    /// Index of the warp in the pair.
    pub member: u32,
}

impl Pair {
    /// The place of the calling warp.
    #[inline(always)]
    pub fn of<K: Sm80Backward>(lane: Lane) -> Self {
        // The warps of a pair share a scheduler: one of them computes exponentials, the other one does not.
        Self { number: K::team(lane), member: lane.warp / const { K::TILE.teams() } }
    }

    /// Whether the calling warp computes P.
    #[inline(always)]
    pub fn is_first(self) -> bool {
        self.member == 0
    }

    /// Bytes of the scores of a step that `members` warps of each pair write.
    pub const fn exchanged_bytes<K: Sm80Backward, const M_TILES: usize>(members: u32) -> u32 {
        members * Self::parts::<K>() * K::TILE.teams() * 2 * M_TILES as u32 * TILE_BYTES
    }

    /// Parts of 16 rows of a step, each with its own scores and barrier.
    const fn parts<K: Sm80Backward>() -> u32 {
        K::TILE.step / MMA_K
    }

    /// Index of the pair's part `part` of the block.
    #[inline(always)]
    fn part<K: Sm80Backward>(self, part: u32) -> u32 {
        part * const { K::TILE.teams() } + self.number
    }

    /// Address of the lane's scores of part `part` that warp `member` of the pair writes.
    #[inline(always)]
    fn place<K: Sm80Backward, const M_TILES: usize>(
        self,
        exchange: u32,
        (member, part): (u32, u32),
        lane: Lane,
    ) -> u32 {
        let of_members = member * const { Self::exchanged_bytes::<K, M_TILES>(1) };
        let of_parts = self.part::<K>(part) * const { 2 * M_TILES as u32 * TILE_BYTES };
        exchange + of_members + of_parts + lane.index * FRAGMENT_BYTES
    }

    /// Writes the warp's scores of part `part` to the memory at `exchange`.
    ///
    /// # Safety
    /// Warp together; nobody accesses the memory before the pair's barrier of this part.
    #[inline(always)]
    pub unsafe fn write<K: Sm80Backward, const M_TILES: usize>(
        self,
        exchange: u32,
        part: u32,
        scores: &Scores<M_TILES, 2>,
        lane: Lane,
    ) {
        let place = self.place::<K, M_TILES>(exchange, (self.member, part), lane);
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for n in 2 => {
                let offset = (2 * m + n) as u32 * TILE_BYTES;
                // SAFETY: the lane's own place.
                unsafe { memory::store_shared_four(place + offset, scores[m][n]) };
            });
        });
    }

    /// The scores of part `part` that warp `member` of the pair wrote.
    ///
    /// # Safety
    /// Warp together, after the pair's barrier of this part.
    #[inline(always)]
    pub unsafe fn read<K: Sm80Backward, const M_TILES: usize>(
        self,
        exchange: u32,
        (member, part): (u32, u32),
        lane: Lane,
    ) -> Scores<M_TILES, 2> {
        let place = self.place::<K, M_TILES>(exchange, (member, part), lane);
        let mut scores = [[[0.0; 4]; 2]; M_TILES];
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for n in 2 => {
                let offset = (2 * m + n) as u32 * TILE_BYTES;
                // SAFETY: what the lane's twin wrote before the barrier.
                scores[m][n] = unsafe { memory::load_shared_four(place + offset) };
            });
        });
        scores
    }

    /// Waits until the other warp has reached the pair's barrier of part `part`, or [arrived](Self::arrive) at it.
    ///
    /// # Safety
    /// Warp together, once in a step.
    #[inline(always)]
    pub unsafe fn wait<K: Sm80Backward>(self, part: u32) {
        // SAFETY: the two warps of a pair use the barrier.
        unsafe { sync::some::<THREADS>(self.barrier::<K>(part)) };
    }

    /// Takes part in [`Self::wait`] of the other warp without waiting.
    ///
    /// # Safety
    /// As for [`Self::wait`].
    #[inline(always)]
    pub unsafe fn arrive<K: Sm80Backward>(self, part: u32) {
        // SAFETY: the two warps of a pair use the barrier.
        unsafe { sync::arrive::<THREADS>(self.barrier::<K>(part)) };
    }

    /// Each part of a step has its own barrier: before the next step, all threads of the block wait for each other.
    #[inline(always)]
    fn barrier<K: Sm80Backward>(self, part: u32) -> u32 {
        const { assert!(Self::parts::<K>() * K::TILE.teams() <= BARRIERS) };
        self.part::<K>(part) + 1
    }
}

/// dS of a pair: the scores of both warps, multiplied.
#[inline(always)]
pub fn multiply<const M_TILES: usize>(scores: &mut Scores<M_TILES, 2>, others: &Scores<M_TILES, 2>) {
    unrolled!(at most 4; for m in M_TILES => {
        unrolled!(at most 2; for n in 2 => {
            unrolled!(at most 4; for i in 4 => { scores[m][n][i] *= others[m][n][i] });
        });
    });
}

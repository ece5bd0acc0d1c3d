//! The work of a warp: the main loop under guessed shifts, and the loop in which the shifts follow the row maxima.

use super::kernel::Sm80Kernel;
use super::key_groups::Group;
use super::pipeline::{Pipeline, Step};
use super::shifts::{Guess, Shifts};
use crate::device::hidden::not_unrolled;
use crate::device::kernel::Output;
use crate::device::kernel::{Kernel, Tile};
use crate::device::lane::{Lane, Scores};
use crate::device::mask::Mask;
use crate::device::products::{self, QueryFragments, RowSums};
use crate::device::ptx::mma::FragmentA;
use crate::device::ptx::sync;
use crate::device::scores::ScoreMod;
use crate::device::scores::place::Place;
use crate::device::softmax::{Statistics, apply_mask, mask_scores, rescale_row};
use crate::device::tile::head_dim::Fragments;
use crate::device::unrolled;
use contract::args::ForwardArgs;
use contract::config::{MMA_K, MMA_M};

/// Which keys of a step the rows of a warp attend to.
enum Attention {
    /// All rows to all keys.
    All,
    /// A mask is needed.
    Some,
    /// No row to any key.
    None,
}

/// The accumulators of a warp.
pub struct Accumulators<K: Kernel, const M_TILES: usize> {
    output: Output<K, M_TILES>,
    /// The row sums.
    pub sums: RowSums<M_TILES>,
}

impl<K: Sm80Kernel, const M_TILES: usize> Accumulators<K, M_TILES> {
    /// The initial state, before any keys.
    #[inline(always)]
    fn new() -> Self {
        Self { output: [Fragments::zeros(); M_TILES], sums: RowSums::new() }
    }

    /// Adds the 16 keys of part `part` of `values` with their probabilities.
    ///
    /// # Safety
    /// Warp together; `values` is complete and visible.
    #[inline(always)]
    unsafe fn add<const BLOCK_N: u32>(
        &mut self,
        probabilities: &[FragmentA; M_TILES],
        values: (Tile<K, BLOCK_N>, u32),
        lane: Lane,
    ) {
        // SAFETY: warp together; V is complete.
        unsafe {
            self.sums.accumulate::<K::Element>(probabilities);
            products::accumulate_output::<K, BLOCK_N, M_TILES>(&mut self.output, probabilities, values, lane);
        }
    }

    /// Multiplies part `r` (row g or g + 8) of strip `m` by `factor`.
    #[inline(always)]
    fn rescale(&mut self, m: usize, r: usize, factor: f32) {
        self.sums.rescale(m, r, factor);
        rescale_row::<K>(&mut self.output[m], r, factor);
    }

    /// O and the softmax state, if `shifts` are the shifts of everything that was added.
    #[inline(always)]
    pub fn under(self, shifts: &Shifts<M_TILES>) -> (Output<K, M_TILES>, Statistics<M_TILES>) {
        (self.output, Statistics { shift: shifts.0, sum: self.sums.rows() })
    }
}

/// Q of a warp, in shared memory and, unless [`Sm80Kernel::SHARED_QUERIES`], in registers.
struct Queries<K: Sm80Kernel, const BLOCK_M: u32, const M_TILES: usize> {
    fragments: QueryFragments<K, M_TILES>,
    tile: Tile<K, BLOCK_M>,
    warp_row: u32,
    lane: Lane,
}

impl<K: Sm80Kernel, const BLOCK_M: u32, const M_TILES: usize> Queries<K, BLOCK_M, M_TILES> {
    /// Q of the rows from `warp_row` on.
    ///
    /// # Safety
    /// Warp together, after the tile was copied and a barrier.
    #[inline(always)]
    unsafe fn load(tile: Tile<K, BLOCK_M>, warp_row: u32, lane: Lane) -> Self {
        let fragments = match K::SHARED_QUERIES {
            true => [Fragments::zeros(); M_TILES],
            // SAFETY: warp together, and Q has arrived.
            false => unsafe { products::load_queries::<K, BLOCK_M, M_TILES>(tile, warp_row, lane) },
        };
        Self { fragments, tile, warp_row, lane }
    }

    /// Its fragments.
    #[inline(always)]
    fn fragments(&self) -> QueryFragments<K, M_TILES> {
        self.fragments
    }

    /// Its fragments while shifts follow the row maxima. Kernels that mostly guess read them again, since the scores of many keys take
    /// their registers.
    ///
    /// # Safety
    /// Warp together.
    #[inline(always)]
    unsafe fn beside_scores(&self) -> QueryFragments<K, M_TILES> {
        match K::RESCALE_THRESHOLD {
            _ if K::SHARED_QUERIES => self.fragments(),
            0 => self.fragments(),
            // SAFETY: `load` was called, so the tile is there; the whole warp is here.
            _ => unsafe { products::load_queries::<K, BLOCK_M, M_TILES>(self.tile, self.warp_row, self.lane) },
        }
    }

    /// S = Q·Kᵀ for part `keys`, 16 keys of a tile, with these `fragments`.
    ///
    /// # Safety
    /// Warp together; the tile of keys is complete and visible.
    #[inline(always)]
    unsafe fn scores<const BLOCK_N: u32>(
        &self,
        fragments: &QueryFragments<K, M_TILES>,
        keys: (Tile<K, BLOCK_N>, u32),
        lane: Lane,
    ) -> Scores<M_TILES, 2> {
        // SAFETY: warp together; K is complete, and Q since `load`.
        unsafe {
            match K::SHARED_QUERIES {
                true => {
                    let rows = (self.tile, self.warp_row);
                    products::scores_of_shared::<K, BLOCK_M, BLOCK_N, M_TILES>(rows, keys, lane)
                }
                false => products::scores::<K, BLOCK_N, M_TILES>(fragments, keys, lane),
            }
        }
    }
}

/// A warp's constants: its rows, its Q, its keys of each step.
pub struct Warp<'a, K: Sm80Kernel, const BLOCK_M: u32, const M_TILES: usize> {
    args: &'a ForwardArgs,
    queries: Queries<K, BLOCK_M, M_TILES>,
    /// Position of its first row among the keys.
    first_row: u32,
    /// First of its own 16-key parts of a step.
    first_part: u32,
    lane: Lane,
}

impl<'a, K: Sm80Kernel, const BLOCK_M: u32, const M_TILES: usize> Warp<'a, K, BLOCK_M, M_TILES> {
    /// Rows of the warp.
    const ROWS: u32 = M_TILES as u32 * MMA_M;

    /// The calling warp, whose block's Q is in `tile` and begins at `position` among the keys.
    ///
    /// # Safety
    /// Warp together, after the tile was copied and a barrier.
    #[inline(always)]
    pub unsafe fn load(args: &'a ForwardArgs, tile: Tile<K, BLOCK_M>, position: u32, lane: Lane) -> Self {
        // SAFETY: the caller's promise.
        Self::of(args, position, lane, |warp_row| unsafe { Queries::load(tile, warp_row, lane) })
    }

    /// The same warp, with everything but Q recomputed ([`Lane::recomputed`]).
    #[inline(always)]
    pub fn recomputed(&self, position: u32) -> Self {
        let lane = self.lane.recomputed();
        Self::of(self.args, position, lane, |warp_row| Queries { lane, warp_row, ..self.queries })
    }

    /// The warp of `lane`, with the `queries` of the rows from one on.
    #[inline(always)]
    fn of(
        args: &'a ForwardArgs,
        position: u32,
        lane: Lane,
        queries: impl FnOnce(u32) -> Queries<K, BLOCK_M, M_TILES>,
    ) -> Self {
        let group = Group::of::<K>(lane);
        let warp_row = group.warp * Self::ROWS;
        Self {
            args,
            queries: queries(warp_row),
            first_row: position.wrapping_add(warp_row),
            first_part: group.number * const { K::TILE.k_steps() as u32 },
            lane,
        }
    }

    /// First of its own 16-key parts of a step.
    #[inline(always)]
    fn first_part(&self) -> u32 {
        if K::GROUPS == 1 { 0 } else { self.first_part }
    }

    /// First of the warp's own keys of a step.
    #[inline(always)]
    fn first_key<const BLOCK_N: u32, const STAGES: u32>(
        &self,
        pipeline: &Pipeline<'_, K, BLOCK_M, BLOCK_N, STAGES>,
        step: &Step,
    ) -> u32 {
        pipeline.key_of(step.number) + self.first_part() * MMA_K
    }

    /// How the rows attend to the `keys` keys from `first_key` on.
    #[inline(always)]
    fn attention(&self, first_key: u32, keys: u32, length: u32) -> Attention {
        if !K::Mask::touches::<K::Sequence>(self.args, (self.first_row, Self::ROWS), first_key, keys, length) {
            Attention::All
        } else if first_key < K::Mask::keys_end(self.args, self.first_row.wrapping_add(Self::ROWS), length)
            && (!K::Mask::HAS_BEGIN || first_key + keys > K::Mask::keys_begin(self.args, self.first_row))
        {
            Attention::Some
        } else {
            Attention::None
        }
    }

    /// Guesses the shifts from the first 16 keys.
    ///
    /// # Safety
    /// Warp together; `keys` is complete and visible.
    #[inline(always)]
    pub unsafe fn guess_shifts<const BLOCK_N: u32>(
        &self,
        keys: Tile<K, BLOCK_N>,
        first_key: u32,
        length: u32,
    ) -> Guess<M_TILES> {
        // SAFETY: warp together; K is complete.
        unsafe {
            let all = self.queries.scores(&self.queries.fragments(), (keys, 0), self.lane);
            let mut attended = all;
            let rows = (self.first_row, Self::ROWS);
            apply_mask::<K, M_TILES, 2>(self.args, &mut attended, rows, 0, first_key, length, self.lane);
            Guess::of::<K::Element>(&all, &attended, self.args.scale_log2)
        }
    }

    /// O and row sums of all steps under `shifts`, which are raised at checkpoints if the sums have grown. Ends at a checkpoint if the sums of
    /// some warp of the block are unsound.
    ///
    /// # Safety
    /// Block together; `step` is the pipeline's first.
    #[inline(always)]
    pub unsafe fn attend_under<const BLOCK_N: u32, const K_STEPS: usize, const STAGES: u32>(
        &self,
        shifts: &mut Shifts<M_TILES>,
        pipeline: &Pipeline<K, BLOCK_M, BLOCK_N, STAGES>,
        step: &mut Step,
    ) -> Accumulators<K, M_TILES> {
        let length = pipeline.kv_length;
        let mut accumulators = Accumulators::new();
        // Not unrolled: the loop over the steps is long enough.
        while step.number < pipeline.steps_end {
            // SAFETY: all threads are here; the step's tiles are complete until it is finished.
            unsafe {
                if pipeline.is_checkpoint(step) {
                    if K::STOPS_EARLY && sync::block_any(!accumulators.sums.are_sound::<K::Element>()) {
                        break;
                    }
                    let sums = accumulators.sums.rows();
                    shifts.raise::<K::Element>(&sums, |m, r, factor| accumulators.rescale(m, r, factor));
                }
                let tiles = pipeline.tiles(step);
                let first_key = self.first_key(pipeline, step);
                match self.attention(first_key, K_STEPS as u32 * MMA_K, length) {
                    Attention::All => {
                        let attend = Self::attend::<BLOCK_N, K_STEPS, false>;
                        attend(self, &mut accumulators, shifts, tiles, first_key, length);
                    }
                    Attention::Some => {
                        let attend = Self::attend::<BLOCK_N, K_STEPS, true>;
                        attend(self, &mut accumulators, shifts, tiles, first_key, length);
                    }
                    Attention::None => (),
                }
                pipeline.finish(step);
            }
        }
        accumulators
    }

    /// Adds a step to the output and the sums, 16 keys at a time. While the tensor cores multiply, exponentials of other keys can be
    /// computed, since no step of the loop waits for a row max.
    ///
    /// # Safety
    /// Warp together; `keys` and `values` are complete and visible.
    #[inline(always)]
    unsafe fn attend<const BLOCK_N: u32, const K_STEPS: usize, const MASKED: bool>(
        &self,
        accumulators: &mut Accumulators<K, M_TILES>,
        shifts: &Shifts<M_TILES>,
        (keys, values): (Tile<K, BLOCK_N>, Tile<K, BLOCK_N>),
        first_key: u32,
        length: u32,
    ) {
        let unroll = const { if MASKED { K::UNROLL_MASKED } else { K::UNROLL } };
        let k_steps = if unroll == K_STEPS { K_STEPS as u32 } else { not_unrolled(K_STEPS as u32) };
        let mut first = 0;
        while first < k_steps {
            unrolled!(at most 8; for k in if MASKED { K::UNROLL_MASKED } else { K::UNROLL } => {
                let own = first + k as u32;
                let part = self.first_part() + own;
                // SAFETY: warp together; K and V are complete.
                unsafe {
                    let scores = self.scores::<BLOCK_N, MASKED>((keys, part), first_key + own * MMA_K, length);
                    let probabilities = shifts.probabilities::<K>(&scores, self.args.scale_log2);
                    accumulators.add(&probabilities, (values, part), self.lane);
                }
            });
            first += unroll as u32;
        }
    }

    /// Scores of the 16 keys from `first_key` on, masked if `MASKED`.
    ///
    /// # Safety
    /// Warp together; `keys` is complete and visible.
    #[inline(always)]
    unsafe fn scores<const BLOCK_N: u32, const MASKED: bool>(
        &self,
        keys: (Tile<K, BLOCK_N>, u32),
        first_key: u32,
        length: u32,
    ) -> Scores<M_TILES, 2> {
        // SAFETY: warp together; K is complete.
        let mut scores = unsafe { self.queries.scores(&self.queries.fragments(), keys, self.lane) };
        if MASKED {
            let lane = self.lane.recomputed();
            mask_scores::<K::Mask, M_TILES, 2>(self.args, &mut scores, self.first_row, first_key, length, lane);
        }
        scores
    }

    /// O and softmax under shifts that follow the row maxima: online softmax, `TOGETHER` times 16 keys at a time. Ends at a checkpoint if
    /// other warps have guessed, and their sums are unsound.
    ///
    /// # Safety
    /// Block together; `step` is the pipeline's first.
    #[inline(always)]
    pub unsafe fn follow_maxima<const BLOCK_N: u32, const K_STEPS: usize, const TOGETHER: usize, const STAGES: u32>(
        &self,
        pipeline: &Pipeline<K, BLOCK_M, BLOCK_N, STAGES>,
        step: &mut Step,
    ) -> (Output<K, M_TILES>, Statistics<M_TILES>) {
        let mut shifts = Shifts::lowest();
        let mut accumulators = Accumulators::new();
        let score_mod = pipeline.block.score_mod();
        while step.number < pipeline.steps_end {
            // SAFETY: all threads are here; the step's tiles are complete until it is finished.
            unsafe {
                if K::STOPS_EARLY && pipeline.is_checkpoint(step) && sync::block_any(false) {
                    break;
                }
                let tiles = pipeline.tiles(step);
                let mut first = 0;
                while first < not_unrolled(K_STEPS as u32) {
                    let place = Place {
                        first_row: self.first_row,
                        first_key: self.first_key(pipeline, step) + first * MMA_K,
                        length: pipeline.block.length(),
                        kv_length: pipeline.kv_length,
                    };
                    let part = self.first_part() + first;
                    self.follow::<BLOCK_N, TOGETHER>(&mut accumulators, &mut shifts, (tiles, part), score_mod, place);
                    first += TOGETHER as u32;
                }
                pipeline.finish(step);
            }
        }
        accumulators.under(&shifts)
    }

    /// Adds `TOGETHER` times 16 keys from `place` and part `part` of the tiles on, after the shifts were raised to their row maxima. Every
    /// score is masked.
    ///
    /// # Safety
    /// Warp together; the tiles are complete and visible.
    #[inline(always)]
    unsafe fn follow<const BLOCK_N: u32, const TOGETHER: usize>(
        &self,
        accumulators: &mut Accumulators<K, M_TILES>,
        shifts: &mut Shifts<M_TILES>,
        ((keys, values), part): ((Tile<K, BLOCK_N>, Tile<K, BLOCK_N>), u32),
        score_mod: K::ScoreMod,
        place: Place,
    ) {
        let (args, lane, rows) = (self.args, self.lane, (self.first_row, Self::ROWS));
        let mut scores = [[[[0.0; 4]; 2]; M_TILES]; TOGETHER];
        // SAFETY: warp together; K and V are complete, and the bias is the launch's.
        unsafe {
            let queries = self.queries.beside_scores();
            unrolled!(at most 4; for k in TOGETHER => {
                let place = Place { first_key: place.first_key + k as u32 * MMA_K, ..place };
                let fetched = score_mod.fetch::<K::Element, M_TILES, 2>(args, place, lane);
                scores[k] = self.queries.scores(&queries, (keys, part + k as u32), lane);
                score_mod.apply::<K::Element, M_TILES, 2>(args, &mut scores[k], fetched, place, lane);
                apply_mask::<K, M_TILES, 2>(args, &mut scores[k], rows, 0, place.first_key, place.kv_length, lane);
            });
            shifts.follow(&scores, args.scale_log2, |m, r, factor| accumulators.rescale(m, r, factor));
            unrolled!(at most 4; for k in TOGETHER => {
                let probabilities = shifts.probabilities::<K>(&scores[k], args.scale_log2);
                accumulators.add(&probabilities, (values, part + k as u32), lane);
            });
        }
    }
}

//! The forward kernel.

use super::kernel::Sm80Kernel;
use super::key_groups::{self, Group};
use super::parts::{self, Part};
use super::pipeline::{Pipeline, Step};
use super::products::{self, QueryFragments, RowSums};
use super::shifts::{RowMaxima, Shifts};
use crate::device::attention::block::Block;
use crate::device::attention::head_dim::Fragments;
use crate::device::attention::kernel::Kernel;
use crate::device::attention::mask::Mask;
use crate::device::attention::place::Place;
use crate::device::attention::score_mod::ScoreMod;
use crate::device::attention::softmax::{RunningSoftmax, apply_mask, mask_scores, rescale_row};
use crate::device::attention::{Lane, Output, Scores, Tile, pack_probabilities};
use crate::device::hidden::not_unrolled;
use crate::device::ptx::element::Element;
use crate::device::ptx::sync;
use crate::device::unrolled;
use contract::args::ForwardArgs;
use contract::config::{MMA_K, MMA_M, WARP_SIZE};

/// Computes O and LSE of one block's query rows.
///
/// `BLOCK_M` rows by `BLOCK_N` keys; each warp has `M_TILES` strips of 16 rows, and `K_STEPS` times 16 keys of each step.
///
/// The shifts of the softmax are guessed from the first 16 keys. If a probability overflows under them, or is NaN, the block
/// starts over with the true row maxima. With a threshold of 0, the shifts are the running row maxima
/// ([`contract::tile::Rescale`]).
///
/// If several groups of warps share the keys, each has its own shifts, and their parts of a row are combined at the end. If several
/// blocks share them, another launch combines theirs ([`contract::parts`]).
#[inline(always)]
pub fn forward<
    K: Sm80Kernel,
    const BLOCK_M: u32,
    const BLOCK_N: u32,
    const M_TILES: usize,
    const K_STEPS: usize,
    const STAGES: u32,
>(
    args: &ForwardArgs,
) {
    const {
        assert!(BLOCK_N == K_STEPS as u32 * MMA_K * K::GROUPS && K_STEPS.is_multiple_of(K::UNROLL));
        assert!(
            !K::LEAVES_PARTS || !K::Mask::HAS_BEGIN && !K::ScoreMod::MODIFIES,
            "rows of a part attend to its first keys, from which shifts are guessed"
        );
        assert!(
            !K::ScoreMod::MODIFIES || K::RESCALE_THRESHOLD == 0,
            "guesses of shifts know nothing of changed scores"
        );
    }
    if K::LEAVES_PARTS && args.combined_parts > 0 {
        // SAFETY: all threads are here, and the launch that left the parts has completed.
        unsafe { parts::combine::<K, BLOCK_M, BLOCK_N>(args) };
        return;
    }
    let rows_per_warp = const { M_TILES as u32 * MMA_M };

    let threads = const { BLOCK_M / (M_TILES as u32 * MMA_M) * WARP_SIZE * K::GROUPS };
    let Some(block) = Block::<K>::current(args, BLOCK_M, threads) else { return };
    let lane = Lane::current();
    let group = Group::of::<K>(lane);
    let warp_row = group.warp * rows_per_warp;
    // Not unrolled: the loop over the steps is long enough, and the one that searches for maxima is rare.
    let attended = block.attended();
    let part = Part::of_block::<K, BLOCK_M, BLOCK_N>(args, attended.steps(BLOCK_N));
    if K::LEAVES_PARTS && part.begin == part.end {
        return;
    }
    let pipeline = Pipeline::<K, BLOCK_M, BLOCK_N, STAGES>::new(block, attended, part, lane);

    // SAFETY: all threads are here, and each warp is converged: trip counts depend on the block only, and the decision to start
    // over is made by the block.
    let (output, softmax) = unsafe {
        'attention: {
            pipeline.start_queries();
            let mut step = pipeline.begin();
            let queries = Queries::<K, BLOCK_M, M_TILES>::load(pipeline.queries(), warp_row, lane);
            let first_row = attended.position.wrapping_add(warp_row);
            let warp = Warp { args, queries, first_row, first_part: group.number * K_STEPS as u32, lane };
            if K::RESCALE_THRESHOLD == 0 {
                break 'attention warp.follow_maxima::<BLOCK_N, K_STEPS, STAGES>(
                    &pipeline,
                    step,
                    (&block, attended.length),
                );
            }
            let mut shifts = warp.guess_shifts(pipeline.first_keys(), pipeline.block_key(), attended.length);
            let mut exact = false;
            loop {
                let mut accumulators = Accumulators::<K, M_TILES>::new();
                while step.number < pipeline.steps_end {
                    let (keys, values) = pipeline.tiles(&mut step);
                    let first_key = warp.first_key(&pipeline, &step);
                    match warp.attention(first_key, K_STEPS as u32 * MMA_K, attended.length) {
                        Attention::All => {
                            let attend = Warp::attend::<BLOCK_N, K_STEPS, false>;
                            attend(&warp, &mut accumulators, &shifts, keys, values, first_key, attended.length);
                        }
                        Attention::Some => {
                            let attend = Warp::attend::<BLOCK_N, K_STEPS, true>;
                            attend(&warp, &mut accumulators, &shifts, keys, values, first_key, attended.length);
                        }
                        Attention::None => (),
                    }
                    pipeline.finish(&mut step);
                }
                if exact || !sync::block_any(!accumulators.sums.are_sound::<K::Element>()) {
                    let softmax = RunningSoftmax { shift: shifts.0, sum: accumulators.sums.rows() };
                    break (accumulators.output, softmax);
                }

                let mut maxima = RowMaxima::new();
                let again = pipeline.again();
                step = again.begin();
                while step.number < pipeline.steps_end {
                    let (keys, _) = pipeline.tiles(&mut step);
                    warp.take_maxima::<BLOCK_N, K_STEPS>(
                        &mut maxima,
                        keys,
                        warp.first_key(&pipeline, &step),
                        attended.length,
                    );
                    pipeline.finish(&mut step);
                }
                shifts = maxima.shifts(args.scale_log2).or_zero();
                exact = true;
                step = again.begin();
            }
        }
    };

    let (block, lane) = (block.again(), lane.again_from_thread());
    let group = Group::of::<K>(lane);
    let warp_row = group.warp * rows_per_warp;
    // SAFETY: the warp is converged and only it touches its rows of the Q tile, which it read before the first step; each
    // step ends with a barrier.
    unsafe {
        let tile = pipeline.queries();
        match K::GROUPS {
            1 => parts::store(output, &softmax, tile, warp_row, &block, lane),
            _ => key_groups::store(output, softmax, (tile, pipeline.stages()), (group, warp_row), &block, lane),
        }
    };
}

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
struct Accumulators<K: Kernel, const M_TILES: usize> {
    output: Output<K, M_TILES>,
    sums: RowSums<M_TILES>,
}

impl<K: Kernel, const M_TILES: usize> Accumulators<K, M_TILES> {
    /// The initial state, before any keys.
    #[inline(always)]
    fn new() -> Self {
        Self { output: [Fragments::zeros(); M_TILES], sums: RowSums::new() }
    }
}

/// Q of a warp, in registers or, if `SHARED`, in shared memory.
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
    /// The whole warp calls this together, after the tile was copied and a barrier.
    #[inline(always)]
    unsafe fn load(tile: Tile<K, BLOCK_M>, warp_row: u32, lane: Lane) -> Self {
        // SAFETY: the whole warp is here, and Q has arrived.
        let fragments = unsafe { products::load_queries::<K, BLOCK_M, M_TILES>(tile, warp_row, lane) };
        Self { fragments, tile, warp_row, lane }
    }

    /// Its fragments.
    ///
    /// # Safety
    /// The whole warp calls this together.
    #[inline(always)]
    unsafe fn fragments(&self) -> QueryFragments<K, M_TILES> {
        match K::SHARED_QUERIES {
            // SAFETY: `load` was called, so the tile is there; the whole warp is here.
            true => unsafe { products::load_queries::<K, BLOCK_M, M_TILES>(self.tile, self.warp_row, self.lane) },
            false => self.fragments,
        }
    }
}

/// A warp's constants: its rows, its Q, its keys of each step.
struct Warp<'a, K: Sm80Kernel, const BLOCK_M: u32, const M_TILES: usize> {
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

    /// O and softmax under the running row maxima: classic online softmax, in steps of 16 keys. Every score is
    /// masked.
    ///
    /// # Safety
    /// All threads of the block call this together; `step` is the pipeline's first.
    #[inline(always)]
    unsafe fn follow_maxima<const BLOCK_N: u32, const K_STEPS: usize, const STAGES: u32>(
        &self,
        pipeline: &Pipeline<K, BLOCK_M, BLOCK_N, STAGES>,
        mut step: Step,
        (block, kv_length): (&Block<'_, K>, u32),
    ) -> (Output<K, M_TILES>, RunningSoftmax<M_TILES>) {
        let mut softmax = RunningSoftmax::new();
        let mut output = [Fragments::zeros(); M_TILES];
        let score_mod = block.score_mod();
        // SAFETY: all threads are here; each step's tiles are complete until it is finished.
        unsafe {
            while step.number < pipeline.steps_end {
                let (keys, values) = pipeline.tiles(&mut step);
                let mut first = 0;
                while first < not_unrolled(K_STEPS as u32) {
                    unrolled!(at most 8; for k in K::UNROLL => {
                        let part = self.first_part() + first + k as u32;
                        let first_key = self.first_key(pipeline, &step) + (first + k as u32) * MMA_K;
                        let place = Place {
                            first_row: self.first_row, first_key, length: block.length(), kv_length
                        };
                        self.follow(&mut softmax, &mut output, (keys, values, part), score_mod, place);
                    });
                    first += K::UNROLL as u32;
                }
                pipeline.finish(&mut step);
            }
            softmax.complete_sums();
        }
        (output, softmax)
    }

    /// Adds the 16 keys at `place` to the output and the sums, both rescaled to the new maxima.
    ///
    /// # Safety
    /// The whole warp calls this together; `keys` and `values` are complete and visible.
    #[inline(always)]
    unsafe fn follow<const BLOCK_N: u32>(
        &self,
        softmax: &mut RunningSoftmax<M_TILES>,
        output: &mut Output<K, M_TILES>,
        (keys, values, part): (Tile<K, BLOCK_N>, Tile<K, BLOCK_N>, u32),
        score_mod: K::ScoreMod,
        place: Place,
    ) {
        // SAFETY: the whole warp is here; K and V are complete, and the bias is the launch's.
        unsafe {
            let fetched = score_mod.fetch::<K::Element, M_TILES, 2>(self.args, place, self.lane);
            let queries = &self.queries.fragments();
            let mut scores = products::scores::<K, BLOCK_N, M_TILES>(queries, (keys, part), self.lane);
            score_mod.apply::<K::Element, M_TILES, 2>(self.args, &mut scores, fetched, place, self.lane);
            let rows = (self.first_row, Self::ROWS);
            apply_mask::<K, M_TILES, 2>(self.args, &mut scores, rows, 0, place.first_key, place.kv_length, self.lane);
            softmax
                .update(&mut scores, self.args.scale_log2, |m, r, factor| rescale_row::<K>(&mut output[m], r, factor));
            let mut probabilities = [[0; 4]; M_TILES];
            unrolled!(at most 4; for m in M_TILES => {
                probabilities[m] = pack_probabilities::<K::Element>(scores[m][0], scores[m][1]);
            });
            products::accumulate_output::<K, BLOCK_N, M_TILES>(output, &probabilities, (values, part), self.lane);
        }
    }

    /// Guesses the shifts from the first 16 keys.
    ///
    /// # Safety
    /// The whole warp calls this together; `keys` is complete and visible.
    #[inline(always)]
    unsafe fn guess_shifts<const BLOCK_N: u32>(
        &self,
        keys: Tile<K, BLOCK_N>,
        first_key: u32,
        length: u32,
    ) -> Shifts<M_TILES> {
        // SAFETY: the whole warp is here; K is complete.
        let mut scores =
            unsafe { products::scores::<K, BLOCK_N, M_TILES>(&self.queries.fragments(), (keys, 0), self.lane) };
        if K::Mask::touches::<K::Sequence>(self.args, (self.first_row, Self::ROWS), first_key, MMA_K, length) {
            mask_scores::<K::Mask, M_TILES, 2>(self.args, &mut scores, self.first_row, first_key, length, self.lane);
        }
        let mut maxima = RowMaxima::new();
        maxima.take_in(&scores);
        // SAFETY: the whole warp is here.
        unsafe { maxima.shifts(self.args.scale_log2) }.above(K::Element::HEADROOM)
    }

    /// Scores of the 16 keys from `first_key` on, masked if `MASKED`.
    ///
    /// # Safety
    /// The whole warp calls this together; `keys` is complete and visible.
    #[inline(always)]
    unsafe fn scores<const BLOCK_N: u32, const MASKED: bool>(
        &self,
        keys: (Tile<K, BLOCK_N>, u32),
        first_key: u32,
        length: u32,
    ) -> Scores<M_TILES, 2> {
        // SAFETY: the whole warp is here; K is complete.
        let mut scores = unsafe { products::scores::<K, BLOCK_N, M_TILES>(&self.queries.fragments(), keys, self.lane) };
        if MASKED {
            let lane = self.lane.again();
            mask_scores::<K::Mask, M_TILES, 2>(self.args, &mut scores, self.first_row, first_key, length, lane);
        }
        scores
    }

    /// Adds a step to the output and the sums, 16 keys at a time. While the tensor cores multiply, exponentials of other keys can be
    /// computed, since no step of the loop waits for a row max.
    ///
    /// # Safety
    /// The whole warp calls this together; `keys` and `values` are complete and visible.
    #[inline(always)]
    unsafe fn attend<const BLOCK_N: u32, const K_STEPS: usize, const MASKED: bool>(
        &self,
        accumulators: &mut Accumulators<K, M_TILES>,
        shifts: &Shifts<M_TILES>,
        keys: Tile<K, BLOCK_N>,
        values: Tile<K, BLOCK_N>,
        first_key: u32,
        length: u32,
    ) {
        let mut first = 0;
        let k_steps = if K::UNROLL == K_STEPS { K_STEPS as u32 } else { not_unrolled(K_STEPS as u32) };
        while first < k_steps {
            unrolled!(at most 8; for k in K::UNROLL => {
                let own = first + k as u32;
                let part = self.first_part() + own;
                // SAFETY: the whole warp is here; K and V are complete.
                unsafe {
                    let scores = self.scores::<BLOCK_N, MASKED>((keys, part), first_key + own * MMA_K, length);
                    let probabilities = shifts.probabilities::<K>(&scores, self.args.scale_log2);
                    accumulators.sums.accumulate::<K::Element>(&probabilities);
                    let output = &mut accumulators.output;
                    products::accumulate_output::<K, BLOCK_N, M_TILES>(output, &probabilities, (values, part), self.lane);
                }
            });
            first += K::UNROLL as u32;
        }
    }

    /// Updates the maxima with the scores of a step.
    ///
    /// # Safety
    /// The whole warp calls this together; `keys` is complete and visible.
    #[inline(always)]
    unsafe fn take_maxima<const BLOCK_N: u32, const K_STEPS: usize>(
        &self,
        maxima: &mut RowMaxima<M_TILES>,
        keys: Tile<K, BLOCK_N>,
        first_key: u32,
        length: u32,
    ) {
        // Not unrolled: this is rare, and scores of 16 keys take few registers.
        let (mut k, k_steps) = (0, not_unrolled(K_STEPS as u32));
        while k < k_steps {
            // SAFETY: the whole warp is here; K is complete.
            let scores =
                unsafe { self.scores::<BLOCK_N, true>((keys, self.first_part() + k), first_key + k * MMA_K, length) };
            maxima.take_in(&scores);
            k += 1;
        }
    }
}

//! A strip of 64 query rows, as computed by a warpgroup, 16 rows per warp.

use crate::device::forward::sm90::epilogue::Normalisers;
use crate::device::forward::sm90::parts::ComposedKernel;
use crate::device::forward::sm90::{combine, epilogue};
use crate::device::kernel::OutputStrip;
use crate::device::lane::{Lane, ROWS_PER_LANE, Scores};
use crate::device::mask::Mask;
use crate::device::order::Step;
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::wgmma::{self, Accumulators, Descriptor, NMajor, Registers};
use crate::device::scores::ScoreMod;
use crate::device::scores::place::Place;
use crate::device::sequence::Sequence;
use crate::device::softmax::probabilities::{self, Probabilities};
use crate::device::softmax::{AddedSums, Softmax, StepKind};
use crate::device::softmax::{GUESSED_FROM, apply_mask, guessed_shifts, mask_scores, rescale_row};
use crate::device::tile::head_dim::{Fragments, HeadDim};
use crate::device::tma::context::Context;
use crate::device::tma::kernel::{K_STEPS, KEYS, N_TILES, ROWS};
use crate::device::tma::mapped::Mapped;
use crate::device::tma::memory::{Memory, Ones};
use crate::device::tma::turns::Turns;
use crate::device::{hidden, unrolled};
use contract::config::MMA_N;

/// The registers of a strip.
pub struct StripRegisters<K: ComposedKernel> {
    scores: Scores<1, N_TILES>,
    probabilities: Probabilities<K_STEPS>,
    output: OutputStrip<K>,
    softmax: K::Softmax,
    scale_log2: f32,
    score_mod: K::ScoreMod,
    /// Prefetched values for the score modifications of the scores in flight.
    fetched: <K::ScoreMod as ScoreMod>::Fetched<1, N_TILES>,
}

/// A deferred rescale of O, due before the next PV product.
#[derive(Clone, Copy)]
pub struct Rescale {
    /// 1 if a rescale is due, else 0.
    // No `Option`, whose factors would be undefined if none is due.
    is_due: u32,
    /// Factor for each of a lane's rows.
    factors: [f32; ROWS_PER_LANE],
}

impl<K: ComposedKernel> StripRegisters<K> {
    /// The state before any keys, for the strip of `step`.
    ///
    /// # Safety
    /// Warp together; Q of the strip arrived.
    #[inline(always)]
    pub unsafe fn new(context: &Context<'_, K>, step: Step<K>, lane: Lane) -> Self {
        let score_mod = score_mod(context, step);
        // SAFETY: the launch's bias covers the strip's rows and keys.
        let fetched =
            unsafe { score_mod.fetch::<K::Element, 1, N_TILES>(context.args, place(context, step, lane), lane) };
        Self {
            scores: [[[0.0; 4]; N_TILES]],
            probabilities: [[0; 4]; K_STEPS],
            output: Fragments::zeros(),
            softmax: K::Softmax::new(),
            scale_log2: context.args.scale_log2,
            score_mod,
            fetched,
        }
    }

    /// Begins the strip whose first step is `step`: starts loading the values that its score modifications need.
    ///
    /// # Safety
    /// Warp together, after Q of the strip has arrived.
    #[inline(always)]
    pub unsafe fn begin(&mut self, context: &Context<'_, K>, step: Step<K>, lane: Lane) {
        self.score_mod = score_mod(context, step);
        // SAFETY: as promised to this function.
        unsafe { self.fetch(context, step, lane) };
    }

    /// Starts loading the values that the score modifications of `step` need.
    ///
    /// # Safety
    /// Warp together; Q of the strip arrived.
    #[inline(always)]
    unsafe fn fetch(&mut self, context: &Context<'_, K>, step: Step<K>, lane: Lane) {
        // SAFETY: the launch's bias covers the strip's rows and keys.
        self.fetched =
            unsafe { self.score_mod.fetch::<K::Element, 1, N_TILES>(context.args, place(context, step, lane), lane) };
    }

    /// Starts S = Q·Kᵀ of a step.
    ///
    /// # Safety
    /// Warpgroup together, with no product in flight; the step's tiles have arrived and are not
    /// written before [`Self::wait`].
    #[inline(always)]
    pub unsafe fn start_scores(&mut self, step: Step<K>) {
        // SAFETY: warpgroup together with no product in flight; the tiles have arrived and are not overwritten.
        unsafe {
            wgmma::fence();
            self.multiply_scores(step);
            wgmma::commit_group();
        }
    }

    /// Starts O += P·V of a step and S = Q·Kᵀ of the next, in the warpgroup's turn.
    ///
    /// # Safety
    /// Warpgroup together, with no product in flight, and its turn to come; tiles of both steps arrived.
    #[inline(always)]
    pub unsafe fn start_step(&mut self, step: Step<K>, next: Step<K>, turns: Turns) {
        // SAFETY: warpgroup together; the tiles of both steps have arrived and are not overwritten.
        unsafe {
            turns.wait();
            self.multiply_output(step);
            turns.pass();
            self.multiply_scores(next);
            wgmma::commit_group();
        }
    }

    /// Starts S = Q·Kᵀ of the next step, of this strip or another, then O += P·V of this one, which is still in flight when this
    /// returns: [`Self::wait_for_output`] waits for it.
    ///
    /// # Safety
    /// Warpgroup together, with no product in flight; tiles of both steps arrived.
    #[inline(always)]
    pub unsafe fn start_ahead(&mut self, step: Step<K>, next: Step<K>) {
        self.pin_output();
        self.probabilities.pin();
        // SAFETY: warpgroup together; the tiles have arrived and are not overwritten.
        unsafe {
            wgmma::fence();
            self.multiply_scores(next);
            wgmma::commit_group();
            self.multiply_output(step);
            wgmma::commit_group();
            wgmma::wait_group::<1>();
        }
        self.scores.pin();
    }

    /// Starts O += P·V of the last step of a strip as a separate group, in the warpgroup's turn.
    ///
    /// # Safety
    /// Warpgroup together, with no product in flight, and its turn to come; tile arrived.
    #[inline(always)]
    pub unsafe fn start_last_output(&mut self, step: Step<K>, turns: Turns) {
        // SAFETY: warpgroup together; the tiles have arrived and are not overwritten.
        unsafe {
            turns.wait();
            self.multiply_output(step);
            wgmma::commit_group();
            turns.pass();
        }
    }

    /// Starts S = Q·Kᵀ of the first step of the next strip, after [`Self::start_last_output`].
    ///
    /// # Safety
    /// Warpgroup together, with only O in flight; tile arrived.
    #[inline(always)]
    pub unsafe fn start_next_scores(&mut self, next: Step<K>) {
        // SAFETY: the tiles have arrived and are not overwritten; the fence before O covers these products, too.
        unsafe {
            self.multiply_scores(next);
            wgmma::commit_group();
        }
    }

    /// Issues O += P·V, as part of a group.
    ///
    /// # Safety
    /// Warpgroup together, with no product in flight; tile arrived.
    #[inline(always)]
    unsafe fn multiply_output(&mut self, step: Step<K>) {
        let values = step.values();
        self.pin_output();
        self.probabilities.pin();
        // SAFETY: warpgroup together, and V is not overwritten; the registers were not touched since they were pinned.
        unsafe {
            wgmma::fence();
            unrolled!(at most 4; for k in K_STEPS => {
                // At the beginning of a strip, O still holds the previous one's values.
                let accumulate = k != 0 || !step.is_first();
                let p = self.probabilities[k];
                match self.softmax.product_sums() {
                    Some(sums) if K::HeadDim::PANELS == 1 => {
                        let values = values.with_panel(Memory::<K>::new().ones()).step(k);
                        self.output.multiply_fragment_and::<K::Element, _>(&mut sums[0], p, values, accumulate);
                    }
                    sums => {
                        self.output.multiply_fragment::<K::Element, _>(p, values.step(k), accumulate);
                        if let Some(sums) = sums {
                            // A descriptor has one distance for all panels, so these need a product of their own.
                            let ones = Descriptor::<NMajor, Ones<K>>::new(Memory::<K>::new().ones());
                            sums.multiply_fragment::<K::Element, _>(p, ones, accumulate);
                        }
                    }
                }
            });
        }
    }

    /// Issues S = Q·Kᵀ, as part of a group.
    ///
    /// # Safety
    /// Warpgroup together, after the fence; tile arrived.
    #[inline(always)]
    unsafe fn multiply_scores(&mut self, step: Step<K>) {
        // SAFETY: after the fence; Q and K have arrived and are not overwritten.
        unsafe {
            self.scores = [<[FragmentC; N_TILES]>::multiply::<K::Element, _, _>(step.strip.queries, step.keys)];
            unrolled!(at most 16; for k in K::HeadDim::K_STEPS => {
                if k != 0 {
                    self.scores[0].multiply_accumulate::<K::Element, _, _>(step.strip.queries.step(k), step.keys.step(k));
                }
            });
        }
    }

    /// Pins the accumulators of PV products.
    #[inline(always)]
    fn pin_output(&mut self) {
        self.output.pin();
        if let Some(sums) = self.softmax.product_sums() {
            sums.pin();
        }
    }

    /// Waits for all products.
    ///
    /// # Safety
    /// Warpgroup together.
    #[inline(always)]
    pub unsafe fn wait(&mut self) {
        // SAFETY: warpgroup together.
        unsafe { wgmma::wait_group::<0>() };
        self.scores.pin();
        self.pin_output();
        self.probabilities.pin();
    }

    /// Waits for O; `LATER` groups started after it may remain in flight: the scores of [`Self::start_next_scores`], or
    /// none.
    ///
    /// # Safety
    /// Warpgroup together.
    #[inline(always)]
    pub unsafe fn wait_for_output<const LATER: u32>(&mut self) {
        // SAFETY: warpgroup together.
        unsafe { wgmma::wait_group::<LATER>() };
        self.pin_output();
        self.probabilities.pin();
    }

    /// Waits for the scores.
    ///
    /// # Safety
    /// Warpgroup together.
    #[inline(always)]
    pub unsafe fn wait_for_scores(&mut self) {
        // SAFETY: warpgroup together.
        unsafe { wgmma::wait_group::<0>() };
        self.scores.pin();
    }

    /// Guesses the shifts of a strip from those of its first 16 scores that are not masked, if the kernel
    /// [does](crate::device::kernel::Kernel::GUESSES_SHIFTS).
    ///
    /// # Safety
    /// Warp together, before the first step of the strip, whose scores have arrived.
    #[inline(always)]
    pub unsafe fn guess_shifts(&mut self, context: &Context<'_, K>, step: Step<K>, lane: Lane) {
        if !K::GUESSES_SHIFTS {
            return;
        }
        let mut first: Scores<1, GUESSED_FROM> = [[[0.0; 4]; GUESSED_FROM]];
        unrolled!(at most 2; for n in GUESSED_FROM => { first[0][n] = self.scores[0][n] });
        if !K::Mask::ALL_KEYS || K::Sequence::HAS_TAIL {
            let (args, at) = (context.args, place(context, step, lane));
            // The first row attends to no more keys than the others.
            let end = K::Mask::keys_end(args, at.first_row.wrapping_add(1), at.kv_length);
            if end < at.first_key + const { GUESSED_FROM as u32 * MMA_N } {
                mask_scores::<K::Mask, 1, GUESSED_FROM>(
                    args,
                    &mut first,
                    at.first_row,
                    at.first_key,
                    at.kv_length,
                    lane,
                );
            }
        }
        // SAFETY: warp together.
        let shifts = unsafe { guessed_shifts::<K::Element>(&first[0], self.scale_log2) };
        self.softmax.begin_under(shifts);
    }

    /// Turns the scores of a step that may need masking into its probabilities. Meanwhile the values that the score modifications of
    /// the `next` step of the strip need are loaded, which takes longer than the products.
    ///
    /// # Safety
    /// Warp together, with no product in flight.
    #[inline(always)]
    pub unsafe fn softmax_masked(
        &mut self,
        context: &Context<'_, K>,
        step: Step<K>,
        next: Option<Step<K>>,
        lane: Lane,
    ) {
        // SAFETY: warp together with no product in flight.
        unsafe {
            self.mask(context, step, next, lane);
            self.softmax_of(step, true);
        }
    }

    /// Applies score modifications and masking to the scores of a step: the first part of
    /// [`Self::softmax_masked`].
    ///
    /// # Safety
    /// Warp together, with no product but O in flight.
    #[inline(always)]
    pub unsafe fn mask(&mut self, context: &Context<'_, K>, step: Step<K>, next: Option<Step<K>>, lane: Lane) {
        let (args, at) = (context.args, place(context, step, lane));
        // SAFETY: warp together, and fetched for this step last.
        unsafe { self.score_mod.apply::<K::Element, 1, N_TILES>(args, &mut self.scores, self.fetched, at, lane) };
        if let Some(next) = next {
            // SAFETY: Q of the strip has arrived.
            unsafe { self.fetch(context, next, lane) };
        }
        let (warp_row, rows) = (epilogue::warp_row(lane), (first_row::<K>(step), ROWS));
        apply_mask::<K, 1, N_TILES>(args, &mut self.scores, rows, warp_row, at.first_key, at.kv_length, lane);
    }

    /// Turns the scores of a step that needs no masking into its probabilities.
    ///
    /// # Safety
    /// Warp together, with no product in flight.
    #[inline(always)]
    pub unsafe fn softmax(&mut self, step: Step<K>) {
        // SAFETY: as promised to this function.
        unsafe { self.softmax_of(step, false) };
    }

    /// [`Self::softmax`] of scores that may have been masked.
    ///
    /// # Safety
    /// Warp together, with no product in flight.
    #[inline(always)]
    unsafe fn softmax_of(&mut self, step: Step<K>, masked: bool) {
        let rescale = |r, factor| rescale_row::<K>(&mut self.output, r, factor);
        let kind = StepKind { first: step.is_first(), masked };
        // SAFETY: warp together with no product in flight.
        self.probabilities = unsafe { self.softmax.probabilities(&mut self.scores, self.scale_log2, kind, rescale) };
    }

    /// Writes the statistics of the strip of `step` for the storer of LSE, once all of its keys are processed. Returns the factors
    /// that normalise its O. Resets the softmax.
    ///
    /// # Safety
    /// Warp together; if l is a product, it has completed.
    #[inline(always)]
    pub unsafe fn complete(&mut self, memory: Memory<K>, step: Step<K>, lane: Lane) -> Normalisers {
        // SAFETY: warp together, and Q of the strip has arrived.
        unsafe {
            let statistics = self.softmax.complete();
            epilogue::write_statistics(&statistics, memory, step.strip.place, lane)
        }
    }

    /// Writes O of the strip of `step` for the storer.
    ///
    /// # Safety
    /// Warp together, after the last PV product of the strip.
    #[inline(always)]
    pub unsafe fn finish(&mut self, memory: Memory<K>, step: Step<K>, normalisers: Normalisers, lane: Lane) {
        // SAFETY: warp together; all products that read Q have completed.
        unsafe { epilogue::write_output(&self.output, normalisers, memory, step.strip.place, lane) };
    }

    /// Writes O of the strip for the blocks of the cluster, which have the other parts of its keys.
    ///
    /// # Safety
    /// All computing warps call this, each together, after their last products; nothing is copied to the memory of K and V any more.
    #[inline(always)]
    pub unsafe fn publish_part(&self, memory: Memory<K>, lane: Lane) {
        // SAFETY: as promised to this function.
        unsafe { combine::publish_part(&self.output, memory, lane) };
    }
}

impl<K: ComposedKernel<Softmax = AddedSums<K>>> StripRegisters<K> {
    /// Turns the scores of a step, which may have been masked, into its probabilities while O may be in flight: [`Self::apply_rescale`]
    /// completes them.
    ///
    /// # Safety
    /// Warp together, with no product except O in flight.
    #[inline(always)]
    pub unsafe fn softmax_ahead(&mut self, step: Step<K>, masked: bool) -> Rescale {
        let mut due = Rescale { is_due: 0, factors: [1.0; ROWS_PER_LANE] };
        let rescale = |r: usize, factor| {
            due.factors[r] = factor;
            due.is_due = 1;
        };
        let kind = StepKind { first: step.is_first(), masked };
        // SAFETY: warp together, and the scores are not in flight.
        unsafe { self.softmax.probabilities_in_place(&mut self.scores, self.scale_log2, kind, rescale) };
        due
    }

    /// Rescales O if that is due, and rounds the probabilities of [`Self::softmax_ahead`], when no product is in flight.
    // Not earlier: ptxas serialises products if the registers that one reads or accumulates into were written while another was
    // in flight.
    #[inline(always)]
    pub fn apply_rescale(&mut self, Rescale { is_due, factors }: Rescale) {
        if is_due != 0 {
            hidden::branch();
            unrolled!(at most 2; for r in ROWS_PER_LANE => { rescale_row::<K>(&mut self.output, r, factors[r]) });
        }
        self.probabilities = probabilities::pack::<K::Element, N_TILES, K_STEPS>(&self.scores);
    }
}

/// The score modifications of the head and sequence of a step.
#[inline(always)]
fn score_mod<K: ComposedKernel>(context: &Context<'_, K>, step: Step<K>) -> K::ScoreMod {
    K::ScoreMod::of_head(context.args, step.strip.work, step.strip.sequence)
}

/// The position of the scores of a step that the lane's warp holds.
#[inline(always)]
fn place<K: ComposedKernel>(context: &Context<'_, K>, step: Step<K>, lane: Lane) -> Place {
    Place {
        first_row: first_row::<K>(step).wrapping_add(epilogue::warp_row(lane)),
        first_key: step.ring.tile * KEYS,
        length: context.length,
        // Constant over all steps, unless it is looked up.
        kv_length: if K::Sequence::IS_LOOKED_UP { step.strip.kv_length } else { context.kv_length },
    }
}

/// The first row of a step's strip. Where scores are changed, there are no registers to keep what is derived from it.
#[inline(always)]
fn first_row<K: ComposedKernel>(step: Step<K>) -> u32 {
    if K::ScoreMod::MODIFIES { hidden::recompute(step.strip.first_row) } else { step.strip.first_row }
}

//! A strip of 64 query rows: what a warpgroup computes of it, 16 rows in each warp.

use super::context::Context;
use super::copies::StripCopy;
use super::epilogue::Normalisers;
use super::kernel::{K_STEPS, KEYS, N_TILES, ROWS};
use super::mapped::Mapped;
use super::memory::Memory;
use super::order::{Order, OrderedKernel, Step};
use super::turns::Turns;
use super::{combine, epilogue};
use crate::device::attention::head_dim::{Fragments, HeadDim};
use crate::device::attention::score_mod::{Place, ScoreMod};
use crate::device::attention::softmax::{apply_mask, rescale_row};
use crate::device::attention::{Lane, OutputStrip, ROWS_PER_LANE, Scores};
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::wgmma::{self, Accumulators, Registers};
use crate::device::sm90::products::{self, Probabilities};
use crate::device::sm90::softmax::StripSoftmax;
use crate::device::unrolled;

/// The registers of a strip.
pub struct Strip<K: OrderedKernel> {
    scores: Scores<1, N_TILES>,
    probabilities: Probabilities<K_STEPS>,
    output: OutputStrip<K>,
    softmax: StripSoftmax<K>,
    scale_log2: f32,
    score_mod: K::ScoreMod,
    /// What the scores in flight are changed by.
    fetched: <K::ScoreMod as ScoreMod>::Fetched<1, N_TILES>,
}

/// What O is to be multiplied by before the next product with V, where it cannot be at once.
#[derive(Clone, Copy)]
pub struct Rescale {
    /// 1 where there is something, else 0.
    // No `Option`, whose factors would be undefined where there are none.
    is_due: u32,
    /// The factor of each of a lane's rows.
    factors: [f32; ROWS_PER_LANE],
}

impl<K: OrderedKernel> Strip<K> {
    /// One that has attended to nothing, of the strip of `step`.
    ///
    /// # Safety
    /// As for [`Self::fetch`].
    #[inline(always)]
    pub unsafe fn new(context: &Context<'_, K>, step: Step<K>, lane: Lane) -> Self {
        let score_mod = K::ScoreMod::of_head(context.args, K::Order::copy_of(context, step).work);
        // SAFETY: the bias is the launch's.
        let fetched =
            unsafe { score_mod.fetch::<K::Element, 1, N_TILES>(context.args, place(context, step, lane), lane) };
        Self {
            scores: [[[0.0; 4]; N_TILES]],
            probabilities: [[0; 4]; K_STEPS],
            output: Fragments::zeros(),
            softmax: StripSoftmax::begin(),
            scale_log2: context.args.scale_log2,
            score_mod,
            fetched,
        }
    }

    /// Starts to read what the scores of `step` are changed by.
    ///
    /// # Safety
    /// All lanes of the warp call this together, when the step's Q has arrived.
    #[inline(always)]
    pub unsafe fn fetch(&mut self, context: &Context<'_, K>, step: Step<K>, lane: Lane) {
        if step.is_first() {
            self.score_mod = K::ScoreMod::of_head(context.args, K::Order::copy_of(context, step).work);
        }
        // SAFETY: the bias is the launch's.
        self.fetched =
            unsafe { self.score_mod.fetch::<K::Element, 1, N_TILES>(context.args, place(context, step, lane), lane) };
    }

    /// Starts S = Q·Kᵀ of a step.
    ///
    /// # Safety
    /// All warps of the warpgroup call this together, with no product in flight; the step's tiles have arrived and are not
    /// written before [`Self::wait`].
    #[inline(always)]
    pub unsafe fn start_scores(&mut self, step: Step<K>) {
        // SAFETY: the warpgroup is here with no product in flight; the tiles have arrived and stay.
        unsafe {
            wgmma::fence();
            self.multiply_scores(step);
            wgmma::commit_group();
        }
    }

    /// Starts O += P·V of a step, and S = Q·Kᵀ of the next, in the warpgroup's turn.
    ///
    /// # Safety
    /// As for [`Self::start_scores`], and for [`Turns::wait`].
    #[inline(always)]
    pub unsafe fn start_step(&mut self, step: Step<K>, next: Step<K>, turns: Turns) {
        // SAFETY: the warpgroup is here; the tiles of both steps have arrived and stay.
        unsafe {
            turns.wait();
            self.multiply_output(step);
            turns.pass();
            self.multiply_scores(next);
            wgmma::commit_group();
        }
    }

    /// Starts S = Q·Kᵀ of the next step, of this strip or another, and behind it O += P·V of this one, which stays in flight when this
    /// returns: [`Self::wait_for_output`] waits for it.
    ///
    /// # Safety
    /// As for [`Self::start_scores`]; the tiles of both steps have arrived.
    #[inline(always)]
    pub unsafe fn start_ahead(&mut self, step: Step<K>, next: Step<K>) {
        self.output.pin();
        self.probabilities.pin();
        // SAFETY: the warpgroup is here; the tiles have arrived and stay.
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

    /// Starts O += P·V of the last step of a strip, in the warpgroup's turn: a group of its own.
    ///
    /// # Safety
    /// As for [`Self::start_step`].
    #[inline(always)]
    pub unsafe fn start_last_output(&mut self, step: Step<K>, turns: Turns) {
        // SAFETY: the warpgroup is here; the tiles have arrived and stay.
        unsafe {
            turns.wait();
            self.multiply_output(step);
            wgmma::commit_group();
            turns.pass();
        }
    }

    /// Starts S = Q·Kᵀ of the first step of the next strip behind [`Self::start_last_output`].
    ///
    /// # Safety
    /// As for [`Self::start_scores`], but that O is in flight.
    #[inline(always)]
    pub unsafe fn start_next_scores(&mut self, next: Step<K>) {
        // SAFETY: the tiles have arrived and stay; the fence before O was for these, too.
        unsafe {
            self.multiply_scores(next);
            wgmma::commit_group();
        }
    }

    /// O += P·V, as part of a group.
    ///
    /// # Safety
    /// As for [`Self::start_scores`].
    #[inline(always)]
    unsafe fn multiply_output(&mut self, step: Step<K>) {
        let values = step.values();
        self.output.pin();
        self.probabilities.pin();
        // SAFETY: the warpgroup is here, and V stays; the registers were not touched since they were pinned.
        unsafe {
            wgmma::fence();
            unrolled!(at most 4; for k in K_STEPS => {
                // What O holds at the beginning of a strip is of the one before.
                let accumulate = k != 0 || !step.is_first();
                self.output.multiply_fragment::<K::Element, _>(self.probabilities[k], values.step(k), accumulate);
            });
        }
    }

    /// S = Q·Kᵀ, as part of a group.
    ///
    /// # Safety
    /// As for [`Self::start_scores`], after the fence.
    #[inline(always)]
    unsafe fn multiply_scores(&mut self, step: Step<K>) {
        // SAFETY: behind the fence; Q and K have arrived and stay.
        unsafe {
            self.scores = [<[FragmentC; N_TILES]>::multiply::<K::Element, _, _>(step.queries, step.keys)];
            unrolled!(at most 8; for k in K::HeadDim::K_STEPS => {
                if k != 0 {
                    self.scores[0].multiply_accumulate::<K::Element, _, _>(step.queries.step(k), step.keys.step(k));
                }
            });
        }
    }

    /// Waits for the products that were started.
    ///
    /// # Safety
    /// All warps of the warpgroup call this together.
    #[inline(always)]
    pub unsafe fn wait(&mut self) {
        // SAFETY: the warpgroup is here.
        unsafe { wgmma::wait_group::<0>() };
        self.scores.pin();
        self.output.pin();
        self.probabilities.pin();
    }

    /// Waits for O, while `LATER` groups that were started behind it may still be in flight: the scores of
    /// [`Self::start_next_scores`], or nothing.
    ///
    /// # Safety
    /// All warps of the warpgroup call this together.
    #[inline(always)]
    pub unsafe fn wait_for_output<const LATER: u32>(&mut self) {
        // SAFETY: the warpgroup is here.
        unsafe { wgmma::wait_group::<LATER>() };
        self.output.pin();
        self.probabilities.pin();
    }

    /// Waits for the scores that were started.
    ///
    /// # Safety
    /// All warps of the warpgroup call this together.
    #[inline(always)]
    pub unsafe fn wait_for_scores(&mut self) {
        // SAFETY: the warpgroup is here.
        unsafe { wgmma::wait_group::<0>() };
        self.scores.pin();
    }

    /// Turns the scores of a step that a mask or the end of the sequence may exclude some of into its probabilities. What those of
    /// the `next` step of the strip are changed by is read meanwhile, which takes longer than the products.
    ///
    /// # Safety
    /// As for [`Self::take`].
    #[inline(always)]
    pub unsafe fn take_masked(&mut self, context: &Context<'_, K>, step: Step<K>, next: Option<Step<K>>, lane: Lane) {
        // SAFETY: the whole warp is here with no product in flight.
        unsafe {
            self.mask(context, step, next, lane);
            self.take(step);
        }
    }

    /// Changes the scores of a step as the kernel does, and excludes those that a mask or the end of the sequence excludes, as
    /// [`Self::take_masked`] does first.
    ///
    /// # Safety
    /// As for that, but that O may be in flight.
    #[inline(always)]
    pub unsafe fn mask(&mut self, context: &Context<'_, K>, step: Step<K>, next: Option<Step<K>>, lane: Lane) {
        let (args, at) = (context.args, place(context, step, lane));
        self.score_mod.apply::<K::Element, 1, N_TILES>(args, &mut self.scores, self.fetched, at, lane);
        if let Some(next) = next {
            // SAFETY: Q of the strip has arrived.
            unsafe { self.fetch(context, next, lane) };
        }
        let (warp_row, rows) = (epilogue::warp_row(lane), (step.first_row, ROWS));
        apply_mask::<K, 1, N_TILES>(args, &mut self.scores, rows, warp_row, at.first_key, at.kv_length, lane);
    }

    /// Turns the scores of a step into its probabilities.
    ///
    /// # Safety
    /// All lanes of the warp call this together, with no product in flight.
    #[inline(always)]
    pub unsafe fn take(&mut self, step: Step<K>) {
        let rescale = |_, r, factor| rescale_row::<K>(&mut self.output, r, factor);
        // SAFETY: the whole warp is here with no product in flight.
        self.probabilities = unsafe { self.softmax.take(&mut self.scores, self.scale_log2, step.is_first(), rescale) };
    }

    /// Turns the scores of a step into its probabilities where O may be in flight: [`Self::settle`] completes them.
    ///
    /// # Safety
    /// All lanes of the warp call this together, with no product in flight but O.
    #[inline(always)]
    pub unsafe fn take_ahead(&mut self, step: Step<K>) -> Rescale {
        let mut due = Rescale { is_due: 0, factors: [1.0; ROWS_PER_LANE] };
        let rescale = |_, r: usize, factor| {
            due.factors[r] = factor;
            due.is_due = 1;
        };
        // SAFETY: the whole warp is here, and the scores are not in flight.
        unsafe { self.softmax.take_in_place(&mut self.scores, self.scale_log2, step.is_first(), rescale) };
        due
    }

    /// Rescales O where that is due, and rounds the probabilities of [`Self::take_ahead`], when no product is in flight.
    // Not before: ptxas has products wait for each other where registers that one reads or adds to were written while another was
    // in flight.
    #[inline(always)]
    pub fn settle(&mut self, Rescale { is_due, factors }: Rescale) {
        if is_due != 0 {
            unrolled!(at most 2; for r in ROWS_PER_LANE => { rescale_row::<K>(&mut self.output, r, factors[r]) });
        }
        self.probabilities = products::pack::<K::Element, N_TILES, K_STEPS>(&self.scores);
    }

    /// Leaves the statistics of the strip, which is `step`'s, to those who store LSE, when all of its keys are taken in; what
    /// its O is to be multiplied by. The softmax begins anew.
    ///
    /// # Safety
    /// All lanes of the warp call this together.
    #[inline(always)]
    pub unsafe fn complete(&mut self, memory: Memory<K>, step: Step<K>, lane: Lane) -> Normalisers {
        // SAFETY: the whole warp is here, and Q of the strip has arrived.
        let normalisers = unsafe {
            self.softmax.running.complete_sums();
            epilogue::leave_statistics(&self.softmax.running, memory, step.strip, lane)
        };
        self.softmax = StripSoftmax::begin();
        normalisers
    }

    /// Leaves O of the strip, which is `step`'s, to those who store it.
    ///
    /// # Safety
    /// All lanes of the warp call this together behind the last product with V of the strip.
    #[inline(always)]
    pub unsafe fn finish(&mut self, memory: Memory<K>, step: Step<K>, normalisers: Normalisers, lane: Lane) {
        // SAFETY: the whole warp is here; no product reads Q any more.
        unsafe { epilogue::leave_output(&self.output, normalisers, memory, step.strip, lane) };
    }

    /// Leaves O of the strip for the blocks of the cluster, which have the other parts of its keys.
    ///
    /// # Safety
    /// As for [`combine::leave_part`].
    #[inline(always)]
    pub unsafe fn leave_part(&self, memory: Memory<K>, lane: Lane) {
        // SAFETY: the caller's.
        unsafe { combine::leave_part(&self.output, memory, lane) };
    }

    /// [`Self::finish`] that stores O of the strip from registers, and leaves nothing but its place.
    ///
    /// # Safety
    /// As for that.
    #[inline(always)]
    pub unsafe fn store(&mut self, context: &Context<'_, K>, copy: StripCopy, normalisers: Normalisers, lane: Lane) {
        // SAFETY: the whole warp is here; no product reads Q any more, and the rows of O are its own.
        unsafe { epilogue::store_output(&mut self.output, normalisers, context, copy, lane) };
    }
}

/// Where the scores of a step are that the lane's warp has.
#[inline(always)]
fn place<K: OrderedKernel>(context: &Context<'_, K>, step: Step<K>, lane: Lane) -> Place {
    Place {
        first_row: step.first_row.wrapping_add(epilogue::warp_row(lane)),
        first_key: step.tile * KEYS,
        length: context.length,
        // Known to be the same in all steps, where it is.
        kv_length: if K::Sequence::IS_LOOKED_UP { step.kv_length } else { context.kv_length },
    }
}

//! A launch: planned from the problem and the GPU alone, then bound to addresses.

pub(super) mod addresses;

use core::num::NonZeroU32;
use core::ops::RangeInclusive;

use crate::launch::args::{ForwardArgs, ScoreModArgs, TENSOR_MAP_BYTES, TensorMaps};
use crate::launch::tensor_map::{self, TensorMap};
use crate::launch::variants::Variant;
use crate::schedule::divisor::Divisor;
use crate::schedule::geometry::{blocks, query_tiles, work_items};
use crate::schedule::last_round::LastRound;
use crate::schedule::longest_first::{HeadGroups, Heads};
use crate::schedule::packed;
use crate::schedule::parts;
use crate::schedule::split_keys::Split;
use crate::schedule::tile::sm90_tma::panel_columns;
use crate::schedule::tile::{Configuration, Grid};
use crate::spec::config::{Mask, Scores, Sequence};
use crate::spec::gpu::Gpu;
use crate::spec::packing::{Lengths, Packing};
use crate::spec::problem::{Problem, Slopes};
use crate::spec::refusal::Refusal;
use crate::spec::tensor::Tensor;

use addresses::FirstElements;

pub use addresses::{Addresses, SLOPE_BYTES, lengths_elements};

/// Columns of tiles beyond which there are few kernels: each width accepts the rows that no narrower one holds, and windows go to the
/// kernels that change scores.
pub(crate) const MOST_COLUMNS_OF_MANY_KERNELS: u32 = 128;

/// A planned launch of a variant for a problem on a GPU, without the addresses of its tensors.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    variant: Variant<'a>,
    problem: Problem,
    blocks: u32,
    parts: u32,
    cluster: u32,
    shared_bytes: u32,
    args: ForwardArgs,
}

impl<'a> Plan<'a> {
    /// Plans the launch of `variant` for `problem` on `gpu`. No allocation, no driver call.
    ///
    /// # Errors
    /// When the variant does not compute the problem or does not fit the GPU, or there are more work items than one launch
    /// can have.
    pub fn new(problem: &Problem, variant: Variant<'a>, gpu: &Gpu<'_>) -> Result<Self, Refusal> {
        let problem = &variant.own_form(problem);
        variant.check_accepts(problem)?;
        variant.check_fits(gpu)?;
        let (shape, config) = (problem.shape(), variant.config);
        let query_tiles = match problem.packing() {
            None => Some(query_tiles(shape.sequence, config.block_m())),
            Some(packing) => packed::slots(shape.sequence, packing.sequences, config.block_m()),
        };
        let query_tiles = query_tiles.ok_or(Refusal::TooManyWorkItems { shape, query_tiles: u32::MAX })?;
        let too_many = Refusal::TooManyWorkItems { shape, query_tiles };
        let work_items = work_items(shape.batch, shape.heads, query_tiles).ok_or(too_many)?;
        let blocks = blocks(config.grid(), work_items, gpu.multiprocessors, config.min_blocks());
        let side_by_side = gpu.multiprocessors.saturating_mul(config.min_blocks());
        let cluster = Split::new(config, variant.mask).cluster(work_items, shape.kv_sequence, gpu.multiprocessors);
        let args = ForwardArgs {
            query_tiles: Divisor::new(positive(query_tiles)),
            work_items: positive(work_items),
            last_round: last_round(&variant, work_items, blocks),
            head_groups: head_groups(problem, &variant, query_tiles, blocks.min(side_by_side), gpu),
            ..ForwardArgs::of_tiles(problem, query_tiles)
        };
        let shared_bytes = config.shared_bytes_of_launch(blocks, gpu.multiprocessors);
        Ok(Self { variant, problem: *problem, blocks: blocks * cluster, parts: 1, cluster, shared_bytes, args })
    }

    /// The same launch with the keys of an item split among blocks into `parts` [parts], which a second launch combines.
    pub(crate) const fn in_parts(self, parts: u32) -> Self {
        Self { parts, ..self }
    }

    /// Bytes of the workspace that the launch needs; 0 for most.
    pub const fn workspace_bytes(&self) -> u64 {
        let config = self.variant.config;
        parts::workspace_bytes(self.args.work_items.get(), self.parts, config.block_m(), config.columns())
    }

    /// The variant.
    pub const fn variant(&self) -> Variant<'a> {
        self.variant
    }

    /// The problem, in the form in which the variant computes it: on the same memory, perhaps with other heads and rows.
    pub const fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Blocks of the grid (x dimension).
    pub const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// [Parts](parts) of an item (y dimension of the grid).
    pub const fn parts(&self) -> u32 {
        self.parts
    }

    /// The launch on the tensors at `addresses`.
    ///
    /// # Errors
    /// When a tensor is null, misaligned or beyond the 64-bit address space, or an output overlaps another tensor.
    pub fn bind(&self, addresses: Addresses) -> Result<Launch<'a>, Refusal> {
        let FirstElements { q, k, v, o, workspace: part_results } =
            addresses::check(&self.problem, self.workspace_bytes(), addresses)?;
        let [lse, cu_seqlens, seqused_q, seqused_k] =
            [addresses.lse, addresses.cu_seqlens, addresses.seqused_q, addresses.seqused_k]
                .map(|address| address.unwrap_or(0));
        let cu_seqlens_k = addresses.cu_seqlens_k.unwrap_or(cu_seqlens);
        let (bias, slopes) = (addresses.bias.unwrap_or(0), addresses.alibi_slopes.unwrap_or(0));
        let score_mod = ScoreModArgs { bias, slopes, ..self.args.score_mod };
        let tensors = ForwardArgs { q, k, v, o, lse, part_results, score_mod, ..self.args };
        let args = ForwardArgs { cu_seqlens, cu_seqlens_k, seqused_q, seqused_k, ..tensors };
        let tensor_maps = self.variant.config.uses_tensor_maps().then(|| {
            let map = |tensor, first| TensorMap::of(&self.problem, tensor, first, self.variant.config.columns());
            [map(Tensor::Q, q), map(Tensor::K, k), map(Tensor::V, v), map(Tensor::O, o)]
        });
        let encoded = TensorMaps([[0; TENSOR_MAP_BYTES as usize]; 4]);
        let Self { variant, blocks, parts, cluster, shared_bytes, .. } = *self;
        Ok(Launch { variant, grid: [blocks, parts], cluster, shared_bytes, args, tensor_maps, encoded })
    }
}

impl ForwardArgs {
    /// The arguments for `problem` without addresses, with `tiles` query tiles or slots of a head, for blocks that take heads one after another.
    pub(crate) fn of_tiles(problem: &Problem, tiles: u32) -> Self {
        let (shape, views, band) = (problem.shape(), problem.views(), problem.band());
        let tiles = positive(tiles);
        let heads = positive(shape.batch).saturating_mul(positive(shape.heads));
        Self {
            q: 0,
            k: 0,
            v: 0,
            o: 0,
            lse: 0,
            score_mod: score_mod_args(problem),
            cu_seqlens: 0,
            cu_seqlens_k: 0,
            seqused_q: 0,
            seqused_k: 0,
            part_results: 0,
            q_strides: views.q.strides,
            k_strides: views.k.strides,
            v_strides: views.v.strides,
            o_strides: views.o.strides,
            scale_log2: problem.scale_log2(),
            // Sequences are shorter than this, and no distance from a position overflows 32 bits.
            window_left: band.left.min(1 << 30),
            // No key is further ahead, even of a position before the first key.
            window_right: band.right.min(shape.sequence.max(shape.kv_sequence) as i32),
            sequence: shape.sequence,
            kv_sequence: shape.kv_sequence,
            sequences: problem.packing().map_or(0, |packing| packing.sequences),
            room: room(problem, shape.sequence),
            kv_room: room(problem, shape.kv_sequence),
            bottom_right: if problem.looks_up_positions() { u32::MAX } else { 0 },
            combined_parts: 0,
            head_dim: shape.head_dim,
            heads: Divisor::new(positive(shape.heads)),
            group: Divisor::new(positive(shape.group())),
            query_tiles: Divisor::new(tiles),
            work_items: heads.saturating_mul(tiles),
            last_round: LastRound::whole(1, 1),
            head_groups: HeadGroups::one(heads, tiles),
        }
    }
}

/// Rows of each sequence of a padded problem with `rows` rows in total; 0 if `cu_seqlens` says where sequences begin.
fn room(problem: &Problem, rows: u32) -> u32 {
    match problem.packing() {
        Some(Packing { sequences, lengths: Lengths::Padded, .. }) => rows / sequences,
        _ => 0,
    }
}

/// A kernel launch. Only planned and checked launches can be constructed, so an executor can trust its fields.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    variant: Variant<'a>,
    grid: [u32; 2],
    cluster: u32,
    shared_bytes: u32,
    args: ForwardArgs,
    tensor_maps: Option<[TensorMap; 4]>,
    encoded: TensorMaps,
}

impl<'a> Launch<'a> {
    /// The variant.
    pub const fn variant(&self) -> Variant<'a> {
        self.variant
    }

    /// Name of the `.entry`.
    pub const fn entry(&self) -> &'a str {
        self.variant.entry
    }

    /// Blocks of the grid in x and y (z is 1).
    pub const fn grid(&self) -> [u32; 2] {
        self.grid
    }

    /// Blocks of the grid.
    pub const fn blocks(&self) -> u32 {
        // Fewer than the workspace has bytes.
        self.grid[0].saturating_mul(self.grid[1])
    }

    /// [Parts](parts) of an item that it leaves; 1: items are computed whole.
    pub const fn parts(&self) -> u32 {
        self.grid[1]
    }

    /// The launch that has to follow on the same stream, to combine the [parts] that this one leaves; `None` if it
    /// leaves none. O and LSE are complete after it.
    pub fn combining(&self) -> Option<Self> {
        let ([items, parts], config) = (self.grid, self.variant.config);
        let leaves_parts = self.args.part_results != 0 && self.args.combined_parts == 0;
        leaves_parts.then(|| Self {
            grid: [items, parts::combining_blocks(parts, config.block_m(), config.columns())],
            args: ForwardArgs { combined_parts: parts, ..self.args },
            ..*self
        })
    }

    /// Blocks of a cluster (x dimension; y and z are 1); `None` without clusters.
    pub fn cluster(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.cluster).filter(|blocks| blocks.get() > 1)
    }

    /// Threads of a block (x dimension; y and z are 1).
    pub const fn threads(&self) -> u32 {
        self.variant.config.threads()
    }

    /// Dynamic shared memory that a block uses, bytes.
    pub const fn dynamic_shared_bytes(&self) -> u32 {
        self.variant.config.shared_bytes()
    }

    /// Dynamic shared memory that the launch requests, bytes: what a block uses, or more
    /// ([`Configuration::shared_bytes_of_launch`]).
    pub const fn launched_shared_bytes(&self) -> u32 {
        self.shared_bytes
    }

    /// Whether it may begin before the previous launch on the stream ends: the kernel executes `griddepcontrol.wait`.
    pub const fn overlaps_previous(&self) -> bool {
        self.variant.waits_for_previous_grid
    }

    /// The tensor maps of Q, K, V and O that the driver has to encode for [`Self::set_tensor_maps`]; `None` for a kernel
    /// without tensor maps.
    pub const fn tensor_maps(&self) -> Option<&[TensorMap; 4]> {
        self.tensor_maps.as_ref()
    }

    /// Sets the second argument to the encoded [`Self::tensor_maps`].
    pub const fn set_tensor_maps(&mut self, encoded: TensorMaps) {
        self.encoded = encoded;
    }

    /// The kernel's first argument.
    pub const fn args(&self) -> &ForwardArgs {
        &self.args
    }

    /// The kernel's second argument; `None` for a kernel without tensor maps.
    pub const fn encoded_tensor_maps(&self) -> Option<&TensorMaps> {
        match self.tensor_maps {
            Some(_) => Some(&self.encoded),
            None => None,
        }
    }

    /// The bytes of [`Self::args`], for the `.param` space.
    pub const fn argument_bytes(&self) -> &[u8] {
        // SAFETY: ForwardArgs is repr(C) and has no padding (its definition asserts that its size is the sum of its
        // fields'), so all of its bytes are initialised.
        unsafe { core::slice::from_raw_parts((&raw const self.args).cast(), size_of::<ForwardArgs>()) }
    }
}

impl Variant<'_> {
    /// `problem` as the variant computes it: without a mask if it applies none, and then with
    /// [groups as rows](Problem::with_groups_as_rows).
    fn own_form(&self, problem: &Problem) -> Problem {
        match (self.mask, problem.simplified()) {
            (Mask::Full, simplified) if simplified.mask() == Mask::Full => simplified.with_groups_as_rows(),
            _ => *problem,
        }
    }

    /// Whether the variant computes `problem` in the form in which a plan has it.
    pub(crate) fn accepts_own_form(&self, problem: &Problem) -> bool {
        self.check_accepts(&self.own_form(problem)).is_ok()
    }

    /// Checks that the variant computes `problem`.
    ///
    /// # Errors
    /// What it accepts instead.
    pub fn check_accepts(&self, problem: &Problem) -> Result<(), Refusal> {
        let sequence = problem.shape().sequence;
        match (self.sequence, problem.packing()) {
            (Sequence::Packed, Some(_)) => {}
            (Sequence::Packed, None) => return Err(Refusal::NotPacked),
            (_, Some(_)) => return Err(Refusal::Packed),
            (accepted, None) if accepted.accepts(sequence) => {}
            (accepted, None) => return Err(Refusal::OtherSequence { sequence, accepted }),
        }
        let kv_sequence = problem.shape().kv_sequence;
        if kv_sequence != sequence && matches!(self.sequence, Sequence::Exact(_)) {
            return Err(Refusal::OtherKvSequence { sequence, kv_sequence });
        }
        let (head_dim, computed) = (problem.shape().head_dim, self.head_dims());
        if !computed.contains(&head_dim) {
            let (least, most) = (*computed.start(), *computed.end());
            return Err(Refusal::OtherHeadDim { head_dim, least, most });
        }
        if self.element != problem.element() {
            return Err(Refusal::OtherElement { element: problem.element(), computed: self.element });
        }
        let computes_scores = match self.scores {
            Scores::Unmodified => problem.score_mod().is_none(),
            Scores::Modified => {
                !problem.score_mod().is_none() || self.serves_windows() && problem.mask() == Mask::Window
            }
        };
        if !computes_scores {
            return Err(Refusal::OtherScores { computed: self.scores });
        }
        if self.config.has_bias_tiles() && !problem.score_mod().has_aligned_bias(problem.shape()) {
            return Err(Refusal::UnalignedBias);
        }
        // A window as wide as the sequences equals another mask; entries with score modifications apply all masks as windows.
        let is_computed = |mask| mask == self.mask || self.scores == Scores::Modified;
        if !is_computed(problem.mask()) && !is_computed(problem.simplified().mask()) {
            return Err(Refusal::OtherMask { mask: problem.mask(), computed: self.mask });
        }
        if self.config.uses_tensor_maps() { tensor_map::check(problem) } else { Ok(()) }
    }

    /// Whether it also computes windows of scores that are not changed: there are no kernels for these alone with its columns.
    pub const fn serves_windows(&self) -> bool {
        matches!(self.scores, Scores::Modified) && self.config.columns() > MOST_COLUMNS_OF_MANY_KERNELS
    }

    /// Accepted head dimensions: up to the columns of its tiles, also less if it is for any sequences. If a tile of several panels is
    /// copied through tensor maps, no panel may lie wholly beyond the row: a kernel that copied such boxes through the maps of packed
    /// sequences got an illegal address on an H100 (tools/ptx-sim/docs/conformance.md). Tiles with few kernels also take only
    /// these rows in the other family.
    pub const fn head_dims(&self) -> RangeInclusive<u32> {
        let columns = self.config.columns();
        match self.sequence {
            Sequence::Exact(_) => columns..=columns,
            _ if self.config.uses_tensor_maps() || columns > MOST_COLUMNS_OF_MANY_KERNELS => {
                columns - panel_columns(columns) + 1..=columns
            }
            Sequence::Any | Sequence::Packed => 1..=columns,
        }
    }

    /// Checks that `gpu` can run the variant.
    ///
    /// # Errors
    /// What it needs, and what the GPU has.
    pub fn check_fits(&self, gpu: &Gpu<'_>) -> Result<(), Refusal> {
        if !self.family().runs_on(gpu.architecture) {
            return Err(Refusal::OtherArchitecture { family: self.family(), architecture: gpu.architecture });
        }
        let (needed, available) = (self.config.shared_bytes(), gpu.shared_bytes_per_block);
        if available < needed {
            return Err(Refusal::SharedMemory { needed, available });
        }
        Ok(())
    }
}

/// Distribution of the last of several rounds: in strips if the strips of an item of `variant` are equally long.
fn last_round(variant: &Variant<'_>, work_items: u32, blocks: u32) -> LastRound {
    match (variant.config, variant.mask, variant.sequence) {
        (Configuration::Sm90Tma(tile), Mask::Full, Sequence::Exact(_)) if tile.holds_whole_heads() => {
            LastRound::in_strips(work_items, blocks)
        }
        (Configuration::Sm90Tma(tile), Mask::Full, Sequence::Any) => {
            LastRound::in_parts(work_items, blocks, tile.warpgroups)
        }
        _ => LastRound::whole(work_items, blocks),
    }
}

/// The groups of heads of `tiles` tiles, with `side_by_side` concurrent blocks. Only a causal kernel that is not for packed
/// sequences reads them: the others have another order.
fn head_groups(problem: &Problem, variant: &Variant<'_>, tiles: u32, side_by_side: u32, gpu: &Gpu<'_>) -> HeadGroups {
    let (shape, config, tiles) = (problem.shape(), variant.config, positive(tiles));
    let heads = positive(shape.batch).saturating_mul(positive(shape.heads));
    let is_grouped = variant.mask == Mask::Causal && problem.packing().is_none();
    let Some(blocks) = NonZeroU32::new(side_by_side).filter(|_| is_grouped) else {
        return HeadGroups::one(heads, tiles);
    };
    let key_rows = u64::from(shape.batch) * u64::from(shape.kv_heads) * u64::from(shape.kv_sequence);
    let key_bytes = key_rows * 2 * shape.row_bytes() / u64::from(gpu.multiprocessors.max(1));
    HeadGroups::new(&Heads {
        number: heads,
        tiles,
        rows: config.block_m(),
        blocks,
        is_dealt: matches!(config.grid(), Grid::Persistent),
        keys_fit_l2: key_bytes <= shared_bytes(config),
        may_stay_together: matches!(config, Configuration::Sm90Tma(tile) if tile.keeps_tiles_together()),
    })
}

/// Bytes of K and V that blocks share in L2 while Q and O pass through it, per multiprocessor: on an H100 33 of its 50 MB, or
/// 27 with the faster kernels, in which more passes. Measured (docs/results/map.md).
const fn shared_bytes(config: Configuration) -> u64 {
    match config {
        Configuration::Sm90Tma(_) => 208 << 10,
        Configuration::Sm80(_) => 256 << 10,
    }
}

/// A dimension of a [`Problem`], which is never 0.
fn positive(dimension: u32) -> NonZeroU32 {
    NonZeroU32::new(dimension).expect("a problem has no empty dimension")
}

/// The arguments for a problem's score modifications, without addresses.
fn score_mod_args(problem: &Problem) -> ScoreModArgs {
    let (score_mod, shape) = (problem.score_mod(), problem.shape());
    if score_mod.is_none() {
        return ScoreModArgs::NONE;
    }
    let log2_e = core::f64::consts::LOG2_E;
    // Not 0, which means no softcap.
    let exponent = |cap: f64| ((2.0 * problem.scale() * log2_e / cap) as f32).max(f32::MIN_POSITIVE);
    ScoreModArgs {
        softcap_exponent: score_mod.softcap.map_or(0.0, exponent),
        inverse_scale: (log2_e / f64::from(problem.scale_log2())) as f32,
        bias_strides: score_mod.bias.unwrap_or(ScoreModArgs::NONE.bias_strides),
        slopes_batch: if score_mod.alibi == Some(Slopes::PerBatchAndHead) { shape.heads } else { 0 },
        // For packed sequences, kernels count rows from the sequence's first position.
        first_position: if problem.packing().is_some() { 0 } else { problem.first_position() as i32 },
        ..ScoreModArgs::NONE
    }
}

#[cfg(test)]
mod tests;

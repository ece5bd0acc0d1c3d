//! A launch of a gradient: planned from the gradient and the GPU alone, then bound to addresses.

use core::num::NonZeroU32;
use core::ops::Range;

use super::args::{BackwardArgs, BackwardMaps, BiasArgs, MAPPED, SumsArgs};
use super::bias;
use super::items::HeadItems;
use super::sums::Layout;
use super::variants::{BACKWARD_VARIANTS, BackwardTile, BackwardVariant, TmaTile};
use crate::launch::args::{ForwardArgs, ScoreModArgs, TENSOR_MAP_BYTES};
use crate::launch::plan::Addresses;
use crate::launch::plan::addresses::{
    self, FirstElements, check_apart, elements_range, first_element, range_from, tensor_range,
};
use crate::launch::tensor_map::{self, TensorMap};
use crate::schedule::divisor::Divisor;
use crate::schedule::geometry::query_tiles;
use crate::schedule::packed;
use crate::spec::config::{ELEMENT_BYTES, Family, Mask, Scores, Sequence};
use crate::spec::gpu::Gpu;
use crate::spec::gradient::Gradient;
use crate::spec::limits::MAXIMUM_WORK_ITEMS;
use crate::spec::problem::Problem;
use crate::spec::refusal::Refusal;
use crate::spec::tensor::Tensor;
use crate::spec::view::RowsAt;

/// Bytes of an element of LSE, which is f32.
const LSE_ELEMENT_BYTES: u64 = 4;

/// Device addresses of the tensors of a gradient, which their views count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackwardAddresses {
    /// The tensors of the forward pass; all of them are read, and LSE is required. The workspace is one of
    /// [`BackwardPlan::workspace_bytes`], if that is not 0.
    pub forward: Addresses,
    /// dO.
    pub d_o: u64,
    /// dQ.
    pub dq: u64,
    /// dK.
    pub dk: u64,
    /// dV.
    pub dv: u64,
    /// dBias, if it is asked for, 2-byte aligned.
    pub d_bias: Option<u64>,
}

/// Where dQ is summed in a workspace of the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// Nowhere: there is none.
    Nowhere,
    /// Where it is faster.
    WhereFaster,
    /// Wherever a kernel can, for tests.
    Wherever,
}

/// A planned launch of a gradient on a GPU, without the addresses of its tensors.
#[derive(Clone, Copy, Debug)]
pub struct BackwardPlan {
    variant: &'static BackwardVariant,
    gradient: Gradient,
    blocks: u32,
    args: BackwardArgs,
    sums: Option<Layout>,
    bias: Option<bias::Layout>,
}

impl BackwardPlan {
    /// Plans the launch for `gradient` on `gpu`, with a workspace or without. No allocation, no driver call.
    ///
    /// # Errors
    /// What no kernel computes, what the GPU lacks, or that there are more blocks than one launch can have.
    pub fn new(gradient: &Gradient, gpu: &Gpu<'_>, sums: Sums) -> Result<Self, Refusal> {
        Self::by(choose(gradient, gpu, sums)?, gradient, gpu, sums)
    }

    /// Plans the launch of `variant` for `gradient` on `gpu`, whether or not it is the entry that [`Self::new`] would take; with a workspace if it can use
    /// one.
    ///
    /// # Errors
    /// What `variant` does not compute, what the GPU lacks, or that there are more blocks than one launch can have.
    pub fn of(variant: &'static BackwardVariant, gradient: &Gradient, gpu: &Gpu<'_>) -> Result<Self, Refusal> {
        let problem = gradient.problem();
        // An entry for windows computes those that are another mask, too.
        let is_asked_for = variant.mask == problem.mask();
        check_computes(variant, gradient, if is_asked_for { variant.mask } else { problem.simplified().mask() })?;
        let shape = problem.shape();
        if !variant.takes_rows(shape, gpu.multiprocessors) {
            return Err(Refusal::OtherRows { shape });
        }
        runs(variant, gradient, gpu)?;
        Self::by(variant, gradient, gpu, Sums::Wherever)
    }

    /// The plan of a launch of `variant`, which computes `gradient` and runs on `gpu`.
    fn by(variant: &'static BackwardVariant, gradient: &Gradient, gpu: &Gpu<'_>, sums: Sums) -> Result<Self, Refusal> {
        let problem = gradient.problem().simplified();
        let (shape, tile) = (problem.shape(), variant.tile);
        let [query_tiles, key_tiles] = [(shape.sequence, tile.query_rows()), (shape.kv_sequence, tile.rows())]
            .map(|(length, rows)| tiles(&problem, length, rows).unwrap_or(u32::MAX));
        let blocks_of = |heads: u32, tiles: u32| u64::from(shape.batch) * u64::from(heads) * u64::from(tiles);
        // Heads of Q with items of their own, of those that share a head of K and V.
        let group = if tile.has_query_items() { shape.group() } else { 0 };
        let (key_blocks, query_blocks) =
            (blocks_of(shape.kv_heads, key_tiles), blocks_of(shape.kv_heads * group, query_tiles));
        let blocks = key_blocks.saturating_add(query_blocks);
        if blocks > MAXIMUM_WORK_ITEMS {
            return Err(Refusal::TooManyWorkItems { shape, query_tiles });
        }
        let views = gradient.views();
        let positive = |count: u32| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        let items = HeadItems { key_tiles, query_tiles, group, is_causal: problem.mask() == Mask::Causal };
        // No overflow: there are at least as many items in all.
        let head_items = if blocks == 0 { 0 } else { items.count() };
        let resident = |tile: TmaTile| gpu.multiprocessors.max(1).saturating_mul(tile.blocks);
        let grid = match tile {
            BackwardTile::Sm80(_) => blocks as u32,
            BackwardTile::Sm90(tile) if tile.keeps_dq() => {
                ((key_blocks / u64::from(key_tiles.max(1))) as u32).min(resident(tile))
            }
            BackwardTile::Sm90(tile) => (blocks as u32).min(resident(tile)),
        };
        let bias = match tile {
            BackwardTile::Sm80(tile) => {
                bias::Layout::new(gradient, tile, (sums != Sums::Nowhere).then_some(gpu.multiprocessors))?
            }
            BackwardTile::Sm90(_) => None,
        };
        let grid = match bias.map_or(0, bias::Layout::blocks).checked_add(grid) {
            Some(grid) if u64::from(grid) <= MAXIMUM_WORK_ITEMS => grid,
            _ => return Err(Refusal::TooManyWorkItems { shape, query_tiles }),
        };
        let sums = variant.sums_in_workspace().then(|| Layout::new(variant, shape, (query_tiles, key_tiles), grid));
        let head_items = sums.map_or(head_items, Layout::head_items);
        let args = BackwardArgs {
            problem: ForwardArgs {
                work_items: positive(blocks as u32),
                ..ForwardArgs::of_tiles(&problem, query_tiles)
            },
            d_o: 0,
            dq: 0,
            dk: 0,
            dv: 0,
            d_o_strides: views.d_o.strides,
            dq_strides: views.dq.strides,
            dk_strides: views.dk.strides,
            dv_strides: views.dv.strides,
            key_tiles: Divisor::new(positive(key_tiles)),
            kv_heads: Divisor::new(positive(shape.kv_heads)),
            head_items: Divisor::new(positive(head_items)),
            turn: if tile.has_query_items() && grid < blocks as u32 { items.best_turn(blocks as u32, grid) } else { 0 },
            key_blocks: key_blocks as u32,
            scale: problem.scale() as f32,
            workspace: sums.map_or(SumsArgs::NONE, Layout::args),
            bias: bias.map_or(BiasArgs::NONE, bias::Layout::args),
        };
        Ok(Self { variant, gradient: *gradient, blocks: grid, args, sums, bias })
    }

    /// Bytes of the workspace; 0 if none is of use. Nothing has to be written to it before.
    pub fn workspace_bytes(&self) -> u64 {
        // Only one of both is in a workspace: the entries that sum dQ there support no bias.
        self.sums.map_or(0, Layout::bytes) + self.bias.map_or(0, bias::Layout::bytes)
    }

    /// The entry.
    pub const fn variant(&self) -> &'static BackwardVariant {
        self.variant
    }

    /// The gradient.
    pub const fn gradient(&self) -> &Gradient {
        &self.gradient
    }

    /// Blocks of the grid.
    pub const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The launch on the tensors at `addresses`.
    ///
    /// # Errors
    /// When a tensor is null, misaligned or beyond the 64-bit address space, or dQ, dK or dV overlaps another tensor.
    pub fn bind(&self, addresses: BackwardAddresses) -> Result<BackwardLaunch, Refusal> {
        let BackwardAddresses { forward, d_o, dq, dk, dv, d_bias } = addresses;
        let problem = self.gradient.problem();
        let lse = forward.lse.ok_or(Refusal::NoAddress { tensor: Tensor::Lse })?;
        let bytes = self.workspace_bytes();
        let FirstElements { q, k, v, o, workspace } = addresses::check(problem, bytes, forward)?;
        let occupied = (bytes > 0).then(|| (Tensor::Workspace, workspace..workspace + bytes));
        let first = |tensor, address| {
            let view = self.gradient.view_of(tensor).expect("a tensor with rows");
            first_element(tensor, address, view)
        };
        let [dq, dk, dv] = [(Tensor::DQ, dq), (Tensor::DK, dk), (Tensor::DV, dv)];
        let rows = [
            (dq.0, first(dq.0, dq.1)?),
            (dk.0, first(dk.0, dk.1)?),
            (dv.0, first(dv.0, dv.1)?),
            (Tensor::Q, q),
            (Tensor::K, k),
            (Tensor::V, v),
            (Tensor::O, o),
            (Tensor::DO, first(Tensor::DO, d_o)?),
        ];
        let lse_bytes = (problem.shape().rows() as u64).saturating_mul(LSE_ELEMENT_BYTES);
        let lse_range = (Tensor::Lse, tensor_range(Tensor::Lse, lse, lse_bytes)?);
        let others = addresses::others(problem, &forward)?;
        for (index, output) in rows.iter().enumerate().take(3) {
            let at = self.range(output)?;
            check_apart(&at, core::slice::from_ref(&lse_range))?;
            let others = others.iter().flatten().chain(&occupied);
            others.into_iter().try_for_each(|other| check_apart(&at, core::slice::from_ref(other)))?;
            rows[index + 1..].iter().try_for_each(|other| self.check_rows_apart(output, other))?;
        }
        let elements = self.gradient.bias_extent().map(|count| (count, ELEMENT_BYTES));
        let d_bias = elements_range(Tensor::DBias, d_bias, elements)?;
        if let Some(at) = &d_bias {
            let others = others.iter().flatten().chain(&occupied).chain([&lse_range]);
            others.into_iter().try_for_each(|other| check_apart(at, core::slice::from_ref(other)))?;
            rows.iter().try_for_each(|row| check_apart(at, &[self.range(row)?]))?;
        }
        let tensor_maps = self.variant.uses_tensor_maps().then(|| {
            let first = |tensor| rows.iter().find(|(one, _)| *one == tensor).map_or(0, |(_, first)| *first);
            let view = |tensor| self.gradient.view_of(tensor).expect("a tensor with rows");
            MAPPED.map(|one| TensorMap::of_view(problem, (one, view(one)), first(one), self.variant.tile.columns()))
        });
        let [dq, dk, dv, .., d_o] = rows.map(|(_, first)| first);
        let [cu_seqlens, seqused_q, seqused_k] =
            [forward.cu_seqlens, forward.seqused_q, forward.seqused_k].map(|address| address.unwrap_or(0));
        let cu_seqlens_k = forward.cu_seqlens_k.unwrap_or(cu_seqlens);
        let (bias, slopes) = (forward.bias.unwrap_or(0), forward.alibi_slopes.unwrap_or(0));
        let score_mod = ScoreModArgs { bias, slopes, ..self.args.problem.score_mod };
        let tensors = ForwardArgs { q, k, v, o, lse, score_mod, ..self.args.problem };
        let problem = ForwardArgs { cu_seqlens, cu_seqlens_k, seqused_q, seqused_k, ..tensors };
        let d_bias = d_bias.map_or(0, |(_, range)| range.start);
        let bias = BiasArgs { d_bias, sums: workspace, ..self.args.bias };
        let workspace = self.sums.map_or(SumsArgs::NONE, |sums| sums.at(workspace));
        let args = BackwardArgs { problem, d_o, dq, dk, dv, workspace, bias, ..self.args };
        let encoded = BackwardMaps([[0; TENSOR_MAP_BYTES as usize]; MAPPED.len()]);
        let preparing_blocks = self.sums.map_or(0, Layout::tiles);
        let adding_blocks = self.bias.filter(|bias| bias.has_parts()).map_or(0, bias::Layout::tiles);
        let Self { variant, blocks, .. } = *self;
        Ok(BackwardLaunch { variant, blocks, preparing_blocks, adding_blocks, args, tensor_maps, encoded })
    }

    /// Requires two tensors, each at its first element, to share no memory. Rows of one may lie between those of the other.
    fn check_rows_apart(&self, output: &(Tensor, u64), other: &(Tensor, u64)) -> Result<(), Refusal> {
        match check_apart(&self.range(output)?, &[self.range(other)?]) {
            Err(_) if self.rows(output).are_apart_from(&self.rows(other)) => Ok(()),
            checked => checked,
        }
    }

    /// The memory range of a tensor that begins at `first`.
    fn range(&self, &(tensor, first): &(Tensor, u64)) -> Result<(Tensor, Range<u64>), Refusal> {
        let span = self.gradient.view_of(tensor).and_then(|view| view.span(self.gradient.shape_of(tensor)));
        // Views were checked to fit 64 bits.
        Ok((tensor, range_from(tensor, first, span.unwrap_or(u64::MAX).saturating_mul(ELEMENT_BYTES))?))
    }

    fn rows(&self, &(tensor, first): &(Tensor, u64)) -> RowsAt {
        let view = self.gradient.view_of(tensor).expect("a tensor with rows");
        RowsAt::new(first, view, self.gradient.shape_of(tensor))
    }
}

/// The entry that computes `gradient` on `gpu`.
fn choose(gradient: &Gradient, gpu: &Gpu<'_>, sums: Sums) -> Result<&'static BackwardVariant, Refusal> {
    let problem = gradient.problem();
    let has_memory = |variant: &&BackwardVariant| sums != Sums::Nowhere || !variant.sums_in_workspace();
    let mask = problem.simplified().mask();
    let accepts = |variant: &&BackwardVariant| has_memory(variant) && check_computes(variant, gradient, mask).is_ok();
    let takes = |one: &&BackwardVariant| is_taken(one, problem, gpu, sums);
    let candidates = BACKWARD_VARIANTS.iter().filter(accepts).filter(takes);
    let checked = candidates.map(|variant| runs(variant, gradient, gpu).map(|()| variant));
    checked.reduce(Result::or).expect("the entries of sm_80 compute every gradient")
}

/// Requires `variant` to compute `gradient`, whose mask is `mask`, but for its numbers of rows.
fn check_computes(variant: &BackwardVariant, gradient: &Gradient, mask: Mask) -> Result<(), Refusal> {
    let problem = gradient.problem();
    let shape = problem.shape();
    let is_plain = problem.score_mod().is_none();
    match (variant.sequence, problem.packing()) {
        (Sequence::Packed, None) => return Err(Refusal::NotPacked),
        (Sequence::Any | Sequence::Exact(_), Some(_)) => return Err(Refusal::Packed),
        _ => {}
    }
    if variant.element != problem.element() {
        return Err(Refusal::OtherElement { element: problem.element(), computed: variant.element });
    }
    let dims = variant.head_dims();
    if !dims.contains(&shape.head_dim) {
        return Err(Refusal::OtherHeadDim { head_dim: shape.head_dim, least: *dims.start(), most: *dims.end() });
    }
    if variant.computes_d_bias != gradient.bias().is_some() {
        return Err(Refusal::OtherGradients { computes_d_bias: variant.computes_d_bias });
    }
    match variant.scores {
        Scores::Unmodified if variant.mask != mask => Err(Refusal::OtherMask { mask, computed: variant.mask }),
        Scores::Unmodified if is_plain => Ok(()),
        // Of the entries of sm_90a, others apply windows alone.
        Scores::Modified if !is_plain || mask == Mask::Window && variant.family() == Family::Sm80 => Ok(()),
        computed => Err(Refusal::OtherScores { computed }),
    }
}

/// Whether `variant` is taken for `problem`, of those that compute it.
fn is_taken(variant: &BackwardVariant, problem: &Problem, gpu: &Gpu<'_>, sums: Sums) -> bool {
    let (shape, multiprocessors) = (problem.shape(), gpu.multiprocessors);
    match sums {
        Sums::Wherever if variant.sums_in_workspace() => variant.takes_rows(shape, multiprocessors),
        _ => variant.is_faster(shape, keys_of_a_query(problem), multiprocessors),
    }
}

/// The most keys that a query attends to.
fn keys_of_a_query(problem: &Problem) -> u32 {
    let keys = problem.shape().kv_sequence;
    let [before, after] = problem.rows_around().map(|rows| rows.map_or(i64::from(keys), i64::from));
    (before + after + 1).clamp(0, keys.into()) as u32
}

/// Requires `variant`, which computes `gradient`, to run on `gpu`.
fn runs(variant: &BackwardVariant, gradient: &Gradient, gpu: &Gpu<'_>) -> Result<(), Refusal> {
    variant.check_fits(gpu)?;
    if !variant.uses_tensor_maps() {
        return Ok(());
    }
    tensor_map::check(gradient.problem())?;
    tensor_map::check_view(gradient.problem().shape(), (Tensor::DO, gradient.views().d_o))
}

/// Tiles of `rows` rows of a head with `length` rows, or the slots of packed sequences; `None` if 32 bits cannot count them.
fn tiles(problem: &Problem, length: u32, rows: u32) -> Option<u32> {
    match problem.packing() {
        None => Some(query_tiles(length, rows)),
        Some(packing) => packed::slots(length, packing.sequences, rows),
    }
}

/// A launch of a gradient's kernel. Only planned and checked launches can be constructed, so an executor can trust its fields.
#[derive(Clone, Copy, Debug)]
pub struct BackwardLaunch {
    variant: &'static BackwardVariant,
    blocks: u32,
    preparing_blocks: u32,
    adding_blocks: u32,
    args: BackwardArgs,
    tensor_maps: Option<[TensorMap; 5]>,
    encoded: BackwardMaps,
}

impl BackwardLaunch {
    /// The entry.
    pub const fn variant(&self) -> &'static BackwardVariant {
        self.variant
    }

    /// Blocks of the grid (x dimension; y and z are 1).
    pub const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Threads of a block (x dimension; y and z are 1).
    pub const fn threads(&self) -> u32 {
        self.variant.tile.threads()
    }

    /// Dynamic shared memory of a block, bytes.
    pub const fn shared_bytes(&self) -> u32 {
        self.variant.tile.shared_bytes()
    }

    /// Whether all blocks have to be on the GPU at once, since they wait for each other: the driver refuses the launch if they cannot be.
    pub fn is_cooperative(&self) -> bool {
        self.variant.rotates() && self.args.workspace.prepares == 0
    }

    /// The launch of the same kernel that has to precede this one, if any: it prepares the workspace.
    pub fn preparing(&self) -> Option<Self> {
        let workspace = SumsArgs { prepares: 1, ..self.args.workspace };
        let args = BackwardArgs { workspace, ..self.args };
        (self.preparing_blocks > 0).then_some(Self {
            blocks: self.preparing_blocks,
            preparing_blocks: 0,
            adding_blocks: 0,
            args,
            ..*self
        })
    }

    /// The launch of the same kernel that has to follow this one, if any: it adds the parts of the sums of dBias.
    pub fn adding(&self) -> Option<Self> {
        let bias = BiasArgs { adds_parts: 1, ..self.args.bias };
        let args = BackwardArgs { bias, ..self.args };
        (self.adding_blocks > 0).then_some(Self { blocks: self.adding_blocks, adding_blocks: 0, args, ..*self })
    }

    /// The kernel's argument.
    pub const fn args(&self) -> &BackwardArgs {
        &self.args
    }

    /// The tensor maps that the driver has to encode for [`Self::set_tensor_maps`], those of [`MAPPED`]; `None` for a kernel without any.
    pub const fn tensor_maps(&self) -> Option<&[TensorMap; 5]> {
        self.tensor_maps.as_ref()
    }

    /// Sets the second argument to the encoded [`Self::tensor_maps`].
    pub const fn set_tensor_maps(&mut self, encoded: BackwardMaps) {
        self.encoded = encoded;
    }

    /// The second argument of a kernel with tensor maps.
    pub const fn encoded_tensor_maps(&self) -> Option<&BackwardMaps> {
        match self.tensor_maps {
            Some(_) => Some(&self.encoded),
            None => None,
        }
    }

    /// The bytes of [`Self::args`], for the `.param` space.
    pub const fn argument_bytes(&self) -> &[u8] {
        // SAFETY: BackwardArgs is repr(C) and has no padding (its definition asserts that), so all of its bytes are initialised.
        unsafe { core::slice::from_raw_parts((&raw const self.args).cast(), size_of::<BackwardArgs>()) }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::super::variants::Dq;
    use super::*;
    use crate::schedule::architecture::ARCHITECTURES;
    use crate::spec::config::Element;
    use crate::spec::gradient::GradientViews;
    use crate::spec::limits::MAXIMUM_HEAD_DIM;
    use crate::spec::packing::Packing;
    use crate::spec::problem::{ScoreMod, Window};
    use crate::spec::shape::Shape;
    use crate::spec::tensor::Strides;
    use crate::spec::view::{Layout, View, Views};
    use std::vec::Vec;

    const GPU: Gpu<'static> =
        Gpu { name: "a GPU", architecture: 86, multiprocessors: 84, shared_bytes_per_block: 99 * 1024 };

    fn problem(head_dim: u32) -> Problem {
        let shape = Shape { kv_heads: 2, kv_sequence: 300, ..Shape::new(2, 4, 200) };
        Problem::new(shape.with_head_dim(head_dim), Mask::Full, Layout::Bhsd).unwrap()
    }

    fn plan(problem: Problem) -> Result<BackwardPlan, Refusal> {
        BackwardPlan::new(&Gradient::new(problem).unwrap(), &GPU, Sums::Nowhere)
    }

    #[test]
    fn every_problem_has_an_entry() {
        let softcap = ScoreMod { softcap: Some(2.0), ..ScoreMod::NONE };
        for head_dim in (8..=MAXIMUM_HEAD_DIM).step_by(8) {
            for element in [Element::F16, Element::Bf16] {
                for window in [Window::UNLIMITED, Window::CAUSAL, Window { left: Some(3), right: None }] {
                    for score_mod in [ScoreMod::NONE, softcap] {
                        let batch = problem(head_dim).with_element(element).with_window(window);
                        let batch = batch.with_score_mod(score_mod).unwrap();
                        let rows = Shape::new(1, 4, 200).with_head_dim(head_dim);
                        let rows = Problem::new(rows, Mask::Full, Layout::Bhsd).unwrap().packed(Packing::new(3, 90));
                        let packed = rows.unwrap().with_element(element).with_window(window).with_score_mod(score_mod);
                        for problem in [batch, packed.unwrap()] {
                            let entry = plan(problem).unwrap().variant().entry;
                            assert_eq!(entry.contains("packed"), problem.packing().is_some(), "{entry}");
                            assert_eq!(entry.contains("bf16"), element == Element::Bf16, "{entry}");
                        }
                    }
                }
            }
        }
        let strides = Strides { batch: 4 * 200 * 300, head: 200 * 300, row: 300 };
        let score_mod = ScoreMod { bias: Some(strides), ..ScoreMod::NONE };
        let gradient = Gradient::new(problem(64).with_score_mod(score_mod).unwrap()).unwrap();
        let entry = |gradient| BackwardPlan::new(gradient, &GPU, Sums::Nowhere).unwrap().variant().entry;
        assert_eq!(entry(&gradient), "fa512_sm80_backward_modified", "dBias is not asked for");
        assert_eq!(entry(&gradient.with_bias(strides).unwrap()), "fa512_sm80_backward_dbias");
        let entry = |head_dim| plan(problem(head_dim)).unwrap().variant().entry;
        assert_eq!([entry(136), entry(200)], ["fa512_sm80_d192_backward_full", "fa512_sm80_d256_backward_full"]);
    }

    #[test]
    fn blocks_fit_every_gpu_and_entries_are_named_after_what_they_compute() {
        for variant in BACKWARD_VARIANTS {
            let BackwardVariant { entry, tile, element, sequence, mask, scores, computes_d_bias } = variant;
            for limits in ARCHITECTURES.iter().filter(|limits| variant.family().runs_on(limits.architecture)) {
                assert!(tile.shared_bytes() <= limits.shared_bytes_per_block, "{entry} on {}", limits.architecture);
            }
            let of = |condition, word: &'static str| if condition { word } else { "" };
            let computes = match (scores, mask) {
                _ if *computes_d_bias => "dbias",
                (Scores::Modified, _) => "modified",
                (_, Mask::Full) => "full",
                (_, Mask::Causal) => "causal",
                (_, Mask::Window) => "window",
            };
            let name = [
                if variant.uses_tensor_maps() { "fa512_sm90_" } else { "fa512_sm80_" },
                of(*element == Element::Bf16, "bf16_"),
                of(tile.columns() == 128, "d128_"),
                of(tile.columns() == 192, "d192_"),
                of(tile.columns() == 256, "d256_"),
                "backward_",
                of(matches!(tile, BackwardTile::Sm90(tile) if tile.keeps_dq()), "heads_"),
                of(variant.sums_in_workspace(), "ordered_"),
                of(matches!(tile, BackwardTile::Sm90(tile) if tile.is_of_one_tile()), "single_"),
                of(matches!(tile, BackwardTile::Sm90(TmaTile { warpgroups: 1, dq: Dq::ByItems, .. })), "short_"),
                of(matches!(sequence, Sequence::Packed), "packed_"),
                computes,
            ];
            assert_eq!(*entry, name.concat());
        }
    }

    #[test]
    fn hopper_gpus_compute_batches_by_tensor_maps_where_these_describe_the_tensors() {
        const H200: Gpu<'static> =
            Gpu { name: "H200", architecture: 90, multiprocessors: 132, shared_bytes_per_block: 227 * 1024 };
        let entry = |gradient: &Gradient| BackwardPlan::new(gradient, &H200, Sums::Nowhere).unwrap().variant().entry;
        let of = |rows, head_dim| {
            let shape = Shape::new(2, 2, rows).with_head_dim(head_dim);
            Gradient::new(Problem::new(shape, Mask::Causal, Layout::Bhsd).unwrap()).unwrap()
        };
        assert_eq!(entry(&of(128, 64)), "fa512_sm90_backward_short_causal");
        assert_eq!(entry(&of(129, 64)), "fa512_sm90_backward_causal");
        assert_eq!(entry(&of(65, 72)), "fa512_sm90_d128_backward_causal");
        assert_eq!(entry(&of(64, 72)), "fa512_sm90_d128_backward_single_causal");
        assert_eq!(entry(&of(64, 64)), "fa512_sm90_backward_single_causal");
        let far = View::new(Strides { batch: 1 << 40, head: 1 << 20, row: 64 });
        let gradient = of(200, 64);
        let gradient = gradient.with_views(GradientViews { d_o: far, ..*gradient.views() }).unwrap();
        assert_eq!(entry(&gradient), "fa512_sm80_backward_causal");
        let planned = BackwardPlan::new(&of(512, 64), &H200, Sums::Nowhere).unwrap();
        assert_eq!((planned.args.problem.work_items.get(), planned.args.head_items.get().get()), (2 * 2 * 8, 8));
        assert_eq!(planned.blocks(), 32, "no more blocks than items");
    }

    #[test]
    fn blocks_take_whole_heads_where_few_multiprocessors_would_idle() {
        const H200: Gpu<'static> =
            Gpu { name: "H200", architecture: 90, multiprocessors: 132, shared_bytes_per_block: 227 * 1024 };
        let planned = |shape: Shape| {
            let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap();
            BackwardPlan::new(&Gradient::new(problem).unwrap(), &H200, Sums::WhereFaster).unwrap()
        };
        let takes = |shape| planned(shape).variant().entry == "fa512_sm90_backward_heads_full";
        assert!(takes(Shape::new(32, 8, 512)) && takes(Shape::new(110, 1, 65)) && takes(Shape::new(1000, 1, 300)));
        assert!(takes(Shape::new(120, 1, 256).with_kv_sequence(5000)), "any number of keys");
        assert!(takes(Shape::new(120, 4, 128).with_kv_heads(2).with_kv_sequence(300)));
        assert!(
            !takes(Shape::new(120, 1, 513)) && !takes(Shape::new(120, 10, 129).with_kv_heads(2)),
            "too many queries"
        );
        assert!(!takes(Shape::new(110, 1, 64)), "a warpgroup would idle");
        assert!(!takes(Shape::new(100, 1, 512)) && !takes(Shape::new(140, 1, 512)), "too many would idle");
        let planned = planned(Shape::new(33, 8, 300));
        let args = &planned.args;
        assert_eq!(
            (planned.blocks(), args.problem.work_items.get(), args.head_items.get().get()),
            (132, 33 * 8 * 3, 3)
        );
        assert_eq!(args.problem.query_tiles.get().get(), 5, "steps of a head");
    }

    #[test]
    fn long_sequences_are_summed_in_a_workspace_where_one_is_provided() {
        const H200: Gpu<'static> =
            Gpu { name: "H200", architecture: 90, multiprocessors: 132, shared_bytes_per_block: 227 * 1024 };
        let masked = |shape: Shape, mask, sums| {
            let problem = Problem::new(shape, mask, Layout::Bhsd).unwrap();
            BackwardPlan::new(&Gradient::new(problem).unwrap(), &H200, sums).unwrap()
        };
        let planned = |shape, sums| masked(shape, Mask::Full, sums);
        let long = Shape::new(6, 32, 1100).with_kv_heads(16).with_kv_sequence(1400).with_head_dim(128);
        let with = planned(long, Sums::WhereFaster);
        assert_eq!(with.variant().entry, "fa512_sm90_d128_backward_ordered_full");
        let tiles = 6 * 32 * 18;
        assert_eq!(with.workspace_bytes(), tiles * (64 * 128 * 4 + 64 * 8) + (2 * tiles + 1) * 4 + 12);
        let (args, sums) = (with.args, with.args.workspace);
        assert_eq!((args.problem.work_items.get(), args.head_items.get().get()), (96 * 11, 11));
        assert_eq!((sums.at_once.get().get(), sums.tiles.get().get()), (132, 2 * 18), "two heads share the keys");
        // Some 8 blocks have the same causal head: 18 are interleaved together, 96 as evenly as they can be.
        for (heads, expected) in [(18, (18, 1, 1)), (96, (16, 1, 6))] {
            let args = masked(Shape::new(1, heads, 2311), Mask::Causal, Sums::WhereFaster).args;
            let (sums, key_tiles) = (args.workspace, 19);
            let found = (sums.interleaved.get().get(), sums.interleaved_last.get().get(), sums.interleavings);
            assert_eq!((found, args.head_items.get().get()), (expected, expected.0 * key_tiles));
        }
        let [short, few] = [Shape::new(60, 16, 512), Shape::new(1, 3, 1100)].map(|shape| shape.with_head_dim(128));
        let narrow = long.with_head_dim(32);
        for (shape, sums) in
            [(long, Sums::Nowhere), (short, Sums::WhereFaster), (few, Sums::WhereFaster), (narrow, Sums::WhereFaster)]
        {
            let without = planned(shape, sums);
            assert!(!without.variant().sums_in_workspace() && without.workspace_bytes() == 0);
        }
    }

    #[test]
    fn windows_and_changed_scores_get_tensor_maps_where_they_have_enough_to_compute() {
        const H200: Gpu<'static> =
            Gpu { name: "H200", architecture: 90, multiprocessors: 132, shared_bytes_per_block: 227 * 1024 };
        let of = |rows, head_dim| {
            Problem::new(Shape::new(8, 16, rows).with_head_dim(head_dim), Mask::Full, Layout::Bhsd).unwrap()
        };
        let window = |problem: Problem, rows| problem.with_window(Window { left: Some(rows), right: Some(rows) });
        let capped =
            |problem: Problem| problem.with_score_mod(ScoreMod { softcap: Some(20.0), ..ScoreMod::NONE }).unwrap();
        let entry = |problem: Problem| {
            let plan = BackwardPlan::new(&Gradient::new(problem).unwrap(), &H200, Sums::WhereFaster).unwrap();
            plan.variant().entry
        };
        for (problem, expected) in [
            (window(of(1024, 64), 20), "fa512_sm80_backward_modified"),
            (window(of(1024, 64), 64), "fa512_sm90_backward_window"),
            (window(of(100, 64), 64), "fa512_sm80_backward_modified"),
            (window(of(1024, 64), 300), "fa512_sm90_backward_ordered_window"),
            (window(of(1024, 128), 20), "fa512_sm90_d128_backward_window"),
            (window(of(1024, 96), 150), "fa512_sm90_d128_backward_ordered_window"),
            (window(of(1024, 192), 150), "fa512_sm80_d192_backward_modified"),
            (capped(of(512, 64)), "fa512_sm90_backward_modified"),
            (capped(window(of(512, 64), 20)), "fa512_sm80_backward_modified"),
            (capped(of(128, 32)), "fa512_sm80_backward_modified"),
            (capped(of(512, 128)), "fa512_sm80_d128_backward_modified"),
        ] {
            assert_eq!(entry(problem), expected, "{problem:?}");
        }
    }

    #[test]
    fn every_tile_of_keys_and_of_queries_has_a_block() {
        let planned = plan(problem(64)).unwrap();
        assert_eq!(planned.args.key_blocks, 2 * 2 * 3);
        assert_eq!(planned.blocks(), 2 * 2 * 3 + 2 * 4 * 2);
    }

    #[test]
    fn gradients_may_lie_between_each_others_rows_but_not_overlap() {
        let shape = Shape::new(1, 2, 10);
        // Three tensors in a buffer [B,S,3,H,64].
        let view = View::new(Strides { batch: 10 * 384, head: 64, row: 384 });
        let problem = Problem::new(shape, Mask::Full, Layout::Bshd).unwrap();
        let problem = problem.with_views(Views { q: view, k: view, v: view, ..*problem.views() }).unwrap();
        let planned = plan(problem).unwrap();
        let at = |base: u64, index: u64| base + index * 256;
        let forward = Addresses {
            lse: Some(0x9000_0000),
            ..Addresses::new(at(0x1000_0000, 0), at(0x1000_0000, 1), at(0x1000_0000, 2), 0x2000_0000)
        };
        let addresses = BackwardAddresses {
            forward,
            d_o: 0x3000_0000,
            dq: at(0x4000_0000, 0),
            dk: at(0x4000_0000, 1),
            dv: at(0x4000_0000, 2),
            d_bias: None,
        };
        planned.bind(addresses).unwrap();
        let refused: Vec<_> = [
            BackwardAddresses { dk: addresses.dq, ..addresses },
            BackwardAddresses { dv: forward.q, ..addresses },
            BackwardAddresses { dq: 0x9000_0000, ..addresses },
            BackwardAddresses { dk: addresses.d_o, ..addresses },
        ]
        .into_iter()
        .map(|addresses| planned.bind(addresses).unwrap_err())
        .collect();
        assert!(refused.iter().all(|refusal| matches!(refusal, Refusal::Overlap { .. })), "{refused:?}");
    }
}

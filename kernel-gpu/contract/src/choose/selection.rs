//! Chooses the variant that computes a problem on a GPU: the fastest by predicted time. Without predictions, the first in order of
//! preference among the variants with the narrowest tiles that hold a row.

use core::cmp::Reverse;
use core::fmt;

use crate::choose::cost::Costs;
use crate::launch::plan::Plan;
use crate::launch::variants::Variant;
use crate::schedule::geometry::query_tiles;
use crate::schedule::parts::Workspace;
use crate::schedule::tile::{Grid, Kind as TileKind};
use crate::spec::config::{HEAD_DIM, Mask, Scores, WARPGROUP_ROWS};
use crate::spec::gpu::Gpu;
use crate::spec::problem::Problem;

/// The chosen variant, planned, and the reason for the choice.
#[derive(Clone, Debug)]
pub struct Choice<'a> {
    /// The plan of its launch.
    pub plan: Plan<'a>,
    /// The reason for the choice.
    pub reason: Reason<'a>,
}

/// Why a variant was chosen. `Display` explains it.
#[derive(Clone, Debug)]
pub enum Reason<'a> {
    /// Its predicted time is the shortest.
    Predicted {
        /// The predicted time, µs.
        us: f64,
        /// The constants of the prediction.
        costs: &'a Costs<'a>,
        /// Whether they are those of the GPU's own model.
        same_model: bool,
        /// The second fastest and its predicted time, µs.
        next: Option<(&'a str, f64)>,
    },
    /// It is the first variant that accepts the problem, in the order of preference for such problems and GPUs.
    First(Kind),
    /// The first in order of preference has too large tiles for packed sequences of this length; this one has the smallest
    /// tiles.
    ShortSequences {
        /// Average rows of a sequence.
        average: u32,
        /// Rows of a tile of the first variant.
        tile: u32,
    },
    /// The first in order of preference has too few tiles to fill the GPU; this one has more.
    SmallTiles {
        /// Tiles of the first variant.
        tiles: u64,
        /// Multiprocessors of the GPU.
        multiprocessors: u32,
        /// The problems and GPUs that the order of preference is for.
        kind: Kind,
    },
    /// The first in order of preference changes scores with larger tiles than suit the problem; this one has smaller ones.
    UnsuitedScores(Unsuited),
}

/// Why large tiles do not suit a problem whose scores are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsuited {
    /// A window: the rows of a large tile attend to many keys between them that most of them do not attend to.
    Window,
    /// The multiprocessor with the most tiles has much more rows than the mean.
    Rounds {
        /// Its rows.
        rows: u64,
        /// Those of small tiles, on the average.
        mean: u64,
    },
}

/// The problems and GPUs that an order of preference is for.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    sequence: u32,
    mask: &'static str,
    architecture: u32,
}

/// No variant computes the problem on the GPU. `Display` gives the reason for the variant that comes closest, `{:#}` that for each.
#[derive(Clone, Debug)]
pub struct NoVariant<'p, V> {
    variants: V,
    problem: &'p Problem,
    gpu: Gpu<'p>,
}

/// Plans the launch of the best of `variants`, given in order of preference, for `problem` on `gpu`: by `costs`, else
/// the first among those with the narrowest tiles. The plan may need a workspace if one is provided and no kernel with clusters computes the
/// problem.
///
/// # Errors
/// [`NoVariant`] when none computes the problem there.
pub fn choose<'a, 'p, V>(
    variants: V,
    costs: &'a [Costs<'a>],
    problem: &'p Problem,
    gpu: &Gpu<'p>,
    workspace: Workspace,
) -> Result<Choice<'a>, NoVariant<'p, V>>
where
    V: Iterator<Item = Variant<'a>> + Clone,
{
    // A simpler mask is faster, and so are fewer tiles.
    let simplified = &problem.simplified().with_groups_as_rows();
    // Kernels with clusters split keys without a workspace, and predictions are not precise enough to compare both.
    let has_clusters = |variant: Variant<'_>| variant.config.uses_tensor_maps() && computes(&variant, simplified, gpu);
    let workspace = match workspace {
        Workspace::Provided if !variants.clone().any(has_clusters) => Workspace::Provided,
        _ => Workspace::None,
    };
    // Wider tiles may be faster for a few short rows, so predicted times are compared across tile widths.
    if let Some(choice) = choose_by_cost(variants.clone(), costs, simplified, gpu, workspace) {
        let plan = match workspace {
            Workspace::None => choice.plan,
            Workspace::Provided => choice.plan.with_workspace(costs, gpu),
        };
        return Ok(Choice { plan, ..choice });
    }
    // Without predictions, nothing says in how many parts an item would be faster.
    let choice = narrowest_columns(variants.clone(), simplified, gpu).and_then(|columns| {
        let are_narrowest = |variant: &Variant<'_>| variant.config.columns() == columns;
        choose_by_preference(variants.clone().filter(are_narrowest), simplified, gpu)
    });
    choice.ok_or(NoVariant { variants, problem, gpu: *gpu })
}

/// Whether `variant` computes `problem` on `gpu`.
pub fn computes(variant: &Variant<'_>, problem: &Problem, gpu: &Gpu<'_>) -> bool {
    variant.check_accepts(problem).is_ok() && variant.check_fits(gpu).is_ok()
}

/// Columns of the narrowest tiles among the variants that compute `problem`, within the family of the first of them. Computing and
/// discarding the columns that a row lacks costs less than another family.
fn narrowest_columns<'a>(variants: impl Iterator<Item = Variant<'a>>, problem: &Problem, gpu: &Gpu<'_>) -> Option<u32> {
    let mut variants = variants.filter(|variant| computes(variant, problem, gpu));
    let first = variants.next()?;
    let alike = variants.filter(|variant| variant.family() == first.family());
    let columns = |variant: Variant<'_>| variant.config.columns();
    Some(alike.map(columns).fold(columns(first), u32::min))
}

/// The variant with the shortest predicted time, if there is a prediction for every variant that computes the problem. Of those that
/// differ in the width of their tiles, the narrowest is compared with others ([`is_wider`]).
fn choose_by_cost<'a>(
    variants: impl Iterator<Item = Variant<'a>> + Clone,
    costs: &'a [Costs<'a>],
    problem: &Problem,
    gpu: &Gpu<'_>,
    workspace: Workspace,
) -> Option<Choice<'a>> {
    let costs = Costs::find(costs, gpu)?;
    let mut fastest: Option<(Variant<'a>, f64)> = None;
    let mut next = fastest;
    for variant in variants.clone().filter(|variant| computes(variant, problem, gpu)) {
        let is_narrower = |other: Variant<'_>| is_wider(&variant, &other) && computes(&other, problem, gpu);
        // All variants are looked at only where a row needs fewer columns: this is done for every launch.
        if has_spare_width(&variant, problem) && variants.clone().any(is_narrower) {
            continue;
        }
        let us = costs.predict(&variant, problem, gpu.multiprocessors, workspace)?;
        if fastest.is_none_or(|fastest| us < fastest.1) {
            (fastest, next) = (Some((variant, us)), fastest);
        } else if next.is_none_or(|next| us < next.1) {
            next = Some((variant, us));
        }
    }
    let (variant, us) = fastest?;
    let plan = Plan::new(problem, variant, gpu).ok()?;
    let next = next.map(|(variant, us)| (variant.entry, us));
    Some(Choice { plan, reason: Reason::Predicted { us, costs, same_model: costs.gpu == gpu.name, next } })
}

/// The widths of tiles are multiples of this many columns.
const COLUMNS_STEP: u32 = 32;

/// Whether a variant has tensor maps, and a narrower tile would hold a row.
fn has_spare_width(variant: &Variant<'_>, problem: &Problem) -> bool {
    let columns = variant.config.columns();
    variant.config.uses_tensor_maps() && problem.shape().head_dim + COLUMNS_STEP <= columns
}

/// Whether a variant is `other` with wider tiles. With tensor maps it takes longer at all but two of 223 measured sizes
/// (docs/results/map.md), by less than predicted times are precise.
fn is_wider(variant: &Variant<'_>, other: &Variant<'_>) -> bool {
    let what = |variant: &Variant<'_>| {
        let Variant { config, element, sequence, mask, scores, .. } = *variant;
        (config.kind(), config.grid(), config.block_m(), element, sequence, mask, scores)
    };
    let columns = |variant: &Variant<'_>| variant.config.columns();
    columns(variant) > columns(other) && what(variant) == what(other)
}

/// The first that computes the problem; if it has too few tiles to fill the GPU, the one of its kind with the most tiles.
fn choose_by_preference<'a, V>(variants: V, problem: &Problem, gpu: &Gpu<'_>) -> Option<Choice<'a>>
where
    V: Iterator<Item = Variant<'a>> + Clone,
{
    let plans = || variants.clone().filter_map(|variant| Plan::new(problem, variant, gpu).ok());
    let first = plans().next()?;
    let kind = Kind { sequence: problem.shape().sequence, mask: problem.mask().name(), architecture: gpu.architecture };
    let is_alike = |plan: &Plan<'_>| {
        let (one, other) = (plan.variant(), first.variant());
        (one.family(), one.sequence) == (other.family(), other.sequence)
    };
    let tile = first.variant().config.block_m();
    let average = average_length(problem);
    let Some(needed) = tiles_needed(average, &first.variant()) else {
        let smallest = plans().filter(is_alike).min_by_key(|plan| plan.variant().config.block_m());
        let reason = Reason::ShortSequences { average: average.unwrap_or_default(), tile };
        return Some(Choice { plan: smallest.unwrap_or(first), reason });
    };
    let tiles = |plan: &Plan<'_>| tiles(&plan.variant(), problem);
    let multiprocessors = gpu.multiprocessors;
    if tiles(&first) * FOURTHS < u64::from(multiprocessors) * needed {
        let alike = |plan: &Plan<'_>| is_alike(plan) && tiles(plan) > tiles(&first);
        let smallest = plans()
            .filter(alike)
            .min_by_key(|plan| (Reverse(tiles(plan)), plan.variant().config.grid() != Grid::OneShot));
        if let Some(plan) = smallest {
            let reason = Reason::SmallTiles { tiles: tiles(&first), multiprocessors, kind };
            return Some(Choice { plan, reason });
        }
    }
    let smaller = |plan: &Plan<'_>| is_alike(plan) && plan.variant().config.block_m() < tile;
    let may_be_unsuited = first.variant().scores == Scores::Modified && problem.packing().is_none();
    let unsuited = may_be_unsuited.then(|| plans().find(smaller)).flatten().and_then(|small| {
        let unsuited = unsuited_scores(&first.variant(), &small.variant(), problem, multiprocessors)?;
        Some(Choice { plan: small, reason: Reason::UnsuitedScores(unsuited) })
    });
    Some(unsuited.unwrap_or(Choice { plan: first, reason: Reason::First(kind) }))
}

/// Why the tiles of `small` suit `problem`, whose scores are changed, better than those of `large`; `None` if they do not. Measured
/// (docs/results/encoder-attention.md): large tiles are faster unless their busiest multiprocessor has 1.15 times the rows that it has on the
/// average in small ones.
fn unsuited_scores(
    large: &Variant<'_>,
    small: &Variant<'_>,
    problem: &Problem,
    multiprocessors: u32,
) -> Option<Unsuited> {
    if problem.mask() == Mask::Window {
        return Some(Unsuited::Window);
    }
    let multiprocessors = u64::from(multiprocessors.max(1));
    let rows_of = |variant: &Variant<'_>| u64::from(variant.config.block_m());
    let rows = rows_of(large) * tiles(large, problem).div_ceil(multiprocessors);
    let all = rows_of(small).saturating_mul(tiles(small, problem));
    let are_too_many = rows.saturating_mul(multiprocessors).saturating_mul(100) > all.saturating_mul(115);
    are_too_many.then_some(Unsuited::Rounds { rows, mean: all / multiprocessors })
}

/// Average rows of a packed sequence of `problem`; `None` if all sequences have one length.
fn average_length(problem: &Problem) -> Option<u32> {
    problem.packing().map(|packing| problem.shape().sequence.div_ceil(packing.sequences))
}

/// Tiles are counted in fourths of one for each multiprocessor.
const FOURTHS: u64 = 4;

/// How many tiles of `variant` must there be for each multiprocessor, in [`FOURTHS`], so that no smaller ones are faster. If the sequences
/// are packed, they have `average` rows; `None` if these fill too little of a tile.
fn tiles_needed(average: Option<u32>, variant: &Variant<'_>) -> Option<u64> {
    let Some(average) = average else { return Some(FOURTHS) };
    let (config, rows) = (variant.config, u64::from(variant.config.block_m()));
    match config.kind() {
        TileKind::Sm90Tma => {
            let filled = |&&(eighths, _): &&(u64, u64)| u64::from(average) * 8 >= rows * eighths;
            suited_to_packed(variant).iter().find(filled).map(|&(_, fourths)| fourths)
        }
        // The small tiles for wider rows have only 32 rows to read K and V for.
        TileKind::Sm80 if config.columns() > HEAD_DIM => {
            let enough = if config.columns() == 128 && variant.mask == Mask::Full { 64 } else { 128 };
            (average >= enough).then_some(0)
        }
        _ => (u64::from(average) * 2 >= rows * 3).then_some(FOURTHS),
    }
}

/// Where the tiles of a `wgmma` kernel suit packed sequences: from how many eighths of a tile that a sequence has on the average, with how
/// many tiles for each multiprocessor, in [`FOURTHS`]. Measured at lengths drawn at random (docs/results/packed.md, "At random"): few tiles
/// of four warpgroups take longer than more of one, the more so under a causal mask; two warpgroups share K and V of wide rows, which take
/// long to read, even if half of them have nothing to do; rows of 32 columns are read fast.
fn suited_to_packed(variant: &Variant<'_>) -> &'static [(u64, u64)] {
    let config = variant.config;
    match (config.block_m() / WARPGROUP_ROWS, config.columns(), variant.mask) {
        (4, ..HEAD_DIM, _) => &[(12, 7)],
        (4, _, Mask::Full) => &[(6, 7)],
        (4, ..) => &[(8, 7), (5, 10)],
        (2, _, Mask::Full) => &[(8, 0), (6, 4), (2, 7)],
        (2, ..) => &[(12, 0), (8, 7), (3, 10)],
        _ => &[(0, 0)],
    }
}

/// Query tiles of `problem` in the grid of `variant`.
fn tiles(variant: &Variant<'_>, problem: &Problem) -> u64 {
    let shape = problem.shape();
    let of_a_head = query_tiles(shape.sequence, variant.config.block_m());
    // A planned problem has fewer than 2³¹ tiles.
    (u64::from(shape.batch) * u64::from(shape.heads)).saturating_mul(of_a_head.into())
}

impl Reason<'_> {
    /// The reason in a word or two, for a table.
    pub fn brief(&self) -> impl fmt::Display {
        Brief(self)
    }
}

struct Brief<'r, 'a>(&'r Reason<'a>);

impl fmt::Display for Brief<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::Predicted { us, .. } => write!(formatter, "predicted {us:.1} µs"),
            Reason::First(_) => formatter.write_str("preferred"),
            Reason::ShortSequences { .. } | Reason::SmallTiles { .. } | Reason::UnsuitedScores(_) => {
                formatter.write_str("small tiles")
            }
        }
    }
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Predicted { us, costs, same_model, next } => {
                write!(formatter, "expected to take {us:.1} µs")?;
                if !same_model {
                    write!(formatter, " at the speed of {}", costs.gpu)?;
                }
                match next {
                    Some((entry, us)) => write!(formatter, ", the next, {entry}, {us:.1}"),
                    None => formatter.write_str(", the only one that computes it"),
                }
            }
            Reason::First(kind) => write!(formatter, "first in order of preference {kind}"),
            Reason::ShortSequences { average, tile } => write!(
                formatter,
                "small tiles, since packed sequences of {average} rows on the average fill few of {tile}"
            ),
            Reason::SmallTiles { tiles, multiprocessors, kind } => write!(
                formatter,
                "small tiles, since the GPU has {multiprocessors} multiprocessors for {tiles} tiles of the first in order of \
                 preference {kind}"
            ),
            Reason::UnsuitedScores(unsuited) => write!(formatter, "small tiles, since {unsuited}"),
        }
    }
}

impl fmt::Display for Unsuited {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsuited::Window => formatter.write_str("the rows of large ones have few keys of the window in common"),
            Unsuited::Rounds { rows, mean } => write!(
                formatter,
                "one multiprocessor would have {rows} rows in large ones, and all have {mean} on the average in small ones"
            ),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "for sequence {}, {} mask, sm_{}", self.sequence, self.mask, self.architecture)
    }
}

/// How many checks of [`Plan::new`] `variant` passes: the refusal of one that passes most says best what would help.
fn passed_checks(variant: &Variant<'_>, problem: &Problem, gpu: &Gpu<'_>) -> u32 {
    match (variant.accepts_own_form(problem), variant.check_fits(gpu)) {
        (false, _) => 0,
        (true, Err(_)) => 1,
        (true, Ok(())) => 2,
    }
}

impl<'a, V: Iterator<Item = Variant<'a>> + Clone> fmt::Display for NoVariant<'_, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "no variant runs this problem on sm_{}:", self.gpu.architecture)?;
        let refusal = |variant| Plan::new(self.problem, variant, &self.gpu).err();
        if formatter.alternate() {
            let mut refused = self.variants.clone().filter_map(|variant| Some((variant.entry, refusal(variant)?)));
            return refused.try_for_each(|(entry, why)| write!(formatter, "\n  {entry} {why}"));
        }
        let passed = |variant: &Variant<'_>| passed_checks(variant, self.problem, &self.gpu);
        // Of several the last, which asks least of the GPU.
        let closest = self.variants.clone().max_by_key(passed);
        let Some((entry, why)) = closest.and_then(|variant| Some((variant.entry, refusal(variant)?))) else {
            return formatter.write_str(" there is none");
        };
        write!(formatter, " {entry} {why}")?;
        match self.variants.clone().count() - 1 {
            0 => Ok(()),
            others => write!(formatter, " (and {others} others do not)"),
        }
    }
}

#[cfg(test)]
mod tests;

//! Chooses the variant that computes a problem on a GPU: the one that is predicted to be the fastest. Without predictions, of those
//! with the narrowest tiles that hold the problem's rows, the one that the tuned table names, else the first in order of preference.

use core::cmp::Reverse;
use core::fmt;

use crate::class::ShapeClass;
use crate::config::{Element, HEAD_DIM};
use crate::cost::Costs;
use crate::geometry::query_tiles;
use crate::gpu::Gpu;
use crate::plan::Plan;
use crate::problem::Problem;
use crate::refusal::Refusal;
use crate::tile::{Configuration, Grid, Kind as TileKind};
use crate::tuned::{self, Row};
use crate::variants::Variant;

/// The chosen variant, planned, and why it is this one.
#[derive(Clone, Debug)]
pub struct Choice<'a> {
    /// The plan of its launch.
    pub plan: Plan<'a>,
    /// Why.
    pub reason: Reason<'a>,
}

/// Why a variant was chosen. `Display` says it in words.
#[derive(Clone, Debug)]
pub enum Reason<'a> {
    /// It is predicted to be the fastest.
    Predicted {
        /// The time that is predicted, µs.
        us: f64,
        /// Whose constants it is predicted by.
        costs: &'a Costs<'a>,
        /// Whether that is the GPU's own model.
        same_model: bool,
        /// The next, and its time in µs.
        next: Option<(&'a str, f64)>,
    },
    /// The tuned table names it.
    Tuned {
        /// The row of the table.
        row: Row<'a>,
        /// The class of the problem; the row's is the nearest to it.
        class: ShapeClass,
        /// Whether the row was measured on the same GPU model, or on another of its architecture.
        same_model: bool,
    },
    /// It comes before the others that accept the problem.
    First {
        /// What the tuned table had to say.
        untuned: Untuned<'a>,
        /// What the order is for.
        kind: Kind,
    },
    /// The tiles of the first in order of preference are too large for packed sequences of this length; this one has the
    /// smallest.
    ShortSequences {
        /// Rows of a sequence, on the average.
        average: u32,
        /// Rows of a tile of the first.
        tile: u32,
    },
    /// The first in order of preference has too few tiles to fill the GPU; this one has more.
    SmallTiles {
        /// Tiles of the first.
        tiles: u64,
        /// Multiprocessors of the GPU.
        multiprocessors: u32,
        /// What the tuned table had to say.
        untuned: Untuned<'a>,
        /// What the order is for.
        kind: Kind,
    },
}

/// The problem and GPU that an order of preference is for.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    sequence: u32,
    mask: &'static str,
    architecture: u32,
}

/// Why the tuned table did not decide.
#[derive(Clone, Debug)]
pub enum Untuned<'a> {
    /// It has nothing about such GPUs.
    NoRow,
    /// The variant that it names is not among those to choose from.
    NotThere(&'a str),
    /// The variant that it names does not compute the problem.
    Refused(&'a str, Refusal),
}

/// No variant computes the problem on the GPU. `Display` says of each why not.
#[derive(Clone, Debug)]
pub struct NoVariant<'p, V> {
    variants: V,
    problem: &'p Problem,
    gpu: Gpu<'p>,
}

/// Plans the launch of the best of `variants`, which are in order of preference, for `problem` on `gpu`: by the `costs`, else, of
/// those with the narrowest tiles, by the `tuned` rows.
///
/// # Errors
/// [`NoVariant`] when none computes the problem there.
pub fn choose<'a, 'p, V, T>(
    variants: V,
    costs: &'a [Costs<'a>],
    tuned: T,
    problem: &'p Problem,
    gpu: &Gpu<'p>,
) -> Result<Choice<'a>, NoVariant<'p, V>>
where
    V: Iterator<Item = Variant<'a>> + Clone,
    T: Iterator<Item = Row<'a>>,
{
    // What is simpler is faster.
    let simplified = &problem.simplified();
    // Wider tiles may be faster for a few short rows: predicted times are compared whatever the columns.
    if let Some(choice) = choose_by_cost(variants.clone(), costs, simplified, gpu) {
        return Ok(choice);
    }
    let choice = narrowest_columns(variants.clone(), simplified, gpu).and_then(|columns| {
        let are_narrowest = |variant: &Variant<'_>| variant.config.columns() == columns;
        let names_narrowest = |row: &Row<'_>| {
            let named = variants.clone().find(|variant| variant.entry == row.variant);
            named.as_ref().is_none_or(are_narrowest)
        };
        choose_among(variants.clone().filter(are_narrowest), tuned.filter(names_narrowest), simplified, gpu)
    });
    choice.ok_or(NoVariant { variants, problem, gpu: *gpu })
}

/// Whether `variant` computes `problem` on `gpu`.
pub fn computes(variant: &Variant<'_>, problem: &Problem, gpu: &Gpu<'_>) -> bool {
    variant.check_accepts(problem).is_ok() && variant.check_fits(gpu).is_ok()
}

/// Columns of the narrowest tiles among the variants that compute `problem` and are of the family of the first of them: what a row
/// lacks is computed and thrown away, which costs less than another family.
fn narrowest_columns<'a>(variants: impl Iterator<Item = Variant<'a>>, problem: &Problem, gpu: &Gpu<'_>) -> Option<u32> {
    let mut variants = variants.filter(|variant| computes(variant, problem, gpu));
    let first = variants.next()?;
    let alike = variants.filter(|variant| variant.family() == first.family());
    let columns = |variant: Variant<'_>| variant.config.columns();
    Some(alike.map(columns).fold(columns(first), u32::min))
}

/// The best of `variants`, planned.
fn choose_among<'a, V, T>(variants: V, tuned: T, problem: &Problem, gpu: &Gpu<'_>) -> Option<Choice<'a>>
where
    V: Iterator<Item = Variant<'a>> + Clone,
    T: Iterator<Item = Row<'a>>,
{
    let class = ShapeClass::new(problem.shape(), problem.mask(), gpu.multiprocessors);
    // Rows of the table are of sequences of one length.
    let row = if problem.packing().is_none() { tuned::find(tuned, gpu, &class) } else { None };
    let untuned = match row {
        None => Untuned::NoRow,
        Some(row) => match variants.clone().find(|variant| variant.entry == row.variant) {
            None => Untuned::NotThere(row.variant),
            Some(named) => match Plan::new(problem, of_element(variants.clone(), named, problem.element()), gpu) {
                Ok(plan) => {
                    let same_model = row.gpu == gpu.name;
                    return Some(Choice { plan, reason: Reason::Tuned { row, class, same_model } });
                }
                Err(refusal) => Untuned::Refused(row.variant, refusal),
            },
        },
    };
    choose_by_preference(variants, problem, gpu, untuned)
}

/// The one that is predicted to be the fastest, where a time is predicted of all that compute the problem.
fn choose_by_cost<'a>(
    variants: impl Iterator<Item = Variant<'a>>,
    costs: &'a [Costs<'a>],
    problem: &Problem,
    gpu: &Gpu<'_>,
) -> Option<Choice<'a>> {
    let costs = Costs::find(costs, gpu)?;
    let mut fastest: Option<(Variant<'a>, f64)> = None;
    let mut next = fastest;
    for variant in variants.filter(|variant| computes(variant, problem, gpu)) {
        let us = costs.predict(&variant, problem, gpu.multiprocessors)?;
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

/// Of `variants` the one that is as `named`, but for tensors of `element`: what is fast with 16-bit elements of one type is so
/// with the other. Itself, where there is none.
fn of_element<'a>(variants: impl Iterator<Item = Variant<'a>>, named: Variant<'a>, element: Element) -> Variant<'a> {
    let what = |variant: &Variant<'_>| (variant.config, variant.sequence, variant.mask);
    let mut alike = variants.filter(|variant| what(variant) == what(&named));
    alike.find(|variant| variant.element == element).unwrap_or(named)
}

/// The first that computes the problem; when it has too few tiles to fill the GPU, the one of its kind that has most.
fn choose_by_preference<'a, V>(
    variants: V,
    problem: &Problem,
    gpu: &Gpu<'_>,
    untuned: Untuned<'a>,
) -> Option<Choice<'a>>
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
    if let Some(average) = average_length(problem).filter(|&average| is_short(average, &first.variant().config)) {
        let smallest = plans().filter(is_alike).min_by_key(|plan| plan.variant().config.block_m());
        return Some(Choice { plan: smallest.unwrap_or(first), reason: Reason::ShortSequences { average, tile } });
    }
    let tiles = |plan: &Plan<'_>| tiles(&plan.variant(), problem);
    let multiprocessors = gpu.multiprocessors;
    if tiles(&first) < u64::from(multiprocessors) {
        let alike = |plan: &Plan<'_>| is_alike(plan) && tiles(plan) > tiles(&first);
        let smallest = plans()
            .filter(alike)
            .min_by_key(|plan| (Reverse(tiles(plan)), plan.variant().config.grid() != Grid::OneShot));
        if let Some(plan) = smallest {
            let reason = Reason::SmallTiles { tiles: tiles(&first), multiprocessors, untuned, kind };
            return Some(Choice { plan, reason });
        }
    }
    Some(Choice { plan: first, reason: Reason::First { untuned, kind } })
}

/// Rows of a packed sequence of `problem`, on the average; `None` where all sequences are of one length.
fn average_length(problem: &Problem) -> Option<u32> {
    problem.packing().map(|packing| problem.shape().sequence.div_ceil(packing.sequences))
}

/// Whether packed sequences of `average` rows leave too much of tiles of `config` empty (docs/results/packed.md). Tiles whose warpgroups
/// share K and V, the longest first, pay sooner; not those of short rows, which take little to read.
fn is_short(average: u32, config: &Configuration) -> bool {
    let sooner = config.kind() == TileKind::Sm90Tma && config.columns() >= HEAD_DIM;
    let (tiles, of) = if sooner { (3, 4) } else { (3, 2) };
    u64::from(average) * of < u64::from(config.block_m()) * tiles
}

/// Query tiles of `problem` that a grid of `variant` deals out.
fn tiles(variant: &Variant<'_>, problem: &Problem) -> u64 {
    let shape = problem.shape();
    let of_a_head = query_tiles(shape.sequence, variant.config.block_m());
    // A planned problem has fewer than 2³¹ tiles.
    (u64::from(shape.batch) * u64::from(shape.heads)).saturating_mul(of_a_head.into())
}

impl Reason<'_> {
    /// The reason in a word or two, for a line of a table.
    pub fn brief(&self) -> impl fmt::Display {
        Brief(self)
    }
}

struct Brief<'r, 'a>(&'r Reason<'a>);

impl fmt::Display for Brief<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::Predicted { us, .. } => write!(formatter, "predicted {us:.1} µs"),
            Reason::Tuned { .. } => formatter.write_str("tuned"),
            Reason::First { .. } => formatter.write_str("preferred"),
            Reason::ShortSequences { .. } | Reason::SmallTiles { .. } => formatter.write_str("small tiles"),
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
                    None => formatter.write_str(", and alone in computing it"),
                }
            }
            Reason::Tuned { row, class, same_model } => {
                write!(formatter, "tuned: the fastest for {} on {}", row.class, row.gpu)?;
                if !same_model {
                    write!(formatter, ", which is sm_{} too", row.architecture)?;
                }
                match row.class == *class {
                    true => Ok(()),
                    false => write!(formatter, ", the nearest to {class}"),
                }
            }
            Reason::First { untuned, kind } => write!(formatter, "first in order of preference {kind}{untuned}"),
            Reason::ShortSequences { average, tile } => write!(
                formatter,
                "small tiles, since packed sequences of {average} rows on the average fill few of {tile}"
            ),
            Reason::SmallTiles { tiles, multiprocessors, untuned, kind } => write!(
                formatter,
                "small tiles, since the GPU has {multiprocessors} multiprocessors for {tiles} tiles of the first in order of \
                 preference {kind}{untuned}"
            ),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "for sequence {}, {} mask, sm_{}", self.sequence, self.mask, self.architecture)
    }
}

impl fmt::Display for Untuned<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Untuned::NoRow => formatter.write_str(", for which nothing was tuned"),
            Untuned::NotThere(variant) => {
                write!(formatter, "; the tuned table's choice is passed over: {variant} is not in this PTX")
            }
            Untuned::Refused(variant, refusal) => {
                write!(formatter, "; the tuned table's choice is passed over: {variant} {refusal}")
            }
        }
    }
}

impl<'a, V: Iterator<Item = Variant<'a>> + Clone> fmt::Display for NoVariant<'_, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "no variant runs this problem on sm_{}:", self.gpu.architecture)?;
        for variant in self.variants.clone() {
            if let Err(refusal) = Plan::new(self.problem, variant, &self.gpu) {
                write!(formatter, "\n  {} {refusal}", variant.entry)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

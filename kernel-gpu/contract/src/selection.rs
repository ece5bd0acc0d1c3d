//! Chooses the variant that computes a problem on a GPU: the one that is predicted to be the fastest. Without predictions, of those
//! with the narrowest tiles that hold the problem's rows, the one that the tuned table names, else the first in order of preference.

use core::cmp::Reverse;
use core::fmt;

use crate::class::ShapeClass;
use crate::config::Element;
use crate::cost::Costs;
use crate::geometry::query_tiles;
use crate::gpu::Gpu;
use crate::plan::Plan;
use crate::problem::Problem;
use crate::refusal::Refusal;
use crate::tile::Grid;
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
fn computes(variant: &Variant<'_>, problem: &Problem, gpu: &Gpu<'_>) -> bool {
    variant.check_accepts(problem).is_ok() && variant.check_fits(gpu).is_ok()
}

/// Columns of the narrowest tiles among the variants that compute `problem`: what a row lacks is computed and thrown away.
fn narrowest_columns<'a>(variants: impl Iterator<Item = Variant<'a>>, problem: &Problem, gpu: &Gpu<'_>) -> Option<u32> {
    variants.filter(|variant| computes(variant, problem, gpu)).map(|variant| variant.config.columns()).min()
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
    if let Some(average) = average_length(problem).filter(|&average| is_short(average, tile)) {
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

/// Whether packed sequences of `average` rows leave too much of tiles of `tile` rows empty: on an H200, tiles of 256 rows are
/// faster than those of 64 from about 400 rows on (docs/results/packed.md).
const fn is_short(average: u32, tile: u32) -> bool {
    average as u64 * 2 < tile as u64 * 3
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
mod tests {
    extern crate std;

    use super::*;
    use crate::config::{Mask, Sequence};
    use crate::cost::{Constants, KernelClass};
    use crate::packed::Packing;
    use crate::problem::{Shape, Window};
    use crate::tile::{Configuration, Sm80, Sm90Tma};
    use crate::variants::VARIANTS;
    use crate::view::Layout;
    use std::string::{String, ToString};

    const MULTIPROCESSORS: u32 = 132;

    fn gpu(name: &str, architecture: u32) -> Gpu<'_> {
        Gpu { name, architecture, multiprocessors: MULTIPROCESSORS, shared_bytes_per_block: 227 * 1024 }
    }

    /// Variants of one kind: large tiles first, then small ones.
    fn variants() -> [Variant<'static>; 2] {
        let variant = |entry, tile| {
            let config = Configuration::Sm80(tile);
            Variant {
                entry,
                config,
                element: Element::F16,
                sequence: Sequence::Any,
                mask: Mask::Full,
                waits_for_previous_grid: false,
            }
        };
        [variant("large", Sm80::new(256, 64, 8, 2)), variant("small", Sm80::new(64, 64, 4, 2))]
    }

    /// As [`variants`], the small ones of either grid.
    fn variants_of_either_grid() -> [Variant<'static>; 3] {
        let variant = |entry, tile| {
            let config = Configuration::Sm90Tma(tile);
            Variant {
                entry,
                config,
                element: Element::F16,
                sequence: Sequence::Any,
                mask: Mask::Full,
                waits_for_previous_grid: true,
            }
        };
        let (large, small) = (Sm90Tma::new(4, 8), Sm90Tma::new(1, 4));
        let persistent = Sm90Tma { grid: Grid::Persistent, ..small };
        [variant("large", large), variant("persistent", persistent), variant("small", small)]
    }

    fn problem(batch: u32) -> Problem {
        Problem::new(Shape::new(batch, 8, 1024), Mask::Full, Layout::Bhsd).unwrap()
    }

    /// A table that holds `variant` as the fastest of 64 batches on an H200.
    fn tuned(variant: &str) -> Row<'_> {
        let class = ShapeClass::new(problem(64).shape(), Mask::Full, MULTIPROCESSORS);
        Row { gpu: "NVIDIA H200", architecture: 90, class, variant }
    }

    fn chosen(row: Option<Row<'static>>, gpu: &Gpu<'_>, batch: u32) -> (&'static str, String) {
        let problem = problem(batch);
        let choice = choose(variants().into_iter(), &[], row.into_iter(), &problem, gpu);
        let choice = choice.unwrap_or_else(|none| panic!("{none}"));
        (choice.plan.variant().entry, choice.reason.to_string())
    }

    #[test]
    fn the_tuned_table_decides_and_the_reason_says_what_it_rests_on() {
        let (name, reason) = chosen(Some(tuned("small")), &gpu("NVIDIA H200", 90), 64);
        assert_eq!(name, "small");
        assert_eq!(
            reason,
            "tuned: the fastest for sequences up to 1024, full mask, up to 4 heads a multiprocessor on NVIDIA H200"
        );
        let (name, reason) = chosen(Some(tuned("small")), &gpu("NVIDIA H100", 90), 1);
        assert_eq!(name, "small");
        assert!(reason.contains("NVIDIA H200, which is sm_90 too"), "{reason}");
        assert!(reason.contains("the nearest to sequences up to 1024, full mask, up to 0.0625 heads"), "{reason}");
    }

    #[test]
    fn a_window_as_wide_as_the_sequences_is_none() {
        let window = |left, right| problem(64).with_window(Window { left: Some(left), right: Some(right) });
        let chosen = |problem: &Problem| {
            let variants = VARIANTS.iter().copied();
            let choice = choose(variants, &[], None.into_iter(), problem, &gpu("NVIDIA H200", 90));
            choice.unwrap_or_else(|none| panic!("{none}")).plan.variant().mask
        };
        assert_eq!(chosen(&window(1023, 1023)), Mask::Full);
        assert_eq!(chosen(&window(1023, 0)), Mask::Causal);
        assert_eq!(chosen(&window(1022, 0)), Mask::Window);
    }

    #[test]
    fn a_gpu_that_was_never_tuned_gets_the_first_in_order_of_preference() {
        let (name, reason) = chosen(Some(tuned("small")), &gpu("NVIDIA L4", 89), 64);
        assert_eq!(name, "large");
        let expected = "first in order of preference for sequence 1024, full mask, sm_89, for which nothing was tuned";
        assert_eq!(reason, expected);
    }

    #[test]
    fn without_a_table_few_heads_get_small_tiles() {
        let (name, reason) = chosen(None, &gpu("NVIDIA L4", 89), 4);
        assert_eq!(name, "small");
        assert!(reason.contains("132 multiprocessors for 128 tiles of the first"), "{reason}");
        assert_eq!(chosen(None, &gpu("NVIDIA L4", 89), 5).0, "large", "160 tiles fill it");
    }

    #[test]
    fn among_small_tiles_those_of_a_one_shot_grid_come_first() {
        let variants = variants_of_either_grid().into_iter();
        let (problem, gpu) = (problem(4), gpu("NVIDIA H200", 90));
        let choice = choose(variants, &[], None.into_iter(), &problem, &gpu).unwrap_or_else(|none| panic!("{none}"));
        assert_eq!(choice.plan.variant().entry, "small");
    }

    /// Constants of `gpu` by which large tiles take less for a step of a row, and more for an item.
    fn constants(variants: &[Variant<'_>]) -> std::vec::Vec<(KernelClass, Constants)> {
        let of = |variant: &Variant<'_>| {
            let rows = f64::from(variant.config.block_m());
            let constants = Constants {
                resident: 1,
                launch_us: 2.0,
                item_us: rows / 64.0,
                step_us: 0.2 + rows / 1000.0,
                shared_step_us: 0.0,
                megabyte_us: 0.0,
                exposed: 0.0,
            };
            (KernelClass::of(variant), constants)
        };
        variants.iter().map(of).collect()
    }

    #[test]
    fn the_variant_that_is_expected_to_be_the_fastest_is_chosen_with_its_time() {
        let kernels = constants(&variants());
        let costs = [Costs { gpu: "NVIDIA H100", architecture: 90, kernels: &kernels }];
        let chosen = |name, batch| {
            let (problem, gpu) = (problem(batch), gpu(name, 90));
            let choice = choose(variants().into_iter(), &costs, Some(tuned("small")).into_iter(), &problem, &gpu);
            let choice = choice.unwrap_or_else(|none| panic!("{none}"));
            (choice.plan.variant().entry.to_string(), choice.reason.to_string())
        };
        let (entry, reason) = chosen("NVIDIA H100", 64);
        assert_eq!(entry, "large", "whatever the table says");
        assert_eq!(reason, "expected to take 182.7 µs, the next, small, 331.1");
        let (entry, reason) = chosen("NVIDIA H200", 1);
        assert_eq!(entry, "small");
        assert_eq!(reason, "expected to take 7.2 µs at the speed of NVIDIA H100, the next, large, 13.3");
    }

    #[test]
    fn the_table_decides_where_a_variant_has_no_constants() {
        let variants = variants();
        let kernels = constants(&variants);
        let costs = [Costs { gpu: "NVIDIA H100", architecture: 90, kernels: &kernels }];
        let config = Configuration::Sm90Tma(Sm90Tma::new(1, 4));
        let all = [variants[0], variants[1], Variant { entry: "other kind", config, ..variants[0] }];
        let (problem, gpu) = (problem(64), gpu("NVIDIA H200", 90));
        let choice = choose(all.into_iter(), &costs, Some(tuned("small")).into_iter(), &problem, &gpu);
        let choice = choice.unwrap_or_else(|none| panic!("{none}"));
        assert!(choice.reason.to_string().starts_with("tuned: "), "{}", choice.reason);
    }

    #[test]
    fn short_packed_sequences_get_small_tiles() {
        let packed = variants().map(|variant| Variant { sequence: Sequence::Packed, ..variant });
        let chosen = |sequences| {
            let problem = Problem::new(Shape::new(1, 8, 38_400), Mask::Full, Layout::Bshd).unwrap();
            let problem = problem.packed(Packing { sequences, longest: 512 }).unwrap();
            let choice =
                choose(packed.into_iter(), &[], Some(tuned("small")).into_iter(), &problem, &gpu("NVIDIA H200", 90));
            let choice = choice.unwrap_or_else(|none| panic!("{none}"));
            (choice.plan.variant().entry, choice.reason.to_string())
        };
        let (name, reason) = chosen(101);
        assert_eq!(name, "small");
        assert_eq!(reason, "small tiles, since packed sequences of 381 rows on the average fill few of 256");
        let (name, reason) = chosen(100);
        assert_eq!(name, "large", "384 rows are enough");
        assert!(reason.contains("for which nothing was tuned"), "rows of the table are of one length: {reason}");
    }

    #[test]
    fn the_tuned_table_counts_for_both_element_types() {
        let element = Element::Bf16;
        let bf16 = |variant: Variant<'static>, entry| Variant { entry, element, ..variant };
        let [large, small] = variants();
        let all = [large, small, bf16(large, "large_bf16"), bf16(small, "small_bf16")];
        let problem = problem(64).with_element(element);
        let choice = choose(all.into_iter(), &[], Some(tuned("small")).into_iter(), &problem, &gpu("NVIDIA H200", 90));
        let choice = choice.unwrap_or_else(|none| panic!("{none}"));
        assert_eq!(choice.plan.variant().entry, "small_bf16");
    }

    #[test]
    fn a_tuned_variant_that_is_not_there_is_passed_over_with_a_word() {
        let (name, reason) = chosen(Some(tuned("gone")), &gpu("NVIDIA H200", 90), 64);
        assert_eq!(name, "large");
        assert!(reason.contains("the tuned table's choice is passed over: gone is not in this PTX"), "{reason}");
    }

    #[test]
    fn without_predictions_the_narrowest_tiles_that_hold_a_row_are_chosen_whatever_is_tuned() {
        let of_columns = |entry, columns| {
            let [large, _] = variants();
            let Configuration::Sm80(tile) = large.config else { panic!("tiles of the sm_80 family") };
            Variant { entry, config: Configuration::Sm80(Sm80 { columns, ..tile }), ..large }
        };
        let [large, small] = variants();
        let all = [of_columns("wide", 128), large, small, of_columns("narrow", 32)];
        let kernels = constants(&all);
        let costs = [Costs { gpu: "NVIDIA H100", architecture: 90, kernels: &kernels }];
        let chosen = |costs, head_dim| {
            let shape = problem(64).shape().with_head_dim(head_dim);
            let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap();
            let tuned = Some(tuned("small")).into_iter();
            let choice = choose(all.into_iter(), costs, tuned, &problem, &gpu("NVIDIA H200", 90));
            choice.unwrap_or_else(|none| panic!("{none}")).plan.variant().entry
        };
        for (head_dim, entry) in [(8, "narrow"), (32, "narrow"), (40, "small"), (72, "wide")] {
            assert_eq!(chosen(&[], head_dim), entry, "{head_dim}");
        }
        assert_eq!(chosen(&costs, 8), "wide", "of equal predictions the first");
        assert_eq!(chosen(&costs, 72), "wide", "the others do not hold its rows");
    }

    #[test]
    fn a_row_wider_than_every_tile_is_refused_by_all_with_their_columns() {
        let shape = Shape::new(1, 8, 1024).with_head_dim(72);
        let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap();
        let refused = choose(variants().into_iter(), &[], None.into_iter(), &problem, &gpu("NVIDIA L4", 89));
        let message = refused.expect_err("tiles of 64 columns").to_string();
        assert!(message.contains("large computes a head_dim of at most 64, the problem's is 72"), "{message}");
    }

    #[test]
    fn where_no_variant_fits_each_says_why_not() {
        let (problem, gpu) = (problem(1), gpu("NVIDIA T4", 75));
        let message = match choose(variants().into_iter(), &[], None.into_iter(), &problem, &gpu) {
            Err(none) => none.to_string(),
            Ok(choice) => panic!("sm_75 is too old for {}", choice.plan.variant().entry),
        };
        assert!(
            message.starts_with("no variant runs this problem on sm_75:\n  large needs sm_80 or later"),
            "{message}"
        );
        assert_eq!(message.lines().count(), 3, "{message}");
    }
}

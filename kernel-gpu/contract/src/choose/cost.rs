//! Predicts the time of a launch from its tiles, rounds and bytes, with constants fitted to times that were measured over
//! the whole range of sizes (`fa512 map fit`).
//!
//! A launch has a fixed start and end. In between it computes and moves memory, mostly overlapped. Computing takes as long
//! as on the busiest multiprocessor. That is bounded by the latency of the steps of consecutive blocks there, or by the
//! throughput for the steps of all its blocks together, which share its units.

mod shipped;

use crate::launch::plan::MOST_COLUMNS_OF_MANY_KERNELS;
use crate::launch::variants::Variant;
use crate::schedule::geometry::{self, query_tiles};
use crate::schedule::parts::{self, Workspace};
use crate::schedule::split_keys::Split;
use crate::schedule::tile::{Configuration, Grid, Kind, Overlap};
use crate::spec::config::{Mask, WARPGROUP_ROWS};
use crate::spec::gpu::Gpu;
use crate::spec::problem::Problem;

pub use shipped::SHIPPED;

/// Kernels that share constants: what the model knows of a variant besides its load. Variants for one sequence length and for any
/// share them, and the first in order of preference is chosen among them. Element types share them too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
pub struct KernelClass {
    /// Kind of the tile.
    pub kind: Kind,
    /// Query rows of a work item.
    pub rows: u32,
    /// Keys per step.
    pub keys: u32,
    /// Groups of warps that share the keys of a step.
    pub key_groups: u32,
    /// Columns of a row.
    pub columns: u32,
    /// Minimum number of blocks that fit on a multiprocessor.
    pub blocks: u32,
    /// How items are spread over blocks.
    pub grid: Grid,
    /// What the softmax overlaps with.
    pub overlap: Overlap,
    /// The mask.
    pub mask: Mask,
}

/// Difference in columns, in tile size (octaves), in grid, in blocks, in overlap, in mask.
pub type Distance = (u32, u32, bool, u32, bool, bool);

impl KernelClass {
    /// The class of `variant`.
    pub const fn of(variant: &Variant<'_>) -> Self {
        Self::new(variant.config, variant.mask)
    }

    /// The class of kernels of `config`.
    pub const fn new(config: Configuration, mask: Mask) -> Self {
        Self {
            kind: config.kind(),
            rows: config.block_m(),
            keys: config.block_n(),
            key_groups: config.key_groups(),
            columns: config.columns(),
            blocks: config.min_blocks(),
            grid: config.grid(),
            overlap: config.overlap(),
            mask,
        }
    }

    /// The tile of its kernels.
    const fn tile(&self) -> parts::Tile {
        parts::Tile { rows: self.rows, step: self.keys }
    }

    /// How far `other` is from this class, most important difference first; `None` if its constants say nothing about this one.
    pub fn distance(&self, other: &Self) -> Option<Distance> {
        let octaves = |one: u32, other: u32| one.max(1).ilog2().abs_diff(other.max(1).ilog2());
        // O of wider tiles leaves room for so little else that their kernels are made otherwise.
        let is_wide = |of: &Self| of.columns > MOST_COLUMNS_OF_MANY_KERNELS;
        (self.kind == other.kind && is_wide(self) == is_wide(other)).then(|| {
            let tiles = octaves(self.rows, other.rows) + octaves(self.keys, other.keys);
            let columns = self.columns.abs_diff(other.columns);
            let blocks = self.blocks.abs_diff(other.blocks);
            (columns, tiles, self.grid != other.grid, blocks, self.overlap != other.overlap, self.mask != other.mask)
        })
    }
}

/// Where the blocks of a one-shot grid run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Blocks resident on a multiprocessor, if the grid does not determine it.
    pub resident: u32,
    /// Which of them compute the last ones.
    pub last: LastRound,
}

/// Which multiprocessors compute the blocks of the last round, if these do not fill all of them (docs/results/map.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastRound {
    /// As many multiprocessors as there are.
    Spread,
    /// Those whose blocks end first: blocks that end together are followed by as many, while other multiprocessors idle.
    Together,
}

/// Fitted constants of a class of kernels on a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Where its blocks run.
    pub placement: Placement,
    /// Start and end of a launch, µs.
    pub launch_us: f64,
    /// Start of one of the initial blocks, µs: the GPU starts them one after another.
    pub block_us: f64,
    /// Start and end of an item, µs.
    pub item_us: f64,
    /// Latency of a step of one block, µs.
    pub step_us: f64,
    /// Additional time of a step for the blocks that share its multiprocessor, µs.
    pub shared_step_us: f64,
    /// Time to move 10⁶ bytes, µs.
    pub megabyte_us: f64,
    /// Fraction of the shorter of computing and moving that is not hidden by the longer.
    pub exposed: f64,
}

/// Factor on the prediction of a class whose constants come from a class with another number of key groups: its predicted advantage
/// must exceed the possible error before it is preferred to a measured one.
const DOUBT: f64 = 1.4;

/// The constants of a GPU model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs<'a> {
    /// Its name, as the driver reports it.
    pub gpu: &'a str,
    /// Its architecture, such as 90 for `sm_90`.
    pub architecture: u32,
    /// Constants of its kernels.
    pub kernels: &'a [(KernelClass, Constants)],
}

/// How many times as long it takes to start and end an item of one strip where softmax overlaps across strips: those of the first item apart,
/// they are otherwise hidden behind the products of the item's other strip (docs/results/map.md).
const ALONE: f64 = 3.0;
/// Start and end of a launch that combines parts, µs.
const COMBINING_US: f64 = 2.5;

impl<'a> Costs<'a> {
    /// The costs of the same GPU model in `all`, else of one of the same architecture, else the first: their clocks differ, which
    /// changes the times of all kernels alike.
    pub fn find(all: &'a [Self], gpu: &Gpu<'_>) -> Option<&'a Self> {
        let of_architecture = |costs: &&Self| costs.architecture == gpu.architecture;
        all.iter().find(|costs| costs.gpu == gpu.name).or_else(|| all.iter().find(of_architecture)).or(all.first())
    }

    /// Predicted time of `variant` for `problem` on a GPU with `multiprocessors` multiprocessors, µs. `None` for packed sequences, whose
    /// lengths are unknown, for masks that were not measured, and for kinds of kernels without constants.
    pub fn predict(
        &self,
        variant: &Variant<'_>,
        problem: &Problem,
        multiprocessors: u32,
        workspace: Workspace,
    ) -> Option<f64> {
        let class = KernelClass::of(variant);
        match workspace {
            Workspace::Provided if variant.leaves_parts => {
                self.in_fastest_parts(&class, problem, multiprocessors).map(|(_, us)| us)
            }
            _ => self.predict_class(&class, problem, multiprocessors, 1),
        }
    }

    /// The number of [parts] in which kernels of `class`, which leave them, are predicted to be fastest, with the predicted
    /// time, µs.
    pub fn in_fastest_parts(&self, class: &KernelClass, problem: &Problem, multiprocessors: u32) -> Option<(u32, f64)> {
        let predict = |parts| self.predict_class(class, problem, multiprocessors, parts);
        let resident = self.constants(class)?.placement.resident;
        let candidates = parts::candidates(class.tile(), problem.shape(), class.mask, (multiprocessors, resident));
        let mut fastest = (1, predict(1)?);
        for parts in candidates.into_iter().flatten() {
            let us = predict(parts)?;
            if us < fastest.1 {
                fastest = (parts, us);
            }
        }
        Some(fastest)
    }

    /// [`Self::predict`] for kernels of `class`, with items in `parts` [parts].
    pub fn predict_class(
        &self,
        class: &KernelClass,
        problem: &Problem,
        multiprocessors: u32,
        parts: u32,
    ) -> Option<f64> {
        if problem.packing().is_some() || !matches!(class.mask, Mask::Full | Mask::Causal) {
            return None;
        }
        let constants = self.constants(class)?;
        Some(constants.predict(&Load::of(class, problem, multiprocessors, constants.placement, parts)))
    }

    /// The constants of `class`, else those derived from the nearest class; `None` if there is none of its kind.
    pub fn constants(&self, class: &KernelClass) -> Option<Constants> {
        if let Some((_, constants)) = self.kernels.iter().find(|(known, _)| known == class) {
            return Some(*constants);
        }
        let with_distance = |(known, constants): &'a (KernelClass, Constants)| {
            Some((class.distance(known)?, constants.of_another(known, class)))
        };
        self.kernels.iter().filter_map(with_distance).min_by_key(|(distance, _)| *distance).map(|(_, found)| found)
    }
}

/// The work of a launch, as the model counts it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Initial blocks.
    pub blocks: f64,
    /// Consecutive items on a multiprocessor, by how long they take to start and end.
    pub rounds: f64,
    /// Steps on the busiest multiprocessor: of the full rounds and of the last, if blocks take the places of others; else all in the
    /// second.
    pub steps: [Steps; 2],
    /// 10⁶ bytes of Q, K, V, O and LSE.
    pub megabytes: f64,
    /// 10⁶ bytes that [parts] leave for a second launch to combine.
    pub left_megabytes: f64,
}

/// Steps on a multiprocessor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Steps {
    /// Consecutive ones.
    pub consecutive: f64,
    /// Those of all its blocks together.
    pub shared: f64,
}

impl Load {
    /// The load of a kernel of `class` for `problem` on `multiprocessors` multiprocessors, with `placement` if the grid does not determine
    /// it, and items in `own_parts` [parts].
    pub fn of(
        class: &KernelClass,
        problem: &Problem,
        multiprocessors: u32,
        placement: Placement,
        own_parts: u32,
    ) -> Self {
        let shape = problem.shape();
        let resident = match class.grid {
            Grid::OneShot => placement.resident,
            Grid::Persistent | Grid::SplitKeys => class.blocks,
        };
        let heads = f64::from(shape.batch) * f64::from(shape.heads);
        let tiles = query_tiles(shape.sequence, class.rows);
        let parts = parts_of_an_item(class, problem, tiles, multiprocessors) * f64::from(own_parts);
        let items = heads * f64::from(tiles) * parts;
        let causal = class.mask == Mask::Causal;
        let square = shape.sequence.min(shape.kv_sequence);
        let longest = f64::from(if causal { square } else { shape.kv_sequence }.div_ceil(class.keys));
        let total = if causal {
            let tiles_of_square = query_tiles(square, class.rows);
            heads * (causal_steps(class, tiles_of_square, longest) + f64::from(tiles - tiles_of_square) * longest)
        } else {
            items / parts * longest
        };
        let work = Work { items, longest: round_up(longest / parts), total, is_even: !causal };
        let (multiprocessors, resident) = (f64::from(multiprocessors.max(1)), f64::from(resident.max(1)));
        let slots = multiprocessors * resident;
        let rounds = round_up(items / slots);
        let steps = match class.grid {
            Grid::OneShot if work.is_even && rounds > 1.0 => {
                work.in_rounds(rounds, multiprocessors, (resident, placement.last))
            }
            _ => [
                Steps::default(),
                Steps { consecutive: work.steps_of_one(slots), shared: work.steps_of_one(multiprocessors) },
            ],
        };
        let is_alone = class.overlap == Overlap::AcrossStrips && shape.sequence <= WARPGROUP_ROWS;
        Self {
            blocks: items.min(slots),
            rounds: if is_alone { 1.0 + ALONE * (rounds - 1.0) } else { rounds },
            steps,
            megabytes: shape.bytes() * 1e-6,
            left_megabytes: heads * parts::left_bytes(shape.sequence, own_parts, class.columns) * 1e-6,
        }
    }
}

/// Work items and their steps.
struct Work {
    items: f64,
    /// Steps of the longest item.
    longest: f64,
    /// Steps of all items.
    total: f64,
    /// Whether all items are equally long.
    is_even: bool,
}

impl Work {
    /// Steps of the busiest of `units` units that the items are dealt to one by one.
    fn steps_of_one(&self, units: f64) -> f64 {
        // Equal items take whole rounds. Of unequal items the longest come first, so the last are short: the more rounds, the shorter.
        // Measured (docs/results/map.md).
        match self.is_even {
            _ if self.items <= units => self.longest,
            true => round_up(self.items / units) * self.longest,
            false => (self.total / units + 0.25 * (units / self.items) * self.longest).max(self.longest),
        }
    }

    /// Steps of several rounds of equal items, each of which takes the place of one that ended: of the full rounds and of the last.
    fn in_rounds(&self, rounds: f64, multiprocessors: f64, (resident, last): (f64, LastRound)) -> [Steps; 2] {
        let (full_rounds, longest) = (rounds - 1.0, self.longest);
        let last = match last {
            LastRound::Spread => round_up((self.items - full_rounds * multiprocessors * resident) / multiprocessors),
            LastRound::Together => resident,
        };
        [
            Steps { consecutive: full_rounds * longest, shared: full_rounds * resident * longest },
            Steps { consecutive: longest, shared: last * longest },
        ]
    }
}

/// Blocks that share the keys of an item.
fn parts_of_an_item(class: &KernelClass, problem: &Problem, tiles: u32, multiprocessors: u32) -> f64 {
    let shape = problem.shape();
    let KernelClass { grid, rows, columns, keys: step, mask, .. } = *class;
    let split = Split { grid, rows, columns, step, mask };
    let cluster = |items| split.cluster(items, shape.kv_sequence, multiprocessors);
    geometry::work_items(shape.batch, shape.heads, tiles).map_or(1.0, |items| cluster(items).into())
}

/// Steps of a head under a causal mask: each tile's, up to its last attended key.
fn causal_steps(class: &KernelClass, tiles: u32, longest: f64) -> f64 {
    let (before_last, tiles_per_step) =
        (f64::from(tiles.saturating_sub(1)), f64::from(class.rows) / f64::from(class.keys));
    // If several tiles end within one step of keys, each rounds up to its end: by half of the others on average.
    let rounded_up = (0.5 * (1.0 - tiles_per_step)).max(0.0);
    before_last * (0.5 * tiles_per_step * f64::from(tiles) + rounded_up) + longest
}

/// Rounds a non-negative number up.
// `f64::ceil` is not in core.
fn round_up(number: f64) -> f64 {
    let whole = number as u64 as f64;
    if whole < number { whole + 1.0 } else { whole }
}

impl Constants {
    /// Constants for `other`, which was not measured, derived from those of class `own`: the latency of a step scales with a warp's
    /// keys and columns, its throughput with the number of products.
    pub fn of_another(&self, own: &KernelClass, other: &KernelClass) -> Self {
        let ratio = |of: fn(&KernelClass) -> u32| f64::from(of(other).max(1)) / f64::from(of(own).max(1));
        let (rows, keys) = (ratio(|class| class.rows), ratio(|class| class.keys));
        let (columns, groups) = (ratio(|class| class.columns), ratio(|class| class.key_groups));
        let doubt = if own.key_groups == other.key_groups { 1.0 } else { DOUBT };
        Self {
            placement: Placement {
                // As many warps are resident as before.
                resident: ((f64::from(self.placement.resident) / (rows * groups)) as u32).max(1),
                ..self.placement
            },
            launch_us: self.launch_us * doubt,
            block_us: self.block_us * doubt,
            item_us: self.item_us * doubt,
            step_us: self.step_us * doubt * keys * columns / groups,
            shared_step_us: self.shared_step_us * doubt * rows * keys * columns,
            megabyte_us: self.megabyte_us * doubt,
            exposed: self.exposed,
        }
    }

    /// Predicted time of a launch with `load`, µs.
    pub fn predict(&self, load: &Load) -> f64 {
        let stepping = |Steps { consecutive, shared }| (self.step_us * consecutive).max(self.shared_step_us * shared);
        let [full_rounds, last] = load.steps.map(stepping);
        let computing = self.item_us * load.rounds + full_rounds + last;
        let moving = self.megabyte_us * load.megabytes;
        // What parts leave is read where it was written, in L2.
        let combining =
            if load.left_megabytes > 0.0 { COMBINING_US + self.megabyte_us * load.left_megabytes } else { 0.0 };
        let starting = self.launch_us + self.block_us * load.blocks + combining;
        starting + computing.max(moving) + self.exposed * computing.min(moving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::tile::{Sm80, Sm90Tma};
    use crate::spec::problem::Shape;
    use crate::spec::view::Layout;

    const ONE_SHOT: Configuration = Configuration::Sm90Tma(Sm90Tma::new(1, 4));
    const LARGE: Configuration = Configuration::Sm90Tma(Sm90Tma { grid: Grid::Persistent, ..Sm90Tma::new(4, 8) });

    fn load(config: Configuration, mask: Mask, heads: u32, sequence: u32, resident: u32) -> Load {
        let problem = Problem::new(Shape::new(1, heads, sequence), mask, Layout::Bhsd).unwrap();
        let placement = Placement { resident, last: LastRound::Spread };
        Load::of(&KernelClass::new(config, mask), &problem, 132, placement, 1)
    }

    #[test]
    fn items_go_through_in_rounds_of_the_blocks_that_are_there() {
        let Load { blocks, rounds, steps, megabytes, .. } = load(ONE_SHOT, Mask::Full, 264, 64, 2);
        assert_eq!((blocks, rounds), (264.0, 1.0));
        assert_eq!(steps, [Steps::default(), Steps { consecutive: 1.0, shared: 2.0 }]);
        assert!((megabytes - 264.0 * 64.0 * 516.0 * 1e-6).abs() < 1e-12);
        let more = load(ONE_SHOT, Mask::Full, 265, 64, 2);
        assert_eq!(more.rounds, 2.0);
        assert_eq!(more.steps, [Steps { consecutive: 1.0, shared: 2.0 }, Steps { consecutive: 1.0, shared: 1.0 }]);
        let large = load(LARGE, Mask::Full, 133, 256, 7);
        assert_eq!(
            (large.rounds, large.steps[1].consecutive),
            (2.0, 8.0),
            "a persistent grid has the blocks that it says"
        );
    }

    #[test]
    fn the_last_blocks_share_multiprocessors_if_they_follow_others_together() {
        let problem = Problem::new(Shape::new(1, 2 * 264 + 5, 64), Mask::Full, Layout::Bhsd).unwrap();
        let last = |last| {
            let class = KernelClass::new(ONE_SHOT, Mask::Full);
            let [full_rounds, steps] = Load::of(&class, &problem, 132, Placement { resident: 2, last }, 1).steps;
            assert_eq!(full_rounds, Steps { consecutive: 2.0, shared: 4.0 });
            steps.shared
        };
        assert_eq!((last(LastRound::Spread), last(LastRound::Together)), (1.0, 2.0));
    }

    #[test]
    fn items_of_one_strip_start_and_end_alone() {
        let tile =
            Sm90Tma { columns: 128, grid: Grid::Persistent, overlap: Overlap::AcrossStrips, ..Sm90Tma::new(2, 5) };
        let rounds = |tile, sequence| load(Configuration::Sm90Tma(tile), Mask::Full, 3 * 132, sequence, 1).rounds;
        assert_eq!((rounds(tile, 65), rounds(tile, 64)), (3.0, 7.0));
        assert_eq!(rounds(Sm90Tma { overlap: Overlap::default(), ..tile }, 64), 3.0, "nothing overlaps across strips");
    }

    #[test]
    fn steps_of_a_causal_mask_are_those_up_to_the_diagonal() {
        let sm80 = |rows, keys| Configuration::Sm80(Sm80::new(rows, keys, 4, 2));
        for config in [ONE_SHOT, LARGE, sm80(128, 32), sm80(128, 64)] {
            for sequence in [64, 100, 256, 300, 1000, 4096] {
                let class = KernelClass::new(config, Mask::Causal);
                let tiles = query_tiles(sequence, class.rows);
                let last_key = |tile: u32| ((tile + 1) * class.rows).min(sequence);
                let exact: u32 = (0..tiles).map(|tile| last_key(tile).div_ceil(class.keys)).sum();
                let steps = causal_steps(&class, tiles, f64::from(sequence.div_ceil(class.keys)));
                assert_eq!(steps, f64::from(exact), "{config:?} {sequence}");
            }
        }
    }

    #[test]
    fn tiles_that_are_smaller_than_a_step_of_keys_round_up() {
        let class = KernelClass::new(Configuration::Sm80(Sm80::new(16, 64, 1, 2)), Mask::Causal);
        let exact: u32 = (0..64u32).map(|tile| ((tile + 1) * 16).div_ceil(64)).sum();
        let steps = causal_steps(&class, 64, 16.0);
        assert!((steps / f64::from(exact) - 1.0).abs() < 0.02, "{steps}, not {exact}");
    }

    const CONSTANTS: Constants = Constants {
        placement: Placement { resident: 2, last: LastRound::Spread },
        launch_us: 2.0,
        block_us: 0.125,
        item_us: 1.0,
        step_us: 0.5,
        shared_step_us: 0.3,
        megabyte_us: 0.25,
        exposed: 0.5,
    };

    #[test]
    fn the_longer_of_computing_and_moving_counts_and_a_part_of_the_other() {
        let steps = [Steps { consecutive: 10.0, shared: 10.0 }, Steps { consecutive: 2.0, shared: 10.0 }];
        let load = Load { blocks: 8.0, rounds: 2.0, steps, megabytes: 8.0, left_megabytes: 0.0 };
        assert_eq!(CONSTANTS.predict(&load), 2.0 + 1.0 + (2.0 + 5.0 + 3.0) + 0.5 * 2.0);
        let load = Load { megabytes: 48.0, ..load };
        assert_eq!(CONSTANTS.predict(&load), 2.0 + 1.0 + 12.0 + 0.5 * 10.0);
    }

    #[test]
    fn constants_are_those_of_the_nearest_class_on_the_nearest_gpu() {
        let class = |config| KernelClass::new(config, Mask::Full);
        let (slow, fast) = (Constants { launch_us: 9.0, ..CONSTANTS }, CONSTANTS);
        let kernels = [(class(ONE_SHOT), fast), (class(LARGE), slow)];
        let costs = |gpu, architecture| Costs { gpu, architecture, kernels: &kernels };
        let all = [costs("NVIDIA L4", 89), costs("NVIDIA H100", 90), costs("NVIDIA H200", 90)];
        let gpu = |name, architecture| Gpu { name, architecture, multiprocessors: 132, shared_bytes_per_block: 0 };
        let found = |name, architecture| Costs::find(&all, &gpu(name, architecture)).map(|costs| costs.gpu);
        assert_eq!(found("NVIDIA H200", 90), Some("NVIDIA H200"));
        assert_eq!(found("NVIDIA GH200", 90), Some("NVIDIA H100"), "of its architecture");
        assert_eq!(found("NVIDIA A100", 80), Some("NVIDIA L4"), "any");
        assert_eq!(Costs::find(&[], &gpu("NVIDIA L4", 89)), None);
        let launch = |config| all[0].constants(&class(config)).map(|constants| constants.launch_us);
        let three_warpgroups = Configuration::Sm90Tma(Sm90Tma { grid: Grid::Persistent, ..Sm90Tma::new(3, 8) });
        assert_eq!((launch(ONE_SHOT), launch(three_warpgroups)), (Some(2.0), Some(9.0)));
        assert_eq!(launch(Configuration::Sm80(Sm80::new(128, 64, 4, 2))), None, "another kind");
    }

    #[test]
    fn steps_of_another_class_are_expected_by_their_keys_and_products() {
        let class = |tile| KernelClass::new(Configuration::Sm80(tile), Mask::Full);
        let own = class(Sm80::new(32, 32, 2, 2));
        assert_eq!(CONSTANTS.of_another(&own, &own), CONSTANTS);
        let larger = CONSTANTS.of_another(&own, &class(Sm80::new(64, 64, 4, 2)));
        let placement = Placement { resident: 1, ..CONSTANTS.placement };
        let expected = Constants { placement, step_us: 1.0, shared_step_us: 1.2, ..CONSTANTS };
        assert_eq!(larger, expected, "twice the keys, four times the products");
        let wider = CONSTANTS.of_another(&own, &class(Sm80 { columns: 96, ..Sm80::new(32, 32, 2, 2) }));
        assert_eq!(
            wider,
            Constants { step_us: 0.75, shared_step_us: 0.3 * 1.5, ..CONSTANTS },
            "half as many products more"
        );
        let shared = CONSTANTS.of_another(&own, &class(Sm80 { key_groups: 4, ..Sm80::new(32, 64, 8, 2) }));
        assert_eq!(shared.step_us, 0.25 * DOUBT, "each group has half of the keys");
        assert_eq!(shared.shared_step_us, 0.6 * DOUBT);
        assert_eq!(shared.launch_us, 2.0 * DOUBT, "doubt is about the whole time");
    }
}

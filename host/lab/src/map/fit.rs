//! Fits the constants of predicted times ([`contract::cost`]) to the times of maps.

mod minimise;
mod source;

use std::collections::BTreeMap;

use contract::config::{Mask, Sequence};
use contract::cost::{Constants, Costs, KernelClass, LastRound, Load, Placement};
use contract::problem::Problem;
use contract::tile::Grid;
use contract::variants::Variant;

use super::summary::Spread;
use super::times::{Gpu, KernelTime, Point, Times};
use cli::error::Result;
use minimise::minimise;
pub use source::source;

/// Candidates for the number of resident blocks per multiprocessor of a one-shot grid.
const RESIDENT: [u32; 6] = [1, 2, 3, 4, 6, 8];
/// Usual number of folds of the cross-validation.
pub const FOLDS: usize = 4;
/// Weight of the deviation of a constant from its expected value, per point of equal deviation (logarithmic).
const WEIGHT_OF_EXPECTED: f64 = 0.02;

/// Prior of the constants.
const EXPECTED: Constants = Constants {
    placement: Placement { resident: 2, last: LastRound::Spread },
    launch_us: 2.0,
    block_us: 0.004,
    item_us: 1.0,
    step_us: 0.6,
    shared_step_us: 0.3,
    megabyte_us: 0.35,
    exposed: 0.3,
};

/// The fitted constants of a GPU model, with their quality.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Its name.
    pub gpu: String,
    /// Its architecture.
    pub architecture: u32,
    /// Copy bandwidth, 10¹² bytes per second, if measured.
    pub copy: Option<f64>,
    /// Its kernels, those with most points first; then those that were measured only on another GPU model.
    pub kernels: Vec<FittedKernel>,
    /// Cross-validated regret: times of the kernels chosen by constants of other points, over the fastest of their
    /// points. Absent without folds, or if there are too few points.
    pub regret: Option<Spread>,
}

/// The fitted constants of a class of kernels, with their quality.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedKernel {
    /// The class.
    pub class: KernelClass,
    /// The constants.
    pub constants: Constants,
    /// Number of times that they were fitted to; 0 if they come from another GPU model.
    pub times: usize,
    /// Root mean square of log(predicted / measured).
    pub error: f64,
}

/// The times of our kernels for a problem.
struct Measured {
    problem: Problem,
    times: Vec<KernelTime>,
}

/// A GPU model: name, architecture, number of multiprocessors.
type Model = (String, u32, u32);

/// Fits constants to `all` times, for each of their GPU models; then again without each of `folds` parts of the points, for the
/// regret there. Calls `on_kernel` whenever a kernel is fitted.
///
/// # Errors
/// [`Error::Invalid`](cli::error::Error::Invalid) when a problem of a point is not accepted.
pub fn fit(all: &[Times], folds: usize, on_kernel: &dyn Fn()) -> Result<Vec<Fit>> {
    let mut gpus: BTreeMap<Model, (Vec<Measured>, Option<f64>)> = BTreeMap::new();
    for times in all {
        let Gpu { name, architecture, multiprocessors, copy_terabytes_per_second } = &times.gpu;
        let (points, copy) = gpus.entry((name.clone(), *architecture, *multiprocessors)).or_default();
        points.extend(measured(times)?);
        *copy = copy_terabytes_per_second.iter().copied().chain(*copy).reduce(f64::max);
    }
    let fit = |((gpu, architecture, multiprocessors), (mut points, copy)): (_, (Vec<Measured>, _))| {
        // The search ends at other constants if the same times come in another order, so they get one of their own.
        points.sort_by_cached_key(|point| format!("{:?} {:?}", point.problem, point.times));
        let kernels = fit_points(&points.iter().collect::<Vec<_>>(), multiprocessors, on_kernel);
        Fit { gpu, architecture, copy, kernels, regret: regret(&points, multiprocessors, folds, on_kernel) }
    };
    let mut fits: Vec<_> = gpus.into_iter().map(fit).collect();
    complete(&mut fits);
    Ok(fits)
}

/// Gives each GPU model the kernels measured only on others of its architecture, with its own copy bandwidth.
fn complete(fits: &mut [Fit]) {
    let measured = fits.to_vec();
    for fit in fits {
        for other in measured.iter().filter(|other| other.architecture == fit.architecture) {
            let slower = other.copy.zip(fit.copy).map_or(1.0, |(others, own)| others / own);
            for kernel in &other.kernels {
                if fit.kernels.iter().all(|known| known.class != kernel.class) {
                    let megabyte_us = kernel.constants.megabyte_us * slower;
                    let constants = Constants { megabyte_us, ..kernel.constants };
                    fit.kernels.push(FittedKernel { constants, times: 0, ..*kernel });
                }
            }
        }
    }
}

/// The points of `times`.
fn measured(times: &Times) -> Result<Vec<Measured>> {
    let point = |point: &Point| Ok(Measured { problem: own_form(&point.problem()?), times: point.times.clone() });
    times.points.iter().map(point).collect()
}

/// `problem` in the form in which its kernels compute it.
fn own_form(problem: &Problem) -> Problem {
    let simplified = problem.simplified();
    if simplified.mask() == Mask::Full { simplified.with_groups_as_rows() } else { simplified }
}

/// The constants of every class, those with most times first; the prior of later ones is derived from them.
fn fit_points(points: &[&Measured], multiprocessors: u32, on_kernel: &dyn Fn()) -> Vec<FittedKernel> {
    let mut classes: Vec<(KernelClass, Vec<(&Problem, KernelTime)>)> = Vec::new();
    for point in points {
        for time in &point.times {
            match classes.iter_mut().find(|(known, _)| *known == time.class) {
                Some((_, times)) => times.push((&point.problem, *time)),
                None => classes.push((time.class, vec![(&point.problem, *time)])),
            }
        }
    }
    classes.sort_by_cached_key(|(class, times)| (std::cmp::Reverse(times.len()), format!("{class:?}")));
    let mut fitted: Vec<FittedKernel> = Vec::new();
    for (class, times) in &classes {
        let alike = fitted.iter().filter_map(|kernel| Some((class.distance(&kernel.class)?, kernel.constants)));
        let expected = alike.min_by_key(|(distance, _)| *distance).map_or(EXPECTED, |(_, constants)| constants);
        fitted.push(fit_class(class, times, multiprocessors, &expected));
        on_kernel();
    }
    fitted
}

/// The constants that minimise the deviation of predicted from measured `times`, in logarithms.
fn fit_class(
    class: &KernelClass,
    times: &[(&Problem, KernelTime)],
    multiprocessors: u32,
    expected: &Constants,
) -> FittedKernel {
    let of = |placement: Placement| {
        let load = |problem: &Problem, parts| Load::of(class, problem, multiprocessors, placement, parts);
        let loads: Vec<_> = times.iter().map(|(problem, time)| (load(problem, time.parts), time.us.ln())).collect();
        let square = |constants: &Constants| {
            let errors = loads.iter().map(|(load, us)| constants.predict(load).ln() - us);
            errors.map(|error| error * error).sum::<f64>() / loads.len() as f64
        };
        let expected = logarithms(expected);
        let unexpected = |logarithms: &[f64; 7]| {
            let apart = logarithms.iter().zip(&expected).map(|(one, other)| (one - other).powi(2));
            WEIGHT_OF_EXPECTED * apart.sum::<f64>() / loads.len() as f64
        };
        let (found, cost) = minimise(expected, |point| square(&constants(placement, point)) + unexpected(point));
        let constants = constants(placement, &found);
        (cost, FittedKernel { class: *class, constants, times: times.len(), error: square(&constants).sqrt() })
    };
    let spread = |resident| Placement { resident, last: LastRound::Spread };
    let placements = match class.grid {
        Grid::OneShot => {
            let together = |resident| Placement { last: LastRound::Together, ..spread(resident) };
            // With one block on a multiprocessor, both are the same.
            let several = RESIDENT.into_iter().filter(|resident| *resident > 1).map(together);
            RESIDENT.into_iter().map(spread).chain(several).collect()
        }
        Grid::Persistent | Grid::SplitKeys => vec![spread(class.blocks)],
    };
    let best = placements.into_iter().map(of).min_by(|a, b| a.0.total_cmp(&b.0));
    best.expect("there is at least one placement").1
}

/// Logarithms of the constants, except the number of blocks; zeros count as tiny.
fn logarithms(constants: &Constants) -> [f64; 7] {
    let Constants { placement: _, launch_us, block_us, item_us, step_us, shared_step_us, megabyte_us, exposed } =
        *constants;
    [launch_us, block_us, item_us, step_us, shared_step_us, megabyte_us, exposed]
        .map(|constant| constant.max(1e-6).ln())
}

fn constants(placement: Placement, logarithms: &[f64; 7]) -> Constants {
    let [launch_us, block_us, item_us, step_us, shared_step_us, megabyte_us, exposed] = logarithms.map(f64::exp);
    Constants { placement, launch_us, block_us, item_us, step_us, shared_step_us, megabyte_us, exposed }
}

/// Regret at the points of each fold with constants fitted to the others.
fn regret(points: &[Measured], multiprocessors: u32, folds: usize, on_kernel: &dyn Fn()) -> Option<Spread> {
    if points.len() / 2 < folds {
        return None;
    }
    let mut regrets = Vec::new();
    for fold in 0..folds {
        let is_held_out = |index: usize| index % folds == fold;
        let others: Vec<_> =
            points.iter().enumerate().filter(|(index, _)| !is_held_out(*index)).map(|(_, point)| point).collect();
        let kernels = pairs(&fit_points(&others, multiprocessors, on_kernel));
        let costs = Costs { gpu: "", architecture: 0, kernels: &kernels };
        let held_out = points.iter().enumerate().filter(|(index, _)| is_held_out(*index));
        regrets.extend(held_out.filter_map(|(_, point)| point.regret(&costs, multiprocessors)));
    }
    Spread::new(regrets)
}

/// The kernels in the form of [`Costs`].
pub fn pairs(kernels: &[FittedKernel]) -> Vec<(KernelClass, Constants)> {
    kernels.iter().map(|kernel| (kernel.class, kernel.constants)).collect()
}

impl Measured {
    /// Time of the kernel chosen by `costs` over that of the fastest; `None` if there is no choice.
    fn regret(&self, costs: &Costs<'_>, multiprocessors: u32) -> Option<f64> {
        let predicted =
            |time: &KernelTime| costs.predict_class(&time.class, &self.problem, multiprocessors, time.parts);
        let chosen = self.times.iter().filter_map(|time| Some((predicted(time)?, time.us)));
        let chosen = chosen.min_by(|a, b| a.0.total_cmp(&b.0))?.1;
        let fastest = self.times.iter().map(|time| time.us).fold(f64::INFINITY, f64::min);
        (self.times.len() > 1).then_some(chosen / fastest)
    }
}

/// Constants for every class of kernels in `variants` that has sequences of one length and a predicted mask, from the
/// nearest fitted class; without classes of a kind that was not fitted.
pub fn of_variants(kernels: &[FittedKernel], variants: &[Variant<'_>]) -> Vec<(KernelClass, Constants)> {
    let kernels = pairs(kernels);
    let costs = Costs { gpu: "", architecture: 0, kernels: &kernels };
    let mut found: Vec<(KernelClass, Constants)> = Vec::new();
    let is_predicted = |variant: &&Variant<'_>| variant.sequence != Sequence::Packed && variant.mask != Mask::Window;
    for variant in variants.iter().filter(is_predicted) {
        let class = KernelClass::of(variant);
        if let Some(constants) = costs.constants(&class)
            && found.iter().all(|(known, _)| *known != class)
        {
            found.push((class, constants));
        }
    }
    found
}

/// The regret of `costs` at the points of `times`: those of the chosen kernels over those of the fastest.
///
/// # Errors
/// When the problem of a point is not accepted.
pub fn regret_of(times: &Times, costs: &Costs<'_>) -> Result<Option<Spread>> {
    let multiprocessors = times.gpu.multiprocessors;
    let points = measured(times)?;
    Ok(Spread::new(points.iter().filter_map(|point| point.regret(costs, multiprocessors))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::record::tests::{header, measured as outcome, point};
    use crate::map::record::{Map, OURS};
    use cli::record::Kernel;
    use contract::cost;
    use contract::tile::{Configuration, Sm90Tma};
    use contract::variants::VARIANTS;
    use std::path::Path;

    const SMALL: Configuration = Configuration::Sm90Tma(Sm90Tma::new(1, 4));
    const LARGE: Configuration = Configuration::Sm90Tma(Sm90Tma { grid: Grid::Persistent, ..Sm90Tma::new(4, 8) });
    const MULTIPROCESSORS: u32 = 132;

    fn truth(config: Configuration) -> Constants {
        match config == SMALL {
            true => {
                let placement = Placement { last: LastRound::Together, ..EXPECTED.placement };
                Constants { placement, launch_us: 1.5, item_us: 0.9, step_us: 0.4, shared_step_us: 0.25, ..EXPECTED }
            }
            false => Constants { launch_us: 1.8, item_us: 2.2, step_us: 0.8, shared_step_us: 0.1, ..EXPECTED },
        }
    }

    fn times(map: &Map) -> Times {
        Times::of(map, "map").unwrap()
    }

    fn fit_all(maps: &[Map]) -> Result<Vec<Fit>> {
        fit(&maps.iter().map(times).collect::<Vec<_>>(), FOLDS, &|| {})
    }

    /// A map in which the kernels take the model's times, up to `noise`.
    fn map(noise: f64) -> Map {
        let mut header = header();
        header.environment.device.multiprocessors = MULTIPROCESSORS;
        let kernel = |entry: &str, config| Kernel { entry: entry.into(), config: Some(config) };
        header.kernels = vec![kernel("small", SMALL), kernel("large", LARGE)];
        let sizes = [1, 3, 10, 40, 132, 200, 500, 2000]
            .into_iter()
            .flat_map(|heads| [16, 60, 130, 300, 700, 1500, 4000, 8000].map(|sequence| (heads, sequence)));
        let points = sizes.enumerate().map(|(index, (heads, sequence))| {
            let time = |config, sign: f64| {
                let case = point((1, heads, sequence), vec![]).case;
                let problem = case.problem().unwrap();
                let class = KernelClass::new(config, Mask::Full);
                let load = Load::of(&class, &problem, MULTIPROCESSORS, truth(config).placement, 1);
                truth(config).predict(&load) * (1.0 + sign * noise * (index as f64 * 0.7).sin())
            };
            let results = vec![
                outcome(OURS, Some("small"), time(SMALL, 1.0)),
                outcome("variant:large", Some("large"), time(LARGE, -1.0)),
                outcome("torch:cudnn", None, 3.0),
            ];
            point((1, heads, sequence), results)
        });
        Map { points: points.collect(), header }
    }

    #[test]
    fn constants_that_made_the_times_are_found_again() {
        let [fit] = &fit_all(&[map(0.0)]).unwrap()[..] else { panic!("one GPU") };
        assert_eq!((fit.gpu.as_str(), fit.kernels.len()), ("NVIDIA H200", 2));
        for kernel in &fit.kernels {
            assert!(kernel.error < 0.02 && kernel.times == 64, "{kernel:?}");
            let truth = truth(if kernel.class.grid == Grid::OneShot { SMALL } else { LARGE });
            assert_eq!(kernel.constants.placement.last, truth.placement.last, "{kernel:?}");
        }
        let regret = fit.regret.expect("enough points");
        assert!(regret.mean < 1.002 && regret.count == 64, "{regret:?}");
    }

    #[test]
    fn constants_do_not_depend_on_folds_and_every_kernel_is_told_of() {
        let told = std::cell::Cell::new(0);
        let fit = |folds| fit(&[times(&map(0.05))], folds, &|| told.set(told.get() + 1)).unwrap().remove(0);
        let alone = fit(0);
        assert_eq!((alone.regret, told.get()), (None, 2));
        assert_eq!(fit(3).kernels, alone.kernels);
        assert_eq!(told.get(), 2 + 2 * (1 + 3));
    }

    #[test]
    fn the_order_of_the_records_does_not_matter() {
        let (first, second) = (map(0.05), map(0.2));
        assert_eq!(fit_all(&[first.clone(), second.clone()]).unwrap(), fit_all(&[second, first]).unwrap());
    }

    #[test]
    fn what_was_not_measured_on_a_gpu_model_is_as_on_another_of_its_architecture() {
        let (mut first, mut second) = (map(0.0), map(0.0));
        first.header.environment.device.name = "A".into();
        first.header.kernels.pop();
        let with_copy = |copy| cli::record::Ceilings { copy_terabytes_per_second: Some(copy), tensor: vec![] };
        (first.header.ceilings, second.header.ceilings) = (with_copy(3.0), with_copy(4.0));
        let [first, second] = &fit_all(&[first, second]).unwrap()[..] else { panic!("two GPUs") };
        let large = |fit: &Fit| {
            let class = KernelClass::new(LARGE, Mask::Full);
            *fit.kernels.iter().find(|kernel| kernel.class == class).expect("it has constants")
        };
        let (borrowed, own) = (large(first), large(second));
        assert_eq!((first.gpu.as_str(), borrowed.times, own.times), ("A", 0, 64));
        assert_eq!(borrowed.constants.step_us, own.constants.step_us);
        let slower = borrowed.constants.megabyte_us / own.constants.megabyte_us;
        assert!((slower - 4.0 / 3.0).abs() < 1e-9, "bytes take {slower} times as long");
    }

    #[test]
    fn every_shipped_variant_gets_the_constants_of_the_nearest_class() {
        let [fit] = &fit_all(&[map(0.0)]).unwrap()[..] else { panic!("one GPU") };
        let shipped = of_variants(&fit.kernels, VARIANTS);
        let of = |entry: &str| {
            let variant = VARIANTS.iter().find(|variant| variant.entry == entry).expect("it is shipped");
            shipped.iter().find(|(class, _)| *class == KernelClass::of(variant)).map(|(_, constants)| *constants)
        };
        let fitted = |config| {
            let class = KernelClass::new(config, Mask::Full);
            fit.kernels.iter().find(|kernel| kernel.class == class).map(|kernel| kernel.constants)
        };
        assert_eq!(of("fa512_sm90a_tma_any_full_256x64"), fitted(LARGE));
        let steps = |constants: Option<Constants>| constants.map(|one| (one.step_us, one.shared_step_us));
        let (own, shared) = steps(fitted(LARGE)).expect("it was fitted");
        let twice_as_tall = steps(of("fa512_sm90a_tma_s512_full_512x64"));
        assert_eq!(twice_as_tall, Some((own, 2.0 * shared)), "the nearest, with twice the rows");
        assert_eq!(of("fa512_sm90a_tma_any_causal_64x64"), fitted(SMALL), "of the other mask");
        assert_eq!(of("fa512_sm80_any_full_128x64"), None, "of a kind that was not measured");
    }

    #[test]
    fn choices_by_the_model_survive_noise() {
        let map = map(0.1);
        let fits = fit_all(std::slice::from_ref(&map)).unwrap();
        assert!((0.03..0.09).contains(&fits[0].kernels[0].error), "{:?}", fits[0].kernels);
        let kernels = pairs(&fits[0].kernels);
        let costs = Costs { gpu: "NVIDIA H200", architecture: 90, kernels: &kernels };
        let regret = regret_of(&times(&map), &costs).unwrap().expect("points");
        assert!(regret.mean < 1.02 && regret.highest < 1.3, "{regret:?}");
        let always_small = Costs { kernels: &kernels[..1], ..costs };
        let blind = regret_of(&times(&map), &always_small).unwrap().expect("points");
        assert!(blind.highest > 1.3 && blind.mean > regret.mean, "the points have something to choose: {blind:?}");
    }

    #[test]
    fn the_shipped_constants_choose_well_on_the_maps_that_they_were_fitted_to() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/map");
        let tables = ["h100", "h200"].map(|gpu| Times::load(&folder.join(format!("{gpu}.jsonl"))).unwrap());
        // For each map, bounds of the mean and of the highest regret.
        for (name, [mean, highest]) in [
            ("h100", [1.012, 1.3]),
            ("h200", [1.012, 1.3]),
            ("h100-split-keys", [1.025, 1.3]),
            ("h100-d64-fresh", [1.02, 1.3]),
            ("h100-wide-fresh", [1.02, 1.3]),
            ("h200-d64-fresh", [1.02, 1.3]),
            ("h200-wide-fresh", [1.01, 1.3]),
            ("h200-short-wide-fresh", [1.01, 1.3]),
            ("h200-few-wide", [1.02, 1.3]),
            ("lines/h100-few-3", [1.01, 1.2]),
            ("lines/h100-any-3", [1.01, 1.2]),
            ("prefetch/h100-short", [1.01, 1.1]),
            ("prefetch/h100-mid", [1.03, 1.3]),
            ("tiles-96/h100-mid", [1.03, 1.3]),
            ("tiles-96/h100-long", [1.03, 1.3]),
            // Up to 64 rows, only times of `mma.sync` count.
            ("tiles-96/h100-heads", [1.01, 1.2]),
            ("tiles-96/h100-any", [1.03, 1.2]),
            ("tiles-96/h100-short", [1.02, 1.1]),
            ("few-heads/h100-few64", [1.02, 1.3]),
            ("few-heads/h100-few128", [1.03, 1.5]),
            ("few-heads/h100-short128", [1.02, 1.2]),
            ("few-heads/h100-any64", [1.02, 1.2]),
            ("few-heads/h100-any128", [1.03, 1.3]),
            ("other-keys/h100-d64", [1.02, 1.2]),
            ("other-keys/h200-d96", [1.01, 1.1]),
            ("other-keys/h200-d128", [1.02, 1.2]),
            ("combined/h100-any", [1.02, 1.2]),
            ("combined/h100-d64", [1.03, 1.35]),
            ("combined/h100-d128", [1.01, 1.25]),
            ("combined/h200-any", [1.02, 1.3]),
        ] {
            let is_of_record = |point: &&Point| point.record == name;
            let table = tables.iter().find(|table| table.points.iter().any(|point| is_of_record(&point)));
            let mut times = table.unwrap_or_else(|| panic!("no table has times of {name}")).clone();
            times.points.retain(|point| is_of_record(&point));
            // A kernel that is not shipped cannot be chosen.
            times.retain(|class| VARIANTS.iter().any(|variant| KernelClass::of(variant) == *class));
            let costs = cost::SHIPPED.iter().find(|costs| costs.gpu == times.gpu.name).expect("constants are shipped");
            let regret = regret_of(&times, costs).unwrap().expect("points");
            assert!(regret.mean < mean && regret.highest < highest, "{name}: {regret:?}");
            let always = |kernel: &(KernelClass, Constants)| {
                let always = Costs { kernels: std::slice::from_ref(kernel), ..*costs };
                regret_of(&times, &always).unwrap()
            };
            let blind = costs.kernels.iter().filter_map(always).map(|regret| regret.mean).fold(1.0, f64::max);
            assert!(blind > 1.05, "{name}: the points have something to choose: {blind}");
        }
    }
}

//! Times of our kernels on a GPU model: what [constants of predicted times](super::fit) are fitted to. The tables of such times in
//! `docs/results/map`, one a GPU model, are kept when records of maps are not.

use std::path::Path;

use contract::config::Mask;
use contract::cost::KernelClass;
use contract::problem::{Problem, Shape};
use contract::view::Layout;
use serde::{Deserialize, Serialize};

use super::record::{self, Map};
use crate::journal;
use cli::document::Format;
use cli::error::{Error, Result};
use cli::files;

/// The file format: a line with the [GPU model](Gpu) and the classes of the kernels, then a line for each point.
pub const FORMAT: Format = Format {
    kind: "fa512-times",
    version: 1,
    oldest: 1,
    name: "table of times",
    source: "fa512 map keep --table FILE",
};

/// A GPU model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its name, as the driver reports it.
    #[serde(rename = "gpu")]
    pub name: String,
    /// Its architecture, such as 90 for `sm_90`.
    pub architecture: u32,
    /// Its number of multiprocessors.
    pub multiprocessors: u32,
    /// Copy bandwidth, 10¹² bytes per second, if measured.
    pub copy_terabytes_per_second: Option<f64>,
}

/// Times of our kernels on a GPU model.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// The GPU model.
    pub gpu: Gpu,
    /// The points, in measuring order.
    pub points: Vec<Point>,
}

/// The times of our kernels for a problem, measured in the same turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The name of the record that they are from.
    pub record: String,
    /// The problem's shape.
    pub shape: Shape,
    /// Its mask.
    pub mask: Mask,
    /// The times.
    pub times: Vec<KernelTime>,
}

/// The time of one of our kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelTime {
    /// The class of the kernel.
    pub class: KernelClass,
    /// Parts of an item.
    pub parts: u32,
    /// The median, µs.
    pub us: f64,
}

#[derive(Serialize, Deserialize)]
struct Header {
    #[serde(flatten)]
    gpu: Gpu,
    classes: Vec<KernelClass>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    record: String,
    #[serde(flatten)]
    shape: Shape,
    mask: Mask,
    /// Index of the class, parts, µs.
    times: Vec<(usize, u32, f64)>,
}

impl Times {
    /// The times in `map`, as those of `record`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are none.
    pub fn of(map: &Map, record: &str) -> Result<Self> {
        let device = &map.header.environment.device;
        let copy_terabytes_per_second = map.header.ceilings.copy_terabytes_per_second;
        let points: Vec<_> = map.points.iter().filter_map(|point| times_at(map, point, record)).collect();
        if points.is_empty() {
            return Err(Error::Invalid(format!("a map of {} has no time of our kernels", device.name)));
        }
        let (architecture, multiprocessors) = (device.architecture, device.multiprocessors);
        Ok(Self {
            gpu: Gpu { name: device.name.clone(), architecture, multiprocessors, copy_terabytes_per_second },
            points,
        })
    }

    /// Reads the table at `path`, or the times in the record of a map there.
    ///
    /// # Errors
    /// As [`journal::load`]; [`Error::Invalid`] when a map has no times of our kernels, or a line names no class of the table.
    pub fn load(path: &Path) -> Result<Self> {
        let text = files::read_text(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
        if !FORMAT.begins(&text) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            return Self::of(&Map::load(path)?, &name);
        }
        let invalid = |reason: String| Error::Invalid(format!("{}: {reason}", path.display()));
        let (Header { gpu, classes }, lines) = journal::parse::<Header, Line>(&FORMAT, &text).map_err(invalid)?;
        let points = lines.into_iter().map(|line| line.point(&classes)).collect::<std::result::Result<_, _>>();
        Ok(Self { gpu, points: points.map_err(invalid)? })
    }

    /// Writes the table to `path`.
    ///
    /// # Errors
    /// As [`journal::save`].
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut classes = Vec::new();
        let mut index = |class| match classes.iter().position(|known| *known == class) {
            Some(index) => index,
            None => {
                classes.push(class);
                classes.len() - 1
            }
        };
        let line = |Point { record, shape, mask, times }: &Point| {
            let times = times.iter().map(|time| (index(time.class), time.parts, time.us)).collect();
            Line { record: record.clone(), shape: *shape, mask: *mask, times }
        };
        let lines: Vec<_> = self.points.iter().map(line).collect();
        journal::save(path, &FORMAT, &Header { gpu: self.gpu.clone(), classes }, &lines)
    }

    /// Adds the times of `other`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when they are of another GPU model.
    pub fn add(&mut self, other: Self) -> Result<()> {
        let Gpu { name, architecture, multiprocessors, copy_terabytes_per_second } = other.gpu;
        let model = (&self.gpu.name, self.gpu.architecture, self.gpu.multiprocessors);
        if model != (&name, architecture, multiprocessors) {
            return Err(Error::Invalid(format!("times of {name} are not of {}", self.gpu.name)));
        }
        let copy = &mut self.gpu.copy_terabytes_per_second;
        *copy = copy_terabytes_per_second.into_iter().chain(*copy).reduce(f64::max);
        self.points.extend(other.points);
        Ok(())
    }

    /// Keeps only the times for which `keeps`, and the points that have any.
    pub fn retain(&mut self, keeps: impl Fn(&KernelClass) -> bool) {
        self.points.iter_mut().for_each(|point| point.times.retain(|time| keeps(&time.class)));
        self.points.retain(|point| !point.times.is_empty());
    }
}

/// The times of our kernels at `point`; `None` if there are none.
fn times_at(map: &Map, point: &record::Point, record: &str) -> Option<Point> {
    let (shape, mask) = (point.case.shape, point.case.mask);
    let times = point.results.iter().filter_map(|outcome| {
        let class = KernelClass::new(map.header.config(outcome.kernel.as_deref()?)?, mask);
        Some(KernelTime { class, parts: outcome.parts, us: outcome.median_us()? })
    });
    let times: Vec<_> = times.collect();
    (!times.is_empty()).then(|| Point { record: record.to_owned(), shape, mask, times })
}

impl Point {
    /// The problem.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is not accepted.
    pub fn problem(&self) -> Result<Problem> {
        Ok(Problem::new(self.shape, self.mask, Layout::Bhsd)?)
    }
}

impl Line {
    fn point(self, classes: &[KernelClass]) -> std::result::Result<Point, String> {
        let Self { record, shape, mask, times } = self;
        let time = |(index, parts, us)| {
            let class = *classes.get(index).ok_or_else(|| format!("the table has no class {index}"))?;
            Ok(KernelTime { class, parts, us })
        };
        Ok(Point {
            record,
            shape,
            mask,
            times: times.into_iter().map(time).collect::<std::result::Result<_, String>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::record::tests::{header, measured, point};
    use cli::record::Kernel;
    use contract::tile::{Configuration, Sm80, Sm90Tma};

    fn map() -> Map {
        let kernel = |entry: &str, config| Kernel { entry: entry.into(), config: Some(config) };
        let mut header = header();
        header.kernels = vec![
            kernel("small", Configuration::Sm80(Sm80::new(64, 64, 4, 2))),
            kernel("large", Configuration::Sm90Tma(Sm90Tma::new(2, 4))),
        ];
        let ours = |us| measured("fa512", Some("small"), us);
        let results =
            vec![ours(2.5), measured("torch:cudnn", None, 3.0), measured("variant:large", Some("large"), 9.0)];
        let peers = vec![measured("torch:cudnn", None, 3.0)];
        let points = [((1, 8, 16), results), ((1, 8, 32), peers), ((4, 8, 512), vec![ours(5.0)])];
        Map { header, points: points.into_iter().map(|(shape, results)| point(shape, results)).collect() }
    }

    #[test]
    fn a_table_has_the_times_of_our_kernels_and_is_read_as_it_was_written() {
        let mut times = Times::of(&map(), "first").unwrap();
        let found: Vec<_> = times.points.iter().map(|point| (point.shape.sequence, point.times.len())).collect();
        assert_eq!(found, [(16, 2), (512, 1)], "without points that only peers computed");
        times.add(Times::of(&map(), "second").unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gpu.jsonl");
        times.save(&path).unwrap();
        assert_eq!(Times::load(&path).unwrap(), times);
        let large = times.points[0].times[1].class;
        times.retain(|class| *class == large);
        assert_eq!(times.points.len(), 2, "points without times are gone");
    }

    #[test]
    fn times_of_another_gpu_model_or_of_no_kernel_of_ours_are_refused() {
        let mut times = Times::of(&map(), "").unwrap();
        let gpu = Gpu { name: "other".into(), ..times.gpu.clone() };
        let error = times.add(Times { gpu, points: Vec::new() }).unwrap_err().to_string();
        assert!(error.contains("times of other are not of NVIDIA H200"), "{error}");
        let error = Times::of(&Map { points: Vec::new(), ..map() }, "").unwrap_err().to_string();
        assert!(error.contains("NVIDIA H200 has no time of our kernels"), "{error}");
    }

    #[test]
    fn a_time_of_a_class_that_the_table_lacks_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gpu.jsonl");
        Times::of(&map(), "").unwrap().save(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap().replace("[[0,1,5.0]]", "[[2,1,5.0]]");
        std::fs::write(&path, text).unwrap();
        let error = Times::load(&path).unwrap_err().to_string();
        assert!(error.contains("the table has no class 2"), "{error}");
    }
}

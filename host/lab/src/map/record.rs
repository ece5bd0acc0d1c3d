//! The record of a map: a [`Header`], then one line per point.

use std::collections::BTreeMap;
use std::path::Path;

use contract::manifest::CodeGenerator;
use contract::tile::Configuration;
use serde::{Deserialize, Serialize};

use crate::journal::{self, Content};
use cli::document::Format;
use cli::error::Result;
use cli::record::{self, Case, Ceilings, Environment, Implementation, Kernel, Row, RunProtocol, is_one_part, one_part};
use cli::statistics::Samples;

/// The file format.
pub const FORMAT: Format =
    Format { kind: "fa512-map", version: 1, oldest: 1, name: "map", source: "fa512 map run --out FILE" };

/// Name of our contender, the kernel chosen for a problem.
pub const OURS: &str = "fa512";

/// What was run, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The command line that created it, program first.
    pub command: Vec<String>,
    /// Start time, in seconds since 1970-01-01 UTC.
    pub started_at: u64,
    /// Digest of the measured PTX.
    pub ptx: String,
    /// The compiler of the PTX.
    pub code_generator: CodeGenerator,
    /// Commit of its source.
    pub git_commit: Option<String>,
    /// The available kernels.
    pub kernels: Vec<Kernel>,
    /// The measured contenders, as on the command line.
    pub contenders: Vec<String>,
    /// Versions of the libraries among them, by name.
    pub libraries: BTreeMap<String, String>,
    /// The measuring protocol.
    pub protocol: RunProtocol,
    /// The machine.
    pub environment: Environment,
    /// Peak rates of this GPU in the same run.
    pub ceilings: Ceilings,
}

impl Header {
    /// Configuration of the kernel `entry`; `None` if it is not described, or is no more.
    pub fn config(&self, entry: &str) -> Option<Configuration> {
        self.kernels.iter().find(|kernel| kernel.entry == entry)?.config
    }

    /// Checks that points of `other` are comparable with those of this record.
    pub fn require_like(&self, other: &Self) -> std::result::Result<(), String> {
        let (gpu, others_gpu) = (&self.environment.device.name, &other.environment.device.name);
        let contenders = |header: &Self| header.contenders.join(", ");
        let same = [
            ("of another PTX", self.ptx.clone(), other.ptx.clone()),
            ("of another GPU", gpu.clone(), others_gpu.clone()),
            ("of other contenders", contenders(self), contenders(other)),
        ];
        match same.iter().find(|(_, one, other)| one != other) {
            Some((what, one, other)) => Err(format!("is {what}: {one}, not {other}")),
            None if self.protocol != other.protocol => Err("was measured by another protocol".into()),
            None => Ok(()),
        }
    }
}

/// The results of all contenders in one case, measured in the same turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// Seconds that measuring this point took.
    pub seconds: f64,
    /// The contenders.
    pub results: Vec<Outcome>,
}

/// The result of a contender in a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The contender.
    pub contender: String,
    /// The entry that ran, if it is one of ours.
    pub kernel: Option<String>,
    /// Parts of a work item that a second launch combined.
    #[serde(default = "one_part", skip_serializing_if = "is_one_part")]
    pub parts: u32,
    /// Its time.
    #[serde(flatten)]
    pub time: Time,
}

/// The time of a contender, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Time {
    /// It was correct and was timed.
    Measured {
        /// µs per call; sample i was taken in turn i.
        samples_us: Samples,
    },
    /// It was wrong and therefore not timed.
    Wrong {
        /// In what way.
        reason: String,
    },
    /// It could not run.
    NotRun {
        /// The reason.
        reason: String,
    },
}

impl Outcome {
    /// The median, µs; `None` if it was not timed.
    pub fn median_us(&self) -> Option<f64> {
        match &self.time {
            Time::Measured { samples_us } => Some(samples_us.median()),
            Time::Wrong { .. } | Time::NotRun { .. } => None,
        }
    }
}

impl From<Row> for Outcome {
    fn from(row: Row) -> Self {
        let (kernel, parts) = match row.implementation {
            Some(Implementation::Ptx { kernel, parts, .. }) => (Some(kernel.entry), parts),
            Some(Implementation::Library { .. }) | None => (None, 1),
        };
        let time = match row.outcome {
            record::Outcome::Measured(measurement) => Time::Measured { samples_us: measurement.samples_us },
            record::Outcome::Wrong { correctness } => Time::Wrong { reason: correctness.to_string() },
            record::Outcome::NotRun { reason } => Time::NotRun { reason },
        };
        Self { contender: row.contender, kernel, parts, time }
    }
}

/// The contents of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// The header.
    pub header: Header,
    /// The points, in measuring order.
    pub points: Vec<Point>,
}

impl Map {
    /// Reads the record at `path`. Skips an incomplete last line, which a killed run may leave.
    ///
    /// # Errors
    /// As [`journal::load`].
    pub fn load(path: &Path) -> Result<Self> {
        journal::load(&FORMAT, path).map(Self::of)
    }

    fn of((header, points): Content<Header, Point>) -> Self {
        Self { header, points }
    }
}

/// A map being written.
pub struct Journal {
    file: journal::Journal,
    map: Map,
}

impl Journal {
    /// Opens the record at `path` to continue it, or creates it with `header`.
    ///
    /// # Errors
    /// As for [`Map::load`]; [`Invalid`](cli::error::Error::Invalid) when its points are not comparable with those of
    /// `header`.
    pub fn open(path: &Path, header: Header) -> Result<Self> {
        let wanted = header.clone();
        let (file, content) =
            journal::Journal::open(path, &FORMAT, header, |found: &Header| found.require_like(&wanted))?;
        Ok(Self { file, map: Map::of(content) })
    }

    /// The points measured so far.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Appends a point.
    ///
    /// # Errors
    /// [`Error::File`](cli::error::Error::File) when it cannot be written.
    pub fn add(&mut self, point: Point) -> Result<()> {
        self.file.add(&point)?;
        self.map.points.push(point);
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use cli::inputs::Distribution;
    use cli::timing::{L2, Protocol};
    use contract::config::{Element, Mask};
    use contract::problem::Shape;
    use contract::view::Layout;

    pub fn header() -> Header {
        let environment = cli::stand_ins::record(vec![1.0]).environment;
        Header {
            command: vec!["fa512".into(), "map".into(), "run".into()],
            started_at: 1,
            ptx: "x".into(),
            code_generator: CodeGenerator { name: "rustc".into(), version: "1".into() },
            git_commit: None,
            kernels: Vec::new(),
            contenders: vec![OURS.into(), "torch:cudnn".into()],
            libraries: BTreeMap::new(),
            protocol: RunProtocol {
                timing: Protocol::new(L2::Warm),
                samples: 5,
                order_seed: 0,
                distribution: Distribution::Normal,
                input_seed: 0,
            },
            environment,
            ceilings: Ceilings::default(),
        }
    }

    pub fn measured(contender: &str, kernel: Option<&str>, median_us: f64) -> Outcome {
        let samples_us = Samples::new(vec![median_us; 3]).unwrap();
        let kernel = kernel.map(Into::into);
        Outcome { contender: contender.into(), kernel, parts: 1, time: Time::Measured { samples_us } }
    }

    pub fn point((batch, heads, sequence): (u32, u32, u32), results: Vec<Outcome>) -> Point {
        let shape = Shape::new(batch, heads, sequence);
        let case = Case::plain(shape, Element::F16, Mask::Full, Layout::Bhsd);
        Point { case, seconds: 0.5, results }
    }

    #[test]
    fn points_are_read_as_they_were_written_and_gone_on_from() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.jsonl");
        let wrong = Outcome {
            contender: "torch:flash".into(),
            kernel: None,
            parts: 1,
            time: Time::Wrong { reason: "3 wrong elements".into() },
        };
        let points = [
            point((4, 8, 512), vec![measured(OURS, Some("large"), 10.0), measured("torch:cudnn", None, 12.5)]),
            point((1, 8, 16), vec![measured(OURS, Some("small"), 2.0), wrong]),
        ];
        Journal::open(&path, header()).unwrap().add(points[0].clone()).unwrap();
        let mut journal = Journal::open(&path, Header { started_at: 9, ..header() }).unwrap();
        assert_eq!(journal.map().points, points[..1]);
        journal.add(points[1].clone()).unwrap();
        let map = Map::load(&path).unwrap();
        assert_eq!((map.header, map.points.as_slice()), (header(), &points[..]));
    }

    #[test]
    fn points_of_something_else_are_not_gone_on_from() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.jsonl");
        Journal::open(&path, header()).unwrap();
        let refusal = |header: Header| Journal::open(&path, header).err().expect("refused").to_string();
        let other = refusal(Header { ptx: "y".into(), ..header() });
        assert!(other.contains("is of another PTX: x, not y") && other.contains("--out"), "{other}");
        assert!(refusal(Header { contenders: vec![], ..header() }).contains("of other contenders: fa512, torch:cudnn"));
        let protocol = RunProtocol { samples: 6, ..header().protocol };
        assert!(refusal(Header { protocol, ..header() }).contains("another protocol"));
    }
}

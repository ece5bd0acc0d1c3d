//! The record: a [`Header`], then a [`Pair`] per line.

use std::collections::BTreeMap;
use std::path::Path;

use contract::manifest::Manifest;
use serde::{Deserialize, Serialize};

use crate::journal::{self, Content};
use cli::document::Format;
use cli::error::Result;

/// The file format.
const FORMAT: Format =
    Format { kind: "fa512-entries", version: 1, oldest: 1, name: "entries", source: "fa512 entries --out FILE" };

/// What was timed, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The GPU's name.
    pub gpu: String,
    /// The driver's version.
    pub driver: String,
    /// The two PTX folders.
    pub sides: [Side; 2],
}

/// A PTX folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// The compiler of the PTX.
    pub code_generator: String,
    /// SHA-256 of each file, by its name.
    pub files: BTreeMap<String, String>,
}

impl From<&Manifest> for Side {
    fn from(manifest: &Manifest) -> Self {
        let files = manifest.modules.iter().map(|module| (module.file.clone(), module.sha256.clone()));
        Self { code_generator: manifest.code_generator.version.clone(), files: files.collect() }
    }
}

/// An entry on both sides. A ratio is the second's time over the first's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Name of the entry.
    pub entry: String,
    /// What it was timed on.
    pub problem: String,
    /// Median times of a call, µs.
    pub us: [f64; 2],
    /// The ratio of the medians.
    pub ratio: f64,
    /// Its interval of 95 %.
    pub interval: [f64; 2],
}

/// The record that a run writes.
pub struct Journal {
    journal: journal::Journal,
    /// The lines so far.
    pub pairs: Vec<Pair>,
}

impl Journal {
    /// Opens the record at `path` to continue it, or creates it.
    ///
    /// # Errors
    /// As for [`journal::Journal::open`]; when it is of other PTX or another GPU.
    pub fn open(path: &Path, header: Header) -> Result<Self> {
        let is_like = |known: &Header| {
            let same = *known == header;
            same.then_some(()).ok_or_else(|| "is of other PTX, or of another GPU or driver".to_owned())
        };
        let (journal, (_, pairs)): (_, Content<Header, Pair>) =
            journal::Journal::open(path, &FORMAT, header.clone(), is_like)?;
        Ok(Self { journal, pairs })
    }

    /// Adds a pair.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, pair: Pair) -> Result<()> {
        self.journal.add(&pair)?;
        self.pairs.push(pair);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(gpu: &str) -> Header {
        let side = Side { code_generator: "rustc".into(), files: [("sm_80.ptx".into(), "12".into())].into() };
        Header { gpu: gpu.into(), driver: "13.0".into(), sides: [side.clone(), side] }
    }

    #[test]
    fn a_record_is_continued_on_the_same_gpu_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("entries.jsonl");
        let pair = Pair { entry: "one".into(), problem: "p".into(), us: [1.0, 2.0], ratio: 2.0, interval: [1.9, 2.1] };
        Journal::open(&path, header("a")).unwrap().add(pair.clone()).unwrap();
        assert_eq!(Journal::open(&path, header("a")).unwrap().pairs, [pair]);
        let refusal = Journal::open(&path, header("b")).err().expect("another GPU").to_string();
        assert!(refusal.contains("another GPU"), "{refusal}");
    }
}

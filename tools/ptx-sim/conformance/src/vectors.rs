//! Recorded results, one JSON file per class.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::{DeflateDecoder, DeflateEncoder};
use serde::{Deserialize, Serialize};

use crate::case::Case;

/// What was recorded of one class.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Vectors {
    /// Where the results come from: one for each time that some were recorded.
    pub origins: Vec<Origin>,
    /// The results, by the names of their cases.
    pub results: BTreeMap<String, Recorded>,
}

/// Where results come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The name of the GPU.
    pub device: String,
    /// The CUDA version of the driver.
    pub cuda: String,
    /// The day, as in 2026-11-21.
    pub date: String,
}

/// The result of one case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// Index of the origin.
    #[serde(default, skip_serializing_if = "is_first")]
    pub origin: usize,
    /// What [`Case::digest`](crate::case::Case::digest) was.
    pub digest: String,
    /// The output buffer, compressed with Deflate, in Base64.
    pub output: String,
}

fn is_first(origin: &usize) -> bool {
    *origin == 0
}

impl Recorded {
    /// Keeps an output of the first origin.
    pub fn new(digest: String, output: &[u8]) -> Recorded {
        let mut compressed = Vec::new();
        let mut encoder = DeflateEncoder::new(output, Compression::best());
        encoder.read_to_end(&mut compressed).expect("reading from memory does not fail");
        Recorded { origin: 0, digest, output: STANDARD.encode(compressed) }
    }

    /// The output buffer.
    ///
    /// # Errors
    /// When it is not stored as it should be.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let compressed = STANDARD.decode(&self.output).context("the stored output is not Base64")?;
        let mut output = Vec::new();
        DeflateDecoder::new(compressed.as_slice()).read_to_end(&mut output).context("the stored output is damaged")?;
        Ok(output)
    }
}

impl Vectors {
    /// The file of a class.
    pub fn path(folder: &Path, class: &str) -> PathBuf {
        folder.join(class).with_extension("json")
    }

    /// Reads the file of a class.
    ///
    /// # Errors
    /// When there is none, or it is something else.
    pub fn load(folder: &Path, class: &str) -> Result<Vectors> {
        let path = Vectors::path(folder, class);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Adds an origin, if it is not the latest already; its index.
    pub fn add_origin(&mut self, origin: Origin) -> usize {
        if self.origins.last() != Some(&origin) {
            self.origins.push(origin);
        }
        self.origins.len() - 1
    }

    /// Keeps only results of `cases` as they are now, and the origins of those.
    pub fn retain_current(&mut self, cases: &[Case]) {
        let digests: BTreeMap<&str, String> = cases.iter().map(|case| (case.name.as_str(), case.digest())).collect();
        self.results.retain(|name, recorded| digests.get(name.as_str()) == Some(&recorded.digest));
        let used: BTreeSet<usize> = self.results.values().map(|recorded| recorded.origin).collect();
        let kept: Vec<usize> = used.into_iter().collect();
        self.origins = kept.iter().filter_map(|index| self.origins.get(*index).cloned()).collect();
        for recorded in self.results.values_mut() {
            recorded.origin = kept.binary_search(&recorded.origin).unwrap_or(0);
        }
    }

    /// Writes the file of a class.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, folder: &Path, class: &str) -> Result<()> {
        let path = Vectors::path(folder, class);
        // A line for each case.
        let lines = self.results.iter().map(|(name, recorded)| {
            Ok(format!("{}: {}", serde_json::to_string(name)?, serde_json::to_string(recorded)?))
        });
        let lines: Vec<String> = lines.collect::<serde_json::Result<_>>()?;
        let origins = serde_json::to_string(&self.origins)?;
        let text = format!("{{\"origins\": {origins},\n\"results\": {{\n{}\n}}}}\n", lines.join(",\n"));
        std::fs::write(&path, text).with_context(|| path.display().to_string())
    }
}

/// The folder of the vectors in the repository.
pub fn stored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

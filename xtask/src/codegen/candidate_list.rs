//! Tuning candidates that are compiled instead of the variants.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment variable with the path of the Rust file that declares them, for kernel-gpu.
const VARIABLE: &str = "FA512_CANDIDATES";
/// Cargo feature of kernel-gpu that includes that file.
const FEATURE: &str = "candidates";

/// A list of candidates, and the number of the concurrent build that compiles it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateList {
    list: PathBuf,
    worker: usize,
}

impl CandidateList {
    /// The candidates declared by the Rust file `list`, in the build `worker`.
    pub fn new(list: &Path, worker: usize) -> Self {
        Self { list: list.to_owned(), worker }
    }

    /// Adds them to a cargo command.
    pub fn add_to(&self, cargo: &mut Command) {
        cargo.env(VARIABLE, &self.list).args(["--features", FEATURE]);
    }

    /// Suffix of the target folder; the first build shares that of the variants, in which Rust's `core` is compiled.
    pub fn folder(&self) -> Option<String> {
        (self.worker > 0).then(|| format!("candidates-{}", self.worker))
    }
}

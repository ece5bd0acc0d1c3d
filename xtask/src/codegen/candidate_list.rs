//! Candidates of the tuner that are compiled in place of the variants.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Tells kernel-gpu where the Rust file that declares them is.
const VARIABLE: &str = "FA512_CANDIDATES";
/// Cargo feature of kernel-gpu that makes it read that file.
const FEATURE: &str = "candidates";

/// Which candidates, and which of several builds that run at the same time compiles them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateList {
    list: PathBuf,
    worker: usize,
}

impl CandidateList {
    /// Those that the Rust file `list` declares, in the build `worker`.
    pub fn new(list: &Path, worker: usize) -> Self {
        Self { list: list.to_owned(), worker }
    }

    /// Tells a cargo command of them.
    pub fn add_to(&self, cargo: &mut Command) {
        cargo.env(VARIABLE, &self.list).args(["--features", FEATURE]);
    }

    /// Name of a target folder of its own; the first build shares that of the variants, where Rust's `core` is compiled.
    pub fn folder(&self) -> Option<String> {
        (self.worker > 0).then(|| format!("candidates-{}", self.worker))
    }
}

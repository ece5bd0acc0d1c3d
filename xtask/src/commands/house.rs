//! `cargo xtask house`: how large the repository is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use contract::backward::variants::BACKWARD_VARIANTS;
use contract::variants::VARIANTS;

use crate::circles;
use crate::environment::Workspace;
use crate::output::print_line;

/// The beginnings of paths of a product's Rust. The first product that has a path counts its lines.
const PRODUCTS: [(&str, &[&str]); 5] = [
    ("laboratory", &["host/lab/", "baselines/"]),
    ("program", &["host/cli/", "host/numerics/"]),
    ("sanitizer", &["tools/ptx-sim/", "kernel-gpu/planted/"]),
    ("attention", &["kernel-gpu/", "host/", "tools/ptx-text/"]),
    ("build", &[""]),
];

/// Prints how large the repository is: lines of Rust by product, files, megabytes, words of documents, entries, sections of profiles,
/// circles of modules.
#[derive(clap::Args, Debug)]
pub struct Arguments {}

impl Arguments {
    /// Counts what git has.
    pub fn run(self, workspace: &Workspace) -> Result<()> {
        let files = files(workspace.root())?;
        let mut lines = PRODUCTS.map(|_| 0);
        let (mut bytes, mut words) = (0, 0);
        for path in &files {
            let content =
                fs::read(workspace.root().join(path)).with_context(|| format!("could not read {}", path.display()))?;
            bytes += content.len();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("rs") => lines[product(path)] += lines_of(&content),
                Some("md") => words += String::from_utf8_lossy(&content).split_whitespace().count(),
                _ => {}
            }
        }
        let manifest = fs::read_to_string(workspace.root().join("Cargo.toml")).context("could not read Cargo.toml")?;
        let profiles = manifest.lines().filter(|line| line.starts_with("[profile.")).count();
        let rust: usize = lines.iter().sum();
        for ((name, _), count) in PRODUCTS.iter().zip(lines) {
            print_line(format!("{count:>9}  lines of Rust, {name}"))?;
        }
        print_line(format!("{rust:>9}  lines of Rust"))?;
        print_line(format!("{:>9}  files", files.len()))?;
        print_line(format!("{:>9.1}  MB", bytes as f64 / 1e6))?;
        print_line(format!("{words:>9}  words of documents"))?;
        print_line(format!("{:>9}  entries", VARIANTS.len() + BACKWARD_VARIANTS.len()))?;
        print_line(format!("{profiles:>9}  sections of profiles"))?;
        print_line(format!("{:>9}  circles of modules", circles::of_workspace(workspace.root()).len()))
    }
}

/// The index of the product that counts the Rust file `path`.
fn product(path: &Path) -> usize {
    let path = path.to_string_lossy();
    let has = |starts: &[&str]| starts.iter().any(|start| path.starts_with(start));
    PRODUCTS.iter().position(|(_, starts)| has(starts)).expect("every path begins with nothing")
}

fn lines_of(content: &[u8]) -> usize {
    content.iter().filter(|byte| **byte == b'\n').count()
}

/// The files that git has and that are there.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let output =
        Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().context("could not start git")?;
    ensure!(output.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    Ok(paths.filter(|path| root.join(path).is_file()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_one_product() {
        for (path, name) in [
            ("tools/ptx-sim/cli/src/main.rs", "sanitizer"),
            ("host/lab/mutants/src/main.rs", "laboratory"),
            ("tools/ptx-text/src/lib.rs", "attention"),
            ("kernel-gpu/planted/src/lib.rs", "sanitizer"),
            ("kernel-gpu/src/lib.rs", "attention"),
            ("host/cli/src/lib.rs", "program"),
            ("host/fa512/src/lib.rs", "attention"),
            ("xtask/src/main.rs", "build"),
        ] {
            assert_eq!(PRODUCTS[product(Path::new(path))].0, name, "{path}");
        }
    }
}

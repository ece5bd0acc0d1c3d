//! Tests the packed library from outside: a crate in its own workspace that depends on the packages.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use contract::backward::variants::BACKWARD_VARIANTS;
use contract::variants::VARIANTS;
use flate2::read::GzDecoder;

use crate::environment::{Environment, Workspace};
use crate::files;
use crate::process;
use crate::progress::Step;
use crate::provision;

/// The published crates, each after its dependencies.
pub const CRATES: [&str; 2] = ["fa512-contract", "fa512"];

/// Maximum number of crates that a program gets with the library, including itself.
const MOST_CRATES: usize = 5;

/// A program with one call, which fails with a message on a machine without a driver.
const PROGRAM: &str = r#"use fa512::{Addresses, Layout, Mask, Problem, Shape, Stream};

fn main() {
    let shape = Shape::new(32, 8, 512);
    let problem = Problem::new(shape, Mask::Causal, Layout::Bhsd).expect("a problem");
    let addresses = Addresses::new(1 << 20, 2 << 20, 3 << 20, 4 << 20);
    assert_eq!(fa512::kernels().count(), KERNELS);
    // SAFETY: there is no context, so that nothing is launched.
    match unsafe { fa512::forward(&problem, addresses, Stream::LEGACY) } {
        Ok(()) => println!("launched"),
        Err(error) => println!("{error}"),
    }
}
"#;

/// The page that says how a program gets the packages, from the root of the workspace.
const PAGE: &str = "docs/use/rust.md";

/// Builds a program with the crates in `packages`, as the page says and with the oldest Rust, and runs it.
pub fn check(environment: &Environment, workspace: &Workspace, packages: &[PathBuf]) -> Result<()> {
    let oldest = provision::oldest_rust(environment, workspace)?;
    let step = Step::begin("building a program outside the workspace");
    let folder = workspace.root().join("target/outside");
    files::remove(&folder)?;
    for file in packages {
        unpack(file, &folder)?;
    }
    let program = folder.join("program");
    write_program(workspace, &program)?;
    let cargo = |arguments: &[&str]| {
        let mut cargo = Command::new(environment.cargo());
        oldest.compile_with(cargo.current_dir(&program).args(arguments));
        cargo
    };
    let crates = process::capture(&mut cargo(&["tree", "--edges", "normal,build", "--prefix", "none", "--no-dedupe"]))?;
    let crates: std::collections::BTreeSet<&str> =
        crates.lines().filter_map(|line| line.split_whitespace().next()).collect();
    if crates.len() > MOST_CRATES {
        bail!("a program with fa512 has {} crates, more than {MOST_CRATES}: {crates:?}", crates.len());
    }
    let printed = process::capture(&mut cargo(&["run", "--quiet", "--release"]))?;
    // With a driver, there is no context yet.
    if !printed.contains("no CUDA driver") && !printed.contains("context") && !printed.contains("no GPU") {
        bail!("the program says {printed:?}, and not what is missing");
    }
    step.done();
    Ok(())
}

/// Unpacks the compressed archive `file` in `folder`.
pub fn unpack(file: &Path, folder: &Path) -> Result<()> {
    let context = || format!("could not unpack {}", file.display());
    let packed = GzDecoder::new(File::open(file).with_context(context)?);
    tar::Archive::new(packed).unpack(folder).with_context(context)
}

/// A crate in a workspace of its own that depends on the packages as the page says.
fn write_program(workspace: &Workspace, folder: &Path) -> Result<()> {
    let page = fs::read_to_string(workspace.root().join(PAGE)).with_context(|| format!("could not read {PAGE}"))?;
    let dependencies = documented_dependencies(&page)?;
    let package = "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n";
    let kernels = VARIANTS.len() + BACKWARD_VARIANTS.len();
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), format!("{package}{dependencies}"))?;
    fs::write(folder.join("src/main.rs"), format!("{PROGRAM}\nconst KERNELS: usize = {kernels};\n"))?;
    Ok(())
}

/// The lines of a manifest that `page` shows for unpacked packages, which must name each of them with this version.
fn documented_dependencies(page: &str) -> Result<&str> {
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0));
    let block = blocks.into_iter().find(|block| block.contains("[patch.crates-io]"));
    let block = block.with_context(|| format!("{PAGE} does not show how a program depends on unpacked packages"))?;
    for name in CRATES {
        let folder = format!("../{name}-{}\"", env!("CARGO_PKG_VERSION"));
        ensure!(block.contains(&folder), "{PAGE} does not name {folder}, which is packed");
    }
    Ok(block)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{PAGE, documented_dependencies};

    #[test]
    fn the_page_names_every_package_with_its_version() {
        let page = fs::read_to_string(doc_lint::workspace_root().join(PAGE)).unwrap();
        let found = documented_dependencies(&page).unwrap();
        assert!(found.starts_with("[dependencies]\n"), "{found}");
        let other = page.replace("fa512-contract-", "contract-");
        assert!(documented_dependencies(&other).unwrap_err().to_string().contains("../fa512-contract-"));
    }
}

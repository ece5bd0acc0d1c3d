//! Tests the packed library from outside: a crate in its own workspace that depends on the packages.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;

use crate::environment::{Environment, Workspace};
use crate::files;
use crate::process;
use crate::progress::Step;

/// The published crates, each after its dependencies.
pub const CRATES: [&str; 2] = ["fa512-contract", "fa512"];

/// The oldest Rust that the library builds with.
const OLDEST_RUST: &str = "1.85.0";
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

/// Builds a program with the crates in `packages`, with the oldest Rust if rustup has it, and runs it.
pub fn check(environment: &Environment, workspace: &Workspace, packages: &[PathBuf]) -> Result<()> {
    let step = Step::begin("building a program outside the workspace");
    let folder = workspace.root().join("target/outside");
    files::remove(&folder)?;
    for file in packages {
        unpack(file, &folder)?;
    }
    let program = folder.join("program");
    write_program(&program)?;
    let oldest = has_toolchain(OLDEST_RUST);
    if !oldest {
        eprintln!(
            "xtask: warning: rustup has no Rust {OLDEST_RUST}; only lints say whether the library builds with it"
        );
    }
    let cargo = |arguments: &[&str]| {
        let mut cargo = if oldest { rustup_cargo() } else { Command::new(environment.cargo()) };
        cargo.current_dir(&program).args(arguments);
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

fn has_toolchain(version: &str) -> bool {
    let listed = process::capture(Command::new("rustup").args(["toolchain", "list"]));
    listed.is_ok_and(|listed| listed.lines().any(|line| line.starts_with(version)))
}

fn rustup_cargo() -> Command {
    let mut cargo = Command::new("rustup");
    cargo.args(["run", OLDEST_RUST, "cargo"]);
    // Those of the cargo that runs this program.
    for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTDOC"] {
        cargo.env_remove(variable);
    }
    cargo
}

fn unpack(file: &Path, folder: &Path) -> Result<()> {
    let context = || format!("could not unpack {}", file.display());
    let packed = GzDecoder::new(File::open(file).with_context(context)?);
    tar::Archive::new(packed).unpack(folder).with_context(context)
}

/// A crate in a workspace of its own, with packages that are not published yet patched in.
fn write_program(folder: &Path) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let mut manifest = format!(
        "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[dependencies]\nfa512 = \"{version}\"\n\n\
         [workspace]\n\n[patch.crates-io]\n"
    );
    for name in CRATES {
        manifest.push_str(&format!("{name} = {{ path = \"../{name}-{version}\" }}\n"));
    }
    let kernels = contract::variants::VARIANTS.len();
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/main.rs"), format!("{PROGRAM}\nconst KERNELS: usize = {kernels};\n"))?;
    Ok(())
}

//! rustc_codegen_nvvm, built from the checkout.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};

use crate::environment::Environment;
use crate::process::run;
use crate::progress::Step;
use crate::rust_cuda::{Examination, Piece};

/// The programs that build it and LLVM.
const PROGRAMS: [&str; 8] = ["git", "tar", "xz", "cmake", "ninja", "c++", "python3", "pkg-config"];
/// Where Debian and Ubuntu have them, and the libraries that crates of the backend need.
const PACKAGES: &str =
    "git xz-utils cmake ninja-build g++ python3 pkg-config curl libclang-dev libssl-dev libcurl4-openssl-dev";

/// Refuses a machine that lacks a program, before the long part.
pub fn require_programs(environment: &Environment) -> Result<()> {
    let missing: Vec<&str> =
        PROGRAMS.into_iter().filter(|program| environment.find_program(program).is_none()).collect();
    ensure!(
        missing.is_empty(),
        "the backend cannot be built without {}; on Debian and Ubuntu: `sudo apt-get install {PACKAGES}`",
        missing.join(", ")
    );
    Ok(())
}

/// Has cargo build it into the checkout's target folder, with the other pieces of `found`.
pub fn build(environment: &Environment, found: Examination, llvm_config: &Path) -> Result<()> {
    fn piece<T>(piece: Piece<T>) -> Result<T> {
        piece.map_err(|reason| anyhow!(reason))
    }
    let (checkout, rustc, libnvvm) = (piece(found.checkout)?, piece(found.rustc)?, piece(found.libnvvm)?);
    let own = rustc.path.with_file_name("cargo");
    let cargo = if own.is_file() { own } else { environment.cargo() };
    let cuda: PathBuf = libnvvm.folder.ancestors().nth(2).context("libNVVM is not in a CUDA installation")?.to_owned();
    let step = Step::begin("the backend: building rustc_codegen_nvvm");
    let mut cargo = Command::new(cargo);
    cargo
        .current_dir(&checkout.folder)
        .args(["build", "--release", "--locked", "--package", "rustc_codegen_nvvm", "--target-dir"])
        .arg(checkout.folder.join("target"))
        .env("RUSTC", &rustc.path)
        .env("CUDA_PATH", cuda)
        .env("LLVM_CONFIG", llvm_config)
        .env("LIBRARY_PATH", &libnvvm.folder)
        .env("LD_LIBRARY_PATH", &libnvvm.folder)
        .stdout(io::stderr());
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTUP_TOOLCHAIN"]
    {
        cargo.env_remove(name);
    }
    run(&mut cargo)?;
    step.done();
    Ok(())
}

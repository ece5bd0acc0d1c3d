//! LLVM 7 for NVPTX, built from its sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::environment::Environment;
use crate::process::capture;
use crate::progress::{Step, run_counting};

/// How it is configured. `-O1` takes some three fourths of the time of `-O3` to build.
const OPTIONS: [&str; 12] = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG",
    // The sources lack two includes that older compilers did not need.
    "-DCMAKE_CXX_FLAGS=-include cstdint -include limits -w",
    "-DLLVM_TARGETS_TO_BUILD=NVPTX",
    "-DLLVM_INCLUDE_TESTS=OFF",
    "-DLLVM_INCLUDE_EXAMPLES=OFF",
    "-DLLVM_INCLUDE_BENCHMARKS=OFF",
    "-DLLVM_INCLUDE_DOCS=OFF",
    "-DLLVM_ENABLE_BINDINGS=OFF",
    "-DLLVM_ENABLE_TERMINFO=OFF",
    "-DLLVM_ENABLE_ZLIB=OFF",
    "-DLLVM_ENABLE_LIBXML2=OFF",
];
/// `llvm-lto` links the libraries that the backend links, and no others.
const PROGRAMS: [&str; 2] = ["llvm-config", "llvm-lto"];

/// Builds the sources in `source` in the folder `build`, or what an earlier call left to build, and returns `llvm-config`.
pub fn build(environment: &Environment, source: &Path, build: &Path) -> Result<PathBuf> {
    let python = environment.require_program("python3")?;
    let step = Step::begin("LLVM 7: configuring");
    let mut cmake = Command::new(environment.require_program("cmake")?);
    cmake.args(["-G", "Ninja", "-Wno-dev", "-S"]).arg(source).arg("-B").arg(build).args(OPTIONS);
    capture(cmake.arg(format!("-DPYTHON_EXECUTABLE={}", python.display())))?;
    step.done();
    let step = Step::begin("LLVM 7: building; an interrupted build is continued by the next call");
    run_counting(Command::new(environment.require_program("ninja")?).current_dir(build).args(PROGRAMS))?;
    step.done();
    Ok(build.join("bin/llvm-config"))
}

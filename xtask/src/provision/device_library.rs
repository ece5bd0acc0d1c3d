//! Rust's `core` for the device, where the compiler has only its source.
//!
//! One library serves every GPU: the kernels inline what they reach of it, and no machine code of it is linked. So it is
//! compiled once, as a part of the toolchain, and used like a library that comes compiled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::ToolchainFolder;
use crate::device_cargo;
use crate::device_compiler::{DeviceCompiler, DeviceLibrary, TARGET, use_shared_libraries};
use crate::environment::{Environment, Workspace};
use crate::files;
use crate::process::capture;
use crate::progress::Step;

/// A package that needs nothing but `core`: cargo compiles that only as a dependency.
const PACKAGE: &str = "needs-core";
const MANIFEST: &str = r#"[package]
name = "needs-core"
version = "0.0.0"
edition = "2024"

[workspace]

[profile.release]
panic = "abort"
opt-level = "s"
"#;
/// Only what other crates inline: no machine code.
const METADATA_ALONE: &str = "-Zno-codegen";

/// The system root in which `compiler` finds `core` for the device, compiled first where that was not done; `None` where it
/// comes with the compiler.
pub fn device_library(
    environment: &Environment,
    workspace: &Workspace,
    compiler: &DeviceCompiler,
) -> Result<Option<PathBuf>> {
    let DeviceLibrary::Source(source) = &compiler.library else { return Ok(None) };
    let source = source.canonicalize().with_context(|| format!("could not find {}", source.display()))?;
    let key = format!("{} {} {MANIFEST} {METADATA_ALONE}", compiler.version_line, source.display());
    let sysroot = workspace.toolchain().join(format!("core-{}", &files::sha256(key.as_bytes())[..16]));
    if sysroot.is_dir() {
        return Ok(Some(sysroot));
    }
    let folder = ToolchainFolder::lock(workspace)?;
    // Another process may have compiled it while this one waited for the lock.
    if !sysroot.is_dir() {
        let step = Step::begin("compiling Rust's core for the device, once for all GPUs");
        let cargo = compiler.own_cargo().unwrap_or_else(|| environment.cargo());
        folder.install(&sysroot, |unfinished| compile(compiler, &cargo, unfinished))?;
        step.done();
    }
    Ok(Some(sysroot))
}

/// Compiles the library into the system root `sysroot`, an empty folder.
fn compile(compiler: &DeviceCompiler, cargo: &Path, sysroot: &Path) -> Result<()> {
    let package = sysroot.join(PACKAGE);
    fs::create_dir_all(package.join("src"))?;
    fs::write(package.join("Cargo.toml"), MANIFEST)?;
    fs::write(package.join("src/lib.rs"), "#![no_std]\n")?;
    // Sources are then named `rust/…` on every machine. The compiler names them without links of folders above.
    let named = source_as_named(compiler)?;
    let flags = [METADATA_ALONE.to_owned(), format!("--remap-path-prefix={}=rust", named.display())];
    let mut cargo = Command::new(cargo);
    cargo
        .current_dir(&package)
        .args(["build", "--quiet", "--lib", "--release", "-Zbuild-std=core", "--target", TARGET])
        .args(["--target-dir", "target", "--message-format", device_cargo::format()])
        .env("RUSTC", &compiler.rustc)
        // Lets a stable cargo and compiler accept what is unstable: building `core`.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    use_shared_libraries(&mut cargo, compiler.shared_libraries.as_deref());
    device_cargo::run(cargo, "core")?;
    let libraries = sysroot.join("lib/rustlib").join(TARGET).join("lib");
    fs::create_dir_all(&libraries)?;
    let built = package.join("target").join(TARGET).join("release/deps");
    for name in ["core", "compiler_builtins"] {
        take_library(&built, name, &libraries)?;
    }
    Ok(files::remove(&package)?)
}

/// The folder of the library's source, as the compiler writes it.
fn source_as_named(compiler: &DeviceCompiler) -> Result<PathBuf> {
    let mut rustc = Command::new(&compiler.rustc);
    rustc.args(["--print", "sysroot"]);
    use_shared_libraries(&mut rustc, compiler.shared_libraries.as_deref());
    Ok(Path::new(capture(&mut rustc)?.trim()).join("lib/rustlib/src/rust"))
}

/// Moves the library `name` from cargo's folder to `libraries`.
fn take_library(built: &Path, name: &str, libraries: &Path) -> Result<()> {
    let prefix = format!("lib{name}-");
    for file in fs::read_dir(built).with_context(|| format!("could not read {}", built.display()))? {
        let file_name = file?.file_name();
        let text = file_name.to_string_lossy();
        if text.starts_with(&prefix) && text.ends_with(".rlib") {
            return Ok(fs::rename(built.join(&file_name), libraries.join(&file_name))?);
        }
    }
    bail!("cargo left no library {name} in {}", built.display())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::take_library;

    #[test]
    fn a_library_is_taken_with_its_name_and_without_its_metadata() {
        let folder = TempDir::new().unwrap();
        let (built, libraries) = (folder.path().join("deps"), folder.path().join("lib"));
        fs::create_dir_all(&built).unwrap();
        fs::create_dir_all(&libraries).unwrap();
        for file in ["libcore-1.rmeta", "core-1.d", "libcore-1.rlib", "libcompiler_builtins-2.rlib"] {
            fs::write(built.join(file), file).unwrap();
        }
        take_library(&built, "core", &libraries).unwrap();
        let taken: Vec<_> = fs::read_dir(&libraries).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(taken, ["libcore-1.rlib"]);
        let error = take_library(&built, "core", &libraries).unwrap_err().to_string();
        assert!(error.contains("cargo left no library core in"), "{error}");
    }
}

//! Rust-CUDA: its rustc backend, which compiles through LLVM 7 and NVIDIA's libNVVM.
//!
//! The crate is the same source as for rustc, in a package written here: its own manifest must not name `cuda_std`, or
//! everybody would resolve and download it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};
use contract::backward::variants::BackwardVariant;
use contract::manifest;
use ptx_text::dwarf;
use toml::{Table, Value};

use super::candidate_list::CandidateList;
use super::{CodeGenerator, Compiled, Package, Target};
use crate::device_cargo;
use crate::device_compiler::TARGET;
use crate::environment::Workspace;
use crate::files::{self, write_atomically};
use crate::rust_cuda::{Installation, library_path};

/// Cargo feature of a package that makes it use `cuda_std`.
const FEATURE: &str = "rust_cuda";

/// What the backend expects of every crate, as Rust-CUDA's own builder passes it, and no warning that our crate says so
/// itself.
const RUSTFLAGS: [&str; 7] = [
    "-Zunstable-options",
    "-Zcrate-attr=feature(register_tool)",
    "-Zcrate-attr=register_tool(nvvm_internal)",
    "-Zcrate-attr=no_std",
    "-Aunused-attributes",
    "-Zsaturating_float_casts=false",
    "-Cpanic=immediate-abort",
];
/// Options of libNVVM. Products and sums stay apart, as rustc leaves them; line directives go into the PTX.
const NVVM_OPTIONS: &str = "-fma=0 -generate-line-info";

/// Compiles with a Rust-CUDA installation.
#[derive(Clone)]
pub struct RustCuda {
    installation: Installation,
    cargo: PathBuf,
    workspace: Workspace,
    candidates: Option<CandidateList>,
}

impl RustCuda {
    /// `cargo` drives the compiler unless it comes with its own.
    pub fn new(installation: Installation, cargo: PathBuf, workspace: Workspace) -> Self {
        let own = installation.rustc.path.with_file_name("cargo");
        let cargo = if own.is_file() { own } else { cargo };
        Self { installation, cargo, workspace, candidates: None }
    }

    /// `cargo rustc` for the package in `package`.
    fn command(&self, package: &Path, target: &Target) -> Command {
        let mut cargo = Command::new(&self.cargo);
        cargo
            .current_dir(self.workspace.root())
            .args(["rustc", "--lib", "--crate-type", "cdylib", "--release", "--manifest-path"])
            .arg(package.join("Cargo.toml"))
            .args(["--features", &format!("{FEATURE},{}", target.cargo_feature)])
            .args(["-Zbuild-std=core,alloc", "--target", TARGET, "--target-dir"])
            .arg(self.target_folder(package, target))
            .args(["--message-format", device_cargo::format()])
            .env("RUSTC", &self.installation.rustc.path)
            .env("RUSTC_BOOTSTRAP", "1")
            // It would divide the crate into several units, between which nothing is inlined.
            .env("CARGO_INCREMENTAL", "0")
            // LLVM 7 knows neither type, and compiler_builtins has a switch for that.
            .env("CARGO_FEATURE_NO_F16_F128", "1")
            .env("CARGO_ENCODED_RUSTFLAGS", self.rustflags(target).join("\x1f"))
            .env("LD_LIBRARY_PATH", library_path(&self.installation))
            .env_remove("RUSTC_WRAPPER")
            .env_remove("RUSTC_WORKSPACE_WRAPPER");
        if let Some(candidates) = &self.candidates {
            candidates.add_to(&mut cargo);
            // Several compile at the same time.
            cargo.arg("--quiet");
        }
        cargo
    }

    /// Cargo's target folder: one for each GPU, since cargo keeps what it built for one set of flags only.
    fn target_folder(&self, package: &Path, target: &Target) -> PathBuf {
        let folder = self.candidates.as_ref().and_then(CandidateList::folder).unwrap_or_else(|| "target".to_owned());
        package.join(folder).join(target.cpu)
    }

    fn rustflags(&self, target: &Target) -> Vec<String> {
        let mut flags = vec![format!("-Zcodegen-backend={}", self.installation.backend.display())];
        flags.extend(RUSTFLAGS.map(str::to_owned));
        let architecture = target.cpu.replacen("sm_", "compute_", 1);
        flags.push(format!("-Cllvm-args=-arch={architecture} {NVVM_OPTIONS}"));
        // `.file` then names sources relative to the workspace, the others' as `rust/…` and `rust-cuda/…`.
        let checkout = &self.installation.checkout.folder;
        let renamed =
            [(self.workspace.root(), ""), (&self.installation.rustc.source(), "rust"), (checkout, "rust-cuda")];
        flags.extend(renamed.map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display())));
        flags
    }

    /// Writes the package and returns its folder: one for each way of compiling, since cargo does not look at the
    /// backend when it decides what is up to date.
    fn package(&self, package: Package) -> Result<PathBuf> {
        let path = self.workspace.root().join(package.folder).join("Cargo.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
        let manifest = package_manifest(package, &text, &self.workspace, &self.installation.checkout.cuda_std())
            .with_context(|| format!("{} is not understood", path.display()))?;
        let way = format!("{manifest} {:?} {:?}", self.installation, modified(&self.installation.backend));
        let way = &files::sha256(way.as_bytes())[..16];
        let folder = self.workspace.device_target().join("rust-cuda").join(way);
        write_atomically(&folder.join("Cargo.toml"), manifest.as_bytes())?;
        // The versions that the checkout was tried with; cargo strikes out what this package has no use for.
        let (theirs, ours) = (self.installation.checkout.lock_file(), folder.join("Cargo.lock"));
        if theirs.is_file() && !ours.is_file() {
            write_atomically(&ours, &fs::read(&theirs)?)?;
        }
        Ok(folder)
    }
}

/// When the file last changed, in nanoseconds since 1970.
fn modified(path: &Path) -> Option<u128> {
    Some(fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos())
}

/// The manifest `text` of a package as that of one of its own, with `cuda_std` as an optional dependency.
fn package_manifest(package: Package, text: &str, workspace: &Workspace, cuda_std: &Path) -> Result<String> {
    let theirs: Table = text.parse()?;
    let features = theirs.get("features").and_then(Value::as_table).context("it has no [features]")?;
    let mut features = features.clone();
    features.insert(FEATURE.into(), Value::try_from(["dep:cuda_std"])?);
    let source = workspace.root().join(package.folder).join("src/lib.rs");
    let mut header = toml::toml! {
        version = "0.0.0"
        edition = "2024"
        publish = false
    };
    header.insert("name".into(), package.name.into());
    let library = Table::from_iter([("path".into(), value(&source))]);
    let cuda_std = Table::from_iter([("path".into(), value(cuda_std)), ("optional".into(), true.into())]);
    let contract = Table::from_iter([
        ("package".into(), "fa512-contract".into()),
        ("path".into(), value(&workspace.root().join("kernel-gpu/contract"))),
    ]);
    let dependencies = Table::from_iter([("contract".into(), contract.into()), ("cuda_std".into(), cuda_std.into())]);
    let profile = toml::toml! {
        [release]
        codegen-units = 1
        // Lines without types, which the backend does not know all of.
        debug = "limited"
        // LLVM 7 verifies what has debug information, and cuda_std declares an intrinsic with another type than LLVM 7's.
        [release.package."*"]
        debug = false
    };
    let manifest = Table::from_iter([
        ("package".into(), header.into()),
        ("lib".into(), library.into()),
        ("features".into(), features.into()),
        ("dependencies".into(), dependencies.into()),
        ("profile".into(), profile.into()),
        // A workspace of its own: it lies below ours.
        ("workspace".into(), Table::new().into()),
    ]);
    Ok(toml::to_string(&manifest)?)
}

fn value(path: &Path) -> Value {
    path.display().to_string().into()
}

impl CodeGenerator for RustCuda {
    fn identity(&self) -> manifest::CodeGenerator {
        manifest::CodeGenerator { name: "rust-cuda".into(), version: self.installation.version() }
    }

    fn has_probes(&self) -> bool {
        true
    }

    fn has_backward(&self, _: &BackwardVariant) -> bool {
        true
    }

    fn compile(&self, target: &Target) -> Result<Compiled> {
        let built = device_cargo::run(self.command(&self.package(target.package)?, target), target.package.name)?;
        let ptx = built.files.iter().find(|file| file.extension().is_some_and(|extension| extension == "ptx"));
        let ptx = ptx.context("the backend left no PTX among the files that cargo names")?;
        let text = fs::read_to_string(ptx).with_context(|| format!("could not read {}", ptx.display()))?;
        Ok(Compiled { ptx: dwarf::without(&text), warnings: built.diagnostics })
    }

    fn for_candidates(&self, list: &Path, worker: usize) -> Option<Box<dyn CodeGenerator>> {
        let candidates = Some(CandidateList::new(list, worker));
        Some(Box::new(Self { candidates, ..self.clone() }))
    }

    fn lint(&self, _: &Target) -> Result<Option<usize>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use toml::Table;

    use super::{RustCuda, package_manifest};
    use crate::codegen::{CodeGenerator, FAMILY_TARGETS, KERNELS, Target};
    use crate::environment::Workspace;
    use crate::rust_cuda::tests::Pretended;

    const TOOLCHAIN: &str = "home/.rustup/toolchains/nightly-2026-04-02-x86_64-unknown-linux-gnu";

    fn target(cpu: &str) -> Target {
        FAMILY_TARGETS.iter().find(|family| family.target.cpu == cpu).expect("a family").target
    }

    fn kernel_gpu_manifest() -> &'static str {
        include_str!("../../../kernel-gpu/Cargo.toml")
    }

    /// The arguments and the environment that cargo was called with.
    fn called(pretended: &Pretended) -> (Vec<String>, Vec<String>) {
        let lines = |name: &str| {
            let text = fs::read_to_string(pretended.path(TOOLCHAIN).join("bin").join(name)).unwrap();
            text.lines().map(str::to_owned).collect()
        };
        (lines("cargo.arguments"), lines("cargo.environment"))
    }

    /// Compiles with a cargo that only says how it was called: the PTX, the arguments, and the environment.
    fn compile(pretended: &Pretended, cpu: &str) -> (String, Vec<String>, Vec<String>) {
        let workspace = pretended.workspace(kernel_gpu_manifest());
        let generator = RustCuda::new(pretended.installation(), "cargo".into(), workspace);
        let ptx = generator.compile(&target(cpu)).unwrap().ptx;
        let (arguments, environment) = called(pretended);
        (ptx, arguments, environment)
    }

    fn variable<'a>(environment: &'a [String], name: &str) -> Option<&'a str> {
        environment.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    }

    #[test]
    fn cargo_is_called_as_rust_cudas_own_builder_calls_it() {
        let pretended = Pretended::new();
        let (ptx, arguments, environment) = compile(&pretended, "sm_90a");
        assert_eq!(ptx, ".version 9.0\n");
        let manifest = Path::new(&arguments[6]);
        let package = manifest.parent().unwrap();
        assert!(package.starts_with(pretended.path("workspace/target/device/rust-cuda")), "{manifest:?}");
        let target_folder = package.join("target/sm_90a");
        let expected = [
            "rustc",
            "--lib",
            "--crate-type",
            "cdylib",
            "--release",
            "--manifest-path",
            manifest.to_str().unwrap(),
            "--features",
            "rust_cuda,sm_90a",
            "-Zbuild-std=core,alloc",
            "--target",
            "nvptx64-nvidia-cuda",
            "--target-dir",
            target_folder.to_str().unwrap(),
            "--message-format",
        ];
        assert_eq!(arguments[..15], expected);
        assert!(arguments.len() == 16 && arguments[15].starts_with("json"), "{arguments:?}");

        let place = |path: &str| pretended.path(path).display().to_string();
        assert_eq!(variable(&environment, "RUSTC"), Some(place(&format!("{TOOLCHAIN}/bin/rustc")).as_str()));
        assert_eq!(variable(&environment, "RUSTC_BOOTSTRAP"), Some("1"));
        assert_eq!(variable(&environment, "CARGO_INCREMENTAL"), Some("0"));
        assert_eq!(variable(&environment, "CARGO_FEATURE_NO_F16_F128"), Some("1"));
        assert_eq!(variable(&environment, "RUSTC_WRAPPER"), None);
        let libraries = ["checkout/target/release", &format!("{TOOLCHAIN}/lib"), "root/usr/local/cuda/nvvm/lib64"];
        assert_eq!(variable(&environment, "LD_LIBRARY_PATH"), Some(libraries.map(place).join(":").as_str()));
    }

    #[test]
    fn candidates_are_compiled_in_a_target_folder_of_their_own() {
        let pretended = Pretended::new();
        let workspace = pretended.workspace(kernel_gpu_manifest());
        let generator = RustCuda::new(pretended.installation(), "cargo".into(), workspace);
        generator.for_candidates(Path::new("/list.rs"), 1).unwrap().compile(&target("sm_80")).unwrap();
        let (arguments, environment) = called(&pretended);
        assert_eq!(variable(&environment, "FA512_CANDIDATES"), Some("/list.rs"));
        assert!(arguments.windows(2).any(|two| two == ["--features", "candidates"]), "{arguments:?}");
        assert!(arguments.iter().any(|argument| argument.ends_with("candidates-1/sm_80")), "{arguments:?}");
    }

    #[test]
    fn the_backend_gets_the_flags_it_expects() {
        let pretended = Pretended::new();
        let place = |path: &str| pretended.path(path).display().to_string();
        for (cpu, architecture) in [("sm_80", "compute_80"), ("sm_90a", "compute_90a")] {
            let (_, _, environment) = compile(&pretended, cpu);
            let flags: Vec<_> = variable(&environment, "CARGO_ENCODED_RUSTFLAGS").unwrap().split('\x1f').collect();
            let expected = [
                format!("-Zcodegen-backend={}", place("checkout/target/release/librustc_codegen_nvvm.so")),
                "-Zunstable-options".into(),
                "-Zcrate-attr=feature(register_tool)".into(),
                "-Zcrate-attr=register_tool(nvvm_internal)".into(),
                "-Zcrate-attr=no_std".into(),
                "-Aunused-attributes".into(),
                "-Zsaturating_float_casts=false".into(),
                "-Cpanic=immediate-abort".into(),
                format!("-Cllvm-args=-arch={architecture} -fma=0 -generate-line-info"),
                format!("--remap-path-prefix={}=", place("workspace")),
                format!("--remap-path-prefix={}=rust", place(&format!("{TOOLCHAIN}/lib/rustlib/src/rust"))),
                format!("--remap-path-prefix={}=rust-cuda", place("checkout")),
            ];
            assert_eq!(flags, expected);
        }
    }

    #[test]
    fn the_package_is_kernel_gpus_source_with_cuda_std_from_the_checkout() {
        let workspace = Workspace::new("/fa512".into());
        let cuda_std = Path::new("/checkout/crates/cuda_std");
        let text = package_manifest(KERNELS, kernel_gpu_manifest(), &workspace, cuda_std).unwrap();
        let manifest: Table = text.parse().unwrap();
        assert_eq!(manifest["package"]["name"].as_str(), Some("kernel-gpu"));
        assert_eq!(manifest["lib"]["path"].as_str(), Some("/fa512/kernel-gpu/src/lib.rs"));
        let cuda_std = &manifest["dependencies"]["cuda_std"];
        assert_eq!(cuda_std["path"].as_str(), Some("/checkout/crates/cuda_std"));
        assert_eq!(cuda_std["optional"].as_bool(), Some(true));
        let features = manifest["features"].as_table().unwrap();
        assert_eq!(features["rust_cuda"].to_string(), "[\"dep:cuda_std\"]");
        for target in FAMILY_TARGETS.map(|family| family.target) {
            assert!(features.contains_key(target.cargo_feature), "{}", target.cargo_feature);
        }
        assert_eq!(manifest["dependencies"]["contract"]["path"].as_str(), Some("/fa512/kernel-gpu/contract"));
        assert!(manifest.contains_key("workspace"), "it lies below another one");
    }

    #[test]
    fn other_crates_have_the_versions_of_the_checkout() {
        let pretended = Pretended::new();
        let (_, arguments, _) = compile(&pretended, "sm_80");
        let lock_file = Path::new(&arguments[6]).with_file_name("Cargo.lock");
        assert_eq!(fs::read_to_string(&lock_file).unwrap(), "version = 4\n");
        fs::write(&lock_file, "pruned").unwrap();
        compile(&pretended, "sm_80");
        assert_eq!(fs::read_to_string(&lock_file).unwrap(), "pruned", "what cargo made of it stays");
    }
}

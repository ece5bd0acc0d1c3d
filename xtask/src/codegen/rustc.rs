//! rustc's own nvptx64 backend.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use contract::backward::variants::BackwardVariant;
use contract::manifest;
use ptx_text::{call_chains, join};

use super::candidate_list::CandidateList;
use super::{CodeGenerator, Compiled, Target, units};
use crate::device_cargo;
use crate::device_compiler::{DeviceCompiler, TARGET, use_shared_libraries};
use crate::environment::Workspace;
use crate::files;

/// How a package is divided: each entry, which is in a module of its own, is a codegen unit with a copy of everything
/// that it reaches. The units are compiled side by side, and after an edit only those that it touches; with these flags
/// each becomes the same instructions as in one unit with the others.
const UNITS: [&str; 4] = [
    "-Ccodegen-units=256",
    // Nothing is left to optimise between units, and the passes for that would make other code of each.
    "-Clto=off",
    // What a unit reaches is inlined into it as if it were marked so, …
    "-Zcross-crate-inline-threshold=always",
    // … and as without incremental compilation, which would leave out the passes that inline before LLVM does.
    "-Zinline-mir=yes",
];

/// The compiler unrolls no loop but short ones, of up to ten steps, as LLVM 7 does.
const NO_UNROLLING: [&str; 2] = ["-Cllvm-args=-unroll-full-max-count=0", "-Cllvm-args=-unroll-threshold=0"];

/// Compiles with a rustc that knows the target, driven by cargo.
#[derive(Clone)]
pub struct Rustc {
    compiler: DeviceCompiler,
    /// The system root with its library for the device, where that is not its own.
    library: Option<PathBuf>,
    cargo: PathBuf,
    workspace: Workspace,
    candidates: Option<CandidateList>,
    unrolls: bool,
}

impl Rustc {
    /// The compiler with the library for the device in the system root `library`, or its own. `cargo` drives it unless it
    /// comes with its own.
    pub fn new(compiler: DeviceCompiler, library: Option<PathBuf>, cargo: PathBuf, workspace: Workspace) -> Self {
        let cargo = compiler.own_cargo().unwrap_or(cargo);
        Self { compiler, library, cargo, workspace, candidates: None, unrolls: true }
    }

    /// The same compiler without unrolling of its own but of short loops.
    pub fn without_unrolling(self) -> Self {
        Self { unrolls: false, ..self }
    }

    /// What the compiler is told of the kernels' units, but not of the crates that they use.
    fn unit_flags(&self) -> impl Iterator<Item = &'static str> {
        let no_unrolling: &[&str] = if self.unrolls { &[] } else { &NO_UNROLLING };
        UNITS.iter().chain(no_unrolling).copied()
    }

    /// `cargo <subcommand>` for the device half of the package, with diagnostics as JSON.
    fn cargo(&self, subcommand: &str, target: &Target) -> Command {
        let mut cargo = Command::new(&self.cargo);
        cargo
            .current_dir(self.workspace.root())
            // Quiet, as several compile at the same time.
            .args([subcommand, "--quiet", "--package", target.package.name, "--lib", "--profile", "device"])
            .args(["--features", target.cargo_feature])
            .args(["--target", TARGET, "--target-dir"])
            .arg(self.target_folder(target))
            .args(["--message-format", device_cargo::format()])
            .env("RUSTC", &self.compiler.rustc)
            // The target's ABI and inline assembly are unstable; this lets a stable compiler accept them.
            .env("RUSTC_BOOTSTRAP", "1")
            // The kernels' own incremental compilation is asked for where their PTX is.
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_ENCODED_RUSTFLAGS", self.rustflags(target).join("\x1f"))
            .env_remove("RUSTC_WRAPPER")
            .env_remove("RUSTC_WORKSPACE_WRAPPER");
        use_shared_libraries(&mut cargo, self.compiler.shared_libraries.as_deref());
        if let Some(candidates) = &self.candidates {
            candidates.add_to(&mut cargo);
        }
        cargo
    }

    fn rustflags(&self, target: &Target) -> Vec<String> {
        let mut flags =
            vec![format!("-Ctarget-cpu={}", target.cpu), format!("-Ctarget-feature=+{}", target.ptx_feature)];
        // Comments, which say through which calls a line was inlined; no instruction changes.
        flags.push("-Zverbose-asm".into());
        // `.file` then names sources relative to the workspace on every machine.
        let root = self.workspace.root();
        flags.push(format!("--remap-path-prefix={}=", root.display()));
        flags.extend(self.library.iter().map(|library| format!("--sysroot={}", library.display())));
        flags
    }

    /// Cargo's target folder: one for each GPU, since cargo keeps what it built for one set of flags only, and `core` takes
    /// long to build.
    fn target_folder(&self, target: &Target) -> PathBuf {
        let folder = self.workspace.device_target();
        let own = self.candidates.as_ref().and_then(CandidateList::folder);
        own.map_or(folder.clone(), |own| folder.join(own)).join(target.cpu)
    }

    /// Where the compiler keeps what it knows from the last time, and the PTX of every unit: one folder for each way of
    /// compiling, since cargo, which remembers each of them as up to date, does not look into it.
    fn units_folder(&self, target: &Target) -> PathBuf {
        let flags: Vec<&str> = self.unit_flags().collect();
        let way = format!("{:?} {:?} {flags:?} {:?}", self.compiler, self.rustflags(target), self.candidates);
        let hash = &files::sha256(way.as_bytes())[..16];
        let name = format!("{}-{}-{hash}", target.package.name, target.cargo_feature);
        self.target_folder(target).join("units").join(name)
    }

    /// The PTX of all units of the build that `folder` remembers.
    fn units(&self, target: &Target, folder: &Path) -> Result<String> {
        let units = units::read(folder)?.with_context(|| {
            let target_folder = self.target_folder(target);
            format!(
                "the compiler left no PTX in {}; remove {} and try again",
                folder.display(),
                target_folder.display()
            )
        })?;
        join::join(&units).with_context(|| format!("the PTX in {} is not understood", folder.display()))
    }
}

impl CodeGenerator for Rustc {
    fn identity(&self) -> manifest::CodeGenerator {
        manifest::CodeGenerator { name: "rustc".into(), version: self.compiler.version_line.clone() }
    }

    fn has_probes(&self) -> bool {
        true
    }

    fn has_backward(&self, _: &BackwardVariant) -> bool {
        true
    }

    fn compile(&self, target: &Target) -> Result<Compiled> {
        let folder = self.units_folder(target);
        let mut cargo = self.cargo("rustc", target);
        cargo.args(["--", "--emit=asm"]).arg(format!("-Cincremental={}", folder.display())).args(self.unit_flags());
        let built = device_cargo::run(cargo, target.package.name)?;
        units::remove_copies(&built.files)?;
        let ptx = self.units(target, &folder)?;
        Ok(Compiled { ptx: call_chains::from_comments(&ptx), warnings: built.diagnostics })
    }

    fn for_candidates(&self, list: &Path, worker: usize) -> Option<Box<dyn CodeGenerator>> {
        let candidates = Some(CandidateList::new(list, worker));
        Some(Box::new(Self { candidates, ..self.clone() }))
    }

    fn lint(&self, target: &Target) -> Result<Option<usize>> {
        let clippy = self.compiler.rustc.with_file_name("clippy-driver");
        if !clippy.is_file() {
            return Ok(None);
        }
        let mut cargo = self.cargo("check", target);
        cargo.env("RUSTC_WORKSPACE_WRAPPER", clippy);
        Ok(Some(device_cargo::run(cargo, target.package.name)?.diagnostics))
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::Rustc;
    use crate::codegen::FAMILY_TARGETS;
    use crate::device_compiler::{DeviceCompiler, DeviceLibrary, Origin, Version};
    use crate::environment::Workspace;

    #[test]
    fn sources_are_named_without_the_folders_of_this_machine() {
        let compiler = DeviceCompiler {
            rustc: PathBuf::from("/bin/rustc"),
            origin: Origin::Provisioned,
            version_line: "rustc 1.96.0".into(),
            version: Version(1, 96),
            library: DeviceLibrary::Prebuilt,
            shared_libraries: None,
        };
        let workspace = Workspace::new(Path::new("/home/me/fa512").into());
        let flags = Rustc::new(compiler, None, "cargo".into(), workspace).rustflags(&FAMILY_TARGETS[0].target);
        let remapped = flags.iter().filter_map(|flag| flag.strip_prefix("--remap-path-prefix="));
        assert_eq!(remapped.collect::<Vec<_>>(), ["/home/me/fa512="]);
    }
}

//! rustc's own nvptx64 backend.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use kernel_gpu::manifest;

use super::candidate_list::CandidateList;
use super::{CodeGenerator, Compiled, Target, call_chains, messages};
use crate::device_compiler::{DeviceCompiler, DeviceLibrary, TARGET, use_shared_libraries};
use crate::environment::Workspace;
use crate::files;

/// Compiles with a rustc that knows the target, driven by cargo.
#[derive(Clone)]
pub struct Rustc {
    compiler: DeviceCompiler,
    cargo: PathBuf,
    workspace: Workspace,
    candidates: Option<CandidateList>,
}

impl Rustc {
    /// `cargo` drives the compiler unless it comes with its own.
    pub fn new(compiler: DeviceCompiler, cargo: PathBuf, workspace: Workspace) -> Self {
        let cargo = compiler.own_cargo().unwrap_or(cargo);
        Self { compiler, cargo, workspace, candidates: None }
    }

    /// `cargo <subcommand>` for the device half of kernel-gpu, with diagnostics as JSON.
    fn cargo(&self, subcommand: &str, target: &Target) -> Command {
        let mut cargo = Command::new(&self.cargo);
        cargo
            .current_dir(self.workspace.root())
            .args([subcommand, "--package", "kernel-gpu", "--lib", "--profile", "device"])
            .args(["--features", target.cargo_feature, "--target", TARGET, "--target-dir"])
            .arg(self.target_folder(target))
            .args(["--message-format", messages::format()])
            .env("RUSTC", &self.compiler.rustc)
            // The target's ABI and inline assembly are unstable; this lets a stable compiler accept them.
            .env("RUSTC_BOOTSTRAP", "1")
            // It would divide the crate into several units, between which nothing is inlined.
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_ENCODED_RUSTFLAGS", self.rustflags(target).join("\x1f"))
            .env_remove("RUSTC_WRAPPER")
            .env_remove("RUSTC_WORKSPACE_WRAPPER");
        if let Some(candidates) = &self.candidates {
            candidates.add_to(&mut cargo);
        }
        use_shared_libraries(&mut cargo, self.compiler.shared_libraries.as_deref());
        if let DeviceLibrary::Source(_) = self.compiler.library {
            cargo.arg("-Zbuild-std=core");
        }
        cargo
    }

    fn rustflags(&self, target: &Target) -> Vec<String> {
        let mut flags =
            vec![format!("-Ctarget-cpu={}", target.cpu), format!("-Ctarget-feature=+{}", target.ptx_feature)];
        // Comments, which say through which calls a line was inlined; no instruction changes.
        flags.push("-Zverbose-asm".into());
        // `.file` then names sources relative to the workspace, and the library's as `rust/…`, on every machine.
        let root = self.workspace.root();
        flags.push(format!("--remap-path-prefix={}=", root.display()));
        if let DeviceLibrary::Source(source) = &self.compiler.library {
            // Cargo names what lies inside the workspace by its relative path.
            let source = source.strip_prefix(root).unwrap_or(source);
            flags.push(format!("--remap-path-prefix={}=rust", source.display()));
        }
        flags
    }

    /// Cargo's target folder: one for each GPU, since cargo keeps what it built for one set of flags only, and `core` takes
    /// long to build.
    fn target_folder(&self, target: &Target) -> PathBuf {
        let folder = self.workspace.device_target();
        match &self.candidates {
            Some(candidates) => folder.join(candidates.folder()).join(target.cpu),
            None => folder.join(target.cpu),
        }
    }

    /// Where the compiler writes its PTX: one file for each way of compiling, since cargo, which remembers each of
    /// them as up to date, does not look at this file.
    fn assembly_path(&self, target: &Target) -> PathBuf {
        let way = format!("{:?} {:?} {:?}", self.compiler, self.rustflags(target), self.candidates);
        let name = format!("{}-{}.s", target.cargo_feature, &files::sha256(way.as_bytes())[..16]);
        self.target_folder(target).join(TARGET).join(name)
    }
}

impl CodeGenerator for Rustc {
    fn identity(&self) -> manifest::CodeGenerator {
        manifest::CodeGenerator { name: "rustc".into(), version: self.compiler.version_line.clone() }
    }

    fn compile(&self, target: &Target) -> Result<Compiled> {
        let assembly = self.assembly_path(target);
        let mut cargo = self.cargo("rustc", target);
        cargo.arg("--").arg(format!("--emit=asm={}", assembly.display()));
        let warnings = messages::run(cargo)?.diagnostics;
        let ptx = fs::read_to_string(&assembly).with_context(|| {
            let folder = self.target_folder(target);
            format!("the compiler left no PTX at {}; remove {} and try again", assembly.display(), folder.display())
        })?;
        Ok(Compiled { ptx: call_chains::from_comments(&ptx), warnings })
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
        Ok(Some(messages::run(cargo)?.diagnostics))
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
        let remapped = |source: &str| {
            let compiler = DeviceCompiler {
                rustc: PathBuf::from("/bin/rustc"),
                origin: Origin::Provisioned,
                version_line: "rustc 1.96.0".into(),
                version: Version(1, 96),
                library: DeviceLibrary::Source(source.into()),
                shared_libraries: None,
            };
            let workspace = Workspace::new(Path::new("/home/me/fa512").into());
            let flags = Rustc::new(compiler, "cargo".into(), workspace).rustflags(&FAMILY_TARGETS[0].target);
            flags
                .into_iter()
                .filter_map(|flag| Some(flag.strip_prefix("--remap-path-prefix=")?.to_owned()))
                .collect::<Vec<_>>()
        };
        assert_eq!(remapped("/usr/lib/rust"), ["/home/me/fa512=", "/usr/lib/rust=rust"]);
        assert_eq!(remapped("/home/me/fa512/.toolchain/rust"), ["/home/me/fa512=", ".toolchain/rust=rust"]);
    }
}

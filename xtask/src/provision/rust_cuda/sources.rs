//! The sources that an installation is built of: Rust-CUDA's repository, whose commit names its contents, and LLVM 7.1.0's release.
//!
//! Each is taken from the folder that the user gave, else from that of downloads, else from the network.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::environment::Environment;
use crate::files;
use crate::process::{capture, run};
use crate::progress::Step;
use crate::rust_cuda::COMMIT;

/// Folder of LLVM's sources, here and where they are given.
pub const LLVM: &str = "llvm-7.1.0.src";
/// They are published as this file.
const LLVM_ARCHIVE: &str = "llvm-7.1.0.src.tar.xz";
const LLVM_ADDRESS: &str = "https://github.com/llvm/llvm-project/releases/download/llvmorg-7.1.0/llvm-7.1.0.src.tar.xz";
/// Of [`LLVM_ARCHIVE`].
const LLVM_SHA256: &str = "1bcc9b285074ded87b88faaedddb88e6b5d6c331dfcfb57d7f3393dd622b3764";
/// Of the files in [`LLVM_COMPILED`], as [`contents_hash`] has it. Those of a mirror; not compared with the archive's.
const LLVM_CONTENTS_SHA256: &str = "d7b96603a138a22e57b190dbf9c64fcc286f8631b49ed130a8cef3697cb7fc19";
/// Folders of the sources with what is compiled.
const LLVM_COMPILED: [&str; 2] = ["include", "lib"];

/// Name of a clone of the repository where it is given.
const RUST_CUDA: &str = "rust-cuda";
const RUST_CUDA_ADDRESS: &str = "https://github.com/Rust-GPU/rust-cuda";

/// Where sources come from.
#[derive(Debug)]
pub struct Sources<'a> {
    /// Has the programs that download.
    pub environment: &'a Environment,
    /// What was downloaded before, or put there by the user.
    pub downloads: PathBuf,
    /// The user's folder.
    pub given: Option<&'a Path>,
}

impl Sources<'_> {
    /// Clones Rust-CUDA's repository into the empty folder `destination`, at [`COMMIT`].
    pub fn clone_rust_cuda(&self, destination: &Path) -> Result<()> {
        let given = self.find(RUST_CUDA);
        let origin = given.as_deref().unwrap_or(Path::new(RUST_CUDA_ADDRESS));
        let step = Step::begin(format!("cloning {}", origin.display()));
        let program = self.environment.require_program("git")?;
        let git = |arguments: &[&str]| capture(Command::new(&program).args(arguments).env("GIT_TERMINAL_PROMPT", "0"));
        let path = |path: &Path| path.display().to_string();
        git(&["clone", "--quiet", "--no-checkout", &path(origin), &path(destination)])
            .and_then(|_| git(&["-C", &path(destination), "checkout", "--quiet", COMMIT]))
            .with_context(|| {
                let advice = self.advice("a clone of it", RUST_CUDA);
                format!(
                    "Rust-CUDA's repository with commit {COMMIT} is not to be had from {}: {advice}",
                    origin.display()
                )
            })?;
        step.done();
        Ok(())
    }

    /// Fills the empty folder `destination` with LLVM's sources.
    pub fn unpack_llvm(&self, destination: &Path) -> Result<()> {
        if let Some(folder) = self.find(LLVM) {
            return copy_llvm(&folder, destination);
        }
        let archive = self.find(LLVM_ARCHIVE).map_or_else(|| self.download_llvm(), Ok)?;
        check_archive(&archive)?;
        let step = Step::begin(format!("unpacking {}", archive.display()));
        let tar = self.environment.require_program("tar")?;
        run(Command::new(tar).arg("-xf").arg(&archive).arg("-C").arg(destination).arg("--strip-components=1"))?;
        step.done();
        Ok(())
    }

    /// The file or folder `name`, from the user or downloaded before.
    fn find(&self, name: &str) -> Option<PathBuf> {
        let folders = self.given.into_iter().chain([self.downloads.as_path()]);
        folders.map(|folder| folder.join(name)).find(|path| path.exists())
    }

    fn download_llvm(&self) -> Result<PathBuf> {
        let archive = self.downloads.join(LLVM_ARCHIVE);
        let step = Step::begin(format!("downloading {LLVM_ADDRESS}, 29 MB"));
        let downloaded = self.environment.require_program("curl").and_then(|curl| {
            files::through_temporary(&archive, |unfinished| {
                let mut curl = Command::new(curl);
                curl.args([
                    "--fail",
                    "--location",
                    "--silent",
                    "--show-error",
                    "--connect-timeout",
                    "30",
                    LLVM_ADDRESS,
                ]);
                capture(curl.arg("--output").arg(unfinished)).map(drop)
            })
        });
        downloaded.with_context(|| {
            let advice = self.advice(&format!("{LLVM_ARCHIVE} (or its contents in a folder {LLVM})"), LLVM_ARCHIVE);
            format!("LLVM 7.1.0's sources are not here and cannot be downloaded from {LLVM_ADDRESS}: {advice}")
        })?;
        step.done();
        Ok(archive)
    }

    /// What a user can do where `what` cannot be reached.
    fn advice(&self, what: &str, name: &str) -> String {
        format!(
            "bring {what} as {}, or into another folder and give --sources DIR",
            self.downloads.join(name).display()
        )
    }
}

/// Refuses another file than the release.
fn check_archive(archive: &Path) -> Result<()> {
    let bytes = fs::read(archive).with_context(|| format!("could not read {}", archive.display()))?;
    let hash = files::sha256(&bytes);
    ensure!(
        hash == LLVM_SHA256,
        "{} is damaged or another file: its SHA-256 is {hash}, that of LLVM 7.1.0 {LLVM_SHA256}; remove it, or bring the right one",
        archive.display()
    );
    Ok(())
}

/// Copies the sources that lie unpacked in `folder`, without LLVM's own tests, which are most of its files.
fn copy_llvm(folder: &Path, destination: &Path) -> Result<()> {
    let step = Step::begin(format!("copying {}", folder.display()));
    let hash = contents_hash(folder)?;
    ensure!(
        hash == LLVM_CONTENTS_SHA256,
        "{} has other files than LLVM 7.1.0: the SHA-256 of include and lib is {hash}, not {LLVM_CONTENTS_SHA256}; bring {LLVM_ARCHIVE}",
        folder.display()
    );
    for entry in fs::read_dir(folder)?.flatten().filter(|entry| entry.file_name() != "test") {
        files::copy(&entry.path(), &destination.join(entry.file_name()))?;
    }
    step.done();
    Ok(())
}

/// SHA-256 of the list of the files in [`LLVM_COMPILED`], each with its own.
fn contents_hash(folder: &Path) -> Result<String> {
    let mut list = String::new();
    for part in LLVM_COMPILED {
        for path in files::below(&folder.join(part))? {
            let bytes = fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
            writeln!(list, "{}  {}", files::sha256(&bytes), path.strip_prefix(folder)?.display())?;
        }
    }
    Ok(files::sha256(list.as_bytes()))
}

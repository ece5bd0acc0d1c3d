//! Tools from Python wheels.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{ToolchainFolder, debian};
use crate::cuda_tool::CudaTool;
use crate::environment::Environment;
use crate::files;
use crate::nvcc::Nvcc;
use crate::process::{capture, run};
use crate::progress::Step;
use crate::ptxas::Ptxas;
use crate::rust_cuda::LIBNVVM;
use crate::zigbuild;

/// A wheel for x86-64 Linux, pinned: it decides what is compiled, and which register counts and spills a check sees.
#[derive(Clone, Copy, Debug)]
struct Wheel {
    /// Its name and version, as pip wants them.
    requirement: &'static str,
    /// SHA-256 of its file. Programs of it are executed, so that no other file is taken.
    sha256: &'static str,
}

impl Wheel {
    /// How its file name begins.
    fn file(&self) -> String {
        format!("{}-", self.requirement.replace('-', "_").replace("==", "-"))
    }

    /// A line of a file of requirements, by which pip takes this file and no other.
    fn pinned(&self) -> String {
        format!("{} --hash=sha256:{}\n", self.requirement, self.sha256)
    }
}

/// The CUDA compiler's wheel, which has ptxas.
const COMPILER: Wheel = Wheel {
    requirement: "nvidia-cuda-nvcc==13.0.88",
    sha256: "56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03",
};
/// What nvcc needs besides: its device compiler, its headers and those it includes in every file. candle's kernels include CUDA's C++
/// library, nvdisasm shows what became of the PTX.
const COMPILER_PARTS: [Wheel; 5] = [
    Wheel {
        requirement: "nvidia-nvvm==13.0.88",
        sha256: "c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0",
    },
    Wheel {
        requirement: "nvidia-cuda-crt==13.0.88",
        sha256: "2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4",
    },
    Wheel {
        requirement: "nvidia-cuda-runtime==13.0.88",
        sha256: "422a38f7c739ecbdd3a4b6ec7ed0a1d74db43d8e9bc26685f3d845638922b178",
    },
    Wheel {
        requirement: "nvidia-cuda-cccl==13.0.85",
        sha256: "e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649",
    },
    Wheel {
        requirement: "nvidia-cuda-nvdisasm==13.2.51",
        sha256: "5a7acf77c55d6d2911ed6155d4d5bc156ffadf9df7a68a89b0c1155f4b13688c",
    },
];
/// Those of them that Rust-CUDA's backend is built with.
const BACKEND_PARTS: usize = 3;
/// cargo-zigbuild and the linker it drives.
const ZIGBUILD: [Wheel; 2] = [
    Wheel {
        requirement: "cargo-zigbuild==0.24.0",
        sha256: "484412e39e4c6039474535ce97ee75a22bab22d58233056f8ec8a8f9034bb957",
    },
    Wheel {
        requirement: "ziglang==0.15.2",
        sha256: "806316453d1ede7174ed3fefb8e5348154629089c3bb5fe812dfd0e172fac130",
    },
];
/// Where the wheel of cargo-zigbuild keeps its program.
const ZIGBUILD_IN_WHEEL: &str = "cargo_zigbuild-0.24.0.data/scripts/cargo-zigbuild";

/// Where NVIDIA's wheels keep what a CUDA installation has.
const INSTALLATION_IN_WHEEL: &str = "nvidia/cu13";
/// Folders of programs in an installation.
const PROGRAM_FOLDERS: [&str; 2] = ["bin", "nvvm/bin"];

/// What pip is made of on Debian.
const PIP_PACKAGES: [&str; 1] = ["python3-pip"];
/// Folder of a provisioned pip.
const PIP_FOLDER: &str = "pip";

/// Downloads the compiler's wheel and puts its ptxas into the toolchain folder.
pub fn unpack_ptxas(environment: &Environment, folder: &ToolchainFolder) -> Result<()> {
    install(environment, folder, &folder.path.join(Ptxas::PROVISIONED_FOLDER), &[COMPILER], |contents, unfinished| {
        let ptxas = unfinished.join("ptxas");
        fs::rename(contents.join(INSTALLATION_IN_WHEEL).join("bin/ptxas"), &ptxas).context("the wheel has no ptxas")?;
        mark_as_program(&ptxas)?;
        eprintln!("xtask: ptxas {} is ready", Ptxas::probe(&ptxas)?.version);
        Ok(())
    })
}

/// Downloads the wheels that make up nvcc and puts them together in the toolchain folder.
pub fn unpack_nvcc(environment: &Environment, folder: &ToolchainFolder) -> Result<()> {
    let wheels: Vec<Wheel> = [COMPILER].into_iter().chain(COMPILER_PARTS).collect();
    install(environment, folder, &folder.path.join(Nvcc::PROVISIONED_FOLDER), &wheels, |contents, unfinished| {
        assemble_cuda(contents, unfinished)?;
        eprintln!("xtask: nvcc {} is ready", Nvcc::probe(&unfinished.join("bin/nvcc"))?.version);
        Ok(())
    })
}

/// Downloads what Rust-CUDA's backend is built with, and puts it into `destination` as its build script looks for it.
pub fn unpack_cuda(environment: &Environment, folder: &ToolchainFolder, destination: &Path) -> Result<()> {
    let wheels: Vec<Wheel> = [COMPILER].iter().chain(&COMPILER_PARTS[..BACKEND_PARTS]).copied().collect();
    install(environment, folder, destination, &wheels, |contents, unfinished| {
        assemble_cuda(contents, unfinished)?;
        let (include, libraries) = (unfinished.join("nvvm/include"), unfinished.join("nvvm/lib64"));
        [&include, &libraries, &unfinished.join("lib64")].iter().try_for_each(fs::create_dir_all)?;
        fs::copy(unfinished.join("include/nvvm.h"), include.join("nvvm.h"))?;
        fs::rename(unfinished.join("lib").join(LIBNVVM), libraries.join(LIBNVVM))
            .context("the wheel has no libNVVM")?;
        Ok(symlink(LIBNVVM, libraries.join("libnvvm.so"))?)
    })
}

/// Moves an installation of CUDA from the wheels' `contents`.
fn assemble_cuda(contents: &Path, unfinished: &Path) -> Result<()> {
    for part in fs::read_dir(contents.join(INSTALLATION_IN_WHEEL))?.flatten() {
        fs::rename(part.path(), unfinished.join(part.file_name()))?;
    }
    for folder in PROGRAM_FOLDERS {
        fs::read_dir(unfinished.join(folder))?.flatten().try_for_each(|file| mark_as_program(&file.path()))?;
    }
    Ok(())
}

/// Downloads cargo-zigbuild and zig and puts them into the toolchain folder.
pub fn unpack_zigbuild(environment: &Environment, folder: &ToolchainFolder) -> Result<()> {
    install(environment, folder, &folder.path.join(zigbuild::PROVISIONED_FOLDER), &ZIGBUILD, |contents, unfinished| {
        let program = unfinished.join("cargo-zigbuild");
        fs::rename(contents.join(ZIGBUILD_IN_WHEEL), &program).context("the wheel has no cargo-zigbuild")?;
        fs::rename(contents.join("ziglang"), unfinished.join("zig")).context("the wheel has no zig")?;
        mark_as_program(&program)?;
        mark_as_program(&unfinished.join("zig/zig"))
    })
}

/// Downloads `wheels`, unpacks them over each other, and lets `assemble` fill `destination` from what they hold.
fn install(
    environment: &Environment,
    folder: &ToolchainFolder,
    destination: &Path,
    wheels: &[Wheel],
    assemble: impl FnOnce(&Path, &Path) -> Result<()>,
) -> Result<()> {
    let python = environment.find_program("python3").context("there is no python3 to get a Python wheel with")?;
    let files = download(environment, &python, folder, wheels)?;
    folder.install(destination, |unfinished| {
        let contents = unfinished.join("wheel");
        for wheel in &files {
            capture(Command::new(&python).args(["-m", "zipfile", "-e"]).arg(wheel).arg(&contents))?;
        }
        assemble(&contents, unfinished)?;
        Ok(files::remove(&contents)?)
    })?;
    files.iter().try_for_each(|wheel| Ok(files::remove(wheel)?))
}

/// Makes a file executable, which a wheel does not say of its programs.
fn mark_as_program(file: &Path) -> Result<()> {
    let mark = fs::set_permissions(file, fs::Permissions::from_mode(0o755));
    mark.with_context(|| format!("could not make {} executable", file.display()))
}

fn download(
    environment: &Environment,
    python: &Path,
    folder: &ToolchainFolder,
    wheels: &[Wheel],
) -> Result<Vec<PathBuf>> {
    let downloads = folder.downloads();
    let mut pip = pip(environment, python, folder)?;
    pip.args(["download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--dest"]);
    let requirements: Vec<&str> = wheels.iter().map(|wheel| wheel.requirement).collect();
    let step = Step::begin(format!("downloading {}", requirements.join(", ")));
    let pinned = downloads.join("requirements.txt");
    fs::write(&pinned, wheels.iter().map(Wheel::pinned).collect::<String>())?;
    run(pip.arg(&downloads).args(["--require-hashes", "--requirement"]).arg(&pinned).stdout(io::stderr()))?;
    files::remove(&pinned)?;
    step.done();
    let names: Vec<PathBuf> = fs::read_dir(&downloads)?.flatten().map(|entry| entry.path()).collect();
    let find = |wheel: &Wheel| {
        let file = wheel.file();
        let is_wheel = |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&file));
        names.iter().find(is_wheel).cloned().with_context(|| format!("pip left no {file}*.whl"))
    };
    wheels.iter().map(find).collect()
}

/// pip of this machine, else one from Debian packages.
fn pip(environment: &Environment, python: &Path, folder: &ToolchainFolder) -> Result<Command> {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip"]);
    if capture(Command::new(python).args(["-m", "pip", "--version"])).is_ok() {
        return Ok(pip);
    }
    let packages = folder.path.join(PIP_FOLDER);
    if !packages.is_dir() {
        eprintln!("xtask: this python3 has no pip; getting Debian's");
        debian::unpack_packages(environment, folder, &PIP_PACKAGES, &packages)?;
    }
    pip.env("PYTHONPATH", packages.join("usr/lib/python3/dist-packages"));
    Ok(pip)
}

#[cfg(test)]
mod tests {
    use super::{COMPILER, COMPILER_PARTS, ZIGBUILD};

    #[test]
    fn every_wheel_is_pinned_by_version_and_hash() {
        for wheel in [COMPILER].iter().chain(&COMPILER_PARTS).chain(&ZIGBUILD) {
            assert!(wheel.requirement.contains("=="), "{} has no version", wheel.requirement);
            let is_hash = wheel.sha256.len() == 64 && wheel.sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_hash, "{}: {}", wheel.requirement, wheel.sha256);
        }
        assert_eq!(COMPILER.file(), "nvidia_cuda_nvcc-13.0.88-");
    }
}

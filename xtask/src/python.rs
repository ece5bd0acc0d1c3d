//! The Python package: virtual environments, and the wheel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::{Environment, Workspace};
use crate::files;
use crate::kernels;
use crate::portable::Toolset;
use crate::process;
use crate::progress::Step;

/// What builds the wheel, for x86-64 Linux. It is executed, so that no other files are taken.
const MATURIN: [&str; 2] = [
    "maturin==1.16.0 --hash=sha256:837db2f4d93d4899c3ac393fb3cc9eebf35b6002336e5d574f4a4fb6c49fe283",
    "tomli==2.2.1 ; python_version < '3.11' --hash=sha256:cb55c73c5f4408779d0cf3eef9f762b9c9f147a77de7b258bef0a5628adc85cc",
];
/// What marks a requirement whose file is known.
const HASH: &str = " --hash=sha256:";
/// Most bytes of a wheel that is shipped.
const MOST_BYTES: u64 = 8_000_000;

/// How the native half is linked.
pub enum Linker<'a> {
    /// For this machine and its checkout: kernels with their line tables.
    Native,
    /// The same without optimisation, for checks of what is packed.
    Unoptimised,
    /// As it is shipped: for the oldest C library that the C interface runs with, too.
    Portable(&'a Toolset),
}

/// The python3 of this machine.
pub fn interpreter(environment: &Environment) -> Result<PathBuf> {
    environment.find_program("python3").context("there is no python3 to make a virtual environment")
}

/// A virtual environment of Python.
pub struct Venv(PathBuf);

impl Venv {
    /// The one in `folder`, with `requirements`, made anew by this machine's python3 where it has others.
    pub fn with(environment: &Environment, folder: PathBuf, requirements: &[&str]) -> Result<Self> {
        let stamp = folder.join("requirements.txt");
        let wanted = requirements.join("\n");
        if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            return Ok(Self(folder));
        }
        let venv = Self::new(&interpreter(environment)?, folder)?;
        match requirements.iter().all(|requirement| requirement.contains(HASH)) {
            true => venv.install_files(&wanted)?,
            false => venv.install(requirements)?,
        }
        fs::write(stamp, wanted)?;
        Ok(venv)
    }

    /// Installs the files whose hashes `requirements` gives, a line for each, and no others.
    fn install_files(&self, requirements: &str) -> Result<()> {
        let listed = self.0.join("files.txt");
        fs::write(&listed, requirements)?;
        self.install(&["--require-hashes".as_ref(), "--requirement".as_ref(), listed.as_os_str()])
    }

    /// A new one of the interpreter `python` in `folder`, with nothing but pip.
    pub fn new(python: &Path, folder: PathBuf) -> Result<Self> {
        files::remove(&folder)?;
        process::run(Command::new(python).args(["-m", "venv"]).arg(&folder))?;
        Ok(Self(folder))
    }

    /// Installs packages, by name or from a wheel. What is never imported, most of PyTorch, is not compiled to bytecode.
    pub fn install<T: AsRef<std::ffi::OsStr>>(&self, packages: &[T]) -> Result<()> {
        let arguments =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--no-compile"];
        process::run(self.python().args(arguments).args(packages))
    }

    /// Its interpreter.
    pub fn python(&self) -> Command {
        let mut python = Command::new(self.0.join("bin/python"));
        python.env_remove("PYTHONPATH").env("PYTHONDONTWRITEBYTECODE", "1");
        python
    }

    /// A program in it.
    pub fn program(&self, name: &str) -> Command {
        Command::new(self.0.join("bin").join(name))
    }
}

/// Builds the wheel of `package`, a folder of the workspace, into `out`, of what is in `target`.
pub fn build_wheel(
    environment: &Environment,
    workspace: &Workspace,
    package: &Path,
    out: &Path,
    linker: &Linker<'_>,
) -> Result<PathBuf> {
    let tools = Venv::with(environment, workspace.root().join("target/python/tools"), &MATURIN)?;
    let step = Step::begin(format!("building the Python wheel of {}", package.display()));
    // Of its own, so that only one wheel is there afterwards.
    let fresh = workspace.root().join("target/python/wheel");
    files::remove(&fresh)?;
    let mut maturin = tools.program("maturin");
    maturin.current_dir(workspace.root()).args(["build", "--quiet", "--manifest-path"]);
    maturin.arg(package.join("Cargo.toml")).arg("--out").arg(&fresh);
    match linker {
        Linker::Native => maturin.args(["--release", "--compatibility", "linux"]),
        Linker::Unoptimised => maturin.args(["--compatibility", "linux"]),
        Linker::Portable(toolset) => {
            toolset.make_wheel(&mut maturin);
            maturin.env(kernels::WITHOUT_LINE_TABLES.0, kernels::WITHOUT_LINE_TABLES.1)
        }
    };
    process::run(&mut maturin)?;
    let wheels: Vec<PathBuf> = fs::read_dir(&fresh)?.flatten().map(|entry| entry.path()).collect();
    let [wheel] = wheels.as_slice() else { bail!("maturin left {} files, not one wheel", wheels.len()) };
    let bytes = fs::metadata(wheel)?.len();
    if bytes > MOST_BYTES && matches!(linker, Linker::Portable(_)) {
        bail!("{} has {bytes} bytes, more than {MOST_BYTES}", wheel.display());
    }
    let placed = out.join(wheel.file_name().context("a wheel has a name")?);
    files::copy(wheel, &placed)?;
    step.done();
    Ok(placed)
}

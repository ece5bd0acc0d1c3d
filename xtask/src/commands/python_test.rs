//! `cargo xtask python-test`: the Python package as its users install it.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, anyhow};

use super::ptx;
use crate::cores;
use crate::environment::{Environment, Workspace};
use crate::files;
use crate::process;
use crate::progress::Step;
use crate::python::{Linker, Venv, build_wheel, interpreter};
use crate::simulator;

/// What the tests need beside the wheel.
const REQUIREMENTS: [&str; 1] = ["numpy"];
/// What compares the type stubs with the code.
const STUBTEST: [&str; 1] = ["mypy==2.4.1"];
/// What those of `fa512.torch` and `fa512.transformers` need besides: 3 GB.
const TORCH_REQUIREMENTS: [&str; 5] =
    ["torch==2.11.0", "transformers==5.17.0", "sentence-transformers==6.0.1", "kernels==0.17.2", "expecttest"];

/// Builds the wheel, installs it into a fresh virtual environment and tests it there, without a GPU.
///
/// Calls go through the simulated driver. mypy's stubtest compares the type stubs with the code.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Also test fa512.torch and fa512.transformers, which downloads PyTorch (3 GB, kept in target)
    #[arg(long)]
    torch: bool,
    /// Also test the package, but not its type stubs, with this interpreter, such as python3.9; may be repeated
    #[arg(long, value_name = "PROGRAM")]
    python: Vec<PathBuf>,
}

impl Arguments {
    /// Builds the PTX and the wheel, and runs the tests.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        ptx::build(environment, workspace, &workspace.ptx())?;
        let libraries = simulator::build_libraries(environment, workspace, &Linker::Native)?;
        check_by(environment, workspace, &libraries, &self.python)?;
        if self.torch { check_torch(environment, workspace, &libraries) } else { Ok(()) }
    }
}

/// Tests the package with the PTX that is there, without PyTorch. The simulated driver and runtime are in the folder `libraries`.
pub fn check(environment: &Environment, workspace: &Workspace, libraries: &Path) -> Result<()> {
    check_by(environment, workspace, libraries, &[])
}

/// [`check`], by `others` than this machine's python3 too: one wheel is for all of them.
fn check_by(environment: &Environment, workspace: &Workspace, libraries: &Path, others: &[PathBuf]) -> Result<()> {
    let wheel = build_wheel(environment, workspace, &workspace.python(), &workspace.packages(), &Linker::Native)?;
    for other in others {
        let folder = workspace.root().join("target/python/other");
        check_wheel(workspace, libraries, &wheel, Venv::new(other, folder)?)
            .with_context(|| format!("by {}", other.display()))?;
    }
    let folder = workspace.root().join("target/python/fresh");
    let venv = check_wheel(workspace, libraries, &wheel, Venv::new(&interpreter(environment)?, folder)?)?;
    compare_stubs(workspace, &venv)?;
    simulator::check_wheel(environment, workspace, libraries)
}

/// Installs the wheel into the fresh `venv` and runs its tests there.
pub fn check_wheel(workspace: &Workspace, libraries: &Path, wheel: &Path, venv: Venv) -> Result<Venv> {
    let step = Step::begin("installing the wheel into a fresh virtual environment");
    venv.install(&[wheel])?;
    // Before anything else is there that it might take.
    process::run(venv.python().args(["-c", "import fa512; fa512.info()"]))?;
    venv.install(&REQUIREMENTS)?;
    step.done();
    run_tests(workspace, libraries, &venv, "tests", 1)?;
    Ok(venv)
}

fn compare_stubs(workspace: &Workspace, venv: &Venv) -> Result<()> {
    venv.install(&STUBTEST)?;
    let mut stubtest = venv.python();
    // Not beside the package's sources: what is installed is compared.
    stubtest.current_dir(workspace.python().join("tests")).args(["-m", "mypy.stubtest", "fa512"]);
    stubtest.args(["--mypy-config-file", "../pyproject.toml", "--allowlist", "stubtest-allowed.txt"]);
    process::run(stubtest.env("MYPY_CACHE_DIR", workspace.root().join("target/python/mypy")))
}

/// Tests what needs PyTorch, which is downloaded. The simulated driver and runtime are in the folder `libraries`.
pub fn check_torch(environment: &Environment, workspace: &Workspace, libraries: &Path) -> Result<()> {
    let wheel = build_wheel(environment, workspace, &workspace.python(), &workspace.packages(), &Linker::Native)?;
    let venv = install_torch(environment, workspace)?;
    venv.install(&["--force-reinstall".as_ref(), "--no-deps".as_ref(), wheel.as_os_str()])?;
    run_tests(workspace, libraries, &venv, "tests/with_torch", cores::count())
}

/// The virtual environment with PyTorch and transformers, which are downloaded if they are not there.
pub fn install_torch(environment: &Environment, workspace: &Workspace) -> Result<Venv> {
    let requirements: Vec<&str> = REQUIREMENTS.into_iter().chain(TORCH_REQUIREMENTS).collect();
    let step = Step::begin("installing PyTorch and transformers");
    let venv = Venv::with(environment, workspace.root().join("target/python/torch"), &requirements)?;
    step.done();
    Ok(venv)
}

/// Runs the tests of a folder in `processes` processes at once, each with some of its files.
fn run_tests(workspace: &Workspace, libraries: &Path, venv: &Venv, folder: &str, processes: usize) -> Result<()> {
    // Named as programs ask for it.
    let driver = workspace.root().join("target/python/driver/libcuda.so.1");
    files::copy(&libraries.join(simulator::DRIVER), &driver)?;
    let folder = workspace.python().join(folder);
    let modules = test_modules(&folder)?;
    let of_process = |first: usize| {
        let mut tests = venv.python();
        tests.current_dir(&folder).env("FA512_SIMULATED_DRIVER", &driver).args(["-m", "unittest"]);
        // What is imported is compiled once, for all processes.
        tests.env_remove("PYTHONDONTWRITEBYTECODE");
        // Several processes of as many threads as there are cores would wait for each other.
        tests.env("OMP_NUM_THREADS", (cores::count() / processes).max(1).to_string());
        process::run(tests.args(modules.iter().skip(first).step_by(processes)))
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..processes).map(|first| scope.spawn(move || of_process(first))).collect();
        running.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("a thread of tests panicked"))?)
    })
}

/// The names of a folder's test modules, largest file first, so that processes end at about the same time.
fn test_modules(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("no tests in {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(module) = name.strip_suffix(".py").filter(|module| module.starts_with("test_")) {
            found.push((entry.metadata()?.len(), module.to_owned()));
        }
    }
    found.sort_by(|one, other| other.cmp(one));
    Ok(found.into_iter().map(|(_, module)| module).collect())
}

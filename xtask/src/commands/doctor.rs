//! `cargo xtask doctor`: what is on this machine, what is missing, and what that costs.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Result;
use comfy_table::Table;
use fitted_table::fitted;

use crate::cuda_tool::CudaTool;
use crate::device_compiler::{self, DeviceLibrary, TARGET};
use crate::environment::{Environment, Workspace};
use crate::nvcc::Nvcc;
use crate::output::print_line;
use crate::process::capture;
use crate::provision;
use crate::ptxas::Ptxas;
use crate::rust_cuda::{self, Examination};
use crate::shared_library;

/// Shows which tools are installed, their versions and paths, and what each missing one costs.
///
/// Changes nothing. Exits with 2 if `cargo xtask run` cannot work on this machine.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Checkout of Rust-CUDA's repository to examine [default: FA512_RUST_CUDA, else .toolchain/rust-cuda/rust-cuda]
    #[arg(long, value_name = "DIR")]
    rust_cuda: Option<PathBuf>,
}

impl Arguments {
    /// Prints the table.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<ExitCode> {
        let mut findings = examine(environment, workspace);
        let rust_cuda = rust_cuda::examine(environment, workspace, self.rust_cuda.as_deref());
        findings.extend(rust_cuda_findings(&rust_cuda));
        let table = table(&findings, workspace);
        let width = table.width();
        print_line(fitted(table, width))?;
        print_line(rust_cuda_verdict(&rust_cuda))?;
        let fatal: Vec<&str> =
            findings.iter().filter(|finding| finding.is_fatal()).map(|finding| finding.what).collect();
        if fatal.is_empty() {
            print_line("cargo xtask run works on this machine.")?;
            return Ok(ExitCode::SUCCESS);
        }
        print_line(format_args!("cargo xtask run cannot work on this machine without: {}.", fatal.join(", ")))?;
        Ok(ExitCode::from(2))
    }
}

/// What was found out about one tool.
#[derive(Debug)]
struct Finding {
    what: &'static str,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Here, this version, from there.
    Found { version: String, place: String },
    /// Not here; what that costs and what to do.
    Missing { cost: String },
    /// Not here, and nothing works without it.
    Fatal { cost: String },
}

impl Finding {
    fn is_fatal(&self) -> bool {
        matches!(self.state, State::Fatal { .. })
    }
}

fn examine(environment: &Environment, workspace: &Workspace) -> Vec<Finding> {
    let mut findings = vec![
        necessary(environment, "cargo", "install Rust with rustup"),
        necessary(environment, "rustc", "install Rust with rustup"),
        necessary(environment, "cc", "links host programs: `sudo apt-get install gcc libc6-dev`"),
    ];
    findings.extend(device_compiler_findings(environment, workspace));
    findings.push(ptxas_finding(environment, workspace));
    findings.push(nvcc_finding(environment, workspace));
    findings.push(driver_finding());
    let optional: [(&'static str, &[&str], &str); 3] = [
        (
            "nvidia-smi",
            &["--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"],
            "comes with the NVIDIA driver",
        ),
        ("ncu", &["--version"], "no hardware counters; install Nsight Compute"),
        (
            "compute-sanitizer",
            &["--version"],
            "no check on the GPU itself, only in the simulator; install the CUDA toolkit",
        ),
    ];
    findings.extend(optional.map(|(what, arguments, cost)| program(environment, what, arguments, cost)));
    findings.push(program(
        environment,
        "python3",
        &["--version"],
        "no PyTorch to compare with, and no way to provision ptxas",
    ));
    findings.push(torch_finding(environment));
    findings
}

/// A program without which nothing works.
fn necessary(environment: &Environment, what: &'static str, advice: &str) -> Finding {
    let finding = program(environment, what, &["--version"], advice);
    match finding.state {
        State::Missing { cost } => Finding { what, state: State::Fatal { cost } },
        _ => finding,
    }
}

/// A program in `PATH` (or in a CUDA installation) and what it says when asked with `arguments`.
fn program(environment: &Environment, what: &'static str, arguments: &[&str], cost: &str) -> Finding {
    let cuda = environment.path("CUDA_HOME").unwrap_or_else(|| environment.system("/usr/local/cuda"));
    let in_cuda = Some(cuda.join("bin").join(what)).filter(|path| path.is_file());
    let state = match environment.find_program(what).or(in_cuda) {
        None => State::Missing { cost: cost.to_owned() },
        Some(path) => match capture(Command::new(&path).args(arguments)) {
            Ok(text) => State::Found { version: version_line(&text), place: path.display().to_string() },
            Err(error) => State::Missing { cost: format!("{}; {cost}", device_compiler::first_line(&error)) },
        },
    };
    Finding { what, state }
}

/// The line of a `--version` text that has the version: NVIDIA's tools begin with their name and a copyright.
fn version_line(text: &str) -> String {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let has_version = |line: &&str| line.starts_with("Version") || line.contains("release ");
    lines().find(has_version).or_else(|| lines().next()).unwrap_or_default().to_owned()
}

fn device_compiler_findings(environment: &Environment, workspace: &Workspace) -> Vec<Finding> {
    const WHAT: &str = "device compiler";
    let compiler = match device_compiler::find(environment, workspace) {
        Ok(Ok(compiler)) => compiler,
        Ok(Err(not_found)) => {
            let state = if environment.is_debian() {
                State::Missing { cost: "nothing: cargo xtask run provisions one, about 140 MB".into() }
            } else {
                let command = provision::compiler_command(environment);
                State::Fatal { cost: format!("{not_found}\ninstall one: `{command}`") }
            };
            return vec![Finding { what: WHAT, state }];
        }
        Err(error) => return vec![Finding { what: WHAT, state: State::Fatal { cost: format!("{error:#}") } }],
    };
    let place = format!("{}: {}", compiler.origin, compiler.rustc.display());
    let library = match &compiler.library {
        DeviceLibrary::Prebuilt => State::Found { version: "prebuilt".into(), place: format!("target {TARGET}") },
        DeviceLibrary::Source(folder) => State::Found { version: "source".into(), place: folder.display().to_string() },
    };
    vec![
        Finding { what: WHAT, state: State::Found { version: compiler.version_line, place } },
        Finding { what: "device library", state: library },
    ]
}

fn ptxas_finding(environment: &Environment, workspace: &Workspace) -> Finding {
    let state = match Ptxas::find(environment, workspace) {
        Ok(Some(ptxas)) => State::Found { version: ptxas.version, place: ptxas.path.display().to_string() },
        Ok(None) => {
            State::Missing { cost: "no registers and spills shown; `cargo xtask toolchain --all` gets it".into() }
        }
        Err(error) => State::Fatal { cost: format!("{error:#}") },
    };
    Finding { what: "ptxas", state }
}

fn nvcc_finding(environment: &Environment, workspace: &Workspace) -> Finding {
    const COST: &str = "no CUDA C++ twins to compare with";
    let state = match Nvcc::find(environment, workspace) {
        Ok(Some(nvcc)) => State::Found { version: nvcc.version, place: nvcc.path.display().to_string() },
        Ok(None) => State::Missing { cost: format!("{COST}; `cargo xtask baselines` gets it") },
        Err(error) => State::Missing { cost: format!("{COST}: {error:#}") },
    };
    Finding { what: "nvcc", state }
}

/// One finding for each piece of a Rust-CUDA installation.
fn rust_cuda_findings(examination: &Examination) -> impl Iterator<Item = Finding> {
    examination.pieces().into_iter().map(|(what, piece)| Finding {
        what,
        state: match piece {
            Ok((version, place)) => State::Found { version, place: place.display().to_string() },
            Err(reason) => State::Missing { cost: format!("no kernels by Rust-CUDA: {reason}") },
        },
    })
}

fn rust_cuda_verdict(examination: &Examination) -> &'static str {
    match examination.is_complete() {
        true => "cargo xtask ptx --codegen rust-cuda works on this machine.",
        false => {
            "cargo xtask ptx --codegen rust-cuda does not work on this machine, until `cargo xtask rust-cuda install`; nothing else needs it."
        }
    }
}

fn driver_finding() -> Finding {
    const LIBRARY: &str = "libcuda.so.1";
    let state = match shared_library::can_be_opened(LIBRARY) {
        true => State::Found { version: "opens".into(), place: LIBRARY.into() },
        false => State::Missing {
            cost: "kernels run in the simulator: right, but not timed; install NVIDIA's driver on a machine with a GPU"
                .into(),
        },
    };
    Finding { what: "NVIDIA driver", state }
}

fn torch_finding(environment: &Environment) -> Finding {
    const WHAT: &str = "PyTorch";
    let cost = || State::Missing { cost: "no comparison with its attention; `pip install torch`".into() };
    let state =
        environment.find_program("python3").map_or_else(cost, |python| torch_state(&python).unwrap_or_else(cost));
    Finding { what: WHAT, state }
}

fn torch_state(python: &Path) -> Option<State> {
    const SCRIPT: &str =
        "import importlib.metadata as m; d = m.distribution('torch'); print(d.version); print(d.locate_file('torch'))";
    let text = capture(Command::new(python).args(["-c", SCRIPT])).ok()?;
    let (version, place) = text.trim().split_once('\n')?;
    Some(State::Found { version: version.to_owned(), place: PathBuf::from(place).display().to_string() })
}

/// A row for each finding. Places in the workspace are shown from its root.
fn table(findings: &[Finding], workspace: &Workspace) -> Table {
    let root = format!("{}/", workspace.root().display());
    let mut table = fitted_table::table();
    table.set_header(["tool", "found", "where, or what its absence costs"]);
    for Finding { what, state } in findings {
        match state {
            State::Found { version, place } => table.add_row([*what, version, &place.replace(&root, "")]),
            State::Missing { cost } | State::Fatal { cost } => table.add_row([*what, "no", cost]),
        };
    }
    table
}

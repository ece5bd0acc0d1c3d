//! `fa512 doctor`: checks what this program needs and whether it is installed.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::contender::cubek;
use crate::document;
use crate::error::Result;
use crate::executor::{DeviceChoice, open};
use comfy_table::Cell;
use contract::architecture::ARCHITECTURES;
use serde::Serialize;

use super::gpu_option::GpuOption;
use super::ptx_options::PtxOptions;
use super::{Verdict, find_program, output};

/// Show what the program found, what is missing, and what each missing part costs.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    gpu: GpuOption,
    #[command(flatten)]
    ptx: PtxOptions,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Serialize)]
struct Diagnosis {
    /// Whether `fa512 run` works here.
    ready: bool,
    components: Vec<Component>,
}

/// A program, library or file that this program uses.
#[derive(Serialize)]
struct Component {
    name: &'static str,
    #[serde(flatten)]
    state: State,
}

#[derive(Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum State {
    Found {
        /// Version and other identification.
        version: String,
        /// Path, if it is a file.
        location: Option<PathBuf>,
    },
    Missing {
        /// What was searched for, and how to get it.
        reason: String,
        /// What does not work without it.
        cost: &'static str,
    },
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    options.gpu.apply()?;
    let ptx = ptx(&options.ptx);
    let ready = matches!(ptx, State::Found { .. });
    let component = |name, state| Component { name, state };
    let components = vec![
        component("PTX", ptx),
        component("simulator", simulator()),
        component("GPU", gpu()),
        component("ncu", tool("ncu", &["--version"], "no hardware profiles; it comes with the CUDA toolkit")),
        component(
            "compute-sanitizer",
            tool("compute-sanitizer", &["--version"], "no sanitizing on the GPU; the simulator's checks remain"),
        ),
        component("python3", tool("python3", &["--version"], "no comparison with PyTorch")),
        component("torch", tool("python3", &["-c", TORCH_VERSION], "no comparison with PyTorch (pip install torch)")),
        component("fa512-cubek", cubek()),
    ];
    let diagnosis = Diagnosis { ready, components };
    match options.json {
        true => output::print_json(document::DOCTOR, &diagnosis)?,
        false => output::print(&render(&diagnosis))?,
    }
    Ok(if ready { Verdict::Pass } else { Verdict::CannotRun })
}

/// Reads the version from the package's metadata, since importing torch takes seconds.
const TORCH_VERSION: &str = "from importlib.metadata import version; print(version('torch'))";

fn ptx(options: &PtxOptions) -> State {
    match options.find() {
        Ok(folder) => {
            let manifest = folder.manifest();
            let commit = manifest.git_commit.as_deref().unwrap_or("no commit");
            let version =
                format!("{} entries by {}, {commit}", folder.entries().count(), manifest.code_generator.version);
            State::Found { version, location: Some(folder.path().to_owned()) }
        }
        Err(error) => State::Missing { reason: error.to_string(), cost: "nothing can run" },
    }
}

fn simulator() -> State {
    let architectures: Vec<_> = ARCHITECTURES.iter().map(|limits| format!("sm_{}", limits.architecture)).collect();
    let version = format!("{} threads; stands for {}", rayon::current_num_threads(), architectures.join(", "));
    State::Found { version, location: None }
}

fn gpu() -> State {
    match open(DeviceChoice::Gpu, 0) {
        Ok(opened) => {
            let device = opened.executor.device();
            let driver = device.driver.as_deref().unwrap_or("unknown");
            let version = format!("{}, sm_{}, CUDA driver {driver}", device.name, device.architecture);
            State::Found { version, location: None }
        }
        Err(error) => State::Missing { reason: error.to_string(), cost: "no times; kernels run in the simulator" },
    }
}

/// A program that prints its version when called with `arguments`.
fn tool(name: &str, arguments: &[&str], cost: &'static str) -> State {
    match find_program(name) {
        Some(location) => version(location, arguments, cost),
        None => State::Missing { reason: format!("no {name} in PATH, CUDA_HOME, CUDA_PATH or /usr/local/cuda*"), cost },
    }
}

/// The program of cubek-attention. When started, it reports itself what else it needs.
fn cubek() -> State {
    let cost = "no comparison with cubek-attention";
    match cubek::program() {
        Ok(location) => version(location, &["--version"], cost),
        Err(error) => State::Missing { reason: error.to_string(), cost },
    }
}

/// The last line that the program at `location` prints when called with `arguments`.
fn version(location: PathBuf, arguments: &[&str], cost: &'static str) -> State {
    let output = Command::new(&location).args(arguments).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            let version = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim();
            State::Found { version: version.to_owned(), location: Some(location) }
        }
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message").trim();
            State::Missing { reason: format!("{} fails: {last}", location.display()), cost }
        }
        Err(error) => State::Missing { reason: format!("{}: {error}", location.display()), cost },
    }
}

fn render(diagnosis: &Diagnosis) -> String {
    let mut table = output::table();
    for Component { name, state } in &diagnosis.components {
        let (status, detail) = match state {
            State::Found { version, location } => {
                let location = location.as_ref().map(|path| format!(" ({})", path.display())).unwrap_or_default();
                (output::verdict_cell("found", true), format!("{version}{location}"))
            }
            State::Missing { reason, cost } => (output::verdict_cell("missing", false), format!("{reason}\n→ {cost}")),
        };
        table.add_row([Cell::new(name), status, Cell::new(detail)]);
    }
    let verdict = if diagnosis.ready { "`fa512 run` works here" } else { "`fa512 run` does not work here" };
    format!("{}\n\n{verdict}\n", output::fitted(table))
}

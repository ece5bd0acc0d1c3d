//! Runs a program on the simulated driver and reports its errors.

use std::ffi::OsString;
use std::fs;
use std::num::NonZeroU64;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use clap::Args;
use serde_json::{Map, Value, json};

use crate::kernel::architecture;
use crate::{assembler, report, signals, versioned};

/// Candidate paths of the simulated driver, relative to this program: first where Cargo builds it for tests.
const DRIVERS: [&str; 4] =
    ["deps/liblibcuda_sim.so", "liblibcuda_sim.so", "ptx-sim/libcuda.so.1", "../lib/ptx-sim/libcuda.so.1"];
/// Candidate paths of the simulated runtime.
const RUNTIMES: [&str; 4] =
    ["deps/liblibcudart_sim.so", "liblibcudart_sim.so", "ptx-sim/libcudart.so", "../lib/ptx-sim/libcudart.so"];
/// File names under which programs load the driver.
const DRIVER_NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
/// File names under which Python packages load nvJitLink, which is in the driver's file.
const LINKER_NAMES: [&str; 3] = ["libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so"];
/// File names under which programs linked by nvcc with `-cudart shared` load the runtime, each with a version of that name.
const RUNTIME_NAMES: [&str; 3] = ["libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"];
/// The runtime's own name.
const RUNTIME_NAME: &str = "libcudart.so";

/// Run an unchanged program on simulated GPUs.
#[derive(Args)]
#[command(after_help = "\
The program loads a libcuda.so.1 that executes its launches on the CPU and checks them; it needs no GPU. Kernels must be available as PTX.
Environment: PTX_SIM_ARCH, PTX_SIM_MEMORY, PTX_SIM_GPUS and others do the same as the options (tools/ptx-sim/docs/your-kernels.md).

Exit codes: 1 something found (or that of --exit-code), 2 could not run or a kernel was refused, otherwise the program's own.")]
pub struct Program {
    /// Architecture of the GPUs, such as 80, 8.0 or sm_80 [default: 90]
    #[arg(long, value_name = "NN", value_parser = architecture)]
    arch: Option<u32>,
    /// Memory per GPU, in bytes, or with K, M or G [default: 16G]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Number of GPUs [default: 1]
    #[arg(long, value_name = "N")]
    gpus: Option<String>,
    /// Threads that execute blocks; 0 for all cores
    #[arg(long, value_name = "N")]
    threads: Option<String>,
    /// The order of warps and blocks: 0 for that of their indices, others are seeded shuffles [default: 0]
    #[arg(long, value_name = "N")]
    schedule: Option<String>,
    /// Run the program this many times, each time under another order of warps and blocks. Input and output are those of the first run; what
    /// only another one finds is told with its number
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "schedule")]
    schedules: NonZeroU64,
    /// Instructions per warp after which a loop counts as endless
    #[arg(long, value_name = "N")]
    instruction_limit: Option<String>,
    /// Do not search for data races (faster)
    #[arg(long)]
    no_races: bool,
    /// Take no liberties with the memory model: an atomic operation or a barrier does not count as a missing fence
    #[arg(long)]
    strict: bool,
    /// Do not report leaks
    #[arg(long)]
    no_leaks: bool,
    /// Do not report copies of uninitialised memory to the host
    #[arg(long)]
    no_uninitialised_copies: bool,
    /// Let every launch with a finding fail; by default the program goes on after findings that a GPU does not notice, such as races
    #[arg(long)]
    stop: bool,
    /// Count warnings (leaks, copies of partly unwritten memory, failed calls) as findings
    #[arg(long)]
    warnings: bool,
    /// Exit code when something was found
    #[arg(long, value_name = "N", default_value_t = 1)]
    exit_code: u8,
    /// Write everything that was found as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print nothing but what the program prints
    #[arg(long)]
    quiet: bool,
    /// The simulated driver [default: beside this program]
    #[arg(long, value_name = "FILE", env = "PTX_SIM_LIBRARY")]
    library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Contents of the simulated driver's journal.
#[derive(Default)]
struct Journal {
    /// Whether the driver was used.
    is_started: bool,
    /// Number of launched kernels, if the program ended normally.
    launches: Option<u64>,
    problems: Vec<Value>,
}

impl Program {
    /// Runs the program; returns the exit code of this one.
    ///
    /// # Errors
    /// If the driver is not found, the program cannot be started, or the report cannot be written.
    pub fn run(&self) -> Result<ExitCode, String> {
        let library = self.library()?;
        self.report.as_deref().map_or(Ok(()), report::check_writable)?;
        let folder = tempfile::tempdir().map_err(|error| format!("a temporary folder: {error}"))?;
        let names = DRIVER_NAMES.iter().chain(&LINKER_NAMES);
        let mut links: Vec<_> = names.map(|name| (name, library.clone())).collect();
        if let Some(runtime) = beside(&RUNTIMES)? {
            links.push((&RUNTIME_NAME, runtime));
            for name in RUNTIME_NAMES {
                report::write(&folder.path().join(name), &versioned::library(name, RUNTIME_NAME))?;
            }
        }
        for (name, file) in links {
            symlink(file, folder.path().join(name)).map_err(|error| format!("{name}: {error}"))?;
        }
        let assembler = folder.path().join(assembler::NAME);
        symlink(this_program()?, assembler).map_err(|error| format!("{}: {error}", assembler::NAME))?;
        let mut first = self.command(folder.path());
        if self.schedules.get() > 1 {
            first.env("PTX_SIM_SCHEDULE", "0");
        }
        let (mut journal, mut status) = self.execute(&mut first, folder.path())?;
        let (mut runs, mut is_killed) = (1, status.signal().is_some());
        while runs < self.schedules.get() && !is_killed {
            let (found, ended) = self.execute(&mut self.another(folder.path(), runs), folder.path())?;
            self.tell(runs, &journal.add(runs, found));
            // The first run that fails decides.
            if status.success() && !ended.success() {
                self.note(&format!("under schedule {runs} the program ends with {ended}"));
                status = ended;
            }
            (runs, is_killed) = (runs + 1, ended.signal().is_some());
        }
        if let Some(report) = &self.report {
            let document = self.document(&journal, status);
            report::write(report, format!("{document:#}\n").as_bytes())?;
        }
        self.note(&self.summary(&journal, status, runs));
        Ok(self.exit_code(&journal, status))
    }

    /// Runs the program once.
    fn execute(&self, command: &mut Command, folder: &Path) -> Result<(Journal, ExitStatus), String> {
        let file = folder.join("journal");
        let status = signals::status(command.env("PTX_SIM_JOURNAL", &file));
        let status = status.map_err(|error| format!("{} cannot be started: {error}", self.program[0].display()))?;
        let journal = Journal::read(&file)?;
        // The next run begins its own, if it uses the driver.
        drop(fs::remove_file(file));
        Ok((journal, status))
    }

    /// The program once more, under another schedule, without its input and output.
    fn another(&self, folder: &Path, schedule: u64) -> Command {
        let mut command = self.command(folder);
        command.env("PTX_SIM_SCHEDULE", schedule.to_string()).env("PTX_SIM_QUIET", "1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Says what no schedule before has shown.
    fn tell(&self, schedule: u64, found: &[Value]) {
        for problem in found {
            let message = problem["message"].as_str().unwrap_or_default();
            self.note(&format!("under schedule {schedule}, which --schedule {schedule} shows: {message}"));
        }
    }

    /// Says something in a line, unless this is to be quiet.
    fn note(&self, text: &str) {
        if !self.quiet {
            report::note(&format!("ptx-sim: {text}"));
        }
    }

    fn library(&self) -> Result<PathBuf, String> {
        let found = match &self.library {
            Some(library) => {
                let found = library.canonicalize();
                return found.map_err(|_| format!("{}: there is no such file", library.display()));
            }
            None => beside(&DRIVERS)?,
        };
        found.ok_or_else(|| {
            "the simulated driver is not beside this program; build it (cargo build --release -p libcuda-sim), or say --library FILE"
                .to_owned()
        })
    }

    /// The program with an environment in which `folder` provides the driver.
    fn command(&self, folder: &Path) -> Command {
        let mut path = folder.as_os_str().to_owned();
        if let Some(rest) = std::env::var_os("LD_LIBRARY_PATH").filter(|rest| !rest.is_empty()) {
            path.push(":");
            path.push(rest);
        }
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]).env("LD_LIBRARY_PATH", path);
        // Locations where Triton and numba look without asking the loader.
        for (name, value) in
            [("TRITON_LIBCUDA_PATH", folder.to_owned()), ("NUMBA_CUDA_DRIVER", folder.join(DRIVER_NAMES[0]))]
        {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        // Kernels assembled here are not for a real GPU; Triton must cache them elsewhere.
        for name in ["TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"] {
            command.env(name, folder.join(assembler::NAME));
        }
        command.env("TRITON_CACHE_DIR", folder.join("triton"));
        command.envs(self.arch.map(|number| ("PTX_SIM_ARCH", number.to_string())));
        let given = [
            ("PTX_SIM_MEMORY", &self.memory),
            ("PTX_SIM_GPUS", &self.gpus),
            ("PTX_SIM_THREADS", &self.threads),
            ("PTX_SIM_SCHEDULE", &self.schedule),
            ("PTX_SIM_INSTRUCTION_LIMIT", &self.instruction_limit),
        ];
        command.envs(given.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?))));
        let switches = [
            ("PTX_SIM_LEAKS", self.no_leaks, "0"),
            ("PTX_SIM_UNINITIALISED_COPIES", self.no_uninitialised_copies, "0"),
            ("PTX_SIM_CONTINUE", self.stop, "0"),
        ];
        for (name, is_off, off) in switches {
            if is_off {
                command.env(name, off);
            } else if std::env::var_os(name).is_none() {
                command.env(name, "1");
            }
        }
        if self.no_races {
            command.env("PTX_SIM_RACES", "0");
        }
        if self.strict {
            command.env("PTX_SIM_STRICT", "1");
        }
        if self.quiet {
            command.env("PTX_SIM_QUIET", "1");
        }
        command
    }

    /// Problems that count towards the exit code.
    fn found(&self, journal: &Journal) -> usize {
        journal.count("error") + if self.warnings { journal.count("warning") } else { 0 }
    }

    fn exit_code(&self, journal: &Journal, status: ExitStatus) -> ExitCode {
        if self.found(journal) > 0 {
            return ExitCode::from(self.exit_code);
        }
        if journal.refusals() > 0 {
            return ExitCode::from(2);
        }
        // As in a shell.
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
    }

    fn summary(&self, journal: &Journal, status: ExitStatus, runs: u64) -> String {
        if !journal.is_started {
            return format!(
                "the program has not used the simulated driver ({status}); does it open libcuda.so.1? Programs that nvcc linked \
                 need -cudart shared"
            );
        }
        let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let mut text = match journal.count("error") {
            0 => "nothing found".to_owned(),
            count => counted(count, "finding"),
        };
        for (count, what) in [(journal.count("warning"), "warning"), (journal.refusals(), "refusal")] {
            if count > 0 {
                text += &format!(", {}", counted(count, what));
            }
        }
        if runs > 1 {
            text += &format!(" under {runs} schedules");
        }
        if let Some(launches) = journal.launches {
            text +=
                &format!("; {}", if launches == 1 { "1 launch".to_owned() } else { format!("{launches} launches") });
        }
        format!("{text}; {status}")
    }

    fn document(&self, journal: &Journal, status: ExitStatus) -> Value {
        let program: Vec<_> = self.program.iter().map(|word| word.to_string_lossy()).collect();
        json!({
            "kind": "ptx-sim-run",
            "version": 1,
            "passed": journal.is_started && self.found(journal) == 0 && journal.refusals() == 0,
            "program": program,
            "exit_code": status.code(),
            "signal": status.signal(),
            "launches": journal.launches,
            "problems": journal.problems,
        })
    }
}

/// By what a problem is known in every run: a finding by its kind and its line of PTX, another one by its kind and what is said of it.
fn identity(problem: &Value) -> [&Value; 4] {
    let finding = &problem["finding"];
    let message = if finding.is_null() { &problem["message"] } else { &Value::Null };
    [&problem["kind"], &finding["ptx_file"], &finding["ptx_line"], message]
}

fn this_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))
}

/// The first existing file of several candidates, relative to the folder of this program.
fn beside(files: &[&str]) -> Result<Option<PathBuf>, String> {
    let program = this_program()?;
    let found = files.iter().find_map(|file| program.with_file_name(file).canonicalize().ok());
    Ok(found)
}

impl Journal {
    /// Reads the driver's journal; it does not exist if the driver was not used.
    fn read(path: &Path) -> Result<Self, String> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(format!("the journal of the simulated driver: {error}")),
        };
        let mut journal = Self::default();
        // An incomplete last line, as after the program was killed, is skipped.
        for entry in text.lines().filter_map(|line| serde_json::from_str::<Map<String, Value>>(line).ok()) {
            match entry.get("kind").and_then(Value::as_str) {
                Some("start") => journal.is_started = true,
                Some("end") => {
                    let launches = entry.get("launches").and_then(Value::as_u64).unwrap_or(0);
                    *journal.launches.get_or_insert(0) += launches;
                }
                _ => journal.problems.push(entry.into()),
            }
        }
        Ok(journal)
    }

    /// Adds what a later run found: the schedule to problems that are known, and others with it. Returns those.
    fn add(&mut self, schedule: u64, found: Self) -> Vec<Value> {
        for problem in &mut self.problems {
            problem.as_object_mut().map(|fields| fields.entry("schedules").or_insert(json!([0])));
        }
        let mut added = Vec::new();
        for mut problem in found.problems {
            let known = self.problems.iter_mut().find(|known| identity(known) == identity(&problem));
            match known.and_then(|known| known["schedules"].as_array_mut()) {
                Some(schedules) if schedules.last() == Some(&schedule.into()) => {}
                Some(schedules) => schedules.push(schedule.into()),
                None => {
                    problem["schedules"] = json!([schedule]);
                    self.problems.push(problem.clone());
                    added.push(problem);
                }
            }
        }
        added
    }

    /// Number of refusals. Requests for private interfaces do not count if kernels were launched: Python packages contain a runtime
    /// that they only ask for versions.
    fn refusals(&self) -> usize {
        let has_launched = self.launches.is_some_and(|launches| launches > 0);
        let is_harmless = |problem: &&Value| has_launched && problem["kind"] == "private_interface";
        self.count("refusal") - self.problems.iter().filter(is_harmless).count()
    }

    fn count(&self, severity: &str) -> usize {
        self.problems.iter().filter(|problem| problem["severity"] == severity).count()
    }
}

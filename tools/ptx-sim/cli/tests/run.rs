//! Unchanged programs under `ptx-sim run`: of the driver API, and of the runtime API linked by nvcc with `-cudart shared`.

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{output, text};
use serde_json::Value;
use tempfile::TempDir;

/// A C program that is linked with a library for CUDA.
struct Program {
    folder: TempDir,
    file: PathBuf,
}

impl Program {
    /// Compiles `tests/programs/NAME.c` with `cuda` or `cudart`; `None`, with a word to stderr, where there is no C compiler.
    fn compile(name: &str, library: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = folder.path().join(name);
        let link = folder.path().join(format!("lib{library}.so"));
        std::os::unix::fs::symlink(built(library), link).expect("a link to the library");
        let compiled = Command::new("cc")
            .args(["-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-g", "-o"])
            .arg(&file)
            .arg(package.join("tests/programs").join(name).with_extension("c"))
            .arg("-I")
            .arg(package.join("../libcuda/tests/programs"))
            .arg("-L")
            .arg(folder.path())
            .arg(format!("-l{library}"))
            .output();
        let Ok(compiled) = compiled else {
            eprintln!("skipped: there is no C compiler (cc)");
            return None;
        };
        assert!(compiled.status.success(), "{}", text(&compiled.stderr));
        Some(Self { folder, file })
    }

    /// `ptx-sim run` for the program with an argument.
    fn command(&self, options: &[&str], argument: &str) -> Command {
        let report = self.report();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ptx-sim"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PTX_SIM_")) {
            command.env_remove(name);
        }
        command.args(["run", "--report"]).arg(&report).args(options).arg("--").arg(&self.file).arg(argument);
        command
    }

    fn report(&self) -> PathBuf {
        self.folder.path().join("report.json")
    }

    /// What the report says.
    fn reported(&self) -> Value {
        let report = std::fs::read(self.report()).expect("a report");
        serde_json::from_slice(&report).expect("the report is JSON")
    }

    /// Output of `ptx-sim run` for the program with an argument, and the report.
    #[track_caller]
    fn run(&self, options: &[&str], argument: &str, exit_code: i32) -> (String, Value) {
        let output = output(&mut self.command(options, argument), exit_code);
        (text(&output.stderr), self.reported())
    }
}

/// The library `cuda` or `cudart` that Cargo has built for this test.
fn built(library: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_ptx-sim"));
    let beside = ["deps/", ""].map(|folder| program.with_file_name(format!("{folder}liblib{library}_sim.so")));
    beside.into_iter().find(|path| path.exists()).expect("the library lies beside the program")
}

#[test]
fn a_right_program_runs_as_with_a_gpu() {
    let Some(program) = Program::compile("misuse", "cuda") else { return };
    let (errors, report) = program.run(&[], "", 0);
    assert_eq!(errors, "ptx-sim: nothing found; 0 launches; exit status: 0\n");
    assert_eq!(
        (&report["kind"], &report["version"], &report["passed"]),
        (&"ptx-sim-run".into(), &1.into(), &true.into())
    );
    assert_eq!(program.run(&["--quiet"], "", 0).0, "");
    assert_eq!(program.run(&[], "exit-3", 3).1["exit_code"], 3);
    let (errors, report) = program.run(&[], "killed", 134);
    assert!(
        errors.ends_with("signal: 6 (SIGABRT) (core dumped)\n") || errors.ends_with("signal: 6 (SIGABRT)\n"),
        "{errors}"
    );
    assert_eq!((&report["signal"], &report["launches"]), (&6.into(), &Value::Null));
}

#[test]
fn a_signal_ends_the_program_and_leaves_a_report() {
    let Some(program) = Program::compile("misuse", "cuda") else { return };
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        let mut running = program.command(&["--threads=1"], "race-and-wait").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(running.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "waiting\n");
        // SAFETY: the process is a child that was not waited for.
        unsafe {
            libc::kill(running.id() as i32, signal);
        }
        assert_eq!(running.wait().unwrap().code(), Some(1), "what was found counts");
        let report = program.reported();
        assert_eq!((&report["signal"], &report["problems"][0]["kind"]), (&signal.into(), &"race".into()));
        std::fs::remove_file(program.report()).unwrap();
    }
}

/// The loader says on standard error if a library lacks the version for which a program asks.
#[test]
fn programs_that_nvcc_linked_find_the_version_of_the_runtime_for_which_they_ask() {
    for soname in ["libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("writing");
        write("runtime.c", "int cudaGetDeviceCount(int *count) { return *count = -1; }");
        write("versions", &format!("{soname} {{ *; }};"));
        write(
            "program.c",
            "int cudaGetDeviceCount(int *);\nint main(void) { int n; return cudaGetDeviceCount(&n) || n != 1; }",
        );
        let compile = |arguments: &[&str]| Command::new("cc").current_dir(folder.path()).args(arguments).output();
        let name = format!("-Wl,-soname,{soname}");
        let Ok(made) =
            compile(&["-shared", "-fPIC", "runtime.c", &name, "-Wl,--version-script=versions", "-o", "libcudart.so"])
        else {
            eprintln!("skipped: there is no C compiler (cc)");
            return;
        };
        assert!(made.status.success(), "{}", text(&made.stderr));
        let made = compile(&["program.c", "-L.", "-lcudart", "-o", "program"]).expect("cc");
        assert!(made.status.success(), "{}", text(&made.stderr));
        let mut command = Command::new(env!("CARGO_BIN_EXE_ptx-sim"));
        let found = output(command.args(["run", "--"]).arg(folder.path().join("program")), 0);
        assert_eq!(text(&found.stderr), "ptx-sim: nothing found; 0 launches; exit status: 0\n", "{soname}");
    }
}

#[test]
fn every_mistake_is_named_with_its_kind_and_line() {
    let Some(program) = Program::compile("misuse", "cuda") else { return };
    for (mistake, kind, words) in [
        ("free-twice", "double_free", "it is allocation 1 of 64 bytes, by cuMemAlloc_v2 from main ("),
        ("free-inside", "invalid_free", "byte 16 of allocation 1 of 64 bytes"),
        ("copy-freed", "use_after_free", "which was freed"),
        ("copy-too-long", "out_of_bounds", "the last 4 bytes are past the end of buffer `allocation 1"),
        ("copy-from-host", "host_pointer", "which is no device memory"),
        ("copy-to-device", "device_pointer", "is given as host memory, but is an address of a GPU"),
        ("copy-from-null", "null_pointer", "a copy from a null pointer"),
    ] {
        let (errors, report) = program.run(&[], mistake, 1);
        let problem = &report["problems"][0];
        let message = problem["message"].as_str().expect("a message");
        assert_eq!((&problem["kind"], &problem["severity"]), (&kind.into(), &"error".into()), "{mistake}: {errors}");
        assert!(message.contains(words), "{mistake}: {message}");
        assert!(message.contains("; called from main (") && message.contains("misuse.c:"), "{mistake}: {message}");
        let spoken = kind.replace('_', " ");
        assert!(errors.contains(&format!("ptx-sim: {spoken}: CUDA_ERROR_INVALID_VALUE: ")), "{mistake}: {errors}");
        assert!(errors.contains("ptx-sim: 1 finding; 0 launches; exit status: 0\n"), "{mistake}: {errors}");
        assert_eq!(report["problems"].as_array().map(Vec::len), Some(1), "{mistake}: {errors}");
    }
}

#[test]
fn memory_that_was_never_written_is_told_when_it_is_copied_back() {
    let Some(program) = Program::compile("misuse", "cuda") else { return };
    let (errors, report) = program.run(&[], "unwritten", 1);
    assert_eq!(report["problems"][0]["kind"], "uninitialised_copy");
    assert!(errors.contains("64 bytes from byte 0 of allocation 1"), "{errors}");
    assert!(errors.contains("nothing was ever written there"), "{errors}");
    // As with a buffer that is only filled so far.
    let (errors, report) = program.run(&[], "partly", 0);
    assert_eq!((&report["passed"], &report["problems"][0]["severity"]), (&true.into(), &"warning".into()));
    assert!(errors.contains("52 of them were never written, the first is byte 12"), "{errors}");
    program.run(&["--warnings"], "partly", 1);
    let (errors, _) = program.run(&["--no-uninitialised-copies"], "unwritten", 0);
    assert_eq!(errors, "ptx-sim: nothing found; 0 launches; exit status: 0\n");
}

#[test]
fn what_is_never_freed_is_a_warning() {
    let Some(program) = Program::compile("misuse", "cuda") else { return };
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/misuse.c");
    for (mistake, bytes, line) in [("leak", "1,048,576", 46), ("exit-3", "64", 38)] {
        let (errors, report) = program.run(&[], mistake, if mistake == "leak" { 0 } else { 3 });
        let leak = format!(
            "{bytes} bytes, by cuMemAlloc_v2 from main ({source}:{line}), is never freed, in the primary context"
        );
        assert!(errors.contains("ptx-sim: warning: leak: allocation ") && errors.contains(&leak), "{errors}");
        assert_eq!((&report["problems"][0]["kind"], &report["passed"]), (&"leak".into(), &true.into()));
    }
    program.run(&["--warnings", "--exit-code", "42"], "leak", 42);
    let (errors, _) = program.run(&["--no-leaks", "--warnings"], "leak", 0);
    assert!(!errors.contains("leak"), "{errors}");
}

#[test]
fn findings_of_kernels_are_told_once_and_let_the_program_go_on_where_a_gpu_would() {
    let Some(program) = Program::compile("misuse", "cuda") else { return };
    let (errors, report) = program.run(&["--threads", "1"], "race", 1);
    assert_eq!(errors.matches("error: data race").count(), 1, "two launches, one finding:\n{errors}");
    assert!(
        errors.contains("cuda.h:164); the program goes on, as on a GPU") && errors.contains("1 finding; 2 launches"),
        "{errors}"
    );
    assert_eq!((&report["problems"][0]["kind"], &report["launches"]), (&"race".into(), &2.into()));
    assert!(report["problems"][0]["finding"]["ptx_line"].is_number(), "{report}");
    let (errors, _) = program.run(&["--stop"], "race", 1);
    assert!(errors.contains("returns CUDA_ERROR_LAUNCH_FAILED, not CUDA_SUCCESS"), "{errors}");
    let (errors, _) = program.run(&["--no-races"], "race", 0);
    assert!(errors.contains("nothing found; 2 launches"), "{errors}");
    for (mistake, words) in [
        ("kernel-freed", "misuse.c:38)`, which was freed"),
        ("host-in-kernel", "the host's memory, which kernels do not reach"),
    ] {
        let (errors, report) = program.run(&[], mistake, 1);
        let problems = report["problems"].as_array().expect("a list");
        assert!(problems.iter().any(|problem| problem["kind"] == "out_of_bounds"), "{errors}");
        assert!(errors.contains(words), "{errors}");
    }
}

#[test]
fn what_only_another_schedule_finds_is_told_with_its_number() {
    let Some(program) = Program::compile("order", "cuda") else { return };
    assert_eq!(program.run(&["--threads=1"], "", 0).1["problems"], serde_json::json!([]));
    let (errors, report) = program.run(&["--threads=1", "--schedules=8"], "", 1);
    let found = report["problems"].as_array().expect("a list");
    let first = &found[0]["schedules"][0];
    assert_eq!((&found[0]["kind"], first.as_u64() > Some(0)), (&"out_of_bounds".into(), true), "{report}");
    assert!(errors.contains(&format!("under schedule {first}, which --schedule {first} shows: ")), "{errors}");
    assert!(errors.contains(&format!("under schedule {first} the program ends with exit status: 1")), "{errors}");
    assert!(errors.contains("under 8 schedules"), "{errors}");
    let shown = program.run(&["--threads=1", "--schedule", &first.to_string()], "", 1).0;
    assert!(shown.contains("error: "), "{shown}");
    // What every schedule finds is told once.
    let Some(program) = Program::compile("misuse", "cuda") else { return };
    let (errors, report) = program.run(&["--threads=1", "--schedules=3"], "race", 1);
    assert_eq!((errors.matches("data race").count(), errors.matches("under schedule").count()), (1, 0), "{errors}");
    assert_eq!(report["problems"][0]["schedules"], serde_json::json!([0, 1, 2]));
}

#[test]
fn races_between_streams_name_both_launches() {
    let Some(program) = Program::compile("misuse", "cuda") else { return };
    let (errors, report) = program.run(&[], "streams", 1);
    let problem = &report["problems"][0];
    let message = problem["message"].as_str().expect("a message");
    assert_eq!((&problem["kind"], &problem["severity"]), (&"stream_race".into(), &"error".into()), "{errors}");
    assert_eq!(message.matches("the launch of square with a grid").count(), 2, "{message}");
    assert!(message.contains("byte 0 of allocation 1") && message.contains("cuStreamWaitEvent"), "{message}");
    assert!(errors.contains("ptx-sim: race between streams: ") && errors.contains("1 finding; 2 launches"), "{errors}");
    program.run(&[], "streams-in-order", 0);
    program.run(&["--no-races"], "streams", 0);
}

#[test]
fn options_describe_the_machine() {
    let Some(program) = Program::compile("misuse", "cuda") else { return };
    let (errors, _) = program.run(&["--memory", "1M"], "leak", 1);
    assert!(
        errors.contains("1048576 bytes asked for") && errors.contains("PTX_SIM_MEMORY gives a GPU more"),
        "{errors}"
    );
    let (errors, _) = program.run(&["--arch", "sm_75"], "", 1);
    assert!(
        errors.contains("is compiled for sm_80 and does not run on sm_75; say --arch 80 (PTX_SIM_ARCH=80)"),
        "{errors}"
    );
    let (errors, _) = program.run(&["--gpus", "0"], "", 1);
    assert!(errors.contains("returns CUDA_ERROR_NO_DEVICE"), "{errors}");
    let (errors, _) = program.run(&["--arch", "42"], "", 1);
    assert!(errors.contains("PTX_SIM_ARCH is \"42\"; it has to be"), "{errors}");
}

#[test]
fn what_is_not_simulated_is_no_pass() {
    let Some(program) = Program::compile("misuse", "cuda") else { return };
    let (errors, report) = program.run(&[], "refused-module", 2);
    assert!(errors.contains("the image is a cubin") && errors.contains("nothing found, 1 refusal"), "{errors}");
    assert_eq!((&report["passed"], &report["problems"][0]["kind"]), (&false.into(), &"not_simulated".into()));
    let (errors, _) = program.run(&[], "static-runtime", 2);
    assert_eq!(errors.matches("link the program with -cudart shared").count(), 1, "{errors}");
    let (errors, report) = program.run(&[], "runtime-beside", 0);
    assert!(errors.contains("link the program with -cudart shared") && !errors.contains("refusal"), "{errors}");
    assert_eq!(report["passed"], true, "what did launch kernels goes by the driver: {errors}");
}

#[test]
fn lines_of_python_are_named() {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/misuse.py");
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: there is no python3");
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptx-sim"));
    let errors = text(&output(command.args(["run", "--", "python3", program]), 1).stderr);
    for words in [
        format!(
            "it is allocation 1 of 64 bytes, by cuMemAlloc_v2 from allocate ({program}:10), which was freed before"
        ),
        format!("; called from <module> ({program}:20)"),
        format!("leak: allocation 2 of 128 bytes, by cuMemAlloc_v2 from allocate ({program}:10), is never freed"),
        "1 finding, 1 warning; 0 launches; exit status: 0".to_owned(),
    ] {
        assert!(errors.contains(&words), "no {words:?} in\n{errors}");
    }
}

#[test]
fn a_program_that_cannot_be_run_or_uses_no_driver_is_named() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptx-sim"));
    let errors = text(&output(command.args(["run", "--", "/nowhere/program"]), 2).stderr);
    assert!(errors.contains("/nowhere/program cannot be started: No such file"), "{errors}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptx-sim"));
    let errors = text(&output(command.args(["run", "true"]), 0).stderr);
    assert!(errors.contains("the program has not used the simulated driver"), "{errors}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptx-sim"));
    let errors = text(&output(command.args(["run", "--library", "nowhere.so", "true"]), 2).stderr);
    assert!(errors.contains("nowhere.so: there is no such file"), "{errors}");
}

#[test]
fn programs_of_the_runtime_api_run() {
    let Some(program) = Program::compile("runtime", "cudart") else { return };
    let (errors, report) = program.run(&[], "", 0);
    assert!(errors.contains("libcudart: cudaIpcGetMemHandle is not simulated"), "{errors}");
    assert!(errors.contains("ptx-sim: nothing found") && errors.contains("; 9 launches; exit status: 0"), "{errors}");
    assert_eq!(report["launches"], 9);
    let (errors, report) = program.run(&[], "too-many", 1);
    assert_eq!((&report["problems"][0]["kind"], &report["exit_code"]), (&"out_of_bounds".into(), &4.into()));
    let message = report["problems"][0]["message"].as_str().expect("a message");
    assert!(
        message.contains("past the end of buffer `allocation 1 of 64 bytes, by cuMemAlloc_v2 from main ("),
        "{message}"
    );
    assert!(
        errors.contains("and blocks of (32, 1, 1) from main (") && errors.contains("runtime.c:"),
        "the launch has a line:\n{errors}"
    );
    let (errors, report) = program.run(&[], "beyond-managed", 1);
    let problems = report["problems"].as_array().expect("a list");
    assert!(problems.iter().any(|problem| problem["kind"] == "out_of_bounds"), "{errors}");
    assert!(errors.contains("of 64 bytes, by cuMemAllocManaged from shared_memory ("), "{errors}");
    let (errors, report) = program.run(&[], "free-twice", 1);
    let problems = report["problems"].as_array().expect("a list");
    assert!(problems.iter().any(|problem| problem["kind"] == "double_free"), "{errors}");
}

#[test]
fn textures_of_the_runtime_api_are_there() {
    let Some(program) = Program::compile("textures", "cudart") else { return };
    // Errors that the program causes on purpose are reported.
    let (errors, report) = program.run(&[], "", 1);
    let kinds = |report: &Value| -> Vec<String> {
        let problems = report["problems"].as_array().expect("a list");
        problems.iter().map(|problem| problem["kind"].as_str().expect("a kind").to_owned()).collect()
    };
    assert_eq!((&report["exit_code"], &report["launches"]), (&0.into(), &4.into()), "{errors}");
    let own = ["failed_call", "double_free", "use_after_free"];
    assert!(kinds(&report).iter().all(|kind| own.contains(&kind.as_str())), "{errors}");
    assert!(
        errors.contains("which was destroyed before; called from filtered (") && errors.contains("textures.c:"),
        "{errors}"
    );
    let (errors, report) = program.run(&[], "beside", 1);
    assert!(kinds(&report).contains(&"out_of_bounds".to_owned()), "{errors}");
    assert!(errors.contains("at byte 12 of row 0") && errors.contains("3 x 1 texels of 4 bytes"), "{errors}");
    let (errors, report) = program.run(&[], "leak", 1);
    let leaks = kinds(&report).iter().filter(|kind| *kind == "leak").count();
    assert_eq!(leaks, 2, "the array and the surface: {errors}");
}

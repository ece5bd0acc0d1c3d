//! Every input file of the program, damaged in hundreds of ways: the program reports the error or works with the rest. It does not
//! panic or hang, and it does not allocate memory because of a number in a file.

mod damage;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use contract::manifest::{FILE_NAME, Manifest};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use tempfile::TempDir;

use crate::support::{of_repository, part_of_ptx};
use damage::{damaged, damaged_json};

/// The entry that runs where one does: every form has all entries of its PTX read.
const ENTRY: &str = "fa512_sm80_any_full_128x64";
/// Damaged forms of each file.
const FORMS: u64 = 100;
/// Address space limit of the program, KiB. Its input here is small.
const MEMORY: &str = "4194304";
/// Time limit of one run; a hundred times the usual time.
const PATIENCE: Duration = Duration::from_secs(20);

/// A damaged form of `whole` for each seed: JSON is damaged by value, other files by bytes.
fn form(whole: &[u8], seed: u64) -> Vec<u8> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let json = (!seed.is_multiple_of(4)).then(|| damaged_json(whole, &mut random)).flatten();
    json.unwrap_or_else(|| damaged(whole, &mut random))
}

/// Runs the program with `arguments`; returns an error unless it ends with an exit code of its own and printable messages.
fn run(arguments: &[String]) -> Result<(), String> {
    let folder = TempDir::new().expect("a temporary folder");
    let said = folder.path().join("said");
    let output = std::fs::File::create(&said).expect("a file in it");
    let errors = output.try_clone().expect("another handle of it");
    let mut program = Command::new("sh");
    program.args(["-c", "ulimit -v $0; exec \"$@\"", MEMORY, env!("CARGO_BIN_EXE_fa512")]).args(arguments);
    let mut child = program.stdin(Stdio::null()).stdout(output).stderr(errors).spawn().expect("there is a shell");
    let started = Instant::now();
    let status = loop {
        match child.try_wait().expect("a child process") {
            Some(status) => break status,
            None if started.elapsed() > PATIENCE => {
                child.kill().expect("a child process");
                return Err(format!("still running after {PATIENCE:?}"));
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let said = String::from_utf8_lossy(&std::fs::read(&said).expect("what it said")).into_owned();
    match status.code() {
        Some(0..=3) if said.contains('\u{1b}') => Err(format!("prints what a terminal obeys: {said:?}")),
        Some(0..=3) => Ok(()),
        _ => Err(format!("{status}: {said}")),
    }
}

/// Runs `command` with every damaged form of the file `original`, whose path replaces `FILE`; `OUT` is a path for output.
fn withstands(original: &Path, command: &str) {
    withstands_beside(original, &[], command);
}

/// As [`withstands`], with the files at `neighbours` in the same folder, `FOLDER`.
fn withstands_beside(original: &Path, neighbours: &[PathBuf], command: &str) {
    let whole = std::fs::read(original).unwrap_or_else(|error| panic!("{}: {error}", original.display()));
    let folder = TempDir::new().unwrap();
    let name = original.file_name().unwrap().to_string_lossy();
    let attempt = |seed: Option<u64>| -> Result<(), String> {
        let place = folder.path().join(seed.map_or("whole".into(), |seed| seed.to_string()));
        std::fs::create_dir_all(&place).unwrap();
        let (file, out) = (place.join(&*name), place.join("out"));
        for neighbour in neighbours {
            std::fs::copy(neighbour, place.join(neighbour.file_name().unwrap())).unwrap();
        }
        std::fs::write(&file, seed.map_or(whole.clone(), |seed| form(&whole, seed))).unwrap();
        let words = command.split(' ').map(|word| match word {
            "FILE" => file.display().to_string(),
            "OUT" => out.display().to_string(),
            "FOLDER" => place.display().to_string(),
            word => word.to_owned(),
        });
        let result = run(&words.collect::<Vec<_>>());
        std::fs::remove_dir_all(&place).unwrap();
        result
    };
    attempt(None).unwrap_or_else(|reason| panic!("undamaged, `fa512 {command}`: {reason}"));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut failures = Vec::new();
        loop {
            let seed = next.fetch_add(1, Relaxed) as u64;
            if seed >= FORMS {
                return failures;
            }
            if let Err(reason) = attempt(Some(seed)) {
                failures.push(format!("`fa512 {command}` on {name} damaged by seed {seed}: {reason}"));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    assert!(
        failures.is_empty(),
        "{} of {FORMS} forms:\n{}",
        failures.len(),
        failures[..failures.len().min(5)].join("\n")
    );
}

#[test]
fn bench_records() {
    let record = of_repository("host/workshop/tests/integration/compare/record.json");
    let path = record.display();
    withstands(&record, &format!("compare FILE {path}"));
    withstands(&record, &format!("compare {path} FILE --markdown"));
    withstands(&record, &format!("report FILE --compare FILE {path} --output OUT"));
    withstands(&record, "diagnose FILE --all");
    withstands(&record, "plot FILE --contender fa512 --output OUT");
}

#[test]
fn what_other_commands_printed() {
    withstands(&of_repository("host/workshop/tests/records/fuzz.json"), "report --fuzz FILE --output OUT");
    withstands(&of_repository("host/workshop/tests/records/profile.json"), "diagnose FILE");
    withstands(&of_repository("host/workshop/tests/records/profile.json"), "report --profile FILE --output OUT");
    withstands(&of_repository("host/workshop/tests/ncu/full.raw.csv"), "profile --csv FILE");
}

#[test]
fn records_and_spaces_of_the_tuner() {
    withstands(&of_repository("host/workshop/tests/records/tuning.jsonl"), "tune show FILE");
    let folder = TempDir::new().unwrap();
    let space = folder.path().join("space.toml");
    std::fs::write(&space, small_space()).unwrap();
    withstands(&space, "tune plan --space FILE --candidates 2 --out OUT");
}

/// The tuner's search space with every second value of each axis: a plan of all of them takes a second.
fn small_space() -> String {
    let space = std::fs::read_to_string(of_repository("host/workshop/src/tune/space.toml")).unwrap();
    let lines = space.lines().map(|line| match line.split_once(" = [") {
        Some((axis, values)) => {
            let values: Vec<&str> = values.trim_end_matches(']').split(", ").step_by(2).collect();
            format!("{axis} = [{}]\n", values.join(", "))
        }
        None => format!("{line}\n"),
    });
    lines.collect()
}

#[test]
fn maps() {
    let map = of_repository("host/workshop/tests/integration/map/record.jsonl");
    withstands(&map, "map show FILE");
    withstands(&map, "report --map FILE --output OUT");
}

#[test]
fn manifests() {
    // A single entry, so that the damage affects the code that runs.
    let folder = part_of_ptx(|entry| entry.name == ENTRY, str::to_owned);
    let path = folder.path().join(FILE_NAME);
    let mut manifest: Manifest = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    manifest.modules.retain(|module| !module.entries.is_empty());
    let module = folder.path().join(&manifest.modules[0].file);
    std::fs::write(&path, serde_json::to_string_pretty(&manifest).unwrap()).unwrap();
    let command = format!("run --device sim --ptx FOLDER --heads 1 --seq 40 --variant {ENTRY}");
    withstands_beside(&path, &[module], &command);
}

#[test]
fn tensors() {
    let folder = TempDir::new().unwrap();
    let tensor = folder.path().join("tensor.npy");
    let header = format!("{:<117}\n", "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 1, 32, 64), }");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([0x00, 0x3c].repeat(32 * 64));
    std::fs::write(&tensor, bytes).unwrap();
    let path = tensor.display();
    let ptx = part_of_ptx(|entry| entry.name == ENTRY, str::to_owned);
    let ptx = ptx.path().display();
    withstands(&tensor, &format!("run --device sim --ptx {ptx} --q {path} --k FILE --v {path} --out OUT"));
}

//! Damaged forms of a file, and a program that is run on each.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use tempfile::TempDir;

use super::damage::{damaged, damaged_json};

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
fn run(program: &str, arguments: &[String]) -> Result<(), String> {
    let folder = TempDir::new().expect("a temporary folder");
    let said = folder.path().join("said");
    let output = std::fs::File::create(&said).expect("a file in it");
    let errors = output.try_clone().expect("another handle of it");
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -v $0; exec \"$@\"", MEMORY, program]).args(arguments);
    let mut child = limited.stdin(Stdio::null()).stdout(output).stderr(errors).spawn().expect("there is a shell");
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

/// Runs `program` by `command` with every damaged form of the file `original`, whose path replaces `FILE`; `OUT` is a path for output. The
/// files at `neighbours` are in the same folder, `FOLDER`.
pub fn withstands(program: &str, original: &Path, neighbours: &[PathBuf], command: &str) {
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
        let result = run(program, &words.collect::<Vec<_>>());
        std::fs::remove_dir_all(&place).unwrap();
        result
    };
    attempt(None).unwrap_or_else(|reason| panic!("undamaged, `{command}`: {reason}"));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut failures = Vec::new();
        loop {
            let seed = next.fetch_add(1, Relaxed) as u64;
            if seed >= FORMS {
                return failures;
            }
            if let Err(reason) = attempt(Some(seed)) {
                failures.push(format!("`{command}` on {name} damaged by seed {seed}: {reason}"));
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

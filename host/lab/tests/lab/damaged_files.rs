//! Every input file of the program, damaged as those of `fa512` are.

#[path = "../../../cli/tests/integration/damaged_files/damage.rs"]
mod damage;
#[path = "../../../cli/tests/integration/damaged_files/forms.rs"]
mod forms;

use std::path::Path;

use tempfile::TempDir;

use crate::program::of_repository;

fn withstands(original: &Path, command: &str) {
    forms::withstands(env!("CARGO_BIN_EXE_fa512-lab"), original, &[], command);
}

#[test]
fn bench_records() {
    let record = of_repository("host/cli/tests/integration/compare/record.json");
    withstands(&record, &format!("report FILE --compare FILE {} --output OUT", record.display()));
    withstands(&record, "plot FILE --contender fa512 --output OUT");
}

#[test]
fn what_other_commands_printed() {
    withstands(&of_repository("host/lab/tests/records/fuzz.json"), "report --fuzz FILE --output OUT");
    withstands(&of_repository("host/cli/tests/records/profile.json"), "report --profile FILE --output OUT");
}

#[test]
fn records_and_spaces_of_the_tuner() {
    withstands(&of_repository("host/lab/tests/records/tuning.jsonl"), "tune show FILE");
    let folder = TempDir::new().unwrap();
    let space = folder.path().join("space.toml");
    std::fs::write(&space, small_space()).unwrap();
    withstands(&space, "tune plan --space FILE --candidates 2 --out OUT");
}

/// The tuner's search space with every second value of each axis: a plan of all of them takes a second.
fn small_space() -> String {
    let space = std::fs::read_to_string(of_repository("host/lab/src/tune/space.toml")).unwrap();
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
    let map = of_repository("host/lab/tests/lab/map/record.jsonl");
    withstands(&map, "map show FILE");
    withstands(&map, "report --map FILE --output OUT");
}

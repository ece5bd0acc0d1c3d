//! Every input file of the program, damaged in hundreds of ways: the program reports the error or works with the rest. It does not
//! panic or hang, and it does not allocate memory because of a number in a file.

mod damage;
mod forms;

use std::path::{Path, PathBuf};

use contract::manifest::{FILE_NAME, Manifest};
use tempfile::TempDir;

use crate::program::of_repository;
use crate::support::part_of_ptx;

/// The entry that runs where one does: every form has all entries of its PTX read.
const ENTRY: &str = "fa512_sm80_any_full_128x64";

fn withstands(original: &Path, command: &str) {
    withstands_beside(original, &[], command);
}

fn withstands_beside(original: &Path, neighbours: &[PathBuf], command: &str) {
    forms::withstands(env!("CARGO_BIN_EXE_fa512"), original, neighbours, command);
}

#[test]
fn bench_records() {
    let record = of_repository("host/cli/tests/integration/compare/record.json");
    let path = record.display();
    withstands(&record, &format!("compare FILE {path}"));
    withstands(&record, &format!("compare {path} FILE --markdown"));
    withstands(&record, "diagnose FILE --all");
}

#[test]
fn profiles() {
    withstands(&of_repository("host/cli/tests/records/profile.json"), "diagnose FILE");
    withstands(&of_repository("host/cli/tests/ncu/full.raw.csv"), "profile --csv FILE");
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

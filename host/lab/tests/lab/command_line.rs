//! The command line of the program.

use std::process::Command;

use crate::program::{of_repository, ptx_path, refusal};

/// The program, with the PTX under test.
pub fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fa512-lab"));
    command.env("FA512_PTX_DIR", ptx_path()).args(arguments);
    command
}

#[test]
fn a_gpu_that_is_named_is_never_replaced_by_the_simulator() {
    for arguments in [
        &["map", "run", "--out", "no/such/folder/map.jsonl"][..],
        &["tune", "run", "--plan", "none", "--ptx", "none", "--out", "none"],
    ] {
        let message = refusal(lab(arguments).args(["--gpu", "999"]).env_remove("CUDA_VISIBLE_DEVICES"));
        assert!(message.starts_with("error: --gpu 999: no GPU: "), "{arguments:?}: {message}");
    }
}

#[test]
fn a_file_that_would_be_larger_than_the_limit_is_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let record = of_repository("host/cli/tests/bench/h200.json");
    let program = env!("CARGO_BIN_EXE_fa512-lab");
    let limited = format!(
        "ulimit -f 1; exec {program} plot {} --contender fa512,torch:cudnn --output {}",
        record.display(),
        folder.path().join("plot.svg").display()
    );
    let said = refusal(Command::new("sh").args(["-c", &limited]));
    assert!(said.contains("plot.svg: File too large"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something half-written is left");
}

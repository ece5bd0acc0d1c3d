//! `fa512 bench` on machines where it cannot measure.

use std::process::Command;

/// Runs `fa512 bench` without a GPU; it must refuse with exit code 2. Returns its messages.
fn refusal(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fa512"));
    command
        .arg("bench")
        .args(arguments)
        .env("CUDA_VISIBLE_DEVICES", "")
        .env("FA512_PTX_DIR", super::program::ptx_path());
    let output = command.output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}: {message}");
    message
}

#[test]
fn without_a_gpu_there_is_nothing_to_measure() {
    let message = refusal(&[]);
    assert!(message.contains("times mean nothing in the simulator") && message.contains("no GPU"), "{message}");
}

#[test]
fn arguments_are_refused_with_what_would_be_accepted() {
    assert!(refusal(&["--contender", "fastest"]).contains("there are: fa512, variant:NAME"));
    assert!(refusal(&["--shapes", "32x8"]).contains("expected numbers as in 32x8x512 or"));
    assert!(refusal(&["--paired", "fa512"]).contains("2 values required"));
    assert!(refusal(&["--samples", "0"]).contains("--samples"));
    assert!(refusal(&["--json", "no/such/folder/record.json"]).contains("no folder no/such/folder"));
}

#[test]
fn a_case_that_cannot_be_is_refused_before_any_is_measured() {
    let message = refusal(&["--scale=0.5,-1"]);
    assert!(message.contains("scale is -1") && !message.contains("no GPU"), "{message}");
    assert!(!refusal(&["--shapes", "1x1x64,1x1x64x500"]).contains("no GPU"));
}

//! The parts of `fa512 tune` that need no GPU.

use std::path::Path;

use crate::command_line::lab;
use crate::program::of_repository;
use crate::program::{output, refusal, text};

fn plan(folder: &Path) -> String {
    let path = folder.join("plan.json").display().to_string();
    let options = ["--family", "sm80", "--arch", "89", "--shapes", "4x8x512", "--candidates", "2", "--out", &path];
    let shown = text(&output(lab(&["tune", "plan"]).args(options), 0).stdout);
    for expected in ["in the search space", "rejected: bank conflicts", "pass every gate", "cargo xtask ptx --variants"]
    {
        assert!(shown.contains(expected), "{expected:?} is missing in:\n{shown}");
    }
    path
}

#[test]
fn a_plan_for_a_shape_that_cannot_be_is_refused() {
    let said = refusal(&mut lab(&["tune", "plan", "--shapes", "0x0x0"]));
    assert!(said.contains("is 0; it must be at least 1"), "{said}");
}

#[test]
fn a_plan_is_written_and_without_a_gpu_it_is_said_that_times_mean_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path());
    let record = folder.path().join("record.jsonl");
    let run = |plan: &str| {
        let mut command = lab(&["tune", "run", "--plan", plan, "--ptx", &crate::program::ptx_path(), "--out"]);
        // The test must not find a driver on any machine.
        command.arg(&record).env("CUDA_VISIBLE_DEVICES", "");
        command
    };
    let message = refusal(&mut run(&plan));
    assert!(message.contains("times mean nothing in the simulator"), "{message}");
    assert!(!record.exists(), "nothing was measured");
    let message = refusal(&mut run("no/such/plan.json"));
    assert!(message.contains("no/such/plan.json"), "{message}");
}

#[test]
fn files_of_another_kind_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path());
    let out = folder.path().join("out").display().to_string();
    for arguments in [&["merge", plan.as_str(), "--out", out.as_str()] as &[&str], &["show", &plan]] {
        let message = refusal(lab(&["tune"]).args(arguments));
        assert!(message.contains("plan.json") && message.contains("not a tuning record"), "{arguments:?}: {message}");
    }
}

#[test]
fn an_unknown_family_architecture_or_space_is_refused() {
    let message = refusal(&mut lab(&["tune", "plan", "--family", "sm70"]));
    assert!(message.contains("sm90a, sm80"), "{message}");
    assert!(refusal(&mut lab(&["tune", "plan", "--arch", "75"])).contains("sm_75"));
    let folder = tempfile::tempdir().unwrap();
    let space = folder.path().join("space.toml");
    std::fs::write(&space, "[sm80]\nwarps = [4]\nswizzle = [128]\n").unwrap();
    let message = refusal(lab(&["tune", "plan", "--family", "sm80", "--space"]).arg(&space));
    assert!(message.contains("space.toml: [sm80]: missing field"), "{message}");
}

#[test]
fn a_recorded_sweep_is_shown() {
    let record = of_repository("host/lab/tests/records/tuning.jsonl");
    let shown = text(&output(lab(&["tune", "show", "--top", "2"]).arg(&record), 0).stdout);
    for expected in ["NVIDIA H200, 177 trials, searched by exhaustive", "4x8x512 causal", " new: ", " stays: "] {
        assert!(shown.contains(expected), "{expected:?} is missing in:\n{shown}");
    }
}

#[test]
fn no_output_replaces_the_search_space() {
    let folder = tempfile::tempdir().unwrap();
    let space = folder.path().join("space.toml");
    std::fs::copy(of_repository("host/lab/src/tune/space.toml"), &space).unwrap();
    let said = refusal(lab(&["tune", "plan", "--candidates", "1"]).arg("--space").arg(&space).arg("--out").arg(&space));
    assert!(said.contains("is the file of --space"), "{said}");
}

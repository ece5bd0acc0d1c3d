//! The parts of `fa512 map` that need no GPU, on some points of a map measured on an H100.

use std::path::{Path, PathBuf};

use crate::command_line::lab;
use crate::program::of_repository;
use crate::program::{output, refusal, text};

fn record() -> PathBuf {
    of_repository("host/lab/tests/lab/map/record.jsonl")
}

#[test]
fn a_map_is_shown_with_its_worst_points_and_means() {
    let shown = text(&output(lab(&["map", "show", "--worst", "3"]).arg(record()), 0).stdout);
    for expected in
        ["NVIDIA H100 80GB HBM3, 8 points", "peer / ours  ours µs  peer µs", "chosen / best", "1x132x512 causal"]
    {
        assert!(shown.contains(expected), "{expected:?} is missing in:\n{shown}");
    }
}

#[test]
fn a_map_is_drawn_as_an_image_and_as_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let drawn = |name: &str| {
        let path = folder.path().join(name);
        output(lab(&["map", "draw", "--output"]).arg(&path).arg(record()), 0);
        std::fs::read_to_string(path).unwrap()
    };
    let image = drawn("map.svg");
    assert!(image.starts_with("<svg") && image.matches("<title>").count() == 9, "a title for each point and the whole");
    let page = drawn("map.html");
    assert!(page.contains("Ahead of the best peer at") && page.contains("<h2 id=\"maps\">"), "{page}");
    let other = folder.path().join("map.png");
    let message = refusal(lab(&["map", "draw", "--output"]).arg(&other).arg(record()));
    assert!(message.contains("must end in .svg or .html"), "{message}");
}

#[test]
fn without_a_gpu_nothing_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("map.jsonl");
    let mut command = lab(&["map", "run", "--ptx", &crate::program::ptx_path(), "--out"]);
    // The test must not find a driver on any machine.
    let message = refusal(command.arg(&out).env("CUDA_VISIBLE_DEVICES", ""));
    assert!(message.contains("times mean nothing in the simulator") && !out.exists(), "{message}");
    let ranges =
        ["0..4", "5..4", "many"].map(|range| refusal(lab(&["map", "run", "--heads", range, "--out"]).arg(&out)));
    ranges.iter().for_each(|message| assert!(message.contains("as in 1..4096"), "{message}"));
    let message = refusal(lab(&["map", "show"]).arg(of_repository("host/lab/tests/records/tuning.jsonl")));
    assert!(message.contains("not a map"), "{message}");
}

#[test]
fn constants_are_fitted_to_the_tables_for_every_shipped_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let tables = ["h100", "h200"].map(|gpu| of_repository(&format!("docs/results/map/{gpu}.jsonl")));
    let out = folder.path().join("shipped.rs");
    let fit = |tables: &[PathBuf], out: &Path| {
        let mut command = lab(&["map", "fit", "--folds", "0"]);
        command.args(tables).arg("--out").arg(out);
        command
    };
    output(&mut fit(&tables, &out), 0);
    // The last digits depend on the machine's logarithms.
    let kernels = |path: &Path| -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().filter_map(|line| Some(line.split_once("kernel(")?.1.split_once(')')?.0.to_owned())).collect()
    };
    let shipped = kernels(&of_repository("kernel-gpu/contract/src/choose/cost/shipped.rs"));
    assert!(!shipped.is_empty() && kernels(&out) == shipped, "docs/results/map.md says how shipped.rs is written");
    let copy = folder.path().join("table.jsonl");
    std::fs::copy(&tables[0], &copy).unwrap();
    let message = refusal(&mut fit(std::slice::from_ref(&copy), &copy));
    assert!(message.contains("a source") && message.contains("--out"), "{message}");
}

#[test]
fn times_of_a_record_are_kept_in_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let (clean, table) = (folder.path().join("clean.jsonl"), folder.path().join("table.jsonl"));
    let text = std::fs::read_to_string(record()).unwrap();
    let keep = |record: &Path, options: &[&str]| {
        let mut command = lab(&["map", "keep", "--table"]);
        command.arg(&table).args(options).arg(record);
        command
    };
    let dirty = folder.path().join("dirty.jsonl");
    let (start, rest) = text.split_once("\"git_commit\":\"").unwrap();
    let (commit, rest) = rest.split_once('"').unwrap();
    let commit = commit.trim_end_matches("-dirty");
    let with = |commit: &str| format!("{start}\"git_commit\":\"{commit}\"{rest}");
    std::fs::write(&dirty, with(&format!("{commit}-dirty"))).unwrap();
    std::fs::write(&clean, with(commit)).unwrap();
    let message = refusal(&mut keep(&dirty, &[]));
    assert!(message.contains("is not what was measured") && !table.exists(), "{message}");
    for (options, points) in [(&[] as &[&str], 8), (&[], 16), (&["--replace"], 8)] {
        let shown = text_of(&mut keep(&clean, options));
        assert!(shown.contains(&format!("{points} points")), "{options:?}: {shown}");
    }
    let fitted = text_of(lab(&["map", "fit", "--folds", "0"]).arg(&table).arg(&clean));
    assert!(fitted.starts_with("NVIDIA H100 80GB HBM3, sm_90"), "a table and a record: {fitted}");
}

fn text_of(command: &mut std::process::Command) -> String {
    text(&output(command, 0).stdout)
}

//! `fa512 profile` on machines without a GPU.

use crate::command_line::fa512;
use crate::program::of_repository;
use crate::program::{output, refusal, text};

/// A file of ncu's output that was recorded on an H200.
fn recorded(name: &str) -> String {
    let path = of_repository("host/cli/tests/ncu").join(name);
    path.to_str().expect("the path is UTF-8").to_owned()
}

#[test]
fn a_stored_profile_needs_neither_ncu_nor_a_gpu() {
    let table = text(&output(&mut fa512(&["profile", "--csv", &recorded("full.raw.csv")]), 0).stdout);
    for expected in [
        "fa512_sm80_s512_full_128x64 on NVIDIA H200",
        "63.52 µs under ncu",
        "tensor cores    42.7 %",
        "DRAM            19.2 %, 0.92 TB/s",
        "L2              32.1 %, hit rate 50.1 %",
        "30380 of 5024398 wavefronts (0.6 %)",
        "12.0 % of 12.5 %; 2 blocks fit, by registers and shared memory, 3.88 waves",
        "25.5 % wait",
    ] {
        assert!(table.contains(expected), "{expected} is missing:\n{table}");
    }
    assert!(!table.contains("spills"), "the kernel has none:\n{table}");
    let output = output(&mut fa512(&["profile", "--json", "--csv", &recorded("causal_any.raw.csv")]), 0);
    let profile: serde_json::Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    assert_eq!(profile["kernel"], "fa512_sm80_any_causal_64x64");
    assert_eq!(profile["registers"], 160.0);
}

#[test]
fn what_is_no_profile_is_refused() {
    let message = refusal(&mut fa512(&["profile", "--csv", &recorded("full.details.csv")]));
    assert!(message.contains("full.details.csv: ") && message.contains("--page raw --csv"), "{message}");
    let message = refusal(&mut fa512(&["profile", "--csv", "no/such.csv"]));
    assert!(message.contains("no/such.csv: "), "{message}");
}

#[test]
fn a_missing_tool_or_gpu_is_named() {
    let message = refusal(fa512(&["profile"]).env("CUDA_VISIBLE_DEVICES", ""));
    assert!(message.contains("no ncu in PATH") || message.contains("no GPU"), "{message}");
}

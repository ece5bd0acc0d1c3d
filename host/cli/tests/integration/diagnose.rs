//! `fa512 diagnose` on stored data, without a GPU.

use std::path::Path;

use crate::command_line::fa512;
use crate::program::of_repository;
use crate::program::{output, refusal, text};

/// The profile of ncu's output that was recorded on an H200, in a file of its own.
fn stored_profile(folder: &Path) -> String {
    let csv = of_repository("host/cli/tests/ncu/full.raw.csv");
    let profile = output(fa512(&["profile", "--json", "--csv"]).arg(csv), 0).stdout;
    let path = folder.join("profile.json");
    std::fs::write(&path, profile).unwrap();
    path.to_str().expect("the path is UTF-8").to_owned()
}

#[test]
fn a_profile_alone_names_the_bottleneck_and_what_is_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let profile = stored_profile(folder.path());
    let report = text(&output(&mut fa512(&["diagnose", &profile]), 0).stdout);
    for expected in [
        "an unknown case: fa512_sm80_s512_full_128x64",
        "bottleneck  too few warps: ",
        "tensor cores 42.7 % (under 70.0 %), occupancy 12.0 % (under 50.0 %)",
        "undecided   wrong results, unreliable samples, launch-bound (needs a bench record",
        "undecided   no limit reached (needs a bench record with the GPU's measured ceilings)",
        "undecided   far behind (needs a bench record with other contenders",
    ] {
        assert!(report.contains(expected), "{expected} is missing:\n{report}");
    }
    assert!(!report.contains("not fired"), "that is for --all:\n{report}");
    let report = text(&output(&mut fa512(&["diagnose", "--all", &profile]), 0).stdout);
    assert!(report.contains("not fired   memory-bound: DRAM is 19.2 %, not over 70.0 %"), "{report}");
}

/// A record of the kernel and of cuDNN for the profiled case, and of the kernel for a causal mask, from an H200.
fn recorded_bench() -> String {
    let path = of_repository("host/cli/tests/bench/h200.json");
    path.to_str().expect("the path is UTF-8").to_owned()
}

#[test]
fn a_profile_is_joined_with_the_row_of_its_kernel_and_case() {
    let folder = tempfile::tempdir().unwrap();
    let path = stored_profile(folder.path());
    let mut profile: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    profile["case"] = serde_json::json!({
        "batch": 32, "heads": 8, "sequence": 512, "head_dim": 64, "mask": "full", "layout": "bhsd"
    });
    std::fs::write(&path, profile.to_string()).unwrap();
    let report = text(&output(&mut fa512(&["diagnose", &recorded_bench(), &path]), 0).stdout);
    let paragraphs: Vec<_> = report.split("\n\n").collect();
    let [full, causal] = paragraphs[..] else { panic!("two rows, and no profile left over:\n{report}") };
    assert!(full.contains("32x8x512 full: fa512, ") && full.contains("bottleneck  too few warps"), "{full}");
    assert!(causal.contains("bottleneck  not found") && causal.contains("fa512 profile --variant "), "{causal}");
    let message = refusal(&mut fa512(&["diagnose", "--contender", "torch:flash", &recorded_bench()]));
    assert!(message.contains("has no contender torch:flash; it has: fa512, torch:cudnn"), "{message}");
}

#[test]
fn the_judgments_are_data_too() {
    let folder = tempfile::tempdir().unwrap();
    let output = output(&mut fa512(&["diagnose", "--json", &stored_profile(folder.path())]), 0);
    let diagnoses: serde_json::Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    assert_eq!((&diagnoses["kind"], &diagnoses["version"]), (&"fa512-diagnose".into(), &1.into()));
    let judgments = diagnoses["diagnoses"][0]["judgments"].as_array().expect("a list");
    let of = |name: &str| judgments.iter().find(|judgment| judgment["name"] == name).expect(name);
    assert_eq!(of("too few warps")["verdict"], "fires");
    assert_eq!(of("launch-bound")["missing"][0], "median_time");
    assert_eq!(of("spills")["verdict"], "does_not_fire");
}

#[test]
fn other_files_are_refused_with_what_would_do() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |content: &str| {
        let path = folder.path().join("other.json");
        std::fs::write(&path, content).unwrap();
        refusal(fa512(&["diagnose"]).arg(path))
    };
    let message = refused("{\"kind\": \"fa512-tune\", \"version\": 1}");
    assert!(
        message.contains("holds a fa512-tune; expected a bench record (fa512 bench --json FILE) or a profile"),
        "{message}"
    );
    assert!(refused("[]").contains("expected a JSON document with a kind and a version"));
    assert!(refusal(&mut fa512(&["diagnose", "no/such.json"])).contains("no/such.json: "));
}

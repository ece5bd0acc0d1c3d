//! `fa512 sanitize` as a user meets it.

use crate::command_line::{edited_ptx, fa512, misaligned_lse, output, refusal, text};

const VARIANT: &str = "fa512_sm80_any_full_64x64";

/// `fa512 sanitize` of one variant on short sequences.
fn sanitize(arguments: &[&str]) -> std::process::Command {
    let mut command = fa512(&["sanitize", "--variant", VARIANT, "--seq", "1,33"]);
    command.args(arguments);
    command
}

#[test]
fn sound_kernels_pass() {
    let output = output(&mut sanitize(&[]), 0);
    let table = text(&output.stdout);
    // Two lengths, two layouts, with and without LSE.
    for expected in [VARIANT, "8 of 8", "nothing found"] {
        assert!(table.contains(expected), "{expected} is missing:\n{table}");
    }
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn what_is_found_is_shown_once_with_the_first_case() {
    let folder = edited_ptx(misaligned_lse);
    let table = text(&output(sanitize(&["--layout", "bshd"]).arg("--ptx").arg(folder.path()), 1).stdout);
    for expected in ["4 of 4", "sequence 1, bshd, with LSE (in 2 of 4 cases)", "error: misaligned access: ", "help: "] {
        assert!(table.contains(expected), "{expected} is missing:\n{table}");
    }
    assert!(!table.contains("nothing found"), "{table}");
    let mut command = sanitize(&["--lse", "true", "--json"]);
    let output = output(command.arg("--ptx").arg(folder.path()), 1);
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    assert_eq!((&record["passed"], &record["interrupted"]), (&false.into(), &false.into()));
    let found = &record["variants"][0]["findings"][0];
    assert_eq!((&found["finding"]["class"], &found["first_case"]["with_lse"]), (&"misaligned".into(), &true.into()));
    // Without LSE the faulty store is not executed.
    self::output(sanitize(&["--lse", "false"]).arg("--ptx").arg(folder.path()), 0);
}

#[test]
fn a_kernel_that_cannot_be_run_is_neither_sound_nor_faulty() {
    let folder = edited_ptx(|ptx| ptx.replace("rcp.approx.ftz.f32", "frobnicate.f32"));
    let table = text(&output(sanitize(&[]).arg("--ptx").arg(folder.path()), 2).stdout);
    assert!(table.contains("cannot run") && table.contains("frobnicate") && table.contains("0 of 8"), "{table}");
}

#[test]
fn a_selection_that_leaves_nothing_is_refused() {
    let unknown = refusal(&mut fa512(&["sanitize", "--variant", "fastest"]));
    assert!(unknown.contains("no variant fastest; there are: fa512_sm80_"), "{unknown}");
    let other_mask = refusal(&mut sanitize(&["--mask", "causal"]));
    assert!(other_mask.contains("left to run with a causal mask and sequence 1, 33"), "{other_mask}");
    let empty = refusal(&mut fa512(&["sanitize", "--seq", "0"]));
    assert!(empty.contains("sequence is 0"), "{empty}");
}

#[test]
fn a_gpu_needs_compute_sanitizer() {
    let mut command = sanitize(&["--device", "gpu"]);
    let message = refusal(command.env("PATH", "").env_remove("CUDA_HOME").env_remove("CUDA_PATH"));
    assert!(message.contains("no compute-sanitizer in PATH") && message.contains("CUDA toolkit"), "{message}");
    let without_lse = refusal(&mut sanitize(&["--device", "gpu", "--lse", "false"]));
    assert!(without_lse.contains("runs with LSE only"), "{without_lse}");
}

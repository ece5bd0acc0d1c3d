//! `fa512 fuzz` from the command line: correct kernels pass, broken ones are found, and the printed command repeats the failure.

use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use contract::args::{ForwardArgs, Strides};

use crate::command_line::{fa512, misaligned_lse};
use crate::program::{output, refusal, text};
use crate::support::{entry_for_gradients, part_of_ptx};

const VARIANT: &str = "fa512_sm80_any_full_128x64";

/// `fa512 fuzz` of one variant in the simulator, on problems that take milliseconds.
fn fuzz(arguments: &[&str]) -> Command {
    let mut command =
        fa512(&["fuzz", "--device", "sim", "--variant", VARIANT, "--max-seq", "70", "--max-pairs", "5000"]);
    command.args(arguments);
    command
}

fn json(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).expect("standard output is JSON")
}

#[test]
fn sound_kernels_pass() {
    let output = output(&mut fuzz(&["--cases", "20"]), 0);
    let table = text(&output.stdout);
    for expected in ["ptx-sim", "seed 0, sequences up to 70", "normal", "PASS: 47 of 47 cases passed (100.00 %)"] {
        assert!(table.contains(expected), "{expected} is missing:\n{table}");
    }
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_seed_gives_the_same_campaign_again() {
    let folder = part_of_ptx(|entry| entry.name == VARIANT, str::to_owned);
    let record = |seed| {
        let mut command = fuzz(&["--cases", "3", "--json", "--seed", seed]);
        let mut record = json(&output(command.arg("--ptx").arg(folder.path()), 0).stdout);
        record.as_object_mut().expect("a record").remove("seconds");
        record
    };
    let one = record("1");
    assert_eq!((&one["kind"], &one["version"]), (&"fa512-fuzz".into(), &1.into()));
    assert_eq!((&one["passed"], &one["planned_cases"]), (&true.into(), &30.into()));
    assert_eq!(one, record("1"));
    assert_ne!(one["distributions"], record("2")["distributions"]);
}

#[test]
fn a_campaign_without_a_number_of_cases_ends_in_time() {
    let record = json(&output(&mut fuzz(&["--minutes", "0.01", "--json"]), 0).stdout);
    assert_eq!((&record["planned_cases"], &record["passed"]), (&serde_json::Value::Null, &true.into()));
}

#[test]
fn what_cannot_be_run_is_refused() {
    let unknown = refusal(&mut fa512(&["fuzz", "--variant", "fastest"]));
    assert!(unknown.contains("there is no variant fastest; there are: fa512_sm"), "{unknown}");
    for minutes in ["0", "-1", "soon", "inf"] {
        refusal(&mut fa512(&["fuzz", &format!("--minutes={minutes}")]));
    }
    refusal(&mut fa512(&["fuzz", "--max-seq", "0"]));
}

/// The variant alone, changed by `edit`.
fn broken_ptx(edit: impl Fn(&str) -> String) -> tempfile::TempDir {
    let edit = |ptx: &str| {
        let edited = edit(ptx);
        assert!(ptx != edited || !ptx.contains(VARIANT), "nothing was edited");
        edited
    };
    part_of_ptx(|entry| entry.name == VARIANT, edit)
}

/// The campaign on the PTX in `folder`, which fails, with its first failed case.
fn first_failure(folder: &Path, seed: &str) -> serde_json::Value {
    let mut command = fuzz(&["--cases", "25", "--json", "--seed", seed]);
    let record = json(&output(command.arg("--ptx").arg(folder), 1).stdout);
    assert_eq!(record["passed"], false);
    let first = &record["failed"][0];
    assert!(first["simplest"].is_object(), "the first case of a kind is shrunk: {first}");
    first.clone()
}

/// Runs a printed command and requires that it fails, as data.
fn repeat(command: &serde_json::Value) -> serde_json::Value {
    let words = shlex::split(command.as_str().expect("a command")).expect("whole words");
    assert_eq!(words[0], "fa512");
    json(&output(fa512(&[]).args(&words[1..]).arg("--json"), 1).stdout)
}

#[test]
fn a_wrong_sum_shrinks_to_one_row_of_one_head() {
    let folder = broken_ptx(|ptx| ptx.replace("rcp.approx.ftz.f32", "sqrt.approx.ftz.f32"));
    let failed = first_failure(folder.path(), "0");
    assert!(repeat(&failed["command"])["check"]["output"]["wrong"].as_u64() > Some(0));
    let simplest = &failed["simplest"];
    let command = simplest["command"].as_str().unwrap();
    // Even one row is wrong: the shift is above its score, and the sum is not 1.
    let expected =
        format!("--variant {VARIANT} --mask full --batch 1 --heads 1 --seq 1 --distribution normal --seed 0 ");
    assert!(command.contains(&expected), "{command}");
    for default in ["--strides", "--offset", "--scale", "--layout", "--no-lse"] {
        assert!(!command.contains(default), "{command}");
    }
    let repeated = repeat(&simplest["command"]);
    assert_eq!(repeated["check"]["output"]["wrong"], simplest["failures"][0]["elements"]);
}

#[test]
fn a_wrong_gradient_shrinks_to_one_row_with_the_bias_that_it_needs() {
    const GRADIENTS: &str = "fa512_sm80_backward_dbias";
    let folder = entry_for_gradients(GRADIENTS, |ptx| ptx.replace("ex2.approx.ftz.f32", "sqrt.approx.ftz.f32"));
    let mut command = fa512(&["fuzz", "--device", "sim", "--max-pairs", "5000", "--cases", "3", "--json", "--ptx"]);
    let record = json(&output(command.arg(folder.path()), 1).stdout);
    let simplest = &record["failed"][0]["simplest"];
    let command = simplest["command"].as_str().expect("a command");
    for expected in [GRADIENTS, "--batch 1 --heads 1 --seq 1 ", "--bias=qk"] {
        assert!(command.contains(expected), "{expected} is missing: {command}");
    }
    let comparisons = &repeat(&simplest["command"])["check"]["comparisons"];
    assert_eq!(comparisons.as_array().map(Vec::len), Some(4), "{comparisons}");
    assert!(comparisons[2]["wrong"].as_u64() > Some(0), "dV is that of another probability: {comparisons}");
}

#[test]
fn what_the_simulator_finds_is_a_failure() {
    let folder = broken_ptx(misaligned_lse);
    let failed = first_failure(folder.path(), "1");
    let simplest = &failed["simplest"];
    assert_eq!(
        (&simplest["failures"][0]["kind"], &simplest["failures"][0]["class"]),
        (&"finding".into(), &"misaligned".into())
    );
    let command = simplest["command"].as_str().unwrap();
    assert!(command.contains("--batch 1 --heads 1 --seq 1 ") && !command.contains("--no-lse"), "{command}");
    assert_eq!(repeat(&simplest["command"])["findings"][0]["class"], "misaligned");
}

#[test]
fn strides_stay_where_the_failure_needs_them() {
    let head_stride = |tensor: usize| format!("+{}]", tensor + offset_of!(Strides, head));
    let of_v = head_stride(offset_of!(ForwardArgs, v_strides));
    let of_k = head_stride(offset_of!(ForwardArgs, k_strides));
    // Behind the parameter's name by one code generator, behind a register with its address by the other.
    let reads_of_k = |line: &str| match line.trim_start().starts_with("ld.param") {
        true => line.replace(&of_v, &of_k) + "\n",
        false => line.to_owned() + "\n",
    };
    let folder = broken_ptx(|ptx| ptx.lines().map(reads_of_k).collect());
    let failed = first_failure(folder.path(), "0");
    let simplest = &failed["simplest"];
    let command = simplest["command"].as_str().unwrap();
    assert!(command.contains("--batch 1 --heads 2 --seq 1 "), "{command}");
    let (k, v) = (command.contains("--strides 'K="), command.contains("--strides 'V="));
    assert!(k != v, "one of the two is enough: {command}");
    assert!(!command.contains("Q=") && !command.contains("O=") && !command.contains("--offset"), "{command}");
    repeat(&simplest["command"]);
    let table = text(&output(fuzz(&["--cases", "25"]).arg("--ptx").arg(folder.path()), 1).stdout);
    for expected in ["FAIL: ", "\n  fa512 run --variant ", " simplest of "] {
        assert!(table.contains(expected), "{expected} is missing:\n{table}");
    }
}

//! `fa512 run --print-entry`, which tells `cargo xtask run` what to compile.

use contract::variants::VARIANTS;

use crate::command_line::fa512;
use crate::program::{output, refusal, text};

/// Output of a run with these arguments, without any PTX.
fn printed(arguments: &[&str]) -> String {
    let mut command = fa512(&["run", "--device", "sim", "--print-entry"]);
    text(&output(command.env("FA512_PTX_DIR", "no/such/folder").args(arguments), 0).stdout)
}

#[test]
fn the_entry_is_the_one_that_a_run_takes() {
    for arguments in [
        &["--heads", "1", "--seq", "33"][..],
        &["--heads", "1", "--seq", "40", "--causal", "--type", "bf16", "--arch", "80"],
        &["--heads", "1", "--lengths", "17,3", "--softcap", "30"],
        &["--heads", "1", "--seq", "33", "--variant", "fa512_sm80_any_full_32x32"],
    ] {
        let mut run = fa512(&["run", "--device", "sim", "--no-check", "--json"]);
        let record = output(run.args(arguments), 0).stdout;
        let record: serde_json::Value = serde_json::from_slice(&record).expect("standard output is JSON");
        let taken = record["variant"].as_str().expect("a record names its variant");
        assert_eq!(printed(arguments), format!("{taken}\n"), "{arguments:?}");
    }
}

#[test]
fn nothing_is_printed_where_other_ptx_is_named() {
    assert_eq!(printed(&["--ptx", "no/such/folder"]), "");
    assert_eq!(printed(&["--codegen", "cuda"]), "");
}

#[test]
fn what_a_run_refuses_is_refused() {
    let refused = |arguments: &[&str]| refusal(fa512(&["run", "--device", "sim", "--print-entry"]).args(arguments));
    assert!(refused(&["--head-dim", "129"]).contains("head_dim"), "{}", refused(&["--head-dim", "129"]));
    let unknown = refused(&["--variant", "none"]);
    assert!(unknown.contains("there is no variant none") && unknown.contains(VARIANTS[0].entry), "{unknown}");
}

//! `fa512 sanitize` from the command line.

use crate::command_line::{edited_ptx, fa512, misaligned_lse};
use crate::program::{output, refusal, text};
use crate::support::entry_for_gradients;

const VARIANT: &str = "fa512_sm80_any_full_128x64";

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
    assert_eq!((&record["kind"], &record["version"]), (&"fa512-sanitize".into(), &1.into()));
    assert_eq!((&record["passed"], &record["interrupted"]), (&false.into(), &false.into()));
    let found = &record["variants"][0]["findings"][0];
    assert_eq!((&found["finding"]["class"], &found["first_case"]["with_lse"]), (&"misaligned".into(), &true.into()));
    // Without LSE the faulty store is not executed.
    self::output(sanitize(&["--lse", "false"]).arg("--ptx").arg(folder.path()), 0);
}

#[test]
fn gradients_are_checked_too() {
    const GRADIENTS: &str = "fa512_sm80_backward_dbias";
    let run = |edit: fn(&str) -> String, exit_code| {
        let folder = entry_for_gradients(GRADIENTS, edit);
        text(&output(fa512(&["sanitize", "--seq", "1,33", "--ptx"]).arg(folder.path()), exit_code).stdout)
    };
    // Two lengths, two layouts, and LSE, which they read.
    let table = run(str::to_owned, 0);
    for expected in [GRADIENTS, "4 of 4", "nothing found"] {
        assert!(table.contains(expected), "{expected} is missing:\n{table}");
    }
    let without_barriers =
        |ptx: &str| ptx.lines().filter(|line| !line.contains("bar.sync")).map(|line| format!("{line}\n")).collect();
    let table = run(without_barriers, 1);
    assert!(table.contains("race") && table.contains("with LSE"), "{table}");
}

/// Waits until the process with this number listens for Ctrl-C, and sends it.
fn interrupt(process: u32) {
    const SIGINT: u64 = 1 << 1;
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    };
    while caught().expect("it runs") & SIGINT == 0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let sent = std::process::Command::new("kill").args(["-INT", &process.to_string()]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn an_interrupt_ends_a_case_of_endless_schedules() {
    let mut command = sanitize(&["--schedules", "18446744073709551615"]);
    let piped = std::process::Stdio::piped;
    let child = command.stdout(piped()).stderr(piped()).spawn().unwrap();
    interrupt(child.id());
    let output = child.wait_with_output().unwrap();
    let (table, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{table}\n{said}");
    assert!(table.contains("0 of 8") && table.contains("interrupted"), "{table}");
    assert!(said.contains("Ctrl-C again ends at once"), "{said}");
}

/// The same PTX, but it traps when the last of its four warps is not the first one past a barrier. In the order of their
/// indices it is the last to arrive, and goes on at once.
fn trap_out_of_order(ptx: &str) -> String {
    let tickets = "\n{\n.shared .align 4 .b8 ticket[4];\n.reg .b32 %own<4>;\n.reg .pred %is<4>;\n\
        mov.u32 %own0, %tid.x;\nsetp.eq.u32 %is0, %own0, 0;\n@%is0 st.shared.u32 [ticket], 0;\nbar.sync 0;\n\
        and.b32 %own1, %own0, 31;\nsetp.ne.u32 %is1, %own1, 0;\n@%is1 bra ordered;\n\
        atom.shared.add.u32 %own2, [ticket], 1;\nshr.u32 %own3, %own0, 5;\nsetp.eq.u32 %is2, %own3, 3;\nsetp.ne.and.u32 %is3, %own2, 0, %is2;\n\
        @%is3 trap;\nordered:\nbar.sync 0;\n";
    ptx.replace("\n{\n", tickets)
}

#[test]
fn what_only_another_schedule_shows_is_found_once_with_its_number() {
    let folder = edited_ptx(trap_out_of_order);
    let run = |arguments: &[&str], exit_code| {
        let mut command = fa512(&["sanitize", "--variant", VARIANT, "--seq", "1", "--layout", "bshd", "--lse", "true"]);
        text(&output(command.args(arguments).arg("--ptx").arg(folder.path()), exit_code).stdout)
    };
    assert!(run(&[], 0).contains("nothing found"), "schedule 0 is the order of the indices");
    let table = run(&["--schedules", "4"], 1);
    assert!(table.contains(", 4 schedules\n") && table.contains(" of 4 schedules, first "), "{table}");
    assert_eq!(table.matches("error: trap").count(), 1, "equal findings are merged:\n{table}");
    let record: serde_json::Value = serde_json::from_str(&run(&["--schedules", "4", "--json"], 1)).expect("JSON");
    let found = &record["variants"][0]["findings"][0];
    assert_eq!((&record["schedules"], &found["cases"]), (&4.into(), &1.into()));
    assert_eq!(found["first_schedule"], found["schedules"][0]);
    assert!(found["first_schedule"].as_u64() > Some(0), "{found}");
}

#[test]
fn findings_of_every_schedule_are_one_finding() {
    let folder = edited_ptx(misaligned_lse);
    let mut command = sanitize(&["--layout", "bshd", "--lse", "true"]);
    let once = text(&output(command.arg("--ptx").arg(folder.path()), 1).stdout);
    let table = text(&output(command.args(["--schedules", "3"]), 1).stdout);
    assert!(table.contains("(in 2 of 2 cases; under 3 of 3 schedules, first 0)"), "{table}");
    assert_eq!(table.matches("error: ").count(), once.matches("error: ").count(), "{table}");
}

#[test]
fn schedules_are_counted_from_one_and_for_the_simulator_only() {
    let on_gpu = refusal(&mut sanitize(&["--device", "gpu", "--schedules", "2"]));
    assert!(on_gpu.contains("--schedules is for --device sim only"), "{on_gpu}");
    assert!(refusal(&mut sanitize(&["--schedules", "0"])).contains("--schedules"), "no schedule at all");
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
    assert!(unknown.contains("no variant fastest; there are: fa512_sm"), "{unknown}");
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

//! Running the program and reading its output.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::Path;
use std::process::{Command, Output};

/// The program with `arguments`, in the folder of the fixtures.
pub fn ptx_sim(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptx-sim"));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")).args(arguments);
    command
}

/// Output of the program.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program writes UTF-8")
}

/// Output of the program, which must end with `exit_code`.
#[track_caller]
pub fn output(command: &mut Command, exit_code: i32) -> Output {
    let output = command.output().expect("the program starts");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(exit_code), "{command:?}\n{stdout}\n{stderr}");
    output
}

/// The error message for `arguments` that the program refuses.
#[track_caller]
pub fn refusal(arguments: &[&str]) -> String {
    let output = output(&mut ptx_sim(arguments), 2);
    assert!(output.stdout.is_empty(), "a refusal belongs on standard error: {}", text(&output.stdout));
    text(&output.stderr)
}

//! Running a program, and what it says.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cli::ptx_folder::ENVIRONMENT_VARIABLE;

/// A file of the repository.
pub fn of_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The folder of the PTX under test.
pub fn ptx_path() -> String {
    std::env::var(ENVIRONMENT_VARIABLE).unwrap_or_else(|_| {
        panic!("these tests need the PTX: run `cargo xtask test`, which builds it and sets {ENVIRONMENT_VARIABLE}")
    })
}

/// What the program wrote, as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program writes UTF-8")
}

/// What a command printed that ends with `exit_code`.
#[track_caller]
pub fn output(command: &mut Command, exit_code: i32) -> Output {
    let output = command.output().expect("the program starts");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(exit_code), "{command:?}\n{stdout}\n{stderr}");
    output
}

/// The message of a command that fails.
#[track_caller]
pub fn refusal(command: &mut Command) -> String {
    let output = output(command, 2);
    assert!(output.stdout.is_empty(), "a refusal belongs on standard error: {}", text(&output.stdout));
    text(&output.stderr)
}

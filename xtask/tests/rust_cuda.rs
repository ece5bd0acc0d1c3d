//! What `cargo xtask` says on a machine without Rust-CUDA.

use std::process::{Command, Output};

use tempfile::TempDir;

/// The variables that name pieces of an installation.
const VARIABLES: [&str; 6] =
    ["FA512_RUST_CUDA", "FA512_RUST_CUDA_BACKEND", "FA512_RUST_CUDA_RUSTC", "FA512_LIBNVVM", "CUDA_HOME", "CUDA_PATH"];

/// Calls it in an empty workspace: that of the tests may have an installation among its tools.
fn xtask(arguments: &[&str]) -> Output {
    let workspace = TempDir::new().unwrap();
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.env("CARGO_MANIFEST_DIR", workspace.path().join("xtask"));
    for name in VARIABLES {
        xtask.env_remove(name);
    }
    xtask.args(arguments).output().unwrap()
}

#[test]
fn every_task_that_is_asked_to_use_it_says_so_in_one_line_and_exits_with_2() {
    for task in ["ptx", "run", "test", "mutate"] {
        let output = xtask(&[task, "--codegen", "rust-cuda"]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{task}: {message}");
        assert!(message.starts_with("xtask: error: there is no usable Rust-CUDA on this machine"), "{task}: {message}");
        assert_eq!(message.lines().count(), 1, "{task}: {message}");
    }
}

#[test]
fn the_doctor_names_every_piece_and_is_content_without_them() {
    let output = xtask(&["doctor", "--rust-cuda", "no/such/folder"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "nothing needs it: {table}");
    let row = |piece: &str| table.lines().find(|line| line.trim_start().starts_with(piece));
    for piece in ["Rust-CUDA checkout", "Rust-CUDA rustc", "Rust-CUDA backend"] {
        assert!(row(piece).is_some_and(|row| row.contains("no kernels by Rust-CUDA")), "{piece}:\n{table}");
    }
    assert!(row("libNVVM").is_some(), "a CUDA installation has it:\n{table}");
    assert!(table.contains("does not work on this machine, until `cargo xtask rust-cuda install`"), "{table}");
}

//! `fa512 map` and the other commands of `fa512-lab`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::program::{output, refusal, text};

/// A copy of the program in `folder`.
fn copied(folder: &TempDir) -> PathBuf {
    let copy = folder.path().join("fa512");
    fs::copy(env!("CARGO_BIN_EXE_fa512"), &copy).unwrap();
    copy
}

#[test]
fn the_laboratory_beside_the_program_gets_the_command_and_gives_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let fa512 = copied(&folder);
    let lab = folder.path().join("fa512-lab");
    fs::write(&lab, "#!/bin/sh\necho \"$@\"\nexit 1\n").unwrap();
    fs::set_permissions(&lab, fs::Permissions::from_mode(0o700)).unwrap();
    for arguments in [&["map", "show", "--worst", "3"][..], &["tune", "--help"], &["report"], &["plot", "-x"]] {
        let said = text(&output(Command::new(&fa512).args(arguments), 1).stdout);
        assert_eq!(said.trim_end(), arguments.join(" "));
    }
}

#[test]
fn without_the_laboratory_it_is_said_how_to_build_it() {
    let folder = tempfile::tempdir().unwrap();
    let fa512 = copied(&folder);
    for command in ["map", "tune", "report", "plot"] {
        let message = refusal(Command::new(&fa512).args([command, "--help"]));
        assert!(message.contains("fa512-lab, which is not there"), "{message}");
        assert!(message.contains("`cargo build --release -p fa512-lab`"), "{message}");
        assert!(message.contains(&format!("`cargo xtask run {command}`")), "{message}");
    }
    // Clap's own message for a command that is none.
    assert!(refusal(Command::new(&fa512).arg("sing")).contains("unrecognized subcommand 'sing'"));
}

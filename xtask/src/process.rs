//! Running other programs, with errors that name the program and include its output.

use std::ffi::OsStr;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

/// The command line of `command` as typed in a shell, for messages.
pub fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Runs `command` with inherited output and returns its exit status.
pub fn status(command: &mut Command) -> Result<ExitStatus> {
    command.stdin(Stdio::null()).status().with_context(|| format!("could not start `{}`", command_line(command)))
}

/// Runs `command` with inherited output; anything but success is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    if !status.success() {
        bail!("`{}` failed ({status})", command_line(command));
    }
    Ok(())
}

/// Runs `command` and returns its exit code as that of this program.
pub fn hand_over(command: &mut Command) -> Result<ExitCode> {
    let status = command.status().with_context(|| format!("could not start `{}`", command_line(command)))?;
    exit_code(command, status)
}

/// The exit code of `command`, which ended with `status`.
pub fn exit_code(command: &Command, status: ExitStatus) -> Result<ExitCode> {
    match status.code().map(u8::try_from) {
        Some(Ok(code)) => Ok(ExitCode::from(code)),
        _ => bail!("`{}` was ended by {status}", command_line(command)),
    }
}

/// Runs `command` and returns its standard output; an error includes its standard error.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("could not start `{}`", command_line(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed ({})\n{}", command_line(command), output.status, said.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

//! `fa512 map`, `entries`, `tune`, `report`, `plot`: the laboratory's commands. The program `fa512-lab` beside this one carries them out.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::Verdict;
use crate::error::{Error, Result};

/// What follows the command's name, read by `fa512-lab`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// Arguments of the command; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Replaces this process by `fa512-lab`, which carries out `command`. Returns only if it cannot be started.
pub fn hand_over(command: &str, Arguments { arguments }: &Arguments) -> Result<Verdict> {
    let own = std::env::current_exe().map_err(|error| cannot_start(Path::new("fa512-lab"), command, &error))?;
    let lab = own.with_file_name(format!("fa512-lab{}", std::env::consts::EXE_SUFFIX));
    let error = Command::new(&lab).arg(command).args(arguments).exec();
    Err(cannot_start(&lab, command, &error))
}

fn cannot_start(lab: &Path, command: &str, error: &io::Error) -> Error {
    let lab = lab.display();
    match error.kind() {
        io::ErrorKind::NotFound => Error::Unavailable(format!(
            "`fa512 {command}` needs the program {lab}, which is not there: `cargo build --release -p fa512-lab` builds it, and `cargo \
             xtask run {command}` builds it and starts it"
        )),
        _ => Error::Unavailable(format!("{lab} cannot be started: {error}")),
    }
}

//! The `fa512 run` command that repeats a case.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use workshop::device::{Device, DeviceKind};
use workshop::error::{Error, Result};
use workshop::fuzz::case::Case;

/// Where cases are repeated: on which device, and on which PTX.
pub struct Repeat {
    program: PathBuf,
    place: Vec<String>,
}

impl Repeat {
    /// On `device`, with the PTX in `ptx` if that was named.
    ///
    /// # Errors
    /// [`Error::File`] when the system does not say which program this is.
    pub fn new(device: &Device, ptx: Option<&Path>) -> Result<Self> {
        let program = std::env::current_exe().map_err(|source| Error::File { path: "this program".into(), source })?;
        let mut place = vec!["--device".to_owned()];
        match device.kind {
            DeviceKind::Gpu => place.push("gpu".into()),
            DeviceKind::Simulator => {
                place.extend(["sim", "--arch", &device.architecture.to_string()].map(str::to_owned))
            }
        }
        if let Some(folder) = ptx {
            place.extend(["--ptx".to_owned(), folder.display().to_string()]);
        }
        Ok(Self { program, place })
    }

    /// The command, for a shell.
    pub fn command(&self, case: &Case) -> String {
        let arguments = case.run_arguments();
        let words = std::iter::once("fa512").chain(arguments.iter().chain(&self.place).map(String::as_str));
        words.map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// Whether the command does not pass; for kernels that take the GPU away from the process.
    pub fn fails_in_a_process_of_its_own(&self, case: &Case) -> bool {
        let mut command = Command::new(&self.program);
        command.args(case.run_arguments()).args(&self.place).args(["--samples", "0", "--json"]);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| !status.success())
    }
}

/// `word`, in single quotes where a shell would not take it as it is.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_would_change_are_quoted() {
        assert_eq!(quoted("--strides"), "--strides");
        assert_eq!(quoted("K=1080,72,216"), "K=1080,72,216");
        assert_eq!(quoted("my folder"), "'my folder'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}

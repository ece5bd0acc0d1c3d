//! The `fa512 run` command that reproduces a case.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::case::Case;
use crate::device::{Device, DeviceKind};
use crate::error::{Error, Result};

/// Where cases are reproduced: device and PTX, with this program.
pub struct Repeat {
    program: PathBuf,
    place: Vec<String>,
}

impl Repeat {
    /// Reproduces on `device` (selected as `gpu` by `--gpu`, if given) with the PTX in `ptx`, if given.
    ///
    /// # Errors
    /// [`Error::File`] when the path of this program cannot be determined.
    pub fn new(device: &Device, gpu: Option<&str>, ptx: Option<&Path>) -> Result<Self> {
        let program = std::env::current_exe().map_err(|source| Error::File { path: "this program".into(), source })?;
        let mut place = vec!["--device".to_owned()];
        match device.kind {
            DeviceKind::Gpu => place.push("gpu".into()),
            DeviceKind::Simulator => {
                place.extend(["sim", "--arch", &device.architecture.to_string()].map(str::to_owned))
            }
        }
        if let Some(gpu) = gpu {
            place.extend(["--gpu", gpu].map(str::to_owned));
        }
        if let Some(folder) = ptx {
            place.extend(["--ptx".to_owned(), folder.display().to_string()]);
        }
        Ok(Self { program, place })
    }

    /// The shell command.
    pub fn command(&self, case: &Case) -> String {
        let arguments = case.run_arguments();
        let words = std::iter::once("fa512").chain(arguments.iter().chain(&self.place).map(String::as_str));
        shlex::try_join(words).expect("no argument of a program holds a null byte")
    }

    /// Whether the command fails in a new process; for kernels that make the GPU unusable for the process.
    pub fn fails_in_a_process_of_its_own(&self, case: &Case) -> bool {
        let mut command = Command::new(&self.program);
        command.args(case.run_arguments()).args(&self.place).args(["--samples", "0", "--json"]);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| !status.success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Executor;
    use crate::executor::sim::SimExecutor;
    use crate::fuzz::campaign::{Campaign, Limits};
    use crate::fuzz::case::Target;
    use contract::manifest::Entry;
    use contract::variants::VARIANTS;

    #[test]
    fn a_shell_reads_the_words_that_were_meant() {
        let executor = SimExecutor::new(90).unwrap();
        let folder = Path::new("it's my folder");
        let repeat = Repeat::new(executor.device(), Some("1"), Some(folder)).unwrap();
        let target = Target::from(&Entry::from(&VARIANTS[0]));
        let case = Campaign::new(vec![target], Limits::SIMULATOR, 1).unwrap().case(30);
        let mut words = vec!["fa512".to_owned()];
        words.extend(case.run_arguments());
        words.extend(["--device", "sim", "--arch", "90", "--gpu", "1", "--ptx", "it's my folder"].map(str::to_owned));
        let command = repeat.command(&case);
        assert_eq!(shlex::split(&command).as_deref(), Some(words.as_slice()), "{command}");
    }
}

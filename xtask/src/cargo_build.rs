//! Building programs with cargo and learning where they are.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, bail};
use jobserver::Acquired;
use serde_json::Value;

use crate::cores;
use crate::environment::{Environment, Workspace};
use crate::process;

/// A `cargo build` that runs in parallel to this program. It is stopped when dropped before its end.
pub struct Build {
    line: String,
    child: Child,
    executables: Option<JoinHandle<io::Result<BTreeMap<String, PathBuf>>>>,
    /// The core token of its first thread.
    _core: Option<Acquired>,
}

impl Build {
    /// Starts it as soon as a core is free.
    pub fn begin(mut cargo: Command) -> Result<Self> {
        let core = cores::acquire()?;
        cores::share_with(&mut cargo);
        cargo.arg("--message-format=json-render-diagnostics").stdin(Stdio::null()).stdout(Stdio::piped());
        let line = process::command_line(&cargo);
        let mut child = cargo.spawn().with_context(|| format!("could not start `{line}`"))?;
        let output = child.stdout.take().context("cargo has no standard output")?;
        // Its output must be read even if the wait comes later, or cargo would block.
        let executables = Some(thread::spawn(|| programs(output)));
        Ok(Self { line, child, executables, _core: core })
    }

    /// Waits for its end and returns the programs it built, by target name.
    pub fn executables(mut self) -> Result<BTreeMap<String, PathBuf>> {
        let executables = self.executables.take().and_then(|reader| reader.join().ok());
        if !self.child.wait()?.success() {
            bail!("`{}` failed", self.line);
        }
        executables.with_context(|| format!("what `{}` built was not read", self.line))?.map_err(Into::into)
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        // A process that has ended needs no stop.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The programs named in cargo's messages.
fn programs(messages: impl Read) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut programs = BTreeMap::new();
    for line in BufReader::new(messages).lines() {
        programs.extend(executable(&line?));
    }
    Ok(programs)
}

/// Runs a `cargo build` command and returns the programs it built, by target name.
pub fn executables(cargo: Command) -> Result<BTreeMap<String, PathBuf>> {
    Build::begin(cargo)?.executables()
}

/// Starts building the fa512 program.
pub fn begin_fa512(environment: &Environment, workspace: &Workspace) -> Result<Build> {
    eprintln!("xtask: building fa512");
    let mut cargo = Command::new(environment.cargo());
    cargo.current_dir(workspace.root()).args(["build", "--release", "--package", "fa512-workshop", "--bin", "fa512"]);
    Build::begin(cargo)
}

/// Path of the fa512 program that `build` builds.
pub fn finish_fa512(build: Build) -> Result<PathBuf> {
    build.executables()?.remove("fa512").context("cargo built no fa512 program")
}

/// Builds the fa512 program and returns its path.
pub fn fa512(environment: &Environment, workspace: &Workspace) -> Result<PathBuf> {
    finish_fa512(begin_fa512(environment, workspace)?)
}

/// Name and path of the program in a message of cargo.
fn executable(message: &str) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_str(message).ok()?;
    Some((message["target"]["name"].as_str()?.to_owned(), message["executable"].as_str()?.into()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    use super::{Build, executable};

    /// A shell that stands in for cargo and ignores the arguments appended to it.
    fn shell(commands: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", commands]);
        command
    }

    #[test]
    fn a_build_goes_on_while_nobody_reads_what_it_says() {
        let message = r#"{"target":{"name":"fa512"},"executable":"/target/fa512"}"#;
        // More than a pipe holds.
        let build = Build::begin(shell(&format!("yes no | head -c 999999; echo '{message}'"))).unwrap();
        assert_eq!(build.executables().unwrap().remove("fa512"), Some(PathBuf::from("/target/fa512")));
        let error = Build::begin(shell("exit 1")).unwrap().executables().unwrap_err().to_string();
        assert!(error.ends_with(" failed"), "{error}");
    }

    #[test]
    fn a_build_that_nobody_waits_for_is_stopped() {
        let build = Build::begin(shell("exec sleep 1000")).unwrap();
        let process = build.child.id().to_string();
        drop(build);
        let status = Command::new("kill").args(["-0", &process]).stderr(Stdio::null()).status().unwrap();
        assert!(!status.success(), "process {process} still runs");
    }

    #[test]
    fn programs_are_found_among_the_messages() {
        let message = r#"{"reason":"compiler-artifact","target":{"name":"fa512"},"executable":"/target/fa512"}"#;
        assert_eq!(executable(message), Some(("fa512".into(), "/target/fa512".into())));
        let library = r#"{"reason":"compiler-artifact","target":{"name":"fa512"},"executable":null}"#;
        assert_eq!(executable(library), None);
        assert_eq!(executable("not JSON"), None);
    }
}

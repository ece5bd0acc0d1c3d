//! Building programs with cargo and learning where they are.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, bail};
use jobserver::Acquired;
use serde_json::{Value, json};

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

    /// Waits for its end and returns the programs it built, by target name, and the shared libraries, by file name.
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

/// The programs and shared libraries named in cargo's messages.
fn programs(messages: impl Read) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut programs = BTreeMap::new();
    for line in BufReader::new(messages).lines() {
        programs.extend(named(&line?));
    }
    Ok(programs)
}

/// Runs a `cargo build` command and returns the programs it built, by target name, and the shared libraries, by file name.
pub fn executables(cargo: Command) -> Result<BTreeMap<String, PathBuf>> {
    Build::begin(cargo)?.executables()
}

/// Starts building the program of `package`.
pub fn begin_program(environment: &Environment, workspace: &Workspace, package: &str) -> Result<Build> {
    eprintln!("xtask: building {package}");
    let mut cargo = Command::new(environment.cargo());
    cargo.current_dir(workspace.root()).args(["build", "--release", "--package", package, "--bins"]);
    Build::begin(cargo)
}

/// Path of the program `name` that `build` builds.
pub fn finish_program(build: Build, name: &str) -> Result<PathBuf> {
    build.executables()?.remove(name).with_context(|| format!("cargo built no program {name}"))
}

/// Names and paths of the program, or of the shared libraries, in a message of cargo. The tests inside a program have the name of the
/// program, and are left out.
fn named(message: &str) -> Vec<(String, PathBuf)> {
    let Ok(message) = serde_json::from_str::<Value>(message) else { return Vec::new() };
    if message["profile"]["test"] == true && message["target"]["kind"] != json!(["test"]) {
        return Vec::new();
    }
    if let (Some(name), Some(program)) = (message["target"]["name"].as_str(), message["executable"].as_str()) {
        return vec![(name.to_owned(), program.into())];
    }
    let files = message["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str).map(Path::new);
    let libraries = files.filter(|file| file.extension().is_some_and(|extension| extension == "so"));
    libraries.filter_map(|file| Some((file.file_name()?.to_str()?.to_owned(), file.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    use super::{Build, named};

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
    fn programs_and_libraries_are_found_among_the_messages() {
        let message = r#"{"reason":"compiler-artifact","target":{"name":"fa512"},"executable":"/target/fa512"}"#;
        assert_eq!(named(message), [("fa512".into(), "/target/fa512".into())]);
        let inside =
            r#"{"target":{"name":"fa512","kind":["bin"]},"profile":{"test":true},"executable":"/deps/fa512-1"}"#;
        assert_eq!(named(inside), []);
        let beside = r#"{"target":{"name":"all","kind":["test"]},"profile":{"test":true},"executable":"/deps/all-1"}"#;
        assert_eq!(named(beside), [("all".into(), "/deps/all-1".into())]);
        let library = r#"{"target":{"name":"x"},"executable":null,"filenames":["/deps/libx.so","/deps/libx.rlib"]}"#;
        assert_eq!(named(library), [("libx.so".into(), "/deps/libx.so".into())]);
        assert_eq!(named("not JSON"), []);
    }
}

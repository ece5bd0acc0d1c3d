//! Building programs with cargo and learning where they are.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::environment::{Environment, Workspace};
use crate::process;

/// Runs a `cargo build` command and returns the programs it built, by the name of their target.
pub fn executables(mut cargo: Command) -> Result<BTreeMap<String, PathBuf>> {
    cargo.arg("--message-format=json-render-diagnostics").stdin(Stdio::null()).stdout(Stdio::piped());
    let line = process::command_line(&cargo);
    let mut child = cargo.spawn().with_context(|| format!("could not start `{line}`"))?;
    let output = child.stdout.take().context("cargo has no standard output")?;
    let mut executables = BTreeMap::new();
    for line in BufReader::new(output).lines() {
        executables.extend(executable(&line?));
    }
    if !child.wait()?.success() {
        bail!("`{line}` failed");
    }
    Ok(executables)
}

/// Builds the fa512 program and returns where it is.
pub fn fa512(environment: &Environment, workspace: &Workspace) -> Result<PathBuf> {
    eprintln!("xtask: building fa512");
    let mut cargo = Command::new(environment.cargo());
    cargo.current_dir(workspace.root()).args(["build", "--release", "--package", "fa512-workshop", "--bin", "fa512"]);
    executables(cargo)?.remove("fa512").context("cargo built no fa512 program")
}

/// Name and path of the program that one of cargo's messages is about.
fn executable(message: &str) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_str(message).ok()?;
    Some((message["target"]["name"].as_str()?.to_owned(), message["executable"].as_str()?.into()))
}

#[cfg(test)]
mod tests {
    use super::executable;

    #[test]
    fn programs_are_found_among_the_messages() {
        let message = r#"{"reason":"compiler-artifact","target":{"name":"fa512"},"executable":"/target/fa512"}"#;
        assert_eq!(executable(message), Some(("fa512".into(), "/target/fa512".into())));
        let library = r#"{"reason":"compiler-artifact","target":{"name":"fa512"},"executable":null}"#;
        assert_eq!(executable(library), None);
        assert_eq!(executable("not JSON"), None);
    }
}

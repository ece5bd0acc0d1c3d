//! Runs cargo commands that compile device code, and reads their JSON messages: diagnostics and written files.

use std::io::{BufRead, BufReader, IsTerminal, stderr};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cores;
use crate::device_compiler::TARGET;

/// Crates whose warnings are shown.
const OURS: [&str; 3] = ["kernel_gpu", "contract", "planted"];

/// Result of a build.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// Number of diagnostics shown.
    pub diagnostics: usize,
    /// Files of the last artifact, which is the requested crate.
    pub files: Vec<PathBuf>,
}

/// The value of `--message-format` for [`run`].
pub fn format() -> &'static str {
    if stderr().is_terminal() { "json-diagnostic-rendered-ansi" } else { "json" }
}

/// Runs a cargo command that compiles `package` with JSON messages, on free cores, and shows its diagnostics.
pub fn run(mut cargo: Command, package: &str) -> Result<Built> {
    let _core = cores::acquire()?;
    cores::share_with(&mut cargo);
    let mut child = cargo
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not start {}", cargo.get_program().display()))?;
    let output = child.stdout.take().context("cargo has no standard output")?;
    let mut built = Built::default();
    for line in BufReader::new(output).lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
        if let Some(diagnostic) = diagnostic(&message) {
            eprint!("{diagnostic}");
            built.diagnostics += 1;
        }
        built.files = files(&message).unwrap_or(built.files);
    }
    if !child.wait()?.success() {
        bail!("{package} does not compile for {TARGET}");
    }
    Ok(built)
}

/// The rendered diagnostic of a message, unless it is about our own flags or a warning about a library.
fn diagnostic(message: &Value) -> Option<String> {
    if message["reason"] != "compiler-message" {
        return None;
    }
    let is_ours = OURS.iter().any(|ours| message["target"]["name"] == *ours);
    let message = &message["message"];
    if !is_ours && message["level"] != "error" {
        return None;
    }
    let text = message["message"].as_str()?;
    // rustc warns about every PTX version feature and cannot be told to allow it.
    if text.starts_with("unstable feature specified for `-Ctarget-feature`") || text.ends_with("warning emitted") {
        return None;
    }
    message["rendered"].as_str().map(str::to_owned)
}

/// The files of the artifact that a message is about.
fn files(message: &Value) -> Option<Vec<PathBuf>> {
    if message["reason"] != "compiler-artifact" {
        return None;
    }
    Some(message["filenames"].as_array()?.iter().filter_map(Value::as_str).map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{diagnostic, files};

    #[test]
    fn only_diagnostics_about_the_source_are_shown() {
        let message = |library: &str, level: &str, text: &str| {
            let message = json!({"message": text, "level": level, "rendered": "shown"});
            json!({"reason": "compiler-message", "target": {"name": library}, "message": message})
        };
        let shown = |library, level, text| diagnostic(&message(library, level, text)).is_some();
        assert!(shown("kernel_gpu", "warning", "unused variable: `x`"));
        assert!(shown("planted", "warning", "unused variable: `x`"));
        assert!(!shown("kernel_gpu", "warning", "unstable feature specified for `-Ctarget-feature`: `ptx80`"));
        assert!(!shown("cuda_std", "warning", "unused variable: `x`"));
        assert!(shown("cuda_std", "error", "cannot find macro"), "it says why nothing was compiled");
        assert_eq!(diagnostic(&json!({"reason": "build-finished", "success": true})), None);
    }

    #[test]
    fn an_artifact_names_its_files() {
        let message = json!({"reason": "compiler-artifact", "filenames": ["/target/a.ptx", "/target/liba.rlib"]});
        assert_eq!(files(&message), Some(vec!["/target/a.ptx".into(), "/target/liba.rlib".into()]));
        assert_eq!(files(&json!({"reason": "build-finished", "success": true})), None);
    }
}

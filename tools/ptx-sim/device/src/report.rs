//! Messages and the journal: findings like compiler errors, driver misuse in one line, and the same as JSON.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use ptx_diagnostics::{Renderer, Sources};
use ptx_sim::{Finding, FindingClass};
use serde_json::{Value, json};

use crate::config::Messages;
use crate::problem::{Problem, Severity};
use crate::sync::lock;

/// Maximum findings shown per launch; later ones mostly follow from the first.
const FINDINGS_SHOWN: usize = 8;
/// Said once where lines of the PTX are all that is known.
const LINE_INFORMATION: &str = "ptx-sim: these lines are of the PTX that the program loads; with -lineinfo (nvcc), lineinfo=True (numba) or \
                                line tables the lines of your source are shown\n";
/// Maximum entries of a journal.
const MOST_RECORDED: usize = 10_000;

/// Writes messages, one at a time.
pub(crate) struct Reporter {
    target: Messages,
    journal: Option<PathBuf>,
    renderer: Mutex<Option<Renderer>>,
    /// Reported findings if each is reported once: class, PTX file and line.
    told: Mutex<HashSet<(FindingClass, String, u32)>>,
    /// Whether it was said how lines of the source are shown.
    has_named_lines: AtomicBool,
    recorded: AtomicUsize,
}

impl Reporter {
    pub fn new(target: Messages, journal: Option<PathBuf>) -> Self {
        let reporter = Self {
            target,
            journal,
            renderer: Mutex::new(None),
            told: Mutex::default(),
            has_named_lines: AtomicBool::new(false),
            recorded: AtomicUsize::new(0),
        };
        reporter.record(std::iter::once(json!({ "kind": "start" })));
        reporter
    }

    /// Removes findings that an earlier launch has reported.
    pub fn retain_new(&self, findings: &mut Vec<Finding>) {
        let mut told = lock(&self.told);
        findings.retain(|finding| told.insert((finding.class, finding.ptx_file.clone(), finding.at.ptx_line)));
    }

    /// Writes the number of launched kernels to the journal.
    pub fn end(&self, launches: u64) {
        self.recorded.store(0, Relaxed);
        self.record(std::iter::once(json!({ "kind": "end", "launches": launches })));
    }

    /// Writes the findings of a launch and their consequence.
    pub fn findings(&self, findings: &[Finding], launch: &str, consequence: &str) {
        let entry = |finding: &Finding| {
            json!({
                "kind": finding.class, "severity": Severity::Error, "message": finding.message, "launch": launch,
                "finding": finding,
            })
        };
        self.record(findings.iter().map(entry));
        if self.target == Messages::Quiet {
            return;
        }
        let mut renderer = lock(&self.renderer);
        let renderer = renderer.get_or_insert_with(|| Renderer::new(Sources::nearby(), self.wants_colours()));
        let mut text = String::new();
        for finding in findings.iter().take(FINDINGS_SHOWN) {
            text += &renderer.render(finding);
            text += "\n\n";
        }
        if let more @ 1.. = findings.len().saturating_sub(FINDINGS_SHOWN) {
            text += &format!("ptx-sim: {more} more findings, which may follow from these\n");
        }
        if findings.iter().any(|finding| finding.at.source.is_none()) && !self.has_named_lines.swap(true, Relaxed) {
            text += LINE_INFORMATION;
        }
        text += &format!("ptx-sim: {consequence}\n");
        self.write(&text);
    }

    /// Writes the printf output of a kernel to standard output, as a driver does.
    pub fn printed(&self, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        let mut output = std::io::stdout().lock();
        drop(output.write_all(text).and_then(|()| output.flush()));
    }

    /// Writes a line about a problem outside kernels.
    pub fn problem(&self, problem: Problem, text: &str) {
        self.record_problem(problem, text);
        self.write(&match problem {
            Problem::FailedCall => format!("ptx-sim: {text}\n"),
            _ if problem.severity() == Severity::Warning => format!("ptx-sim: warning: {problem}: {text}\n"),
            _ => format!("ptx-sim: {problem}: {text}\n"),
        });
    }

    /// Appends a problem to the journal.
    pub fn record_problem(&self, problem: Problem, text: &str) {
        self.record(std::iter::once(json!({ "kind": problem, "severity": problem.severity(), "message": text })));
    }

    fn wants_colours(&self) -> bool {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.target == Messages::StandardError && std::io::stderr().is_terminal() && !refused
    }

    /// Appends objects to the journal, one a line.
    fn record(&self, entries: impl Iterator<Item = Value>) {
        let Some(journal) = &self.journal else { return };
        let room = entries.take_while(|_| self.recorded.fetch_add(1, Relaxed) < MOST_RECORDED);
        let lines: String = room.map(|entry| format!("{entry}\n")).collect();
        append(journal, &lines);
    }

    fn write(&self, text: &str) {
        match &self.target {
            Messages::Quiet => {}
            Messages::StandardError => drop(std::io::stderr().lock().write_all(text.as_bytes())),
            Messages::File(path) => append(path, text),
        }
    }
}

/// Appends to a file. Write errors are ignored: there is nowhere to report them.
fn append(path: &Path, text: &str) {
    let file = OpenOptions::new().create(true).append(true).open(path);
    drop(file.and_then(|mut file| file.write_all(text.as_bytes())));
}

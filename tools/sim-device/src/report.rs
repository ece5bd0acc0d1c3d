//! Messages: findings in the style of compiler errors, and misuse of the driver in one line.

use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;

use ptx_diagnostics::{Renderer, Sources};
use ptx_sim::Finding;

use crate::config::Messages;
use crate::sync::lock;

/// Findings of a launch that are shown; most of the others follow from the first ones.
const FINDINGS_SHOWN: usize = 8;

/// Writes messages, one at a time.
pub(crate) struct Reporter {
    target: Messages,
    renderer: Mutex<Option<Renderer>>,
}

impl Reporter {
    pub fn new(target: Messages) -> Self {
        Self { target, renderer: Mutex::new(None) }
    }

    /// Writes the findings of a launch and what follows from them.
    pub fn findings(&self, findings: &[Finding], consequence: &str) {
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
        text += &format!("ptx-sim: {consequence}\n");
        self.write(&text);
    }

    /// Writes what a kernel printed to standard output, as a driver does.
    pub fn printed(&self, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        let mut output = std::io::stdout().lock();
        drop(output.write_all(text).and_then(|()| output.flush()));
    }

    /// Writes a line.
    pub fn message(&self, text: &str) {
        self.write(&format!("ptx-sim: {text}\n"));
    }

    fn wants_colours(&self) -> bool {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.target == Messages::StandardError && std::io::stderr().is_terminal() && !refused
    }

    /// Messages that cannot be written are dropped.
    fn write(&self, text: &str) {
        match &self.target {
            Messages::Quiet => {}
            Messages::StandardError => drop(std::io::stderr().lock().write_all(text.as_bytes())),
            Messages::File(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                drop(file.and_then(|mut file| file.write_all(text.as_bytes())));
            }
        }
    }
}

//! Output of the program.

use std::fs;
use std::path::Path;

pub use ptx_diagnostics::streams::note;
use ptx_diagnostics::{demangled, files, short_name, streams};
use ptx_sim::{Counters, GlobalMemory, Module, Report};
use serde_json::{Value, json};

use crate::entry::parameter_name;
use crate::expect::Comparison;
use crate::schedules::{Found, ScheduledFinding};
use crate::world::Place;

/// Maximum printed elements of a buffer.
const ELEMENTS_PRINTED: usize = 64;
/// Elements per line.
const ELEMENTS_PER_LINE: usize = 8;

/// The first elements of a buffer after the run.
pub struct Contents {
    name: String,
    elements: Vec<String>,
    /// Number of elements of the buffer.
    count: u64,
}

/// Writes `text` to standard output, as [`streams::print`].
pub fn print(text: &str) -> Result<(), String> {
    streams::print(text).map_err(|error| format!("standard output: {error}"))
}

/// Writes `contents` to `path`; a file is written atomically.
pub fn write(path: &Path, contents: &[u8]) -> Result<(), String> {
    let written = match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => fs::write(path, contents),
        _ => files::write_atomically(path, ".ptx-sim-", |file| file.write_all(contents)),
    };
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// Refuses a path that [`write()`] cannot write, before anything runs.
pub fn check_writable(path: &Path) -> Result<(), String> {
    files::check_writable(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// An entry as text: `scale(values: 8 bytes, count: 4 bytes)`.
pub fn signature(module: &Module, entry: &str) -> String {
    let parameters = module.parameters(entry).into_iter().flatten();
    let parameters = parameters
        .map(|parameter| format!("{}: {} bytes", parameter_name(entry, parameter.name), parameter.bytes))
        .collect::<Vec<_>>()
        .join(", ");
    match demangled(entry) {
        name if name == entry => format!("{entry}({parameters})"),
        name => format!("{name}\n    {entry}({parameters})"),
    }
}

/// Every entry with its parameters, and the reason if it cannot be executed.
pub fn list(module: &Module, as_json: bool) -> String {
    let refusal = |entry| {
        let architecture = module.architecture().ok_or_else(|| format!("{}: no such architecture", module.target()));
        architecture.and_then(|known| ptx_sim::check(module, entry, known).map_err(|error| error.to_string())).err()
    };
    if !as_json {
        let line = |entry| {
            let refused = refusal(entry).map(|reason| format!("    is not executed: {reason}\n"));
            signature(module, entry) + "\n" + &refused.unwrap_or_default()
        };
        return module.entries().map(line).collect();
    }
    let entries = module.entries().map(|entry| {
        let parameters = module.parameters(entry).into_iter().flatten().map(
            |parameter| json!({ "name": parameter.name, "bytes": parameter.bytes, "alignment": parameter.alignment }),
        );
        let parameters: Vec<_> = parameters.collect();
        json!({ "entry": entry, "name": demangled(entry), "parameters": parameters, "refusal": refusal(entry) })
    });
    let document = json!({ "kind": "ptx-sim-list", "version": 1, "entries": Value::from_iter(entries) });
    format!("{document:#}\n")
}

/// The start of a buffer.
pub fn contents(buffer: &Place, memory: &GlobalMemory) -> Result<Contents, String> {
    let element = buffer.element;
    let count = buffer.count.min(ELEMENTS_PRINTED as u64) as usize;
    let mut data = vec![0; count * element.bytes];
    memory.read(buffer.address, &mut data).map_err(|error| error.to_string())?;
    let elements = data.chunks_exact(element.bytes).map(|bytes| element.show(bytes)).collect();
    Ok(Contents { name: buffer.name.clone(), elements, count: buffer.count })
}

/// Writes a whole buffer to a file.
pub fn dump(buffer: &Place, memory: &GlobalMemory, file: &Path) -> Result<(), String> {
    let mut data = vec![0; buffer.bytes() as usize];
    memory.read(buffer.address, &mut data).map_err(|error| error.to_string())?;
    write(file, &data)
}

/// printf output of the kernel, with a final line break.
fn printed(report: &Report) -> String {
    let text = String::from_utf8_lossy(&report.printed).into_owned();
    if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" }
}

/// The results of a run.
pub struct Summary<'a> {
    /// The entry of each launch.
    pub entries: Vec<&'a str>,
    /// Report of each launch under schedule 0.
    pub reports: &'a [Report],
    /// Findings under any schedule.
    pub found: &'a Found,
    /// Buffers to print.
    pub shown: &'a [Contents],
    /// Comparisons of buffers with their expected contents.
    pub compared: &'a [Comparison],
}

impl Summary<'_> {
    /// Whether nothing was found and every buffer matches.
    pub fn passed(&self) -> bool {
        self.found.findings.is_empty() && self.compared.iter().all(Comparison::passed)
    }

    /// Counters of all launches together.
    fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.reports.iter().for_each(|report| sum += report.counters);
        sum
    }

    /// The result as text.
    pub fn text(&self, with_counters: bool, renderer: &ptx_diagnostics::Renderer) -> String {
        let mut text = String::new();
        let mut ends = String::new();
        for ((launch, entry), report) in (1..).zip(&self.entries).zip(self.reports) {
            text += &printed(report);
            let findings: Vec<_> = self.found.of(launch).collect();
            let schedules = self.found.schedules;
            text.extend(findings.iter().map(|each| renderer.render(&each.finding) + &under(each, schedules) + "\n\n"));
            let which = if self.entries.len() > 1 { format!("launch {launch}, ") } else { String::new() };
            let end = format!("{which}{}: {}{}\n", short_name(entry), count(findings.len()), all(schedules));
            // Between launches, the line names the launch of the findings above.
            if launch < self.entries.len() { text += &end } else { ends = end }
        }
        text.extend(self.shown.iter().map(Contents::text));
        text.extend(self.compared.iter().map(Comparison::text));
        if with_counters {
            text.extend(self.counters().entries().map(|(name, value)| format!("{name:32}{value:>16}\n")));
        }
        text + &ends
    }

    /// The result as JSON.
    pub fn json(&self) -> String {
        let buffers = self.shown.iter().map(|contents| (contents.name.clone(), Value::from(contents.elements.clone())));
        let launches = self.entries.iter().zip(self.reports).map(|(entry, report)| {
            json!({ "entry": entry, "name": short_name(entry), "findings": report.findings.len(), "counters": report.counters })
        });
        let text: String = self.reports.iter().map(|report| String::from_utf8_lossy(&report.printed)).collect();
        let document = json!({
            "kind": "ptx-sim-launch",
            "version": 1,
            "passed": self.passed(),
            "schedules": self.found.schedules,
            "findings": self.found.findings,
            "launches": launches.collect::<Vec<_>>(),
            "printed": text,
            "counters": self.counters(),
            "buffers": serde_json::Map::from_iter(buffers),
            "expected": self.compared,
        });
        format!("{document:#}\n")
    }
}

impl Contents {
    fn text(&self) -> String {
        let mut text = format!("{}:\n", self.name);
        for line in self.elements.chunks(ELEMENTS_PER_LINE) {
            text += &format!("  {}\n", line.join(" "));
        }
        let more = self.count - self.elements.len() as u64;
        text + &if more > 0 { format!("  and {more} more\n") } else { String::new() }
    }
}

fn count(findings: usize) -> String {
    match findings {
        0 => "nothing found".to_owned(),
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    }
}

fn all(schedules: u64) -> String {
    if schedules == 1 { String::new() } else { format!(" under {schedules} schedules") }
}

/// The schedules that produced a finding, if there are several.
fn under(each: &ScheduledFinding, schedules: u64) -> String {
    match schedules {
        1 => String::new(),
        all => format!("\nunder {} of {all} schedules, first {}", each.schedules.len(), each.schedules[0]),
    }
}

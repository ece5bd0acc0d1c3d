//! What the program prints.

use std::fs;
use std::io::Write;
use std::path::Path;

use ptx_sim::{Counters, GlobalMemory, Module, Report};
use serde_json::{Value, json};

use crate::parameter::Buffer;
use crate::schedules::{Found, ScheduledFinding};

/// Elements of a buffer that are printed.
const ELEMENTS_PRINTED: usize = 64;
/// Elements in a line.
const ELEMENTS_PER_LINE: usize = 8;

/// The start of a buffer after the run.
pub struct Contents {
    name: String,
    elements: Vec<String>,
    /// Elements of the buffer.
    count: u64,
}

/// Writes `text` to standard output. A reader that has gone away is not an error.
pub fn print(text: &str) -> Result<(), String> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}

/// An entry as in `scale(values: 8 bytes, count: 4 bytes)`.
pub fn signature(module: &Module, entry: &str) -> String {
    let parameters = module.parameters(entry).into_iter().flatten();
    let parameters: Vec<_> =
        parameters.map(|parameter| format!("{}: {} bytes", parameter.name, parameter.bytes)).collect();
    format!("{entry}({})", parameters.join(", "))
}

/// Every entry with its parameters.
pub fn list(module: &Module, as_json: bool) -> String {
    if !as_json {
        return module.entries().map(|entry| signature(module, entry) + "\n").collect();
    }
    let entries = module.entries().map(|entry| {
        let parameters = module.parameters(entry).into_iter().flatten().map(
            |parameter| json!({ "name": parameter.name, "bytes": parameter.bytes, "alignment": parameter.alignment }),
        );
        json!({ "entry": entry, "parameters": parameters.collect::<Vec<_>>() })
    });
    format!("{:#}\n", Value::from_iter(entries))
}

/// The start of a buffer.
pub fn contents(buffer: &Buffer, memory: &GlobalMemory) -> Result<Contents, String> {
    let element = buffer.spec.element;
    let count = buffer.spec.count.min(ELEMENTS_PRINTED as u64) as usize;
    let mut data = vec![0; count * element.bytes];
    memory.read(buffer.address, &mut data).map_err(|error| error.to_string())?;
    let elements = data.chunks_exact(element.bytes).map(|bytes| element.show(bytes)).collect();
    Ok(Contents { name: buffer.name.clone(), elements, count: buffer.spec.count })
}

/// Writes a whole buffer to a file.
pub fn dump(buffer: &Buffer, memory: &GlobalMemory, file: &Path) -> Result<(), String> {
    let mut data = vec![0; buffer.spec.bytes() as usize];
    memory.read(buffer.address, &mut data).map_err(|error| error.to_string())?;
    fs::write(file, data).map_err(|error| format!("{}: {error}", file.display()))
}

/// What the kernel printed, with a line break at its end.
fn printed(report: &Report) -> String {
    let text = String::from_utf8_lossy(&report.printed).into_owned();
    if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" }
}

/// The result as text.
pub fn text(
    entry: &str,
    report: &Report,
    counters: Option<&Counters>,
    found: &Found,
    shown: &[Contents],
    renderer: &ptx_diagnostics::Renderer,
) -> String {
    let mut text = printed(report);
    let findings = found.findings.iter();
    text.extend(findings.map(|each| renderer.render(&each.finding) + &under(each, found.schedules) + "\n\n"));
    for contents in shown {
        text += &format!("{}:\n", contents.name);
        for line in contents.elements.chunks(ELEMENTS_PER_LINE) {
            text += &format!("  {}\n", line.join(" "));
        }
        let more = contents.count - contents.elements.len() as u64;
        text += &if more > 0 { format!("  and {more} more\n") } else { String::new() };
    }
    if let Some(counters) = counters {
        text.extend(counters.entries().map(|(name, value)| format!("{name:32}{value:>16}\n")));
    }
    let schedules = match found.schedules {
        1 => String::new(),
        count => format!(" under {count} schedules"),
    };
    text += &match found.findings.len() {
        0 => format!("{entry}: nothing found{schedules}\n"),
        1 => format!("{entry}: 1 finding{schedules}\n"),
        count => format!("{entry}: {count} findings{schedules}\n"),
    };
    text
}

/// The schedules a finding was made under, where there are several.
fn under(each: &ScheduledFinding, schedules: u64) -> String {
    match schedules {
        1 => String::new(),
        all => format!("\nunder {} of {all} schedules, first {}", each.schedules.len(), each.schedules[0]),
    }
}

/// The result for programs.
pub fn json(entry: &str, report: &Report, found: &Found, shown: &[Contents]) -> String {
    let buffers = shown.iter().map(|contents| (contents.name.clone(), Value::from(contents.elements.clone())));
    let document = json!({
        "passed": found.findings.is_empty(),
        "entry": entry,
        "schedules": found.schedules,
        "findings": found.findings,
        "printed": String::from_utf8_lossy(&report.printed),
        "counters": report.counters,
        "buffers": serde_json::Map::from_iter(buffers),
    });
    format!("{document:#}\n")
}

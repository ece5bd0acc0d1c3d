//! From the compiler's PTX text to the one that is shipped: launch bounds in, dead functions out, and a refusal of
//! everything that would make an entry slow or unlaunchable.
//!
//! PTX ISA sections: "Kernel and Function Directives" (`.entry`, `.func`), "Performance-Tuning Directives"
//! (`.reqntid`, `.minnctapersm`), "State Spaces" (`.local`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kernel_gpu::config::TileConfig;
use kernel_gpu::variants::Variant;

/// PTX that is ready to be shipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postprocessed {
    /// The text.
    pub text: String,
    /// Its `.version`, as in `8.0`.
    pub ptx_version: String,
    /// Its `.target`, as in `sm_80`.
    pub target: String,
}

/// Where in the PTX, and in the Rust source, something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The entry.
    pub entry: String,
    /// Line of the compiler's PTX, from 1.
    pub line: usize,
    /// File and line of the Rust source, when the PTX says.
    pub source: Option<String>,
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "entry {}, PTX line {}", self.entry, self.line)?;
        self.source.as_ref().map_or(Ok(()), |source| write!(formatter, " (from {source})"))
    }
}

/// Why PTX cannot be shipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An entry calls a function: not everything was inlined, or something may panic.
    Call(Location, String),
    /// An entry keeps variables in local memory instead of registers.
    LocalMemory(Location),
    /// The variant list has an entry that the PTX has not.
    MissingEntry(String),
    /// The PTX has an entry that the variant list has not.
    UnlistedEntry(String, usize),
    /// The text lacks a `.version` or `.target` line.
    MissingDirective(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Call(location, callee) => write!(formatter, "{location}: calls {callee}"),
            Refusal::LocalMemory(location) => write!(formatter, "{location}: uses local memory"),
            Refusal::MissingEntry(name) => write!(formatter, "entry {name} is in the variant list but not in the PTX"),
            Refusal::UnlistedEntry(name, line) => {
                write!(formatter, "entry {name}, PTX line {line}: is not in the variant list")
            }
            Refusal::MissingDirective(directive) => write!(formatter, "the PTX has no {directive} line"),
        }
    }
}

/// Adds launch bounds to every entry and removes functions that no entry calls.
///
/// The bound on threads is `.reqntid`, not `.maxntid`: the entries are compiled for exactly that many threads, and
/// the driver then refuses a launch with any other number instead of computing something else. `.minnctapersm` is the
/// tile configuration's `min_blocks`.
///
/// Returns every reason to refuse the PTX, not only the first.
pub fn postprocess(ptx: &str, variants: &[&Variant]) -> Result<Postprocessed, Vec<Refusal>> {
    let configs: BTreeMap<&str, TileConfig> = variants.iter().map(|variant| (variant.entry, variant.config)).collect();
    let mut scan = Scan { source_files: source_files(ptx), ..Scan::default() };
    for (index, line) in ptx.lines().enumerate() {
        scan.line(index + 1, line, &configs);
    }
    for name in configs.keys().filter(|name| !scan.entries.contains(**name)) {
        scan.refusals.push(Refusal::MissingEntry((*name).to_owned()));
    }
    let ptx_version = directive(ptx, ".version");
    let target = directive(ptx, ".target");
    let (Some(ptx_version), Some(target), []) = (&ptx_version, &target, scan.refusals.as_slice()) else {
        let missing = [(".version", ptx_version.is_none()), (".target", target.is_none())];
        let missing = missing.into_iter().filter(|(_, missing)| *missing);
        scan.refusals.extend(missing.map(|(name, _)| Refusal::MissingDirective(name)));
        return Err(scan.refusals);
    };
    Ok(Postprocessed { text: scan.text, ptx_version: ptx_version.clone(), target: target.clone() })
}

/// What the current line belongs to.
#[derive(Default)]
enum Within {
    /// Nothing: module scope.
    #[default]
    Module,
    /// An `.entry`, before (`body` false) or inside its braces.
    Entry { name: String, body: bool },
    /// A `.func`, which is left out.
    Function { body: bool },
}

#[derive(Default)]
struct Scan {
    within: Within,
    /// Open braces.
    depth: usize,
    /// File and line of the last `.loc`.
    source: Option<String>,
    source_files: BTreeMap<String, String>,
    entries: BTreeSet<String>,
    refusals: Vec<Refusal>,
    text: String,
}

impl Scan {
    fn line(&mut self, number: usize, line: &str, configs: &BTreeMap<&str, TileConfig>) {
        let code = line.split("//").next().unwrap_or_default().trim();
        if let Within::Module = self.within {
            self.begin_item(number, code, configs);
        }
        let mut line = line;
        if let Within::Entry { name, body: false } = &self.within
            && let Some((header, body)) = line.find('{').map(|brace| line.split_at(brace))
            && let Some(config) = configs.get(name.as_str())
        {
            self.text.push_str(header);
            self.text.push_str(&launch_bounds(config));
            line = body;
        }
        if let Within::Entry { name, body: true } = &self.within {
            let name = name.clone();
            self.body_line(number, code, &name);
        }
        if !self.is_left_out(code) {
            self.text.push_str(line);
            self.text.push('\n');
        }
        self.end_of_line(code);
    }

    fn begin_item(&mut self, number: usize, code: &str, configs: &BTreeMap<&str, TileConfig>) {
        let words: Vec<&str> = code.split(|character: char| character.is_whitespace() || character == '(').collect();
        if let Some(position) = words.iter().position(|word| *word == ".entry") {
            let name = words[position + 1..].iter().find(|word| !word.is_empty()).copied().unwrap_or_default();
            if !configs.contains_key(name) {
                self.refusals.push(Refusal::UnlistedEntry(name.to_owned(), number));
            }
            self.entries.insert(name.to_owned());
            self.source = None;
            self.within = Within::Entry { name: name.to_owned(), body: false };
        } else if words.contains(&".func") {
            self.within = Within::Function { body: false };
        }
    }

    fn body_line(&mut self, number: usize, code: &str, entry: &str) {
        if let Some(position) = code.strip_prefix(".loc") {
            let mut words = position.split_whitespace();
            let file = words.next().and_then(|file| self.source_files.get(file));
            self.source = file.zip(words.next()).map(|(file, line)| format!("{file}:{line}"));
            return;
        }
        let location = || Location { entry: entry.to_owned(), line: number, source: self.source.clone() };
        let refusals = code.split([';', '{', '}']).filter_map(|statement| {
            let (opcode, operands) = instruction(statement)?;
            let mut modifiers = opcode.split('.');
            match modifiers.next() {
                Some("call") => Some(Refusal::Call(location(), callee(operands))),
                Some("alloca") => Some(Refusal::LocalMemory(location())),
                _ => modifiers.any(|part| part == "local").then(|| Refusal::LocalMemory(location())),
            }
        });
        let refusals: Vec<Refusal> = refusals.collect();
        self.refusals.extend(refusals);
    }

    /// Functions, of which no entry that is accepted calls any, and empty debug sections, which not every consumer of
    /// PTX knows.
    fn is_left_out(&self, code: &str) -> bool {
        matches!(self.within, Within::Function { .. }) || code.starts_with(".section .debug_macinfo")
    }

    fn end_of_line(&mut self, code: &str) {
        if !code.starts_with(".file") {
            self.depth += code.matches('{').count();
            self.depth = self.depth.saturating_sub(code.matches('}').count());
        }
        let declaration_ends = code.ends_with(';');
        let closed = self.depth == 0;
        match &mut self.within {
            Within::Module => {}
            Within::Entry { body, .. } | Within::Function { body } if !closed => *body = true,
            Within::Entry { body, .. } | Within::Function { body } => {
                if *body || code.ends_with('}') || declaration_ends {
                    self.within = Within::Module;
                }
            }
        }
    }
}

fn launch_bounds(config: &TileConfig) -> String {
    format!(".reqntid {}, 1, 1\n.minnctapersm {}\n", config.threads(), config.min_blocks)
}

/// Opcode and operands of a statement, without labels and predicate.
fn instruction(statement: &str) -> Option<(&str, &str)> {
    let mut rest = statement.trim();
    while let Some((label, after)) = rest.split_once(':') {
        if label.contains(char::is_whitespace) || after.starts_with(':') {
            break;
        }
        rest = after.trim_start();
    }
    if rest.starts_with('@') {
        rest = rest.split_once(char::is_whitespace)?.1.trim_start();
    }
    let (opcode, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    (!opcode.is_empty()).then_some((opcode, operands))
}

/// The function that a `call` with these operands calls: the first operand that is not in parentheses.
fn callee(operands: &str) -> String {
    let rest = match operands.trim_start().strip_prefix('(') {
        Some(results) => results.split_once(')').map_or("", |(_, rest)| rest),
        None => operands,
    };
    let name = rest.trim_start_matches([',', ' ', '\t']).split([',', ' ']).next().unwrap_or_default();
    name.to_owned()
}

/// The file table: number to path.
fn source_files(ptx: &str) -> BTreeMap<String, String> {
    let files = ptx.lines().filter_map(|line| {
        let (number, path) = line.trim().strip_prefix(".file")?.trim().split_once(char::is_whitespace)?;
        Some((number.to_owned(), path.split('"').nth(1)?.to_owned()))
    });
    files.collect()
}

/// The first operand of a module directive.
fn directive(ptx: &str, name: &str) -> Option<String> {
    let operands = ptx.lines().find_map(|line| line.trim().strip_prefix(name))?;
    operands.split(',').next().map(|operand| operand.trim().to_owned()).filter(|operand| !operand.is_empty())
}

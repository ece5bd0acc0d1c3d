//! Splits a PTX module into one text per entry, without line tables and comments, which the driver's compiler ignores.
//!
//! Shared by `build.rs` and `cargo xtask package`. It knows the PTX that `cargo xtask ptx` writes, and refuses any
//! other line, so that nothing is shipped half-parsed. Labels stay, even unreferenced ones: ptxas orders instructions
//! differently without them, and the measured kernels have them.

use std::fmt;

/// One entry, as a module of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the `.entry`.
    pub name: String,
    /// `.version` of the module, such as `8.0`.
    pub ptx_version: String,
    /// `.target` of the module, such as `sm_90a`.
    pub target: String,
    /// Size of each parameter in bytes, in order.
    pub parameter_bytes: Vec<usize>,
    /// The PTX.
    pub text: String,
}

/// Why a PTX text cannot be split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.why)
    }
}

/// Whether line tables are kept. Findings and profiles need them to name the Rust line. The machine code is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(dead_code, reason = "`cargo xtask package` never keeps them")]
pub enum Lines {
    /// Removed: nothing that is shipped reads them, and they are half of the text.
    #[default]
    LeftOut,
    /// Kept.
    Kept,
}

/// Splits the PTX module `ptx`.
///
/// # Errors
/// The first line that `cargo xtask ptx` would not write.
pub fn split(ptx: &str, lines: Lines) -> Result<Vec<Entry>, Refusal> {
    let mut module = Module { lines, ..Module::default() };
    for (index, line) in ptx.lines().enumerate() {
        module.line(line).map_err(|why| Refusal { line: index + 1, why })?;
    }
    let end = ptx.lines().count();
    match (&module.place, module.entries.is_empty()) {
        (Place::Module, false) => Ok(module.with_tables()),
        (Place::Module, true) => Err(Refusal { line: end, why: "the module ends without an entry".into() }),
        _ => Err(Refusal { line: end, why: "the module ends within an entry or a section".into() }),
    }
}

/// The construct that the next line belongs to.
#[derive(Default)]
enum Place {
    #[default]
    Module,
    /// Between a `.section` line and the brace that ends the section.
    Section { open: bool },
    /// After the line `.entry name(`.
    Entry(Open),
}

/// An entry being read.
struct Open {
    name: String,
    parameter_bytes: Vec<usize>,
    text: String,
    depth: usize,
}

#[derive(Default)]
struct Module {
    ptx_version: Option<String>,
    target: Option<String>,
    /// Name and declaration of each external shared array.
    shared: Vec<(String, String)>,
    place: Place,
    entries: Vec<Entry>,
    lines: Lines,
    /// What `.loc` lines refer to: `.file` directives and debug sections with names.
    tables: String,
}

impl Module {
    /// The entries, each followed by the tables that its `.loc` lines refer to.
    fn with_tables(mut self) -> Vec<Entry> {
        if self.lines == Lines::Kept {
            self.entries.iter_mut().for_each(|entry| entry.text.push_str(&self.tables));
        }
        self.entries
    }

    fn table_line(&mut self, line: &str) {
        self.tables.push_str(line);
        self.tables.push('\n');
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let code = without_comment(line)?;
        match std::mem::take(&mut self.place) {
            Place::Module => self.module_line(code),
            Place::Section { open } => {
                self.table_line(line);
                self.place = match (open, code.trim()) {
                    (false, "{") => Place::Section { open: true },
                    (true, "}") => Place::Module,
                    (true, _) => Place::Section { open },
                    (false, other) => return Err(format!("expected the `{{` of a section, found `{other}`")),
                };
                Ok(())
            }
            Place::Entry(open) => self.entry_line(open, code),
        }
    }

    fn module_line(&mut self, code: &str) -> Result<(), String> {
        let words: Vec<&str> = code.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [".file", ..] => self.table_line(code),
            [".section", _] => {
                self.table_line(code);
                self.place = Place::Section { open: false };
            }
            [".version", version] => self.ptx_version = Some((*version).to_owned()),
            [".target", target] => self.target = Some((*target).to_owned()),
            [".address_size", "64"] => {}
            [".extern", ".shared", .., array] => {
                let name = array.strip_suffix("[];").ok_or_else(|| not_understood(code))?;
                self.shared.push((name.to_owned(), code.trim().to_owned()));
            }
            [".visible", ".entry", name] => {
                let name = name.strip_suffix('(').ok_or_else(|| not_understood(code))?;
                self.place = Place::Entry(Open {
                    name: name.to_owned(),
                    parameter_bytes: Vec::new(),
                    text: format!("{}\n", code.trim()),
                    depth: 0,
                });
            }
            _ => return Err(not_understood(code)),
        }
        Ok(())
    }

    fn entry_line(&mut self, mut open: Open, code: &str) -> Result<(), String> {
        let word = code.split_whitespace().next().unwrap_or("");
        let was_outside = open.depth == 0;
        match word {
            "" => {
                self.place = Place::Entry(open);
                return Ok(());
            }
            ".loc" => {
                if self.lines == Lines::Kept {
                    open.text.push_str(&format!("{}\n", code.trim()));
                }
                self.place = Place::Entry(open);
                return Ok(());
            }
            ".param" if was_outside => {
                open.parameter_bytes.push(parameter_bytes(code).ok_or_else(|| not_understood(code))?);
            }
            ".pragma" => {}
            ")" | ".reqntid" | ".minnctapersm" | "{" if was_outside => {}
            _ if was_outside => return Err(not_understood(code)),
            _ if code.contains('"') => return Err(format!("a text within an entry: `{}`", code.trim())),
            _ => {}
        }
        open.text.push_str(code.trim());
        open.text.push('\n');
        for brace in code.chars() {
            match brace {
                '{' => open.depth += 1,
                '}' => open.depth = open.depth.checked_sub(1).ok_or_else(|| not_understood(code))?,
                _ => {}
            }
        }
        if was_outside || open.depth > 0 {
            self.place = Place::Entry(open);
            return Ok(());
        }
        self.close(open)
    }

    /// Prefixes the entry with the parts of the module that it needs.
    fn close(&mut self, open: Open) -> Result<(), String> {
        let missing = |directive: &str| format!("entry {} ends, and there was no {directive}", open.name);
        let ptx_version = self.ptx_version.clone().ok_or_else(|| missing(".version"))?;
        let target = self.target.clone().ok_or_else(|| missing(".target"))?;
        let mut text = format!(".version {ptx_version}\n.target {target}\n.address_size 64\n");
        for (_, declaration) in self.shared.iter().filter(|(name, _)| open.text.contains(name.as_str())) {
            text.push_str(declaration);
            text.push('\n');
        }
        text.push_str(&open.text);
        self.entries.push(Entry { name: open.name, ptx_version, target, parameter_bytes: open.parameter_bytes, text });
        Ok(())
    }
}

/// The line up to a `//`. Multi-line comments are refused.
fn without_comment(line: &str) -> Result<&str, String> {
    if line.trim_start().starts_with(".file") {
        return Ok(line);
    }
    if line.contains("/*") || line.contains("*/") {
        return Err("a comment in `/* */`".into());
    }
    Ok(line.split("//").next().unwrap_or(line))
}

/// N of `.param .align A .b8 name[N]`, which a comma follows unless it is the last parameter.
fn parameter_bytes(code: &str) -> Option<usize> {
    let words: Vec<&str> = code.split_whitespace().collect();
    let [".param", ".align", _, ".b8", array] = words.as_slice() else { return None };
    array.trim_end_matches(',').split_once('[')?.1.strip_suffix(']')?.parse().ok()
}

fn not_understood(code: &str) -> String {
    format!("not understood: `{}`", code.trim())
}

//! Lookup of entries by name.

use ptx_diagnostics::{demangled, short_name};
use ptx_sim::Module;

/// The requested entry, by its name in the PTX or in the source; without a name the only entry.
///
/// # Errors
/// With the names of the existing entries.
pub fn resolve(module: &Module, requested: Option<&str>) -> Result<String, String> {
    let entries: Vec<&str> = module.entries().collect();
    let Some(name) = requested else {
        return match entries.as_slice() {
            [only] => Ok((*only).to_owned()),
            [] => Err(format!("{} has no entry", module.file())),
            _ => Err(format!("which entry? Say --entry and one of {}", list(&entries))),
        };
    };
    if entries.contains(&name) {
        return Ok(name.to_owned());
    }
    let is_called = |entry: &str| demangled(entry) == name || short_name(entry) == name || plain_name(entry) == name;
    let found: Vec<&str> = entries.iter().copied().filter(|entry| is_called(entry)).collect();
    match found.as_slice() {
        [only] => Ok((*only).to_owned()),
        [] => Err(format!("no entry `{name}` in {}; it has {}", module.file(), list(&entries))),
        _ => Err(format!("several entries are called `{name}`: {}; say which by its whole name", list(&found))),
    }
}

fn list(entries: &[&str]) -> String {
    let shown = entries.iter().map(|entry| demangled(entry).into_owned());
    let shown: Vec<_> = shown.collect();
    if shown.is_empty() { "none".to_owned() } else { shown.join("; ") }
}

/// The name of an entry without namespaces, template arguments and parameters.
fn plain_name(entry: &str) -> String {
    let name = short_name(entry);
    let name = name.split('<').next().unwrap_or_default();
    name.rsplit("::").next().unwrap_or(name).to_owned()
}

/// Buffer name of a parameter: its name with a mangled name of the entry shortened.
pub fn parameter_name(entry: &str, parameter: &str) -> String {
    match parameter.strip_prefix(entry) {
        Some(rest) => plain_name(entry) + rest,
        None => parameter.to_owned(),
    }
}

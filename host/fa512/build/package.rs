//! A folder of compressed kernels: a zlib stream per entry, and an index. `build.rs` reads it, and writes it when it
//! finds loose PTX; `cargo xtask package` writes it into the published crate.

use std::fmt;
use std::fs;
use std::path::Path;

use super::split::Entry;

/// File name of the index.
pub const INDEX: &str = "index.txt";
/// First line of an index; the reader refuses any other.
const HEADER: &str = "fa512 kernels, format 1: entry, PTX version, target, bytes of the text, bytes of each parameter";

/// A line of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// Name of the `.entry`; the file is called this with `.ptx.zz`.
    pub name: String,
    /// `.version`, such as `8.0`.
    pub ptx_version: String,
    /// `.target`, such as `sm_90a`.
    pub target: String,
    /// Size of the PTX before compression, bytes.
    pub text_bytes: usize,
    /// Size of each parameter in bytes, in order.
    pub parameter_bytes: Vec<usize>,
}

impl Indexed {
    /// Name of the compressed file beside the index.
    pub fn file(&self) -> String {
        format!("{}.ptx.zz", self.name)
    }
}

impl fmt::Display for Indexed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, ptx_version, target, text_bytes, parameter_bytes } = self;
        write!(formatter, "{name} {ptx_version} {target} {text_bytes}")?;
        parameter_bytes.iter().try_for_each(|bytes| write!(formatter, " {bytes}"))
    }
}

/// Writes `entries` and their index into `folder`, replacing it.
///
/// # Errors
/// Names the file that cannot be written.
pub fn write(folder: &Path, entries: &[Entry]) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| failed(folder, error))?;
    }
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut index = format!("{HEADER}\n");
    for entry in entries {
        let line = Indexed {
            name: entry.name.clone(),
            ptx_version: entry.ptx_version.clone(),
            target: entry.target.clone(),
            text_bytes: entry.text.len(),
            parameter_bytes: entry.parameter_bytes.clone(),
        };
        let path = folder.join(line.file());
        let bytes = miniz_oxide::deflate::compress_to_vec_zlib(entry.text.as_bytes(), 9);
        fs::write(&path, bytes).map_err(|error| failed(&path, error))?;
        index.push_str(&format!("{line}\n"));
    }
    let path = folder.join(INDEX);
    fs::write(&path, index).map_err(|error| failed(&path, error))
}

/// Reads the index of `folder`.
///
/// # Errors
/// Names the index line that is malformed, or the file that cannot be read.
pub fn read(folder: &Path) -> Result<Vec<Indexed>, String> {
    let path = folder.join(INDEX);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return Err(format!("{}: its first line is not `{HEADER}`", path.display()));
    }
    lines.map(|line| parse(line).ok_or_else(|| format!("{}: not understood: `{line}`", path.display()))).collect()
}

fn parse(line: &str) -> Option<Indexed> {
    let words: Vec<&str> = line.split(' ').collect();
    let [name, ptx_version, target, text_bytes, parameter_bytes @ ..] = words.as_slice() else { return None };
    let is_identifier = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_identifier.then_some(())?;
    Some(Indexed {
        name: (*name).to_owned(),
        ptx_version: (*ptx_version).to_owned(),
        target: (*target).to_owned(),
        text_bytes: text_bytes.parse().ok()?,
        parameter_bytes: parameter_bytes.iter().map(|bytes| bytes.parse().ok()).collect::<Option<_>>()?,
    })
}

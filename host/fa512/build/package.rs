//! A folder of compressed kernels: zlib streams of an fp16 entry merged with its brother for bf16, and an index.
//! `build.rs` reads it, and writes it when it finds loose PTX; `cargo xtask package` writes it into the published crate.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use super::merge::merge;
use super::merged::Side;
use super::split::{Entry, Lines};

/// File name of the index.
pub const INDEX: &str = "index.txt";
/// First line of an index; the reader refuses any other.
const HEADER: &str = "fa512 kernels, format 2: entry, its stream, its sign there, PTX version, target, bytes of the stream's text, \
                      bytes of the entry's, bytes of each parameter";
/// What the name of an entry for bf16 has and that of its brother has not.
const BF16: &str = "_bf16";

/// A line of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// Name of the `.entry`.
    pub name: String,
    /// Name of its stream; the file is called this with `.ptx.zz`.
    pub stream: String,
    /// Which of the merged texts in the stream is its own.
    pub side: Side,
    /// `.version`, such as `8.0`.
    pub ptx_version: String,
    /// `.target`, such as `sm_90a`.
    pub target: String,
    /// Size of the stream before compression, bytes.
    pub merged_bytes: usize,
    /// Size of the PTX, bytes.
    pub text_bytes: usize,
    /// Size of each parameter in bytes, in order.
    pub parameter_bytes: Vec<usize>,
}

impl Indexed {
    /// Name of the compressed file beside the index.
    pub fn file(&self) -> String {
        format!("{}.ptx.zz", self.stream)
    }
}

impl fmt::Display for Indexed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, stream, side, ptx_version, target, merged_bytes, text_bytes, parameter_bytes } = self;
        let sign = char::from(side.sign());
        write!(formatter, "{name} {stream} {sign} {ptx_version} {target} {merged_bytes} {text_bytes}")?;
        parameter_bytes.iter().try_for_each(|bytes| write!(formatter, " {bytes}"))
    }
}

/// Writes `entries` and their index into `folder`, replacing it: small where their lines are left out, as what is
/// shipped, else fast.
///
/// # Errors
/// Names the file that cannot be written, or the entry whose lines cannot be merged.
pub fn write(folder: &Path, entries: &[Entry], lines: Lines) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| failed(folder, error))?;
    }
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let level = if lines == Lines::LeftOut { 9 } else { 1 };
    let mut index = format!("{HEADER}\n");
    let mut brothers = BTreeMap::<String, Vec<&Entry>>::new();
    for entry in entries {
        brothers.entry(entry.name.replacen(BF16, "", 1)).or_default().push(entry);
    }
    for pair in brothers.values().flat_map(|alike| alike.chunks(2)) {
        // An entry without a brother is its own.
        let (first, second) = (pair[0], pair[pair.len() - 1]);
        let merged = merge(&first.text, &second.text).map_err(|why| format!("{}: {why}", first.name))?;
        let lines = pair.iter().zip([Side::First, Side::Second]).map(|(entry, side)| Indexed {
            name: entry.name.clone(),
            stream: first.name.clone(),
            side,
            ptx_version: entry.ptx_version.clone(),
            target: entry.target.clone(),
            merged_bytes: merged.len(),
            text_bytes: entry.text.len(),
            parameter_bytes: entry.parameter_bytes.clone(),
        });
        let lines: Vec<Indexed> = lines.collect();
        let path = folder.join(lines[0].file());
        let bytes = miniz_oxide::deflate::compress_to_vec_zlib(merged.as_bytes(), level);
        fs::write(&path, bytes).map_err(|error| failed(&path, error))?;
        lines.iter().for_each(|line| index.push_str(&format!("{line}\n")));
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
    let [name, stream, sign, ptx_version, target, merged_bytes, text_bytes, parameter_bytes @ ..] = words.as_slice()
    else {
        return None;
    };
    let is_identifier =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_identifier(name) && is_identifier(stream)).then_some(())?;
    Some(Indexed {
        name: (*name).to_owned(),
        stream: (*stream).to_owned(),
        side: [Side::First, Side::Second].into_iter().find(|side| sign.as_bytes() == [side.sign()])?,
        ptx_version: (*ptx_version).to_owned(),
        target: (*target).to_owned(),
        merged_bytes: merged_bytes.parse().ok()?,
        text_bytes: text_bytes.parse().ok()?,
        parameter_bytes: parameter_bytes.iter().map(|bytes| bytes.parse().ok()).collect::<Option<_>>()?,
    })
}

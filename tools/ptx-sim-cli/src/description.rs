//! A launch description: what the command line says, in a TOML file.
//!
//! ```toml
//! entry = "weighted_sum"
//! grid = 1
//! block = [256, 1]
//! shared = 0
//! arch = 80
//! params = ["f32[1000]=random(1)", "f32[1]", "u32[1]", "u32:1000"]
//! ```

use std::fs;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use crate::parameter::Parameter;

/// A launch description; what it leaves out, the command line has to say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    entry: Option<String>,
    grid: Option<Spanned<ExtentValue>>,
    block: Option<Spanned<ExtentValue>>,
    shared: Option<u32>,
    arch: Option<u32>,
    #[serde(default)]
    params: Vec<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ExtentValue {
    One(u32),
    Several(Vec<u32>),
}

/// What a description says.
#[derive(Debug, Default)]
pub struct Description {
    /// Name of the entry.
    pub entry: Option<String>,
    /// Blocks in x, y and z.
    pub grid: Option<[u32; 3]>,
    /// Threads of a block in x, y and z.
    pub block: Option<[u32; 3]>,
    /// Dynamic shared memory, bytes.
    pub shared: Option<u32>,
    /// Architecture, as in 80.
    pub architecture: Option<u32>,
    /// Parameters, in order.
    pub params: Vec<Parameter>,
}

impl Description {
    /// Reads a description; files it names are relative to its folder.
    ///
    /// # Errors
    /// With file, line and column, what was found and what would be accepted.
    pub fn read(path: &Path) -> Result<Description, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let at = |offset: usize, message: &str| {
            let (line, column) = position(&text, offset);
            format!("{}:{line}:{column}: {message}", path.display())
        };
        let file: File =
            toml::from_str(&text).map_err(|error| at(error.span().map_or(0, |span| span.start), error.message()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let extent = |value: Option<Spanned<ExtentValue>>| {
            value.map(|value| {
                let start = value.span().start;
                let sizes = match value.into_inner() {
                    ExtentValue::One(size) => vec![size],
                    ExtentValue::Several(sizes) => sizes,
                };
                extent(&sizes).ok_or_else(|| at(start, "expected one to three sizes"))
            })
        };
        let params = file.params.iter().map(|text| {
            // The text begins behind a quotation mark.
            let start = text.span().start + 1;
            Parameter::parse(text.get_ref(), folder).map_err(|error| at(start + error.offset, &error.message))
        });
        Ok(Description {
            params: params.collect::<Result<_, _>>()?,
            entry: file.entry,
            grid: extent(file.grid).transpose()?,
            block: extent(file.block).transpose()?,
            shared: file.shared,
            architecture: file.arch,
        })
    }
}

/// One to three sizes as x, y and z.
pub fn extent(sizes: &[u32]) -> Option<[u32; 3]> {
    let mut extent = [1; 3];
    (1..=3).contains(&sizes.len()).then(|| extent[..sizes.len()].copy_from_slice(sizes))?;
    Some(extent)
}

/// Line and column, from 1, of a byte of `text`.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

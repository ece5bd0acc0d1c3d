//! Reading and writing records.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::BenchRecord;
use crate::error::{Error, Result};
use crate::files;

/// What a file says that it is.
pub const KIND: &str = "fa512-bench";
/// Version of the record's form; a reader refuses any other.
pub const VERSION: u32 = 1;

/// What every file begins with.
#[derive(Serialize, Deserialize)]
struct Header {
    kind: String,
    version: u32,
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    record: &'a BenchRecord,
}

impl BenchRecord {
    /// Reads the record at `path`.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be read; [`Error::Invalid`] when it is no bench record, or one of another
    /// version.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|reason| Error::Invalid(format!("{}: {reason}", path.display())))
    }

    /// Writes the record to `path`, which is replaced in one step.
    ///
    /// # Errors
    /// As [`files::replace`].
    pub fn save(&self, path: &Path) -> Result<()> {
        let document = Document { header: Header { kind: KIND.into(), version: VERSION }, record: self };
        files::replace(path, |file| {
            serde_json::to_writer_pretty(&mut *file, &document)?;
            file.write_all(b"\n")
        })
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let foreign = |error: serde_json::Error| {
            format!("not a bench record ({error}); expected what `fa512 bench --json FILE` writes")
        };
        let Header { kind, version } = serde_json::from_str(text).map_err(foreign)?;
        if kind != KIND {
            return Err(format!("holds a {kind}, not a bench record ({KIND})"));
        }
        if version != VERSION {
            return Err(format!("is a bench record of version {version}; this program reads {VERSION}: measure again"));
        }
        serde_json::from_str(text).map_err(|error| format!("a damaged bench record: {error}"))
    }
}

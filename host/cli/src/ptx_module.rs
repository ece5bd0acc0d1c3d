//! A PTX module as text.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::files;

/// A PTX module to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxModule {
    /// File name, for messages.
    pub file: String,
    /// Shared since it may be long.
    source: Arc<Source>,
}

/// Where the text is.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    Given(Box<str>),
    /// In a file that is read when its text is asked for: most programs run few of a folder's modules, and to read and check all of them takes
    /// longer than most simulated launches.
    InFile {
        path: PathBuf,
        sha256: String,
        text: OnceLock<Box<str>>,
    },
}

impl PtxModule {
    /// The module `text`, which messages call `file`.
    pub fn new(file: impl Into<String>, text: impl Into<Box<str>>) -> Self {
        Self { file: file.into(), source: Arc::new(Source::Given(text.into())) }
    }

    /// The module in the file `name` of `folder`, with this SHA-256.
    pub fn in_file(folder: &Path, name: &str, sha256: &str) -> Self {
        let source = Source::InFile { path: folder.join(name), sha256: sha256.to_owned(), text: OnceLock::new() };
        Self { file: name.to_owned(), source: Arc::new(source) }
    }

    /// The PTX text.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when its file has another SHA-256 than it must have, [`Error::File`] when its file cannot be read.
    pub fn text(&self) -> Result<&str> {
        match &*self.source {
            Source::Given(text) => Ok(text),
            Source::InFile { path, sha256, text } => {
                if let Some(text) = text.get() {
                    return Ok(text);
                }
                let read = read(path, sha256)?;
                Ok(text.get_or_init(|| read))
            }
        }
    }
}

/// The text in the file at `path`, which must have this SHA-256.
fn read(path: &Path, sha256: &str) -> Result<Box<str>> {
    let text = files::read_text(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    let found: String = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
    if found != *sha256 {
        return Err(Error::Unavailable(format!(
            "{}: SHA-256 is {found}, the manifest says {sha256}; `cargo xtask ptx` makes a matching pair",
            path.display(),
        )));
    }
    Ok(text.into())
}

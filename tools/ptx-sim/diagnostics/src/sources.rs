//! Lookup of source files.

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum size of a source file that is shown, bytes.
const LARGEST_FILE: u64 = 16 << 20;

/// Folders to which relative `.file` paths may refer.
#[derive(Clone, Debug)]
pub struct Sources {
    folders: Vec<PathBuf>,
}

impl Sources {
    /// The current folder and all its parents.
    pub fn nearby() -> Self {
        let folder = std::env::current_dir().unwrap_or_default();
        Self { folders: folder.ancestors().map(Path::to_owned).collect() }
    }

    /// Only `folder`.
    pub fn below(folder: &Path) -> Self {
        Self { folders: vec![folder.to_owned()] }
    }

    /// `folder` if given, else [`Sources::nearby`].
    pub fn below_or_nearby(folder: Option<&Path>) -> Self {
        folder.map_or_else(Self::nearby, Self::below)
    }

    /// A line of a file, numbered from 1; `None` if there is no such file or line.
    pub(crate) fn line(&self, file: &str, line: u32) -> Option<String> {
        let index = (line as usize).checked_sub(1)?;
        let text = self.folders.iter().find_map(|folder| read(&folder.join(file)))?;
        text.lines().nth(index).map(str::to_owned)
    }
}

/// The text of a regular file of at most the maximum size.
fn read(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LARGEST_FILE {
        return None;
    }
    fs::read_to_string(path).ok()
}

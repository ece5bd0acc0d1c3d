//! Where source files are looked for.

use std::fs;
use std::path::{Path, PathBuf};

/// A source file larger than this is not shown.
const LARGEST_FILE: u64 = 16 << 20;

/// The folders that the paths of `.file` may be relative to.
#[derive(Clone, Debug)]
pub struct Sources {
    folders: Vec<PathBuf>,
}

impl Sources {
    /// Below the current folder and each of its parents.
    pub fn nearby() -> Self {
        let folder = std::env::current_dir().unwrap_or_default();
        Self { folders: folder.ancestors().map(Path::to_owned).collect() }
    }

    /// Below `folder` only.
    pub fn below(folder: &Path) -> Self {
        Self { folders: vec![folder.to_owned()] }
    }

    /// Below `folder` when there is one, else [`Sources::nearby`].
    pub fn below_or_nearby(folder: Option<&Path>) -> Self {
        folder.map_or_else(Self::nearby, Self::below)
    }

    /// A line of a file, from 1; `None` when there is no such file or line.
    pub(crate) fn line(&self, file: &str, line: u32) -> Option<String> {
        let index = (line as usize).checked_sub(1)?;
        let text = self.folders.iter().find_map(|folder| read(&folder.join(file)))?;
        text.lines().nth(index).map(str::to_owned)
    }
}

/// The text of a regular file of a usual size.
fn read(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LARGEST_FILE {
        return None;
    }
    fs::read_to_string(path).ok()
}

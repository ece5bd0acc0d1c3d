//! File operations that an interruption cannot leave half done.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Writes `contents` to `path` through a temporary file beside it; readers see the old file or the new one.
///
/// A file that already holds `contents` is left untouched, so that its time stamp means something.
pub fn write_atomically(path: &Path, contents: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|present| present == contents) {
        return Ok(());
    }
    let context = || format!("could not write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(context)?;
    }
    let temporary = temporary_sibling(path);
    fs::write(&temporary, contents).and_then(|()| fs::rename(&temporary, path)).with_context(context)
}

/// A name beside `path` that no other process uses, for something that will be renamed to `path`.
pub fn temporary_sibling(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(TEMPORARY_PREFIX);
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
}

/// Prefix of the names that [`temporary_sibling`] gives.
pub const TEMPORARY_PREFIX: &str = ".unfinished-";

/// Removes a file or a folder with everything in it; that it does not exist is fine.
pub fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Puts the complete folder `new` in the place of `path`.
pub fn replace_folder(new: &Path, path: &Path) -> Result<()> {
    remove(path)
        .and_then(|()| fs::rename(new, path))
        .with_context(|| format!("could not move {} to {}", new.display(), path.display()))
}

/// SHA-256 of `bytes` in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

//! Atomic file operations.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Writes `contents` to `path` through a temporary file in the same folder; readers see the old file or the new one.
///
/// A file that already has `contents` is not touched, so that its time stamp stays meaningful.
pub fn write_atomically(path: &Path, contents: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|present| present == contents) {
        return Ok(());
    }
    let context = || format!("could not write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(context)?;
    }
    through_temporary(path, |temporary| fs::write(temporary, contents).with_context(context))
}

/// Has `fill` write a temporary file and renames it to `path`. On failure, as on a full disk, the temporary file is removed.
pub fn through_temporary(path: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let temporary = temporary_sibling(path);
    let filled = fill(&temporary)
        .and_then(|()| fs::rename(&temporary, path).with_context(|| format!("could not write {}", path.display())));
    if filled.is_err() {
        // The first error is the one to report.
        let _ = remove(&temporary);
    }
    filled
}

/// Has `fill` fill a temporary folder and moves it to `path`, replacing it. On failure the temporary folder is removed.
pub fn through_temporary_folder(path: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let unfinished = temporary_sibling(path);
    let filled = fs::create_dir_all(&unfinished)
        .with_context(|| format!("could not create {}", unfinished.display()))
        .and_then(|()| fill(&unfinished))
        .and_then(|()| replace_folder(&unfinished, path));
    if filled.is_err() {
        // The first error is the one to report.
        let _ = remove(&unfinished);
    }
    filled
}

/// An unused name in the folder of `path`, for a file that will be renamed to `path`.
pub fn temporary_sibling(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(TEMPORARY_PREFIX);
    name.push(path.file_name().unwrap_or_default());
    // Other threads of this process may write at the same time.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    name.push(format!(".{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    path.with_file_name(name)
}

/// Prefix of the names that [`temporary_sibling`] gives.
pub const TEMPORARY_PREFIX: &str = ".unfinished-";

/// Removes a file or folder with its contents; does nothing if it does not exist.
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

/// Replaces `path` by the complete folder `new`.
fn replace_folder(new: &Path, path: &Path) -> Result<()> {
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

/// Every file below `folder`, sorted.
pub fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let context = || format!("could not read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(context)? {
        let entry = entry.with_context(context)?;
        if entry.file_type().with_context(context)?.is_dir() {
            found.extend(below(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Copies a file, with its permissions, or a folder with everything in it.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        for file in below(from)? {
            copy(&file, &to.join(file.strip_prefix(from)?))?;
        }
        return Ok(());
    }
    let context = || format!("could not copy {} to {}", from.display(), to.display());
    fs::create_dir_all(to.parent().unwrap_or(to)).with_context(context)?;
    through_temporary(to, |unfinished| fs::copy(from, unfinished).map(drop).with_context(context))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::thread;

    use super::{copy, temporary_sibling, through_temporary, through_temporary_folder, write_atomically};

    fn names(folder: &Path) -> Vec<std::ffi::OsString> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_temporary_name_is_given_once() {
        let path = Path::new("folder/file");
        assert_ne!(temporary_sibling(path), temporary_sibling(path));
    }

    #[test]
    fn what_fails_leaves_nothing_behind() {
        let folder = tempfile::TempDir::new().unwrap();
        // No file can take the place of a folder.
        let taken = folder.path().join("taken");
        std::fs::create_dir(&taken).unwrap();
        assert!(write_atomically(&taken, b"text").is_err());
        let half = |temporary: &Path| {
            std::fs::write(temporary, "half").unwrap();
            anyhow::bail!("No space left on device")
        };
        let error = through_temporary(&folder.path().join("file"), half).unwrap_err();
        assert_eq!(error.to_string(), "No space left on device");
        assert_eq!(names(folder.path()), ["taken"]);
    }

    #[test]
    fn a_copy_that_fails_leaves_nothing_behind() {
        let folder = tempfile::TempDir::new().unwrap();
        // It opens, and its first page cannot be read.
        let error = copy(Path::new("/proc/self/mem"), &folder.path().join("copy")).unwrap_err();
        assert!(format!("{error:#}").starts_with("could not copy /proc/self/mem to "), "{error:#}");
        assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
    }

    #[test]
    fn a_folder_is_replaced_as_a_whole_or_not_at_all() {
        let outer = tempfile::TempDir::new().unwrap();
        let folder = outer.path().join("folder");
        let fill = |file: &'static str, end: Result<(), &'static str>| {
            through_temporary_folder(&folder, |unfinished| {
                std::fs::write(unfinished.join(file), "")?;
                end.map_err(anyhow::Error::msg)
            })
        };
        fill("first", Ok(())).unwrap();
        let error = fill("second", Err("No space left on device")).unwrap_err();
        assert_eq!(error.to_string(), "No space left on device");
        assert_eq!((names(outer.path()), names(&folder)), (vec!["folder".into()], vec!["first".into()]));
        fill("third", Ok(())).unwrap();
        assert_eq!((names(outer.path()), names(&folder)), (vec!["folder".into()], vec!["third".into()]));
    }

    #[test]
    fn several_threads_may_write_one_file() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("file");
        thread::scope(|scope| {
            for text in ["one", "another", "a third"] {
                let path = &path;
                scope.spawn(move || (0..50).for_each(|_| write_atomically(path, text.as_bytes()).unwrap()));
            }
        });
        let left = folder.path().read_dir().unwrap().count();
        assert_eq!(left, 1, "temporary files are left");
    }
}

//! The PTX texts that rustc writes, one for each codegen unit.
//!
//! With incremental compilation rustc keeps, in a folder of its own, one folder for each session, `s-<time>-…`, and in
//! that of the last one the assembly of every unit, those that it compiled and those that it had from the session before.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::files;

/// File extension of a unit's PTX.
const EXTENSION: &str = "s";

/// The PTX of every unit of the last session that was completed in the incremental `folder`; `None` when there is none.
pub fn read(folder: &Path) -> Result<Option<Vec<String>>> {
    let context = || format!("could not read {}", folder.display());
    let mut sessions = Vec::new();
    // One folder for each crate of the name; the numbers in it change with the compiler.
    for of_crate in listing(folder).with_context(context)? {
        sessions.extend(listing(&of_crate).with_context(context)?);
    }
    let Some(last) = sessions.into_iter().filter(|path| is_completed_session(path)).max_by_key(|path| name(path))
    else {
        return Ok(None);
    };
    let units = listing(&last).with_context(context)?.into_iter().filter(|path| is_unit(path));
    let texts = units.map(fs::read_to_string).collect::<io::Result<Vec<_>>>().with_context(context)?;
    Ok((!texts.is_empty()).then_some(texts))
}

/// Removes the copies of the units' PTX that rustc leaves beside the library among `artifacts`, under other names each time.
pub fn remove_copies(artifacts: &[PathBuf]) -> Result<()> {
    for library in artifacts.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rmeta")) {
        let Some((folder, stem)) = library.parent().zip(library.file_stem()) else { continue };
        let stem = stem.to_string_lossy();
        let prefix = format!("{}.", stem.strip_prefix("lib").unwrap_or(&stem));
        for copy in listing(folder)?.into_iter().filter(|path| name(path).starts_with(&prefix) && is_unit(path)) {
            files::remove(&copy)?;
        }
    }
    Ok(())
}

/// What is in a folder; nothing when there is no folder.
fn listing(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Whether `path` is a session's folder, `s-<time>-<random>-<hash>`, and the session was not interrupted.
fn is_completed_session(path: &Path) -> bool {
    name(path).starts_with("s-") && !name(path).ends_with("-working") && path.is_dir()
}

fn is_unit(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use tempfile::TempDir;

    use super::{read, remove_copies};

    fn write(folder: &Path, file: &str, text: &str) {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn only_the_last_completed_session_counts() {
        let folder = TempDir::new().unwrap();
        assert_eq!(read(&folder.path().join("never")).unwrap(), None);
        let session =
            |session: &str, unit: &str| write(folder.path(), &format!("kernel_gpu-1/{session}/{unit}"), session);
        session("s-hoe1-1-x", "a.s");
        session("s-hoe1-1-x", "b.s");
        session("s-hoe2-1-x", "a.s");
        session("s-hoe2-1-x", "a.o");
        session("s-hoe3-1-working", "a.s");
        write(folder.path(), "kernel_gpu-1/s-hoe3-1.lock", "");
        assert_eq!(read(folder.path()).unwrap(), Some(vec!["s-hoe2-1-x".to_owned()]));
    }

    #[test]
    fn a_session_without_ptx_is_none() {
        let folder = TempDir::new().unwrap();
        write(folder.path(), "kernel_gpu-1/s-hoe1-1-x/a.o", "");
        assert_eq!(read(folder.path()).unwrap(), None);
    }

    #[test]
    fn copies_are_removed_and_nothing_else() {
        let folder = TempDir::new().unwrap();
        let kept = ["libkernel_gpu-1.rmeta", "kernel_gpu-1.d", "kernel_gpu-12.a.s", "kernel_gpu-1.a.o"];
        for file in kept.iter().chain(&["kernel_gpu-1.a.x.s", "kernel_gpu-1.b.s"]) {
            write(folder.path(), file, "");
        }
        remove_copies(&[folder.path().join("libkernel_gpu.rlib"), folder.path().join(kept[0])]).unwrap();
        let mut left: Vec<String> =
            fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        let mut kept = kept.map(str::to_owned);
        kept.sort();
        assert_eq!(left, kept);
    }
}

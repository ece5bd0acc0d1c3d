//! Reads files up to a size limit, and replaces files atomically.

use std::io::Write;
use std::path::Path;

use ptx_diagnostics::files::{folder_of, is_same_file, write_atomically};

use crate::error::{Error, Result};

/// Maximum size of a text file, bytes: many times the largest that this program writes.
const LARGEST_TEXT: u64 = 256 << 20;

/// Reads the file at `path` as text.
///
/// # Errors
/// As for [`ptx_diagnostics::files::read_text`], also when it is larger than 256 MiB.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    ptx_diagnostics::files::read_text(path, LARGEST_TEXT)
}

/// Makes a write beyond the file size limit (`ulimit -f`) an error, as on a full disk. By default it would end the
/// process and leave temporary files.
pub fn let_writes_fail_at_the_size_limit() {
    #[cfg(unix)]
    // SAFETY: SIG_IGN runs no code of ours, and nothing else in this process handles SIGXFSZ.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Checks that [`replace()`] can write a file at `path`. Called before long work whose result goes there.
///
/// # Errors
/// [`Error::Invalid`] when its folder does not exist, or `path` exists but is not a file.
pub fn check_target(path: &Path) -> Result<()> {
    let refuse = |what: String| Err(Error::Invalid(format!("{}: {what}", path.display())));
    let folder = folder_of(path);
    if !folder.is_dir() {
        return refuse(format!("there is no folder {}", folder.display()));
    }
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => refuse("is not a file; expected a new file or one to replace".into()),
        _ => Ok(()),
    }
}

/// Checks that files can be written at all `targets`, each named by its option, and that none of them replaces another
/// or one of `sources`.
///
/// # Errors
/// [`Error::Invalid`] as for [`check_target`], and when two paths are the same file.
pub fn check_targets(targets: &[(&str, &Path)], sources: &[(&str, &Path)]) -> Result<()> {
    for (index, &(name, path)) in targets.iter().enumerate() {
        check_target(path)?;
        for &(other_name, other) in targets[..index].iter().chain(sources) {
            if is_same_file(path, other) {
                return Err(Error::Invalid(format!(
                    "{name} {} is the file of {other_name}; give it another name",
                    path.display()
                )));
            }
        }
    }
    Ok(())
}

/// Replaces the file at `path` with what `fill` writes, atomically: it never has partial content. If `path` is a
/// symbolic link, its target is replaced.
///
/// # Errors
/// [`Error::Invalid`] as for [`check_target`]; [`Error::File`] when the file cannot be written.
pub fn replace(path: &Path, fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    check_target(path)?;
    write_atomically(path, ".fa512-", fill).map_err(|source| Error::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) -> Result<()> {
        replace(path, |file| file.write_all(text.as_bytes()))
    }

    #[cfg(unix)]
    #[test]
    fn one_file_is_not_two_targets_whatever_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("there"), "").unwrap();
        std::fs::create_dir(at("inner")).unwrap();
        std::fs::hard_link(at("there"), at("hard")).unwrap();
        std::os::unix::fs::symlink(at("there"), at("soft")).unwrap();
        std::os::unix::fs::symlink("new", at("soft to new")).unwrap();
        let refused = |one: &Path, two: &Path| {
            let as_target = check_targets(&[("--out", two), ("--lse", one)], &[]);
            let as_source = check_targets(&[("--lse", one)], &[("--out", two)]);
            assert_eq!(as_target.is_err(), as_source.is_err());
            as_source.map_err(|error| error.to_string())
        };
        for (one, two) in [
            (at("new"), at("new")),
            (at("new"), at("inner/../new")),
            (at("there"), at("hard")),
            (at("soft"), at("hard")),
            (at("there"), at("inner/../soft")),
            (at("new"), at("soft to new")),
        ] {
            let message = refused(&one, &two).expect_err(&format!("{one:?}, {two:?}"));
            assert!(message.contains("is the file of --out"), "{message}");
        }
        refused(&at("new"), &at("newer")).unwrap();
        refused(&at("new"), &at("there")).unwrap();
        refused(&at("new"), &at("inner/new")).unwrap();
    }

    #[test]
    fn nothing_else_is_left_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        write(&path, "text").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file was left behind");
    }

    #[cfg(unix)]
    #[test]
    fn what_is_not_a_file_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        for path in [path.as_path(), folder.path()] {
            let message = write(path, "text").unwrap_err().to_string();
            assert!(message.contains("is not a file"), "{message}");
        }
        assert!(!path.is_file(), "the socket was replaced");
    }

    #[cfg(unix)]
    #[test]
    fn a_symbolic_link_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "new");
    }

    #[cfg(unix)]
    #[test]
    fn a_written_file_has_the_permissions_of_any_new_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (path, plain) = (folder.path().join("written"), folder.path().join("plain"));
        write(&path, "text").unwrap();
        std::fs::write(&plain, "").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&plain));
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old");
        std::fs::write(&path, "old").unwrap();
        let failure = replace(&path, |file| {
            file.write_all(b"half of it")?;
            Err(std::io::Error::other("disk full"))
        });
        assert!(failure.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file was left behind");
    }
}

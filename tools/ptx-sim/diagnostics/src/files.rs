//! Reading of untrusted files up to a limit, and atomic writing of files.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// The bytes of the file at `path`, at most `limit` of them.
///
/// # Errors
/// Those of the system, and [`ErrorKind::FileTooLarge`] for a file, or an endless device, beyond the limit.
pub fn read_bytes(path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("is larger than {} MiB, and no file that this program reads is", limit >> 20);
        return Err(Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// The text of the file at `path`, at most `limit` bytes.
///
/// # Errors
/// As [`read_bytes`], and [`ErrorKind::InvalidData`] for text that is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> std::io::Result<String> {
    String::from_utf8(read_bytes(path, limit)?).map_err(|error| Error::new(ErrorKind::InvalidData, error))
}

/// Whether both paths name one file: existing files are compared by identity, also through links, others by where they would be
/// created.
pub fn is_same_file(path: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    if let (Ok(one), Ok(two)) = (std::fs::metadata(path), std::fs::metadata(other)) {
        use std::os::unix::fs::MetadataExt;
        return (one.dev(), one.ino()) == (two.dev(), two.ino());
    }
    let (Ok(one), Ok(two)) = (place(path), place(other)) else { return false };
    let lower = |path: &Path| path.file_name().map(|name| name.to_string_lossy().to_lowercase());
    one == two || (one.parent() == two.parent() && lower(&one) == lower(&two) && ignores_case(&folder_of(&one)))
}

/// The path at which opening `path` creates or finds the file, after all links, including a dangling one.
fn place(path: &Path) -> std::io::Result<PathBuf> {
    const MOST_LINKS: usize = 40; // as on Linux
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if let Ok(whole) = std::fs::canonicalize(&path) {
            return Ok(whole);
        }
        let folder = std::fs::canonicalize(folder_of(&path))?;
        match std::fs::read_link(&path) {
            Ok(target) => path = folder.join(target),
            Err(_) => return Ok(folder.join(path.file_name().unwrap_or_default())),
        }
    }
    Err(Error::other("too many symbolic links"))
}

/// Whether `folder` ignores case in file names; tested with a temporary file.
fn ignores_case(folder: &Path) -> bool {
    let Ok(probe) = tempfile::Builder::new().prefix("case-").tempfile_in(folder) else { return false };
    let name = probe.path().file_name().map(|name| name.to_string_lossy().replace("case-", "CASE-"));
    name.is_some_and(|name| folder.join(name).exists())
}

/// The folder that contains the file `path`.
pub fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Whether [`write_atomically`] can write the file at `path`, as far as that shows before.
///
/// # Errors
/// Those of the system.
pub fn check_writable(path: &Path) -> std::io::Result<()> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(metadata) if !metadata.is_file() => Ok(()),
        _ => tempfile::tempfile_in(folder_of(&place(path)?)).map(drop),
    }
}

/// Writes a file atomically: `fill` writes a temporary file in the same folder, which replaces `path` when complete. The temporary
/// name begins with `prefix` and ends with `.part`. A symbolic link is kept and its target replaced.
///
/// # Errors
/// Those of the system; the file at `path` is then unchanged.
pub fn write_atomically(
    path: &Path,
    prefix: &str,
    fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(".part");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666)); // less the umask, as for any new file
    let path = place(path)?;
    let mut buffered = std::io::BufWriter::new(builder.tempfile_in(folder_of(&path))?);
    fill(&mut buffered)?;
    let file = buffered.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn what_has_no_end_is_refused() {
        let error = read_text(Path::new("/dev/zero"), 3 << 20).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("larger than 3 MiB"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn links_to_nothing_are_followed() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("new", at("link")).unwrap();
        symlink(at("link"), at("link to link")).unwrap();
        symlink("circle", at("circle")).unwrap();
        assert!(is_same_file(&at("new"), &at("link")) && is_same_file(&at("link"), &at("link to link")));
        assert!(!is_same_file(&at("newer"), &at("link")) && !is_same_file(&at("circle"), &at("link")));
        write_atomically(&at("link to link"), "a-", |file| file.write_all(b"text")).unwrap();
        assert!(at("link").is_symlink() && at("link to link").is_symlink());
        assert_eq!(std::fs::read(at("new")).unwrap(), b"text");
        write_atomically(&at("circle"), "a-", |file| file.write_all(b"text")).unwrap_err();
    }

    #[test]
    fn case_makes_two_files_where_the_folder_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let (lower, upper) = (folder.path().join("new.npy"), folder.path().join("NEW.npy"));
        let before_they_exist = is_same_file(&lower, &upper);
        std::fs::write(&lower, "").unwrap();
        assert_eq!(before_they_exist, upper.exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the probe was left behind");
    }

    #[test]
    fn what_cannot_be_written_leaves_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "old").unwrap();
        let full = write_atomically(&path, "a-", |file| {
            file.write_all(b"half")?;
            Err(ErrorKind::StorageFull.into())
        });
        assert_eq!(full.unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

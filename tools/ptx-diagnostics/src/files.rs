//! Files that are not trusted, read up to a limit; and files written in one step, so that they are never half-written.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// The bytes of the file at `path`, at most `limit` of them.
///
/// # Errors
/// Those of the system, and [`ErrorKind::FileTooLarge`] for what does not end before the limit, as a device.
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
/// As [`read_bytes`], and [`ErrorKind::InvalidData`] for what is no UTF-8.
pub fn read_text(path: &Path, limit: u64) -> std::io::Result<String> {
    String::from_utf8(read_bytes(path, limit)?).map_err(|error| Error::new(ErrorKind::InvalidData, error))
}

/// Whether both are one file: by what they are where they exist, through links too, else by folder and name.
pub fn is_same_file(path: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    if let (Ok(one), Ok(two)) = (std::fs::metadata(path), std::fs::metadata(other)) {
        use std::os::unix::fs::MetadataExt;
        return (one.dev(), one.ino()) == (two.dev(), two.ino());
    }
    let place = |path: &Path| {
        let whole = std::fs::canonicalize(path);
        whole.or_else(|_| {
            Ok::<_, std::io::Error>(std::fs::canonicalize(folder_of(path))?.join(path.file_name().unwrap_or_default()))
        })
    };
    matches!((place(path), place(other)), (Ok(one), Ok(two)) if one == two)
}

/// The folder that `path` names a file of.
pub fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Puts what `fill` writes at `path`, through a temporary file in the same folder, which takes its place when it is complete. Its name
/// begins with `prefix` and ends with `.part`. A symbolic link stays, and what it points to is replaced.
///
/// # Errors
/// Those of the system. Then nothing has changed.
pub fn write_atomically(
    path: &Path,
    prefix: &str,
    fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(".part");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666)); // less the umask, as for any new file
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
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

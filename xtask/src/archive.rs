//! Reproducible compressed archives.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{EntryType, Header};

use crate::files;

/// Packs `folder`, under its own name, as the gzip-compressed tar archive `archive`. Equal folders give equal archives: names are
/// sorted, times and owners omitted.
pub fn pack(folder: &Path, archive: &Path) -> Result<()> {
    files::through_temporary(archive, |unfinished| pack_into(folder, unfinished))
}

fn pack_into(folder: &Path, archive: &Path) -> Result<()> {
    let name = folder.file_name().context("a folder without a name cannot be packed")?;
    let file = File::create(archive).with_context(|| format!("could not create {}", archive.display()))?;
    let mut builder = tar::Builder::new(GzEncoder::new(file, Compression::best()));
    for path in files::below(folder)? {
        let within = Path::new(name).join(path.strip_prefix(folder)?);
        if path.is_symlink() {
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            header.set_mode(0o777);
            builder.append_link(&mut header, within, fs::read_link(&path)?)?;
            continue;
        }
        let contents = fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(contents.len() as u64);
        header.set_mode(if is_program(&path)? { 0o755 } else { 0o644 });
        builder.append_data(&mut header, within, contents.as_slice())?;
    }
    Ok(builder.into_inner()?.finish()?.flush()?)
}

fn is_program(path: &Path) -> Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::metadata(path)?.permissions().mode() & 0o100 != 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::{self, File};
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use flate2::read::GzDecoder;
    use tempfile::TempDir;

    use super::pack;

    fn sample(folder: &Path) {
        fs::create_dir_all(folder.join("dist/docs")).unwrap();
        fs::write(folder.join("dist/docs/a.md"), "text").unwrap();
        fs::write(folder.join("dist/run"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(folder.join("dist/run"), fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn an_archive_holds_the_files_under_the_name_of_their_folder() {
        let folder = TempDir::new().unwrap();
        sample(folder.path());
        let archive = folder.path().join("dist.tar.gz");
        pack(&folder.path().join("dist"), &archive).unwrap();
        let mut found = BTreeMap::new();
        let mut reader = tar::Archive::new(GzDecoder::new(File::open(&archive).unwrap()));
        for entry in reader.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let name = entry.path().unwrap().display().to_string();
            found.insert(name, (entry.header().mode().unwrap(), text));
        }
        let expected = [("dist/docs/a.md", (0o644, "text")), ("dist/run", (0o755, "#!/bin/sh\n"))];
        let expected = expected.map(|(name, (mode, text))| (name.to_owned(), (mode, text.to_owned())));
        assert_eq!(found, BTreeMap::from(expected));
    }

    #[test]
    fn equal_folders_give_equal_archives() {
        let bytes = || {
            let folder = TempDir::new().unwrap();
            sample(folder.path());
            let archive = folder.path().join("dist.tar.gz");
            pack(&folder.path().join("dist"), &archive).unwrap();
            fs::read(archive).unwrap()
        };
        assert_eq!(bytes(), bytes());
    }
}

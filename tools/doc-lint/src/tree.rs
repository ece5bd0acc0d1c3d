//! The files of a workspace.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::Document;

/// cargo's default folder of build outputs.
const BUILD_OUTPUTS: &str = "target";
/// File that cargo puts into its own folders of build outputs.
const BUILD_OUTPUT_TAG: &str = "CACHEDIR.TAG";

/// Every file and folder below a root, without hidden ones and build outputs.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    files: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
}

impl Tree {
    /// Reads the tree below `root`.
    ///
    /// # Errors
    /// Those of reading a folder.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self { root: root.to_owned(), files: BTreeSet::new(), folders: BTreeSet::new() };
        tree.enter(PathBuf::new())?;
        Ok(tree)
    }

    fn enter(&mut self, folder: PathBuf) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if hidden || path == Path::new(BUILD_OUTPUTS) || entry.path().join(BUILD_OUTPUT_TAG).exists() {
                continue;
            }
            if entry.file_type()?.is_dir() {
                self.enter(path)?;
            } else {
                self.files.insert(path);
            }
        }
        self.folders.insert(folder);
        Ok(())
    }

    /// The Markdown documents.
    ///
    /// # Errors
    /// Those of reading a document.
    pub fn documents(&self) -> io::Result<Vec<Document>> {
        let is_document = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "md");
        let documents = self.files.iter().filter(is_document);
        documents.map(|path| Ok(Document::new(path, &fs::read_to_string(self.root.join(path))?))).collect()
    }

    /// The files below `folder`, relative to the root.
    pub fn files_in<'a>(&'a self, folder: &'a Path) -> impl Iterator<Item = &'a Path> {
        self.files.iter().map(PathBuf::as_path).filter(move |path| path.starts_with(folder))
    }

    /// The content of the file `path`, relative to the root.
    ///
    /// # Errors
    /// Those of reading a file.
    pub fn content(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(self.root.join(path))
    }

    /// Whether `path`, relative to the root, is a file or folder of the tree.
    pub fn contains(&self, path: &Path) -> bool {
        self.files.contains(path) || self.folders.contains(path)
    }

    /// Whether the path of some file ends with the components of `path`.
    pub fn has_file_ending(&self, path: &Path) -> bool {
        self.files.iter().any(|file| file.ends_with(path))
    }

    /// Whether `path`, relative to the root, is a folder of the tree.
    pub fn has_folder(&self, path: &Path) -> bool {
        self.folders.contains(path)
    }
}

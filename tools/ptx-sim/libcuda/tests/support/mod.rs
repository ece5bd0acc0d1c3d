//! Provides the library under the name by which programs look for libcuda.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A folder with the simulated driver, as `libcuda.so.1` and `libcuda.so`.
pub fn library_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["libcuda.so.1", "libcuda.so"] {
        symlink(library(), folder.path().join(name)).expect("a link to the library");
    }
    folder
}

/// The library that Cargo has built for this test: beside the test, or one folder up.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this program");
    let folders = test.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join("liblibcuda_sim.so")).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("no liblibcuda_sim.so near {}", test.display()))
}

/// A value of `LD_LIBRARY_PATH` that begins with `folder`.
pub fn library_path(folder: &Path) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("LD_LIBRARY_PATH") {
        path.push(":");
        path.push(rest);
    }
    path
}

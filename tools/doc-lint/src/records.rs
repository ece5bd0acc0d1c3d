//! Records of measurements: how many bytes they take together, and whether a commit has the sources that were measured.

use std::io;
use std::path::Path;

use crate::{Problem, Tree};

/// Most bytes of a folder of records.
pub const LIMIT: usize = 3_000_000;

/// Records in `folder` of sources that no commit has, and the folder if its files have more than [`LIMIT`] bytes.
///
/// # Errors
/// Those of reading a file.
pub fn check(tree: &Tree, folder: &Path) -> io::Result<Vec<Problem>> {
    let mut problems = Vec::new();
    let mut bytes = 0;
    for path in tree.files_in(folder) {
        let content = tree.content(path)?;
        bytes += content.len();
        if let Some(line) = line_of_dirty_commit(&String::from_utf8_lossy(&content)) {
            let what = "a record of a commit with `-dirty`: measure again at a clean commit".into();
            problems.push(Problem { document: path.to_owned(), line, what });
        }
    }
    if bytes > LIMIT {
        let what =
            format!("{bytes} bytes of records and pages, over {LIMIT}: leave records to the history of the repository");
        problems.push(Problem { document: folder.to_owned(), line: 1, what });
    }
    Ok(problems)
}

/// The first line of `text` with a field `git_commit` that ends in `-dirty`.
fn line_of_dirty_commit(text: &str) -> Option<usize> {
    const FIELD: &str = "\"git_commit\"";
    let is_dirty = |(at, _): &(usize, &str)| {
        text[at + FIELD.len()..].split('"').nth(1).is_some_and(|commit| commit.ends_with("-dirty"))
    };
    let (at, _) = text.match_indices(FIELD).find(is_dirty)?;
    Some(text[..at].matches('\n').count() + 1)
}

//! Files and folders of the workspace that documents name in code spans.

use std::path::Path;

use crate::{Document, Problem, Tree};

/// Characters of patterns and placeholders, which are not file names.
const NOT_IN_PATHS: &[char] = &[' ', '*', '{', '}', '<', '>', '(', ')', '$', '…', '=', '"'];

/// Code spans that name a missing file or folder: paths from a top-level folder of the workspace, and Rust files by the end
/// of their path.
pub fn check(tree: &Tree, documents: &[Document]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for document in documents {
        for span in &document.code_spans {
            if !exists(tree, &span.text) {
                problems.push(document.problem(span.line, format!("`{}` is not in the workspace", span.text)));
            }
        }
    }
    problems
}

/// Whether `name` is in the tree, or no path of the workspace to begin with.
fn exists(tree: &Tree, name: &str) -> bool {
    if name.contains(NOT_IN_PATHS) {
        return true;
    }
    let path = Path::new(without_line(name));
    let top_level = path.components().next().map(|first| Path::new(first.as_os_str()));
    match top_level {
        Some(folder) if name.contains('/') && tree.has_folder(folder) => tree.contains(path),
        _ if path.extension().is_some_and(|extension| extension == "rs") => tree.has_file_ending(path),
        _ => true,
    }
}

/// `file` of `file:line`.
fn without_line(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((file, line)) if !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()) => file,
        _ => name,
    }
}

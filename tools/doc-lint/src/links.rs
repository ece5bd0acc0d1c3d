//! Links between documents, and to files.

use std::path::{Component, Path, PathBuf};

use crate::{Document, Problem, Tree};

/// Relative links in `documents` to missing files or to missing headings.
pub fn check(tree: &Tree, documents: &[Document]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for document in documents {
        for destination in &document.destinations {
            if let Err(what) = follow(tree, documents, document, &destination.text) {
                problems.push(document.problem(destination.line, what));
            }
        }
    }
    problems
}

fn follow(tree: &Tree, documents: &[Document], from: &Document, destination: &str) -> Result<(), String> {
    if destination.contains("://") || destination.starts_with("mailto:") {
        return Ok(());
    }
    let (file, anchor) = destination.split_once('#').map_or((destination, None), |(file, a)| (file, Some(a)));
    let target = match file {
        "" => from.path.clone(),
        _ => resolve(&from.path, file).ok_or_else(|| format!("link to `{destination}` leaves the workspace"))?,
    };
    if !tree.contains(&target) {
        return Err(format!("link to `{destination}`: there is no {}", target.display()));
    }
    let Some(anchor) = anchor else { return Ok(()) };
    match documents.iter().find(|document| document.path == target) {
        Some(document) if !document.anchors.contains(anchor) => {
            Err(format!("link to `{destination}`: {} has no heading `#{anchor}`", target.display()))
        }
        _ => Ok(()),
    }
}

/// Target of `destination` in the document `from`, relative to the root; `None` if it leaves the root.
fn resolve(from: &Path, destination: &str) -> Option<PathBuf> {
    let mut path = from.parent()?.to_owned();
    for component in Path::new(destination).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => path.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

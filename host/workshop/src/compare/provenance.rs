//! Whether a record is of the kernels that it is said to be of.

use contract::manifest::Manifest;

use crate::error::{Error, Result};
use crate::record::{BenchRecord, Implementation, Row};

/// Requires that every kernel of ours in `record`, of all contenders or only of those called `contenders`, is one of the PTX that
/// `manifest` describes: a record of older kernels is slower than what is to be held, and hides what was lost since.
///
/// # Errors
/// [`Error::Invalid`] with the first kernel that is not, or when there is none.
pub fn require_measured_with(manifest: &Manifest, record: &BenchRecord, contenders: &[String]) -> Result<()> {
    let wanted = |row: &&Row| contenders.is_empty() || contenders.contains(&row.contender);
    let mut kernels = 0;
    for row in record.rows.iter().filter(wanted) {
        let Some(Implementation::Ptx { kernel, file, sha256, code_generator, git_commit, .. }) = &row.implementation
        else {
            continue;
        };
        if code_generator.name != manifest.code_generator.name {
            continue;
        }
        kernels += 1;
        let module = manifest.modules.iter().find(|module| module.file == *file);
        if module.is_some_and(|module| module.sha256 == *sha256) {
            continue;
        }
        let is = module.map_or("is not there".to_owned(), |module| format!("has SHA-256 {}", short(&module.sha256)));
        let commit = git_commit.as_deref().map_or(String::new(), |commit| format!(", of commit {}", short(commit)));
        return Err(Error::Invalid(format!(
            "it is of other kernels: {} ran {} from a {file} with SHA-256 {}{commit}, and that of this PTX {is}; measure these kernels \
             (fa512 bench --json FILE) and put the record in its place",
            row.contender,
            kernel.entry,
            short(sha256)
        )));
    }
    match kernels {
        0 => Err(Error::Invalid("it has no kernel of ours, so that it cannot be of this PTX".into())),
        _ => Ok(()),
    }
}

/// The beginning of a digest, which tells it from others.
fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

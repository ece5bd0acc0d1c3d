//! Checks that a record was measured with the expected kernels.

use contract::manifest::Manifest;

use crate::error::{Error, Result};
use crate::record::{BenchRecord, Implementation, Row};

/// Checks that each of our kernels in `record` (all contenders, or only those in `contenders`) is in the PTX that
/// `manifest` describes. A record of older, slower kernels would hide regressions.
///
/// # Errors
/// [`Error::Invalid`] names the first kernel that is not, or says that there is none of ours.
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

/// The beginning of a digest, enough to distinguish it.
fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

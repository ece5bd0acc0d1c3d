//! Which tuned table a command takes.

use std::path::PathBuf;

use workshop::error::Result;
use workshop::ptx_folder::PtxFolder;
use workshop::tune::table::Table;

/// The option that names a tuned table.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct TunedOption {
    /// Tuned table, which names the fastest entry for each class of problems on a GPU [default: the built-in one]
    #[arg(long, value_name = "FILE", help_heading = "PTX")]
    tuned: Option<PathBuf>,
}

impl TunedOption {
    /// `folder` with the table that is named.
    ///
    /// # Errors
    /// As for [`Table::open`].
    pub fn apply(&self, folder: PtxFolder) -> Result<PtxFolder> {
        match &self.tuned {
            Some(path) => Ok(folder.with_tuned(Table::open(Some(path))?)),
            None => Ok(folder),
        }
    }
}

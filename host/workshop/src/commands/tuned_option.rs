//! The option that selects a tuned table.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::ptx_folder::PtxFolder;
use crate::tuned_table::Table;

/// The option that names a tuned table.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct TunedOption {
    /// Tuned table, which names the fastest entry for each class of problems on a GPU [default: the built-in one]
    #[arg(long, value_name = "FILE", help_heading = "PTX")]
    tuned: Option<PathBuf>,
}

impl TunedOption {
    /// `folder` with the selected table.
    ///
    /// # Errors
    /// As for [`Table::open`].
    pub fn apply(&self, folder: PtxFolder) -> Result<PtxFolder> {
        Ok(match self.table()? {
            Some(table) => folder.with_tuned(table),
            None => folder,
        })
    }

    /// The option's name and path, if it is given.
    pub fn source(&self) -> Option<(&'static str, &Path)> {
        self.tuned.as_deref().map(|path| ("--tuned", path))
    }

    /// The selected table.
    ///
    /// # Errors
    /// As for [`Table::open`].
    pub fn table(&self) -> Result<Option<Table>> {
        self.tuned.as_deref().map(|path| Table::open(Some(path))).transpose()
    }
}

//! The options that select the PTX of a command.

use std::path::PathBuf;

use crate::error::Result;
use crate::ptx_folder::PtxFolder;

/// The options that name a PTX folder.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct PtxOptions {
    /// Folder of PTX files and their manifest [default: FA512_PTX_DIR, else ptx near the program]
    #[arg(long, value_name = "FOLDER", help_heading = "PTX")]
    ptx: Option<PathBuf>,
    /// Use the PTX of this code generator (rustc, rust-cuda, or cuda for the CUDA C++ twins), from the folder ptx-NAME
    /// beside that of rustc
    #[arg(long, value_name = "NAME", help_heading = "PTX")]
    codegen: Option<String>,
}

impl PtxOptions {
    /// Reads the folder.
    ///
    /// # Errors
    /// As for [`PtxFolder::find_by`].
    pub fn find(&self) -> Result<PtxFolder> {
        PtxFolder::find_by(self.ptx.as_deref(), self.codegen.as_deref())
    }

    /// Whether the options name a folder other than the default one.
    pub fn is_given(&self) -> bool {
        self.ptx.is_some() || self.codegen.is_some()
    }
}

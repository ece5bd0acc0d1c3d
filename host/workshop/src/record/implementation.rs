//! What ran under a contender's name.

use std::collections::BTreeMap;

use contract::config::TileConfig;
use contract::manifest::CodeGenerator;
use serde::{Deserialize, Serialize};

/// The code that was measured, exactly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Implementation {
    /// An entry of a PTX folder.
    Ptx {
        /// Name of the entry.
        entry: String,
        /// Its tile configuration.
        config: TileConfig,
        /// Blocks of the grid.
        blocks: u32,
        /// Threads of a block.
        threads: u32,
        /// Dynamic shared memory of a block, bytes.
        dynamic_shared_bytes: u32,
        /// The PTX file.
        file: String,
        /// SHA-256 of the file.
        sha256: String,
        /// The compiler that wrote it.
        code_generator: CodeGenerator,
        /// Commit of its source.
        git_commit: Option<String>,
    },
    /// A function of a library in another process.
    Library {
        /// What was called, as in `torch.nn.functional.scaled_dot_product_attention (cudnn)`.
        function: String,
        /// Versions by name, as in `torch` → `2.11.0`.
        versions: BTreeMap<String, String>,
    },
}

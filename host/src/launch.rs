//! A launch that was validated before it exists.

use kernel_gpu::args::ForwardArgs;

/// One kernel launch. Only planned and validated launches can be made, so an executor can trust its fields.
#[derive(Clone, Debug)]
pub struct Launch {
    entry: String,
    blocks: u32,
    threads: u32,
    dynamic_shared_bytes: u32,
    args: ForwardArgs,
}

impl Launch {
    /// Name of the `.entry`.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// Blocks of the grid (x dimension; y and z are 1).
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Threads of a block (x dimension; y and z are 1).
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Dynamic shared memory of a block, bytes.
    pub fn dynamic_shared_bytes(&self) -> u32 {
        self.dynamic_shared_bytes
    }

    /// The kernel's only argument.
    pub fn args(&self) -> &ForwardArgs {
        &self.args
    }
}

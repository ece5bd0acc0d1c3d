//! Functions: the launchable entries of modules.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::architecture::{DEFAULT_SHARED_BYTES, REGISTERS, THREADS_PER_BLOCK, WARP};
use crate::declarations::EntryDeclaration;
use crate::error::{Error, Result};
use crate::image::{Image, Parameter};
use crate::objects::{Context, Function};

impl Function {
    pub(crate) fn new(context: &Arc<Context>, image: &Arc<Image>, declaration: &EntryDeclaration) -> Self {
        let fixed = u32::try_from(declaration.shared_bytes).unwrap_or(u32::MAX);
        Self {
            context: context.clone(),
            image: image.clone(),
            parameters: image.parameters(&declaration.name),
            declaration: declaration.clone(),
            max_dynamic_shared_bytes: AtomicU32::new(DEFAULT_SHARED_BYTES.saturating_sub(fixed)),
        }
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The name of the entry.
    pub fn name(&self) -> &str {
        &self.declaration.name
    }

    /// Its parameters, in order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Size of the parameter buffer, bytes.
    pub fn parameter_bytes(&self) -> u64 {
        self.parameters.last().map_or(0, |last| last.offset + last.bytes)
    }

    /// Maximum threads of a block.
    pub fn max_threads(&self) -> u32 {
        let declared = self.declaration.required_threads.or(self.declaration.maximum_threads);
        declared.unwrap_or(THREADS_PER_BLOCK).min(THREADS_PER_BLOCK)
    }

    /// The cluster size that the function requires (`.reqnctapercluster`), in each dimension.
    pub fn required_cluster(&self) -> Option<[u32; 3]> {
        self.image.module.required_cluster(self.name())
    }

    /// Whether launches must specify a cluster size.
    pub fn needs_cluster(&self) -> bool {
        self.image.module.needs_cluster(self.name())
    }

    /// Static shared memory of a block, bytes.
    pub fn shared_bytes(&self) -> u64 {
        self.declaration.shared_bytes
    }

    /// Local memory of a thread, bytes.
    pub fn local_bytes(&self) -> u64 {
        self.declaration.local_bytes
    }

    /// Constant memory used, bytes.
    pub fn constant_bytes(&self) -> u64 {
        self.declaration.constant_bytes
    }

    /// 32-bit registers per thread. The simulator does not allocate registers: this is the most that the launch bounds
    /// allow, or without bounds the most that does not limit the occupancy.
    pub fn registers(&self) -> u32 {
        const WITHOUT_BOUNDS: u32 = 32;
        const MOST: u32 = 255;
        let blocks = self.declaration.minimum_blocks.unwrap_or(1).max(1);
        let declared = self.declaration.required_threads.or(self.declaration.maximum_threads);
        let bound = declared.map(|threads| {
            let threads = threads.max(1).next_multiple_of(WARP).saturating_mul(blocks);
            (REGISTERS / threads / 8 * 8).clamp(16, MOST)
        });
        self.declaration.maximum_registers.or(bound).unwrap_or(WITHOUT_BOUNDS)
    }

    /// The virtual architecture that it was compiled for: 80 for `.target sm_80`. The driver calls it the PTX version;
    /// CUB selects its tuning parameters by it.
    pub fn ptx_version(&self) -> u32 {
        let digits = self.image.module.target().trim_matches(|letter: char| !letter.is_ascii_digit());
        digits.parse().unwrap_or(0)
    }

    /// Maximum dynamic shared memory of a launch, bytes.
    pub fn max_dynamic_shared_bytes(&self) -> u32 {
        self.max_dynamic_shared_bytes.load(Relaxed)
    }

    /// Allows launches `bytes` of dynamic shared memory (`CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`).
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`](crate::Code::INVALID_VALUE) if a block cannot have that much beside its static shared
    /// memory.
    pub fn allow_dynamic_shared(&self, bytes: u32) -> Result<()> {
        let limit = self.context.machine().config().architecture.shared_bytes_per_block;
        let fixed = self.shared_bytes();
        if fixed + u64::from(bytes) > u64::from(limit) {
            return Err(Error::invalid(format!(
                "{} cannot have {bytes} bytes of dynamic shared memory beside {fixed} static ones: a block has at most {limit}",
                self.name()
            )));
        }
        self.max_dynamic_shared_bytes.store(bytes, Relaxed);
        Ok(())
    }
}

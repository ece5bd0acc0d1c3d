//! From a problem to a launch: the kernel, its geometry, its tensors.

use contract::config::ELEMENT_BYTES;
use contract::limits::LENGTHS_ALIGNMENT;
use contract::parts::Workspace;
use contract::plan::{self, Addresses, SLOPE_BYTES, lengths_elements};
use contract::problem::Problem;
use contract::refusal::Tensor;

use crate::driver::Driver;
use crate::error::Error;
use crate::gpu::Gpu;
use crate::kernels::Kernel;
use crate::memory::{self, Place};
use crate::select;
use crate::stream::Stream;
use crate::submit::{encode_tensor_maps, submit};

/// Bytes of an LSE element, an f32.
pub const LSE_ELEMENT_BYTES: u64 = 4;

/// A planned launch for a problem on a GPU, without the addresses of its tensors. A plain value: it may be kept,
/// copied, and used from many threads.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    gpu: Gpu,
    kernel: Kernel,
    plan: plan::Plan<'static>,
}

impl Plan {
    /// Chooses the kernel for `problem` on `gpu` and plans its launch. A pure computation: no driver call, no
    /// allocation.
    ///
    /// # Errors
    /// When no kernel computes the problem on the GPU.
    pub fn new(problem: &Problem, gpu: &Gpu) -> Result<Self, Error> {
        Self::of(problem, gpu, Workspace::None)
    }

    /// The same for a caller that provides a workspace of [`Self::workspace_bytes`]. If the problem has few query tiles with
    /// many keys, and the GPU has no clusters (or Hopper's kernels do not compute it), the keys are split among more blocks, which
    /// pass their results through the workspace, and a second launch combines them.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn with_workspace(problem: &Problem, gpu: &Gpu) -> Result<Self, Error> {
        Self::of(problem, gpu, Workspace::Provided)
    }

    /// The plan with or without a workspace.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub(crate) fn of(problem: &Problem, gpu: &Gpu, workspace: Workspace) -> Result<Self, Error> {
        let plan = select::choose(problem, gpu, workspace)?.plan;
        Ok(Self { gpu: *gpu, kernel: Kernel::of(plan.variant().entry)?, plan })
    }

    /// Bytes of the workspace that the launches need ([`Addresses::workspace`]); 0 if they need none.
    pub fn workspace_bytes(&self) -> u64 {
        self.plan.workspace_bytes()
    }

    /// Name of the kernel.
    pub fn entry(&self) -> &'static str {
        self.plan.variant().entry
    }

    /// The GPU that the plan is for.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Number of blocks in the grid.
    pub fn blocks(&self) -> u32 {
        self.plan.blocks() * self.plan.parts()
    }

    /// Loads the kernel, unless it is loaded, into the current context.
    ///
    /// # Errors
    /// When the driver cannot load it.
    pub fn warm_up(&self) -> Result<(), Error> {
        let gpu = self.gpu.ordinal().ok_or(Error::OtherGpu { planned: None })?;
        self.kernel.warm_up(Driver::get()?, gpu)
    }

    /// The launch on the tensors at `addresses`. Checks alignment and overlap, and encodes tensor maps, all on the host
    /// (`cuTensorMapEncodeTiled`).
    ///
    /// # Errors
    /// When an address is null or misaligned, or an output overlaps another tensor.
    pub fn bind(&self, addresses: Addresses) -> Result<Launch, Error> {
        let mut launch = self.plan.bind(addresses)?;
        encode_tensor_maps(&mut launch)?;
        Ok(Launch { gpu: self.gpu, kernel: self.kernel, launch, overlap: true })
    }

    /// Requires the tensors at `addresses` to lie in memory of `place`.
    pub(crate) fn check_memory(&self, driver: &Driver, place: Place, addresses: &Addresses) -> Result<(), Error> {
        check_forward_memory(driver, place, self.plan.problem(), addresses, self.workspace_bytes())
    }
}

/// Requires the tensors of a forward pass at `addresses` to lie in memory of `place`.
pub(crate) fn check_forward_memory(
    driver: &Driver,
    place: Place,
    problem: &Problem,
    addresses: &Addresses,
    workspace_bytes: u64,
) -> Result<(), Error> {
    let check = |tensor, address: u64| {
        let first = address.saturating_add(problem.views().of(tensor).offset * ELEMENT_BYTES);
        memory::check(driver, place, tensor, first, problem.extent(tensor) * ELEMENT_BYTES)
    };
    check(Tensor::Q, addresses.q)?;
    check(Tensor::K, addresses.k)?;
    check(Tensor::V, addresses.v)?;
    check(Tensor::O, addresses.o)?;
    for (tensor, address) in addresses.lengths() {
        if let Some((elements, address)) = lengths_elements(problem, tensor).zip(address) {
            memory::check(driver, place, tensor, address, elements * LENGTHS_ALIGNMENT)?;
        }
    }
    // `Problem::with_score_mod` and `Plan::bind` checked that both fit 64 bits.
    let (score_mod, shape) = (problem.score_mod(), problem.shape());
    if let Some((elements, bias)) = score_mod.bias_extent(shape).zip(addresses.bias) {
        memory::check(driver, place, Tensor::Bias, bias, elements * ELEMENT_BYTES)?;
    }
    if let Some((elements, slopes)) = score_mod.slopes(shape, problem.packing()).zip(addresses.alibi_slopes) {
        memory::check(driver, place, Tensor::Slopes, slopes, elements * SLOPE_BYTES)?;
    }
    if let Some(workspace) = addresses.workspace.filter(|_| workspace_bytes > 0) {
        memory::check(driver, place, Tensor::Workspace, workspace, workspace_bytes)?;
    }
    let Some(lse) = addresses.lse else { return Ok(()) };
    // A problem's rows fit 64 bits, since its O does.
    memory::check(driver, place, Tensor::Lse, lse, problem.shape().rows() as u64 * LSE_ELEMENT_BYTES)
}

/// A launch bound to tensors. It may be put on streams any number of times.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    gpu: Gpu,
    kernel: Kernel,
    launch: plan::Launch<'static>,
    overlap: bool,
}

impl Launch {
    /// Whether it may begin before the previous launch on the stream ends (programmatic dependent launch). Default:
    /// true. Safe behind any kernel: ours execute `griddepcontrol.wait` before they touch the tensors.
    pub fn overlap(self, overlap: bool) -> Self {
        Self { overlap, ..self }
    }

    /// Puts the launch on `stream` with one driver call (`cuLaunchKernelEx`), or two if it uses a workspace.
    ///
    /// # Errors
    /// When the kernel is not loaded and the stream is capturing, or when the driver refuses the launch.
    ///
    /// # Safety
    /// The calling thread's current context is on the plan's GPU, and the stream belongs to that context and is alive.
    /// The tensors are device memory that this context can access, as large as the problem's views say, until the
    /// launch has completed. Until then nothing else writes them or reads O or LSE, except work queued behind this
    /// launch on the stream.
    pub unsafe fn launch(&self, stream: Stream) -> Result<(), Error> {
        // SAFETY: passed on to the caller.
        unsafe { self.put(Driver::get()?, stream) }
    }

    /// # Safety
    /// As for [`Self::launch`].
    pub(crate) unsafe fn put(&self, driver: &Driver, stream: Stream) -> Result<(), Error> {
        let gpu = self.gpu.ordinal().ok_or(Error::OtherGpu { planned: None })?;
        let kernel = self.kernel.get(driver, gpu, stream)?;
        // SAFETY: `Embedded::find` compared the kernel's parameters with its variant's arguments, and the kernel is
        // never unloaded; the caller vouches for the rest.
        unsafe { submit(driver, kernel, &self.launch, stream, self.overlap) }
    }
}

//! `forward` and what goes with it: options, support queries, loading in advance.

use contract::parts::Workspace;
use contract::plan::Addresses;
use contract::problem::Problem;

use crate::driver::Driver;
use crate::error::Error;
use crate::gpu::{self, Gpu};
use crate::memory::Place;
use crate::plan::Plan;
use crate::recent;
use crate::select;
use crate::stream::Stream;

/// Options of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    overlap: bool,
    check_pointers: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { overlap: true, check_pointers: true }
    }
}

impl Options {
    /// Whether the launch may begin before the previous one on the stream ends
    /// ([`Launch::overlap`](crate::Launch::overlap)). Default: true.
    pub fn overlap(self, overlap: bool) -> Self {
        Self { overlap, ..self }
    }

    /// Whether launches may begin before the previous one ends.
    #[cfg(feature = "cudarc")]
    pub(crate) const fn overlaps(self) -> bool {
        self.overlap
    }

    /// Whether to ask the driver what the addresses point to (`cuPointerGetAttributes`, once per tensor). Default:
    /// true.
    pub fn check_pointers(self, check_pointers: bool) -> Self {
        Self { check_pointers, ..self }
    }
}

/// The kernel that computes a problem on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Support {
    /// Its name.
    pub entry: &'static str,
    /// Why it was chosen.
    pub reason: String,
}

/// The kernel that would compute `problem` on `gpu`, and why.
///
/// # Errors
/// [`Error::Unsupported`], with the reason, when no kernel computes the problem.
pub fn supports(problem: &Problem, gpu: &Gpu) -> Result<Support, Error> {
    let choice = select::choose(problem, gpu, Workspace::None)?;
    Ok(Support { entry: choice.plan.variant().entry, reason: choice.reason.to_string() })
}

/// Loads the kernels of `problems`, with and without a workspace, into the calling thread's current context.
///
/// Without it, the first call that needs a kernel loads it, and waits while the driver compiles. A call on a capturing
/// stream cannot load a kernel and fails instead.
///
/// # Errors
/// When there is no current context, a problem is not supported, or the driver does not load a kernel.
pub fn warm_up(problems: &[Problem]) -> Result<(), Error> {
    let gpu = Gpu::current()?;
    problems.iter().try_for_each(|problem| {
        Plan::new(problem, &gpu)?.warm_up()?;
        Plan::with_workspace(problem, &gpu)?.warm_up()
    })
}

/// Computes `O = softmax(scale · QKᵀ + mask) · V` and, if its address is given, LSE of `problem`, asynchronously on
/// `stream`, with the default [`Options`].
///
/// If a workspace is given, it has the [`Plan::workspace_bytes`] of [`Plan::with_workspace`].
///
/// The GPU is that of the calling thread's current context. Once the kernel is loaded, the call allocates, copies and
/// synchronises nothing and takes no lock.
///
/// # Errors
/// When there is no current context, the problem is not supported, the stream or memory does not belong to the current
/// context, memory is shorter than its tensor, an output overlaps another tensor, or the driver refuses the launch.
/// Nothing is launched then.
///
/// # Safety
/// The stream is alive. The memory stays allocated until the launch has completed. Until then nothing else writes it or
/// reads O or LSE, except work queued behind this launch on the stream.
pub unsafe fn forward(problem: &Problem, addresses: Addresses, stream: Stream) -> Result<(), Error> {
    // SAFETY: passed on to the caller.
    unsafe { forward_with(problem, addresses, stream, Options::default()) }
}

/// [`forward`] with other options.
///
/// # Errors
/// As for [`forward`].
///
/// # Safety
/// As for [`forward`]. With [`Options::check_pointers`] off, the memory also belongs to the current context and is as
/// large as the problem's views say.
pub unsafe fn forward_with(
    problem: &Problem,
    addresses: Addresses,
    stream: Stream,
    options: Options,
) -> Result<(), Error> {
    let driver = Driver::get()?;
    let context = gpu::current_context(driver)?;
    let gpu = Gpu::of_current_context(driver)?;
    stream.check_context(driver, context)?;
    let workspace = if addresses.workspace.is_some() { Workspace::Provided } else { Workspace::None };
    let plan = recent::plan(problem, &gpu, workspace)?;
    let launch = plan.bind(addresses)?.overlap(options.overlap);
    if options.check_pointers {
        let place = Place { context, gpu: gpu.ordinal().ok_or(Error::OtherGpu { planned: None })? };
        plan.check_memory(driver, place, &addresses)?;
    }
    // SAFETY: the plan is for the current context's GPU, and the stream was checked to belong to that context; the
    // caller vouches for the rest.
    unsafe { launch.put(driver, stream) }
}

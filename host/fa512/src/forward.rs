//! `forward` and what goes with it: options, support queries, loading in advance.

use contract::config::ELEMENT_BYTES;
use contract::parts::Workspace;
use contract::plan::Addresses;
use contract::problem::Problem;
use contract::refusal::Tensor;
use contract::view::View;

use crate::driver::Driver;
use crate::error::Error;
use crate::gpu::{self, Gpu};
use crate::memory::{self, Place};
use crate::plan::{LSE_ELEMENT_BYTES, Plan};
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

    /// Whether the driver is asked what the addresses point to.
    pub(crate) const fn checks_pointers(self) -> bool {
        self.check_pointers
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

/// Writes what queries get that have no key, asynchronously on `stream`: zeros to O of `problem`, which lies at address `o`, and −∞ to LSE, if
/// its address is given. Every row is written, also those of packed sequences and padded batches that `seqused_q` excludes.
///
/// For tensors K and V without rows, of which there is no [`Problem`]: K and V of this one do not matter.
///
/// # Errors
/// When there is no current context, the stream or memory does not belong to it, memory is shorter than its tensor, or the driver refuses.
///
/// # Safety
/// As for [`forward_with`].
pub unsafe fn forward_without_keys(
    problem: &Problem,
    o: u64,
    lse: Option<u64>,
    stream: Stream,
    options: Options,
) -> Result<(), Error> {
    let driver = Driver::get()?;
    let context = gpu::current_context(driver)?;
    stream.check_context(driver, context)?;
    let (shape, View { offset, strides }) = (problem.shape(), problem.views().o);
    let first = o.saturating_add(offset * ELEMENT_BYTES);
    let lse_bytes = shape.rows() as u64 * LSE_ELEMENT_BYTES;
    if options.check_pointers {
        let gpu = Gpu::of_current_context(driver)?;
        let place = Place { context, gpu: gpu.ordinal().ok_or(Error::OtherGpu { planned: None })? };
        memory::check(driver, place, Tensor::O, first, problem.extent(Tensor::O) * ELEMENT_BYTES)?;
        if let Some(lse) = lse {
            memory::check(driver, place, Tensor::Lse, lse, lse_bytes)?;
        }
    }
    // Rows of words, `pitch` bytes apart.
    let fill = |start: u64, pitch: u64, value: u32, [words, rows]: [u32; 2]| {
        let [pitch, words, rows] = [pitch as usize, words as usize, rows as usize];
        // SAFETY: rows of O or of LSE, which the caller vouches for, or which were checked.
        let code = unsafe { (driver.call.memset_2d)(start, pitch, value, words, rows, stream.handle()) };
        driver.check(code, || "filling the results of queries without keys")
    };
    let row_bytes = u64::from(shape.head_dim) * ELEMENT_BYTES;
    let pitch = if shape.sequence > 1 { strides.row * ELEMENT_BYTES } else { row_bytes };
    for (batch, head) in (0..shape.batch).flat_map(|batch| (0..shape.heads).map(move |head| (batch, head))) {
        let start = first + (u64::from(batch) * strides.batch + u64::from(head) * strides.head) * ELEMENT_BYTES;
        fill(start, pitch, 0, [(row_bytes / 4) as u32, shape.sequence])?;
    }
    let Some(lse) = lse else { return Ok(()) };
    let pitch = u64::from(shape.sequence) * LSE_ELEMENT_BYTES;
    for entry in 0..u64::from(shape.batch) {
        let start = lse + entry * u64::from(shape.heads) * pitch;
        fill(start, pitch, f32::NEG_INFINITY.to_bits(), [shape.sequence, shape.heads])?;
    }
    Ok(())
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

//! The call.

use contract::plan::Addresses;
use contract::problem::Problem;

use crate::driver::Driver;
use crate::error::Error;
use crate::gpu::{self, Gpu};
use crate::memory::Place;
use crate::plan::Plan;
use crate::select;
use crate::stream::Stream;

/// How a call is made.
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
    /// Whether the launch may begin while the one in front of it on the stream ends, as it may unless this says otherwise
    /// ([`Launch::overlap`](crate::Launch::overlap)).
    pub fn overlap(self, overlap: bool) -> Self {
        Self { overlap, ..self }
    }

    /// Whether the driver is asked what the addresses point to (`cuPointerGetAttributes`, once for each tensor), as it is
    /// unless this says otherwise.
    pub fn check_pointers(self, check_pointers: bool) -> Self {
        Self { check_pointers, ..self }
    }
}

/// A kernel that computes a problem on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Support {
    /// Its name.
    pub entry: &'static str,
    /// Why it and none of the others.
    pub reason: String,
}

/// The kernel that would compute `problem` on `gpu`, and why.
///
/// # Errors
/// When there is none: [`Error::Unsupported`] says why.
pub fn supports(problem: &Problem, gpu: &Gpu) -> Result<Support, Error> {
    let choice = select::choose(problem, gpu)?;
    Ok(Support { entry: choice.plan.variant().entry, reason: choice.reason.to_string() })
}

/// Loads the kernels of `problems` for the GPU of the calling thread's current context, and into that context. Without it,
/// each is loaded by the first call that takes it, which waits while the driver compiles; and a call on a stream that
/// captures cannot wait.
///
/// # Errors
/// When there is no current context, a problem is not supported, or the driver does not load a kernel.
pub fn warm_up(problems: &[Problem]) -> Result<(), Error> {
    let gpu = Gpu::current()?;
    problems.iter().try_for_each(|problem| Plan::new(problem, &gpu)?.warm_up())
}

/// Puts `O = softmax(scale · QKᵀ + mask) · V` and, where its address is given, LSE of `problem` on `stream`, with the default
/// [`Options`].
///
/// The GPU is that of the calling thread's current context. Nothing is allocated, copied or synchronised, and no lock is
/// taken, once the kernel is loaded.
///
/// # Errors
/// When there is no current context, the problem is not supported, the stream or memory is not of the current context, memory
/// is shorter than its tensor, an output overlaps another tensor, or the driver refuses the launch. Nothing is launched then.
///
/// # Safety
/// The stream is alive. The memory stays allocated until the stream has come to the end of the launch; until then nobody else
/// writes it or reads O or LSE, but behind this launch on the stream.
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
/// As for [`forward`]; with [`Options::check_pointers`] switched off, the memory is that of the current context and as large as
/// the problem's views say.
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
    let plan = Plan::new(problem, &gpu)?;
    let launch = plan.bind(addresses)?.overlap(options.overlap);
    if options.check_pointers {
        let place = Place { context, gpu: gpu.ordinal().ok_or(Error::OtherGpu { planned: None })? };
        plan.check_memory(driver, place, &addresses)?;
    }
    // SAFETY: the plan is for the current context's GPU and the stream is of that context, which was checked; the rest is
    // passed on to the caller.
    unsafe { launch.put(driver, stream) }
}

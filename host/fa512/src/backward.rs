//! `backward`: gradients of attention.

use contract::backward::plan::{BackwardAddresses, BackwardPlan, Sums};
use contract::config::ELEMENT_BYTES;
use contract::gradient::Gradient;
use contract::refusal::{Refusal, Tensor};

use crate::driver::Driver;
use crate::error::Error;
use crate::forward::{Options, Support};
use crate::gpu::{self, Gpu};
use crate::kernels::Kernel;
use crate::memory::{self, Place};
use crate::plan::check_forward_memory;
use crate::recent;
use crate::stream::Stream;
use crate::submit::submit_backward;

/// The kernel that would compute `gradient` on `gpu`, and why.
///
/// # Errors
/// [`Error::Unsupported`], with the reason, when no kernel computes the gradient.
pub fn supports_backward(gradient: &Gradient, gpu: &Gpu) -> Result<Support, Error> {
    let entry = plan(gradient, gpu, Sums::Nowhere)?.variant().entry;
    Ok(Support {
        entry,
        reason: "of those for this mask, type and head size it is the one for this GPU and so many rows".into(),
    })
}

/// Loads the kernel of `gradient` into the calling thread's current context, as [`warm_up`](crate::warm_up) does those of problems.
///
/// # Errors
/// When there is no current context, the gradient is not supported, or the driver does not load the kernel.
pub fn warm_up_backward(gradient: &Gradient) -> Result<(), Error> {
    let gpu = Gpu::current()?;
    let (driver, ordinal) = (Driver::get()?, gpu.ordinal().ok_or(Error::OtherGpu { planned: None })?);
    // With a workspace, too, which a call may have.
    [Sums::Nowhere, Sums::WhereFaster]
        .into_iter()
        .try_for_each(|sums| Kernel::of_backward(plan(gradient, &gpu, sums)?.variant())?.warm_up(driver, ordinal))
}

/// Bytes of the workspace with which `gradient` is computed faster on `gpu`; 0 if none is of use, as up to 512 queries a head.
///
/// # Errors
/// As for [`supports_backward`].
pub fn backward_workspace_bytes(gradient: &Gradient, gpu: &Gpu) -> Result<u64, Error> {
    workspace_bytes(gradient, gpu, Sums::WhereFaster)
}

/// [`backward_workspace_bytes`] for [`backward_by_sums`].
///
/// # Errors
/// As for [`supports_backward`].
#[doc(hidden)]
pub fn backward_by_sums_workspace_bytes(gradient: &Gradient, gpu: &Gpu) -> Result<u64, Error> {
    workspace_bytes(gradient, gpu, Sums::Wherever)
}

fn workspace_bytes(gradient: &Gradient, gpu: &Gpu, sums: Sums) -> Result<u64, Error> {
    // For a GPU of this machine, the call that follows needs the same plan.
    let plan = if gpu.ordinal().is_some() { recent_plan(gradient, gpu, sums) } else { plan(gradient, gpu, sums) };
    Ok(plan?.workspace_bytes())
}

/// Computes dQ, dK and dV of `gradient`, and dBias if it has one, asynchronously on `stream`, with the default [`Options`]. O and LSE are those of the forward pass, of
/// [`forward()`](crate::forward()) or of any other exact attention.
///
/// Equal inputs give equal bits on equal GPUs, with a workspace or without; the two may differ. A workspace has
/// [`backward_workspace_bytes`], and nothing has to be written to it before.
///
/// # Errors
/// When there is no current context, the gradient is not supported, the stream or memory does not belong to the current context, memory is
/// shorter than its tensor, a gradient overlaps another tensor, or the driver refuses the launch. Nothing is launched then.
///
/// # Safety
/// The stream is alive. The memory stays allocated until the launch has completed. Until then nothing else writes it or reads dQ, dK or dV,
/// except work queued behind this launch on the stream.
pub unsafe fn backward(gradient: &Gradient, addresses: BackwardAddresses, stream: Stream) -> Result<(), Error> {
    // SAFETY: passed on to the caller.
    unsafe { backward_with(gradient, addresses, stream, Options::default()) }
}

/// [`backward`] with other options. [`Options::overlap`] has no effect: the launch begins when the one before it has ended.
///
/// # Errors
/// As for [`backward`].
///
/// # Safety
/// As for [`backward`]. With [`Options::check_pointers`] off, the memory also belongs to the current context and is as large as the views say.
pub unsafe fn backward_with(
    gradient: &Gradient,
    addresses: BackwardAddresses,
    stream: Stream,
    options: Options,
) -> Result<(), Error> {
    let sums = addresses.forward.workspace.map_or(Sums::Nowhere, |_| Sums::WhereFaster);
    // SAFETY: passed on to the caller.
    unsafe { submit(gradient, addresses, stream, options, sums) }
}

/// [`backward`] by the kernels that sum in a workspace, wherever they compute the gradient: for tests, which have no time for gradients that these
/// are chosen for.
///
/// # Errors
/// As for [`backward`].
///
/// # Safety
/// As for [`backward`].
#[doc(hidden)]
pub unsafe fn backward_by_sums(gradient: &Gradient, addresses: BackwardAddresses, stream: Stream) -> Result<(), Error> {
    // SAFETY: passed on to the caller.
    unsafe { submit(gradient, addresses, stream, Options::default(), Sums::Wherever) }
}

/// # Safety
/// As for [`backward_with`].
unsafe fn submit(
    gradient: &Gradient,
    addresses: BackwardAddresses,
    stream: Stream,
    options: Options,
    sums: Sums,
) -> Result<(), Error> {
    let driver = Driver::get()?;
    let context = gpu::current_context(driver)?;
    let gpu = Gpu::of_current_context(driver)?;
    stream.check_context(driver, context)?;
    let plan = match sums {
        Sums::Nowhere => without_workspace(gradient, &gpu)?,
        _ => recent_plan(gradient, &gpu, sums)?,
    };
    let mut launch = plan.bind(addresses)?;
    let ordinal = gpu.ordinal().ok_or(Error::OtherGpu { planned: None })?;
    if options.checks_pointers() {
        check_memory(driver, Place { context, gpu: ordinal }, &plan, &addresses)?;
    }
    let kernel = Kernel::of_backward(plan.variant())?.get(driver, ordinal, stream)?;
    // SAFETY: the plan is for the current context's GPU, and the stream was checked to belong to that context; `Embedded::find` compared the
    // kernel's parameter with the argument. The caller vouches for the rest.
    unsafe { submit_backward(driver, kernel, &mut launch, stream) }
}

/// The plan of a call without a workspace. Where none is of use, it is the plan of a call with one, so that the thread keeps one of the two.
fn without_workspace(gradient: &Gradient, gpu: &Gpu) -> Result<BackwardPlan, Error> {
    let plan = recent_plan(gradient, gpu, Sums::WhereFaster)?;
    if plan.workspace_bytes() == 0 { Ok(plan) } else { recent_plan(gradient, gpu, Sums::Nowhere) }
}

/// [`plan`] for a GPU of this machine, computed once for a gradient that comes again soon.
fn recent_plan(gradient: &Gradient, gpu: &Gpu, sums: Sums) -> Result<BackwardPlan, Error> {
    recent::backward_plan(gradient, gpu, sums, || plan(gradient, gpu, sums))
}

/// Plans the launch of `gradient`. What the contract refuses because no kernel computes it is an [`Error::Unsupported`].
fn plan(gradient: &Gradient, gpu: &Gpu, sums: Sums) -> Result<BackwardPlan, Error> {
    BackwardPlan::new(gradient, gpu.facts(), sums).map_err(|refusal| match refusal {
        Refusal::TooManyWorkItems { .. } => refusal.into(),
        other => {
            let why = other.to_string();
            Error::Unsupported { gpu: gpu.name().to_owned(), each: why.clone(), why }
        }
    })
}

/// Requires the tensors of a plan at `addresses`, and its workspace, to lie in memory of `place`.
fn check_memory(
    driver: &Driver,
    place: Place,
    plan: &BackwardPlan,
    addresses: &BackwardAddresses,
) -> Result<(), Error> {
    let gradient = plan.gradient();
    let BackwardAddresses { forward, d_o, dq, dk, dv, d_bias } = *addresses;
    let tensors = [(Tensor::DO, d_o), (Tensor::DQ, dq), (Tensor::DK, dk), (Tensor::DV, dv)];
    for (tensor, address) in tensors {
        let Some((offset, elements)) = gradient.extent(tensor) else { continue };
        memory::check(driver, place, tensor, address.saturating_add(offset * ELEMENT_BYTES), elements * ELEMENT_BYTES)?;
    }
    if let (Some(address), Some(elements)) = (d_bias, gradient.bias_extent()) {
        memory::check(driver, place, Tensor::DBias, address, elements * ELEMENT_BYTES)?;
    }
    check_forward_memory(driver, place, gradient.problem(), &forward, plan.workspace_bytes())
}

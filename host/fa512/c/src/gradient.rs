//! Reads and checks `fa512_gradient`.

use attention::{Addresses, BackwardAddresses, Gradient, GradientViews, Layout, Problem, Strides, Tensor, View};

use crate::problem::RawStrides;
use crate::status::Failure;

/// `fa512_gradient`. Any bit pattern is valid.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawGradient {
    size: usize,
    o: usize,
    lse: usize,
    d_o: usize,
    dq: usize,
    dk: usize,
    dv: usize,
    d_o_strides: RawStrides,
    dq_strides: RawStrides,
    dk_strides: RawStrides,
    dv_strides: RawStrides,
    d_bias: usize,
    d_bias_strides: RawStrides,
}

/// The gradient of `problem` at `gradient`, and the addresses of its tensors; `forward` has those of the inputs.
///
/// # Errors
/// When `gradient` is null or misaligned, or its size is not that of this version, or a view is not acceptable.
///
/// # Safety
/// `gradient` is null or points to `size` readable bytes, `size` being its first field.
pub unsafe fn read(
    gradient: *const RawGradient,
    problem: Problem,
    forward: Addresses,
) -> Result<(Gradient, BackwardAddresses), Failure> {
    if gradient.is_null() {
        return Err(Failure::Invalid("gradient is NULL".into()));
    }
    if !gradient.is_aligned() {
        return Err(Failure::Invalid(format!("gradient is at {gradient:p}, where no struct can be")));
    }
    // SAFETY: it is aligned and not null, and the caller promises a readable `size`.
    let size = unsafe { (&raw const (*gradient).size).read() };
    if size != size_of::<RawGradient>() {
        return Err(Failure::Invalid(format!("the size of gradient is {size}; it must be sizeof(fa512_gradient)")));
    }
    // SAFETY: it is aligned, and `size` says that it is as large as the struct.
    let raw = unsafe { gradient.read() };
    let view = |strides: RawStrides, tensor: Tensor| match strides {
        RawStrides { batch: 0, head: 0, row: 0 } => Ok(View::new(Layout::Bhsd.strides(problem.shape().of(tensor))?)),
        RawStrides { batch, head, row } => Ok::<_, Failure>(View::new(Strides { batch, head, row })),
    };
    let views = GradientViews {
        d_o: view(raw.d_o_strides, Tensor::DO)?,
        dq: view(raw.dq_strides, Tensor::DQ)?,
        dk: view(raw.dk_strides, Tensor::DK)?,
        dv: view(raw.dv_strides, Tensor::DV)?,
    };
    let gradient = Gradient::with(problem, views)?;
    let d_bias = (raw.d_bias != 0).then_some(raw.d_bias as u64);
    let RawStrides { batch, head, row } = raw.d_bias_strides;
    let gradient = match d_bias {
        Some(_) => gradient.with_bias(Strides { batch, head, row })?,
        None => gradient,
    };
    let [o, lse, d_o, dq, dk, dv] = [raw.o, raw.lse, raw.d_o, raw.dq, raw.dk, raw.dv].map(|address| address as u64);
    let forward = Addresses { o, lse: Some(lse), ..forward };
    Ok((gradient, BackwardAddresses { forward, d_o, dq, dk, dv, d_bias }))
}

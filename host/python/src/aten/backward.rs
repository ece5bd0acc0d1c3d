//! The kernels of backwards, which a random state leads to.
//!
//! What is not supported here is computed by Python, or refused with its reason.

use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use attention::{Addresses, Alignment, BackwardAddresses, Gradient, GradientViews};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use super::call::{Asked, Call, Changes, Kept};
use super::tensor::{Order, Read, Tensor};
use super::{Torch, torch, truth};
use crate::scores::strides_of;

/// A call of a backward.
struct Backward {
    /// The arguments of the forward pass.
    call: Call,
    d_o: Tensor,
    o: Tensor,
    lse: Tensor,
    /// Whether dBias is needed.
    needs_bias: bool,
}

/// dQ, dK and dV, and dBias if it is needed.
type Gradients = ([Tensor; 3], Option<Tensor>);

impl Torch {
    /// Computes the gradients here or, if they are refused, in Python; the error of the latter. PyTorch calls without the GIL: the driver
    /// may wait for room in the stream's queue, or compile a kernel.
    fn backward(&'static self, backward: &Backward) -> Result<Gradients, String> {
        let attempt = catch_unwind(AssertUnwindSafe(|| self.attempt_backward(backward)));
        match attempt.ok().flatten() {
            Some(gradients) => Ok(gradients),
            None => self.backward_in_python(backward),
        }
    }

    fn attempt_backward(&'static self, Backward { call, d_o, o, lse, needs_bias }: &Backward) -> Option<Gradients> {
        let asked = self.asked(call)?;
        let (order, q) = (call.order, &asked.q);
        let (d_o, o, lse) = (d_o.read()?, o.read()?, lse.read()?);
        let is_like_q = |one: &Read| (one.dtype, one.gpu, one.rank, one.sizes) == (q.dtype, q.gpu, q.rank, q.sizes);
        if !is_like_q(&d_o) || !is_like_q(&o) || !self.is_lse(&lse, call, asked.of_q, q.gpu) {
            return None;
        }
        if call.is_padded && !lies_together(&d_o) {
            return None;
        }
        let [of_q, of_k] = &call.lengths;
        let new = |tensor: &Read, lengths: &Option<Tensor>| {
            let gradient = self.new_like(tensor, call.is_padded)?;
            // Rows that an entry does not use are written by no kernel.
            if call.is_padded && lengths.is_some() { gradient.fill(0.0) } else { Some(gradient) }
        };
        let gradients = [new(q, of_q)?, new(&asked.k, of_k)?, new(&asked.v, of_k)?];
        let [dq, dk, dv] = [gradients[0].read()?, gradients[1].read()?, gradients[2].read()?];
        let addresses = Addresses::new(q.address, asked.k.address, asked.v.address, o.address);
        let addresses = Addresses { lse: Some(lse.address), ..addresses };
        let (problem, forward) = self.problem(call, &asked, &o, addresses)?;
        let views =
            GradientViews { d_o: order.view(&d_o)?, dq: order.view(&dq)?, dk: order.view(&dk)?, dv: order.view(&dv)? };
        let gradient = Gradient::with(problem, views).ok()?;
        let d_bias = if *needs_bias { Some(self.new_like(&call.changes.bias.as_ref()?.read()?, true)?) } else { None };
        let (gradient, to_bias) = match &d_bias {
            Some(d_bias) => self.with_bias(gradient, &asked, &d_bias.read()?)?,
            None => (gradient, None),
        };
        let [d_o, dq, dk, dv] = [d_o, dq, dk, dv].map(|tensor| tensor.address);
        let mut addresses = BackwardAddresses { forward, d_o, dq, dk, dv, d_bias: to_bias };
        self.on_stream(q.gpu, |stream, options, gpu| {
            // Freed when the launch is queued: PyTorch gives the memory to later work on the same stream.
            let workspace = match attention::backward_workspace_bytes(&gradient, gpu).ok()? {
                0 => None,
                bytes => Some(self.empty(&[i64::try_from(bytes).ok()?], &[1], self.uint8(), q.gpu)?),
            };
            if let Some(workspace) = &workspace {
                addresses.forward.workspace = Some(workspace.read()?.address);
            }
            // SAFETY: as `on_stream` says.
            unsafe { attention::backward_with(&gradient, addresses, stream, options) }.ok()
        })?;
        Some((gradients, d_bias))
    }

    /// `gradient` with the dBias that is stored to a tensor, and its address.
    fn with_bias(&self, gradient: Gradient, asked: &Asked, d_bias: &Read) -> Option<(Gradient, Option<u64>)> {
        let strides = strides_of(&self.array(d_bias)?, "dbias", asked.of_scores(), &self.array(&asked.q)?).ok()?;
        Some((gradient.with_bias(strides).ok()?, Some(d_bias.address)))
    }

    /// Whether this is LSE of a Q of these sizes, without gaps.
    fn is_lse(&self, lse: &Read, call: &Call, [batch, heads, rows, _]: [i64; 4], gpu: i32) -> bool {
        let (rank, sizes, strides) = match (call.order, call.is_padded) {
            (Order::Packed, _) => (2, [heads, rows, 0, 0], [rows, 1, 0, 0]),
            (_, true) => (3, [heads, batch, rows, 0], [batch * rows, rows, 1, 0]),
            (_, false) => (3, [batch, heads, rows, 0], [heads * rows, rows, 1, 0]),
        };
        let has_no_gaps = (0..rank).all(|place| sizes[place] == 1 || lse.strides[place] == strides[place]);
        (lse.rank, lse.sizes, lse.dtype, lse.gpu) == (rank, sizes, self.float32(), gpu) && has_no_gaps
    }

    /// The gradients by Python; its error, or why it was not called.
    fn backward_in_python(
        &'static self,
        Backward { call, d_o, o, lse, needs_bias }: &Backward,
    ) -> Result<Gradients, String> {
        let attempt = |py: Python<'_>| -> PyResult<Gradients> {
            let own = self.own.as_ref().expect("a kernel of this backward is registered with it");
            let given = |tensor: &Tensor| self.capsule(py, tensor);
            let [q, k, v] = &call.tensors;
            let tensors = [given(d_o)?, given(q)?, given(k)?, given(v)?, given(o)?, given(lse)?];
            let optional = |tensor: &Option<Tensor>| tensor.as_ref().map(given).transpose();
            let Changes { softcap, slopes, bias } = &call.changes;
            let others = [&call.lengths[0], &call.lengths[1], slopes, bias];
            let [of_q, of_k, slopes, bias] = others.map(optional);
            let options = PyDict::new(py);
            options.set_item("form", form_of(call))?;
            options.set_item("longest", call.longest)?;
            options.set_item("lengths", (of_q?, of_k?))?;
            options.set_item("causal", call.is_causal)?;
            options.set_item("window", (call.sides[0], call.sides[1]))?;
            options.set_item("is_bottom_right", call.alignment == Alignment::BottomRight)?;
            options.set_item("scale", call.scale)?;
            options.set_item("softcap", softcap)?;
            options.set_item("alibi_slopes", slopes?)?;
            options.set_item("bias", bias?)?;
            options.set_item("has_others", call.has_others)?;
            options.set_item("needs_bias", needs_bias)?;
            type Made<'py> = ([Bound<'py, PyCapsule>; 3], Option<Bound<'py, PyCapsule>>);
            let (made, d_bias): Made<'_> = own.backward.bind(py).call1((tensors, options))?.extract()?;
            let tensor = |handle: NonNull<_>| Tensor { call: &self.call, handle: handle.as_ptr() };
            let mut handles = [NonNull::dangling(); 3];
            for (handle, capsule) in handles.iter_mut().zip(&made) {
                *handle = capsule.pointer_checked(None)?;
            }
            let d_bias = d_bias.map(|capsule| capsule.pointer_checked(None)).transpose()?;
            Ok((handles.map(tensor), d_bias.map(tensor)))
        };
        let attempt = || Python::try_attach(|py| attempt(py).map_err(|error| error.to_string()));
        let outcome = catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|_| Some(Err("it panicked".to_owned())));
        outcome.unwrap_or_else(|| Err("Python has ended".to_owned()))
    }

    /// Hands over a handle of the tensor to Python.
    fn capsule<'py>(&self, py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyCapsule>> {
        let copy = tensor.again().and_then(|copy| NonNull::new(std::mem::ManuallyDrop::new(copy).handle));
        let handle = copy.ok_or_else(|| pyo3::exceptions::PyMemoryError::new_err("there is no memory for a handle"))?;
        // SAFETY: whoever gets the capsule owns the handle, and deletes it.
        unsafe { PyCapsule::new_with_pointer(py, handle, c"") }
    }

    /// Writes the gradients to the stack, or raises the error, by an exception of C++ that PyTorch catches.
    ///
    /// # Safety
    /// The stack has room for three values.
    unsafe fn finish(&self, stack: *mut u64, outcome: Result<Gradients, String>) {
        match outcome {
            Ok((gradients, _)) => {
                let values = gradients.map(|gradient| self.value(Some(gradient)));
                // SAFETY: passed on to the caller.
                unsafe { stack.cast::<[u64; 3]>().write(values) }
            }
            Err(error) => {
                let text = CString::new(error.replace('\0', " ")).unwrap_or_default();
                let (function, file) = (c"backward".as_ptr(), c"backward.rs".as_ptr());
                // SAFETY: the texts end in NUL and are copied. The exception unwinds through frames that allow it.
                unsafe { (self.call.require)(false, function, file, 1, text.as_ptr()) }
            }
        }
    }
}

/// What Python calls the form of a call.
fn form_of(call: &Call) -> &'static str {
    match (call.order, call.is_padded) {
        (_, true) => "padded",
        (Order::Bhsd, _) => "bhsd",
        (Order::Bshd, _) => "bshd",
        (Order::Packed, _) => "packed",
    }
}

/// Whether the entries of a `[batch, sequence, heads, head size]` lie one behind the other.
fn lies_together(tensor: &Read) -> bool {
    let ([batch, rows, ..], [stride, row, ..]) = (tensor.sizes, tensor.strides);
    batch <= 1 || Some(stride) == rows.checked_mul(row)
}

/// The kernel of `_scaled_dot_product_flash_attention_backward`.
///
/// # Safety
/// The stack holds the arguments of this operator's schema, which PyTorch has checked, and has room for its results.
pub unsafe extern "C-unwind" fn of_sdpa(stack: *mut u64, _: u64, _: u64) {
    let torch = torch();
    // SAFETY: there are 15 arguments, more than results.
    let [d_o, q, k, v, o, lse, cum_seq_q, cum_seq_k, _, _, dropout, is_causal, seed, offset, scale] =
        unsafe { stack.cast::<[u64; 15]>().read() };
    // SAFETY: PyTorch hands over these tensors and an optional number.
    let ([d_o, q, k, v, o, lse, ..], scale) = unsafe {
        (
            [d_o, q, k, v, o, lse, cum_seq_q, cum_seq_k, seed, offset].map(|value| torch.tensor(value)),
            torch.optional(scale),
        )
    };
    let call = Call::of_batch([q, k, v], Order::Bhsd, Alignment::BottomRight, is_causal, scale, dropout);
    let outcome = torch.backward(&Backward { call, d_o, o, lse, needs_bias: false });
    // SAFETY: by the contract of this function.
    unsafe { torch.finish(stack, outcome) }
}

/// The kernel of `_flash_attention_backward`.
///
/// # Safety
/// As for [`of_sdpa`].
pub unsafe extern "C-unwind" fn of_flash(stack: *mut u64, _: u64, _: u64) {
    let torch = torch();
    // SAFETY: there are 17 arguments, more than results.
    let [d_o, q, k, v, o, lse, cum_seq_q, cum_seq_k, max_q, _, dropout, is_causal, seed, offset, scale, left, right] =
        unsafe { stack.cast::<[u64; 17]>().read() };
    // SAFETY: PyTorch hands over these tensors and optional numbers.
    let ([d_o, q, k, v, o, lse, of_q, of_k, ..], [scale, left, right]) = unsafe {
        (
            [d_o, q, k, v, o, lse, cum_seq_q, cum_seq_k, seed, offset].map(|value| torch.tensor(value)),
            [scale, left, right].map(|value| torch.optional(value)),
        )
    };
    let is_packed = of_q.is_defined();
    let order = if is_packed { Order::Packed } else { Order::Bshd };
    let call = Call {
        lengths: if is_packed { [Some(of_q), Some(of_k)] } else { [None, None] },
        longest: max_q as i64,
        sides: [left, right].map(|side| side.map(|side| side as i64)),
        ..Call::of_batch([q, k, v], order, Alignment::BottomRight, is_causal, scale, dropout)
    };
    let outcome = torch.backward(&Backward { call, d_o, o, lse, needs_bias: false });
    // SAFETY: by the contract of this function.
    unsafe { torch.finish(stack, outcome) }
}

/// The kernel of `_efficient_attention_backward`: see [`Kept`].
///
/// # Safety
/// As for [`of_sdpa`].
pub unsafe extern "C-unwind" fn of_kept(stack: *mut u64, _: u64, _: u64) {
    let torch = torch();
    // SAFETY: there are 20 arguments, more than results.
    let arguments = unsafe { stack.cast::<[u64; 20]>().read() };
    let [
        d_o,
        q,
        k,
        v,
        bias,
        o,
        of_q,
        of_k,
        left,
        right,
        lse,
        softcap,
        seed,
        offset,
        bits,
        needs_bias,
        scale,
        rest @ ..,
    ] = arguments;
    // SAFETY: PyTorch hands over these tensors, and optional tensors and numbers; the last argument is a truth value.
    let ([d_o, q, k, v, o, lse, ..], [bias, of_q, of_k], scale, rest) = unsafe {
        (
            [d_o, q, k, v, o, lse, seed, offset].map(|value| torch.tensor(value)),
            [bias, of_q, of_k].map(|value| torch.optional_tensor(value)),
            torch.optional(scale),
            [rest[0], rest[1]].map(|value| torch.optional(value)),
        )
    };
    let kept = Kept { bits, softcap: f64::from_bits(softcap), sides: [left as i64, right as i64] };
    let mut call = Call::of_kept(kept, [q, k, v], [bias, of_q, of_k], scale);
    // With lengths, the operator's bias holds what has no gradient.
    let (needs_bias, has_bias) = (truth(needs_bias), call.changes.bias.is_some());
    call.has_others |= rest.iter().any(Option::is_some) || needs_bias && !has_bias;
    let mut outcome = torch.backward(&Backward { call, d_o, o, lse, needs_bias: needs_bias && has_bias });
    if let Ok((_, d_bias)) = &mut outcome {
        // SAFETY: there is room for four results, of which the last is the gradient of a bias.
        unsafe { stack.add(3).write(torch.value(d_bias.take())) }
    }
    // SAFETY: by the contract of this function.
    unsafe { torch.finish(stack, outcome) }
}

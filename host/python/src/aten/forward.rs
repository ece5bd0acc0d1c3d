//! The kernels of forward passes.

use std::collections::btree_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;

use attention::{Addresses, Alignment};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::call::{Call, Kept};
use super::tensor::{Order, Tensor};
use super::{Torch, torch, truth};

/// The backward that results are for. Without dropout, each takes a random state and does not read it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backward {
    /// FlashAttention-2's.
    Flash,
    /// fa512's own, to which the state leads FlashAttention-2's.
    Own,
    /// cuDNN's.
    Cudnn,
}

/// A call, and what else it wants to be computed.
struct Forward {
    call: Call,
    backward: Backward,
    wants_lse: bool,
}

/// What is computed; nothing if the call is refused.
#[derive(Default)]
struct Results {
    o: Option<Tensor>,
    lse: Option<Tensor>,
    /// Random states.
    states: [Option<Tensor>; 2],
    /// Rows of Q, and of K.
    rows: [i64; 2],
}

impl Torch {
    /// Computes a call. PyTorch calls without the GIL: the driver may wait for room in the stream's queue, or compile a kernel.
    fn forward(&'static self, forward: &Forward) -> Results {
        // Nothing unwinds into C. What a panic leaves behind is dropped.
        let attempt = || self.attempt_forward(forward);
        catch_unwind(AssertUnwindSafe(attempt)).ok().flatten().unwrap_or_default()
    }

    fn attempt_forward(&'static self, Forward { call, backward, wants_lse }: &Forward) -> Option<Results> {
        let asked = self.asked(call)?;
        let q = &asked.q;
        let o_tensor = self.new_like(q, call.is_padded)?;
        // A model computes on with rows that no kernel writes.
        let o_tensor = if call.is_padded && call.lengths[0].is_some() { o_tensor.fill(0.0)? } else { o_tensor };
        let o = o_tensor.read()?;
        let lse = match wants_lse {
            true => Some(self.new_lse(call, *backward, asked.of_q, q.gpu)?),
            false => None,
        };
        let addresses = Addresses::new(q.address, asked.k.address, asked.v.address, o.address);
        let addresses = match &lse {
            Some(lse) => Addresses { lse: Some(lse.read()?.address), ..addresses },
            None => addresses,
        };
        let (problem, addresses) = self.problem(call, &asked, &o, addresses)?;
        // SAFETY: the function takes nothing, and returns a truth value.
        let is_recorded = *wants_lse && unsafe { (self.call.is_grad_enabled)() };
        let backward = self.own_where_faster(*backward, asked.of_q[3]);
        let states = if is_recorded { self.states(backward, q.gpu)?.map(Some) } else { [None, None] };
        self.on_stream(q.gpu, |stream, options, _| {
            // SAFETY: as `on_stream` says.
            unsafe { attention::forward_with(&problem, addresses, stream, options) }.ok()
        })?;
        Some(Results { o: Some(o_tensor), lse, states, rows: [asked.of_q[2], asked.of_k[2]] })
    }

    /// A tensor for LSE of a Q of these sizes.
    fn new_lse(
        &'static self,
        call: &Call,
        backward: Backward,
        [batch, heads, rows, _]: [i64; 4],
        gpu: i32,
    ) -> Option<Tensor> {
        if call.is_padded {
            let lse = self.empty(&[heads, batch, rows], &[batch * rows, rows, 1], self.float32(), gpu)?;
            return lse.fill(f64::NEG_INFINITY);
        }
        let (sizes, strides) = ([batch, heads, rows, 1], [heads * rows, rows, 1, 1]);
        // Of packed sequences without a batch, and of cuDNN with a last dimension of 1.
        let dimensions = match (call.order, backward) {
            (Order::Packed, _) => 1..3,
            (_, Backward::Flash | Backward::Own) => 0..3,
            (_, Backward::Cudnn) => 0..4,
        };
        self.empty(&sizes[dimensions.clone()], &strides[dimensions], self.float32(), gpu)
    }

    /// The backward to which a state leads that is for `backward`, of heads of this size.
    fn own_where_faster(&self, backward: Backward, head_dim: i64) -> Backward {
        match &self.own {
            Some(own) if backward == Backward::Flash && head_dim <= own.head_dim => Backward::Own,
            _ => backward,
        }
    }

    /// Two random states. They are made where gradients are recorded, since no backward may take what was made in inference mode.
    fn states(&'static self, backward: Backward, gpu: i32) -> Option<[Tensor; 2]> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = match states.entry((backward, gpu)) {
            Entry::Occupied(state) => state.into_mut(),
            Entry::Vacant(place) => place.insert(self.new_state(backward, gpu)?),
        };
        Some([state.again()?, state.again()?])
    }

    fn new_state(&'static self, backward: Backward, gpu: i32) -> Option<Tensor> {
        // SAFETY: the functions take nothing, and return numbers.
        let (int64, uint64) = unsafe { ((self.call.int64)(), (self.call.uint64)()) };
        let state = match backward {
            Backward::Own => return self.own_state(gpu),
            Backward::Flash => self.empty(&[2], &[1], uint64, gpu)?,
            Backward::Cudnn => self.empty(&[], &[], int64, gpu)?,
        };
        state.fill(0.0)
    }

    /// The state that Python makes.
    fn own_state(&'static self, gpu: i32) -> Option<Tensor> {
        let make = &self.own.as_ref()?.make_state;
        Python::try_attach(|py| {
            let capsule = make.bind(py).call1((gpu,)).ok()?.cast_into::<PyCapsule>().ok()?;
            let handle = capsule.pointer_checked(None).ok()?.as_ptr();
            Some(Tensor { call: &self.call, handle })
        })?
    }

    /// The results of an operator that has nine, which are handed over.
    fn nine_values(&self, results: Results) -> [u64; 9] {
        let Results { o, lse, states: [seed, offset], rows: [queries, keys] } = results;
        let [o, lse, cum_seq_q, cum_seq_k, seed, offset, debug_mask] =
            [o, lse, None, None, seed, offset, None].map(|tensor| self.value(tensor));
        [o, lse, cum_seq_q, cum_seq_k, queries as u64, keys as u64, seed, offset, debug_mask]
    }
}

/// The kernel of `_scaled_dot_product_flash_attention`.
///
/// # Safety
/// The stack holds the arguments of this operator's schema, which Python has checked, and has room for its results.
pub unsafe extern "C-unwind" fn of_sdpa(stack: *mut u64, _: u64, _: u64) {
    let torch = torch();
    // SAFETY: there are nine results, more than arguments.
    let stack = unsafe { &mut *stack.cast::<[u64; 9]>() };
    let [q, k, v, dropout, is_causal, return_debug_mask, scale, ..] = *stack;
    // SAFETY: PyTorch hands over three tensors and an optional number.
    let (tensors, scale) = unsafe { ([q, k, v].map(|value| torch.tensor(value)), torch.optional(scale)) };
    let call = Call::of_batch(tensors, Order::Bhsd, Alignment::BottomRight, is_causal, scale, dropout);
    let wants_lse = !truth(return_debug_mask);
    *stack = torch.nine_values(torch.forward(&Forward { call, backward: Backward::Flash, wants_lse }));
}

/// The kernel of `_scaled_dot_product_cudnn_attention`, which is aligned top-left.
///
/// # Safety
/// As for [`of_sdpa`].
pub unsafe extern "C-unwind" fn of_cudnn(stack: *mut u64, _: u64, _: u64) {
    let torch = torch();
    // SAFETY: there are nine arguments and nine results.
    let stack = unsafe { &mut *stack.cast::<[u64; 9]>() };
    let [q, k, v, attn_bias, compute_log_sumexp, dropout, is_causal, return_debug_mask, scale] = *stack;
    // SAFETY: PyTorch hands over three tensors, an optional one and an optional number.
    let (tensors, attn_bias, scale) = unsafe {
        ([q, k, v].map(|value| torch.tensor(value)), torch.optional_tensor(attn_bias), torch.optional(scale))
    };
    let mut call = Call::of_batch(tensors, Order::Bhsd, Alignment::TopLeft, is_causal, scale, dropout);
    call.has_others |= attn_bias.is_some();
    let wants_lse = truth(compute_log_sumexp) && !truth(return_debug_mask);
    *stack = torch.nine_values(torch.forward(&Forward { call, backward: Backward::Cudnn, wants_lse }));
}

/// The kernel of `_flash_attention_forward`.
///
/// # Safety
/// As for [`of_sdpa`].
pub unsafe extern "C-unwind" fn of_flash(stack: *mut u64, _: u64, _: u64) {
    let torch = torch();
    // SAFETY: there are 15 arguments, more than results.
    let stack = unsafe { &mut *stack.cast::<[u64; 15]>() };
    let [
        q,
        k,
        v,
        cum_seq_q,
        cum_seq_k,
        max_q,
        _,
        dropout,
        is_causal,
        return_debug_mask,
        scale,
        left,
        right,
        seqused_k,
        alibi_slopes,
    ] = *stack;
    // SAFETY: PyTorch hands over three tensors, and optional tensors and numbers.
    let (tensors, [cum_seq_q, cum_seq_k, seqused_k, alibi_slopes], [scale, left, right]) = unsafe {
        let optional = |value| torch.optional(value);
        (
            [q, k, v].map(|value| torch.tensor(value)),
            [cum_seq_q, cum_seq_k, seqused_k, alibi_slopes].map(|value| torch.optional_tensor(value)),
            [scale, left, right].map(optional),
        )
    };
    let order = if cum_seq_q.is_some() || cum_seq_k.is_some() { Order::Packed } else { Order::Bshd };
    let mut call = Call {
        lengths: [cum_seq_q, cum_seq_k],
        longest: max_q as i64,
        sides: [left, right].map(|side| side.map(|side| side as i64)),
        ..Call::of_batch(tensors, order, Alignment::BottomRight, is_causal, scale, dropout)
    };
    let has_one_length = call.lengths[0].is_some() != call.lengths[1].is_some();
    call.has_others |= seqused_k.is_some() || alibi_slopes.is_some() || has_one_length;
    let wants_lse = !truth(return_debug_mask);
    let Results { o, lse, states: [seed, offset], .. } =
        torch.forward(&Forward { call, backward: Backward::Flash, wants_lse });
    let results = [o, lse, seed, offset, None].map(|tensor| torch.value(tensor));
    stack[..results.len()].copy_from_slice(&results);
}

/// The kernel of `_efficient_attention_forward`, whose node keeps what those of the others do not: see [`Kept`].
///
/// # Safety
/// As for [`of_sdpa`].
pub unsafe extern "C-unwind" fn of_kept(stack: *mut u64, _: u64, _: u64) {
    let torch = torch();
    // SAFETY: there are 14 arguments, more than results.
    let stack = unsafe { &mut *stack.cast::<[u64; 14]>() };
    let [
        q,
        k,
        v,
        bias,
        cu_seqlens_q,
        cu_seqlens_k,
        max_q,
        max_k,
        softcap,
        bits,
        wants_lse,
        scale,
        seqlen_k,
        window_size,
    ] = *stack;
    // SAFETY: PyTorch hands over three tensors, and optional tensors and numbers.
    let (tensors, [bias, of_q, of_k, seqlen_k], [left, right, scale, window_size]) = unsafe {
        let optional = |value| torch.optional(value);
        (
            [q, k, v].map(|value| torch.tensor(value)),
            [bias, cu_seqlens_q, cu_seqlens_k, seqlen_k].map(|value| torch.optional_tensor(value)),
            [max_q, max_k, scale, window_size].map(optional),
        )
    };
    let sides = [left, right].map(|side| side.map_or(-1, |side| side as i64));
    let kept = Kept { bits, softcap: f64::from_bits(softcap), sides };
    let mut call = Call::of_kept(kept, tensors, [bias, of_q, of_k], scale);
    // The node has a negative side for none, so one that is given is refused here.
    let has_negative_side = [left, right].into_iter().flatten().any(|side| (side as i64) < 0);
    call.has_others |= seqlen_k.is_some() || window_size.is_some() || has_negative_side;
    let wants_lse = truth(wants_lse);
    let Results { o, lse, states: [seed, offset], .. } =
        torch.forward(&Forward { call, backward: Backward::Own, wants_lse });
    let [o, lse, seed, offset] = [o, lse, seed, offset].map(|tensor| torch.value(tensor));
    stack[..6].copy_from_slice(&[o, lse, seed, offset, sides[0] as u64, sides[1] as u64]);
}

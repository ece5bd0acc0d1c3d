//! What a call of PyTorch's attentions asks for.

use attention::{Addresses, Alignment, Gpu, Layout, Mask, Options, Packing, Problem, Shape, Stream, Views, Window};

use super::functions::ask;
use super::tensor::{Order, Read, Tensor};
use super::{Torch, truth};

/// The arguments of a call, of a forward pass or of its backward.
pub struct Call {
    /// Q, K and V.
    pub tensors: [Tensor; 3],
    /// The order of their dimensions.
    pub order: Order,
    /// Where sequences of Q, and of K and V, begin, for packed ones.
    pub begins: [Option<Tensor>; 2],
    /// Length of the longest sequence of Q; only packed ones need it.
    pub longest: i64,
    /// Whether later keys are not seen.
    pub is_causal: bool,
    /// How queries are aligned with keys.
    pub alignment: Alignment,
    /// Factor on the scores; `None`: 1/√D.
    pub scale: Option<f64>,
    /// Keys before a query's own position, and after it; `None`: no limit.
    pub sides: [Option<i64>; 2],
    /// Whether there is an argument that is not supported.
    pub has_others: bool,
}

impl Call {
    /// A call on a batch without a window, from values of the stack.
    pub fn of_batch(
        tensors: [Tensor; 3],
        order: Order,
        alignment: Alignment,
        is_causal: u64,
        scale: Option<u64>,
        dropout: u64,
    ) -> Self {
        Self {
            tensors,
            order,
            begins: [None, None],
            longest: 0,
            is_causal: truth(is_causal),
            alignment,
            scale: scale.map(f64::from_bits),
            sides: [None, None],
            has_others: f64::from_bits(dropout) != 0.0,
        }
    }
}

/// What a call computes, but for where O lies and for lengths.
pub struct Asked {
    /// Q.
    pub q: Read,
    /// K.
    pub k: Read,
    /// V.
    pub v: Read,
    /// Sizes of Q: batch, heads, rows and head size.
    pub of_q: [i64; 4],
    /// Those of K.
    pub of_k: [i64; 4],
    problem: Problem,
}

impl Asked {
    /// The problem whose O lies like `o`.
    pub fn problem(&self, order: Order, o: &Read) -> Option<Problem> {
        let views =
            Views { q: order.view(&self.q)?, k: order.view(&self.k)?, v: order.view(&self.v)?, o: order.view(o)? };
        self.problem.with_views(views).ok()
    }
}

impl Torch {
    /// What `call` computes; `None` if it is not supported.
    pub fn asked(&self, call: &Call) -> Option<Asked> {
        let (order, [q, k, v]) = (call.order, &call.tensors);
        let (q, k, v) = (q.read()?, k.read()?, v.read()?);
        let (of_q, of_k) = (order.sizes(&q)?, order.sizes(&k)?);
        let ([batch, heads, rows, head_dim], [of_batch, kv_heads, kv_rows, of_head_dim]) = (of_q, of_k);
        let are_alike = [&k, &v].iter().all(|tensor| (tensor.dtype, tensor.gpu) == (q.dtype, q.gpu));
        if call.has_others || !are_alike || order.sizes(&v)? != of_k || (of_batch, of_head_dim) != (batch, head_dim) {
            return None;
        }
        let shape = Shape::new(narrow(batch)?, narrow(heads)?, narrow(rows)?).with_kv_heads(narrow(kv_heads)?);
        let shape = shape.with_kv_sequence(narrow(kv_rows)?).with_head_dim(narrow(head_dim)?);
        let [left, right] = [side(call.sides[0])?, side(call.sides[1])?];
        let window = Window { left, right: if call.is_causal { Some(0) } else { right } };
        let problem = Problem::new(shape, Mask::Full, Layout::Bshd).ok()?;
        let problem = problem.with_element(self.element(q.dtype)?).with_window(window).aligned(call.alignment);
        let problem = call.scale.map_or(Ok(problem), |scale| problem.with_scale(scale)).ok()?;
        Some(Asked { q, k, v, of_q, of_k, problem })
    }

    /// The problem with the lengths of `call`, if its sequences are packed, and addresses with those of the lengths.
    pub fn with_lengths(
        &self,
        call: &Call,
        problem: Problem,
        addresses: Addresses,
        gpu: i32,
    ) -> Option<(Problem, Addresses)> {
        if call.order != Order::Packed {
            return Some((problem, addresses));
        }
        let [Some(of_q), Some(of_k)] = &call.begins else { return None };
        let (of_q, of_k) = (of_q.read()?, of_k.read()?);
        for lengths in [&of_q, &of_k] {
            // SAFETY: the functions take nothing, and return numbers.
            let is_whole = unsafe { [(self.call.int32)(), (self.call.uint32)()] }.contains(&lengths.dtype);
            let is_like_q = (lengths.rank, lengths.gpu, lengths.sizes[0]) == (1, gpu, of_q.sizes[0]);
            if !is_whole || !is_like_q || lengths.strides[0] != 1 {
                return None;
            }
        }
        let (sequences, longest) = (narrow(of_q.sizes[0] - 1)?, narrow(call.longest)?);
        let addresses = Addresses { cu_seqlens: Some(of_q.address), ..addresses };
        if of_q.address == of_k.address && problem.shape().sequence == problem.shape().kv_sequence {
            return Some((problem.packed(Packing::new(sequences, longest)).ok()?, addresses));
        }
        let problem = problem.packed(Packing::separate(sequences, longest)).ok()?;
        Some((problem, Addresses { cu_seqlens_k: Some(of_k.address), ..addresses }))
    }

    /// Calls `launch` in the context of GPU `gpu`, with PyTorch's current stream there, and options for addresses of PyTorch: it guarantees
    /// that a tensor lies within its memory, on the GPU that it names. The caller keeps the tensors alive during the call; afterwards, as for
    /// PyTorch's own kernels, frees and writes are ordered behind it on that stream.
    pub fn on_stream<T>(&self, gpu: i32, launch: impl FnOnce(Stream, Options, &Gpu) -> Option<T>) -> Option<T> {
        // SAFETY: the function writes a stream.
        let stream = ask(std::ptr::null_mut(), |out| unsafe { (self.call.current_stream)(gpu, out) })?;
        let gpu = Gpu::of_device(usize::try_from(gpu).ok()?).ok()?;
        let _context = gpu.enter().ok()?;
        launch(Stream::from_raw(stream), Options::default().check_pointers(false), &gpu)
    }
}

fn narrow(size: i64) -> Option<u32> {
    u32::try_from(size).ok()
}

/// A side of a window; `None` if it is negative.
fn side(keys: Option<i64>) -> Option<Option<u32>> {
    match keys {
        Some(keys) if keys < 0 => None,
        // More than any sequence has.
        keys => Some(keys.map(|keys| u32::try_from(keys).unwrap_or(u32::MAX))),
    }
}

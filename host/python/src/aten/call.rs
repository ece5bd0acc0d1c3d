//! What a call of PyTorch's attentions asks for.

use attention::{
    Addresses, Alignment, Element, Gpu, Layout, Mask, Options, Packing, Problem, ScoreMod, Shape, Stream, Views, Window,
};

use super::functions::ask;
use super::tensor::{Order, Read, Tensor};
use super::{Torch, truth};
use crate::array::{Array, BFLOAT, HALF, SINGLE};
use crate::scores::{slopes_of, strides_of};

/// The arguments of a call, of a forward pass or of its backward.
pub struct Call {
    /// Q, K and V.
    pub tensors: [Tensor; 3],
    /// The order of their dimensions.
    pub order: Order,
    /// Whether it is a padded batch.
    pub is_padded: bool,
    /// Of Q, and of K and V: where packed sequences begin, or how many rows the entries of a padded batch use.
    pub lengths: [Option<Tensor>; 2],
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
    /// What changes the scores.
    pub changes: Changes,
    /// Whether there is an argument that is not supported.
    pub has_others: bool,
}

/// Score modifications.
#[derive(Default)]
pub struct Changes {
    /// The softcap.
    pub softcap: Option<f64>,
    /// ALiBi slopes.
    pub slopes: Option<Tensor>,
    /// The bias.
    pub bias: Option<Tensor>,
}

/// What is between the numbers of a call of an operator whose node keeps whatever else a call has.
#[derive(Clone, Copy)]
pub struct Kept {
    /// The form in bits 0 and 1 (`[batch, heads, sequence, head size]`, `[batch, sequence, heads, head size]`, packed, padded), causal in bit 2,
    /// bottom-right in bit 3, the length of the longest sequence from bit 8 on: the operator's kind of mask. Bit 4 makes it none of PyTorch's.
    pub bits: u64,
    /// The softcap, or 0: the operator's probability of dropout.
    pub softcap: f64,
    /// Keys before a query's own position, and after it, or a negative number: the operator's longest lengths.
    pub sides: [i64; 2],
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
            is_padded: false,
            lengths: [None, None],
            longest: 0,
            is_causal: truth(is_causal),
            alignment,
            scale: scale.map(f64::from_bits),
            sides: [None, None],
            changes: Changes::default(),
            has_others: f64::from_bits(dropout) != 0.0,
        }
    }

    /// A call of an operator whose node keeps whatever else a call has, with its tensors of bias and of lengths. Of packed and padded sequences,
    /// the first is of slopes; of others, the second is.
    pub fn of_kept(kept: Kept, tensors: [Tensor; 3], others: [Option<Tensor>; 3], scale: Option<u64>) -> Self {
        let Kept { bits, softcap, sides } = kept;
        let order = [Order::Bhsd, Order::Bshd, Order::Packed, Order::Bshd][(bits & 3) as usize];
        let alignment = if bits & 8 == 0 { Alignment::TopLeft } else { Alignment::BottomRight };
        let has_lengths = bits & 2 != 0;
        let [first, second, third] = others;
        let has_others = !has_lengths && third.is_some();
        let (slopes, bias, lengths) = match has_lengths {
            true => (first, None, [second, third]),
            false => (second, first, [None, None]),
        };
        Self {
            is_padded: bits & 3 == 3,
            lengths,
            longest: (bits >> 8) as i64,
            sides: sides.map(|side| (side >= 0).then_some(side)),
            changes: Changes { softcap: (softcap != 0.0).then_some(softcap), slopes, bias },
            has_others,
            ..Self::of_batch(tensors, order, alignment, bits >> 2 & 1, scale, 0)
        }
    }
}

/// What a call computes, but for where O lies, for lengths and for what changes the scores.
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
    /// Sizes of the scores: batch, heads, queries and keys.
    pub fn of_scores(&self) -> [i64; 4] {
        let [batch, heads, rows, _] = self.of_q;
        [batch, heads, rows, self.of_k[2]]
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

    /// The problem of `call` whose O lies like `o`, and `addresses` with those of what it also reads.
    pub fn problem(&self, call: &Call, asked: &Asked, o: &Read, addresses: Addresses) -> Option<(Problem, Addresses)> {
        let view = |tensor| call.order.view(tensor);
        let views = Views { q: view(&asked.q)?, k: view(&asked.k)?, v: view(&asked.v)?, o: view(o)? };
        let problem = asked.problem.with_views(views).ok()?;
        let (problem, addresses) = match (call.order, call.is_padded) {
            (Order::Packed, _) => self.packed(call, problem, addresses, asked.q.gpu)?,
            (_, true) => self.padded(call, asked, problem, addresses)?,
            _ => (problem, addresses),
        };
        self.with_changes(call, asked, problem, addresses)
    }

    /// Of packed sequences.
    fn packed(&self, call: &Call, problem: Problem, addresses: Addresses, gpu: i32) -> Option<(Problem, Addresses)> {
        let [Some(of_q), of_k] = &call.lengths else { return None };
        let of_q = of_q.read()?;
        let bounds = of_q.sizes[0];
        let begins = self.whole(&of_q, bounds, gpu)?;
        let begins_k = match of_k {
            Some(of_k) => Some(self.whole(&of_k.read()?, bounds, gpu)?),
            None => None,
        };
        let (sequences, longest) = (narrow(bounds - 1)?, narrow(call.longest)?);
        let addresses = Addresses { cu_seqlens: Some(begins), ..addresses };
        let is_one = begins_k.is_none_or(|of_k| of_k == begins);
        if is_one && problem.shape().sequence == problem.shape().kv_sequence {
            return Some((problem.packed(Packing::new(sequences, longest)).ok()?, addresses));
        }
        let problem = problem.packed(Packing::separate(sequences, longest)).ok()?;
        Some((problem, Addresses { cu_seqlens_k: Some(begins_k?), ..addresses }))
    }

    /// Of a padded batch, whose entries lie one behind the other.
    fn padded(
        &self,
        call: &Call,
        asked: &Asked,
        problem: Problem,
        addresses: Addresses,
    ) -> Option<(Problem, Addresses)> {
        let used = |tensor: &Option<Tensor>| match tensor {
            Some(tensor) => self.whole(&tensor.read()?, asked.of_q[0], asked.q.gpu).map(Some),
            None => Some(None),
        };
        let [seqused_q, seqused_k] = [used(&call.lengths[0])?, used(&call.lengths[1])?];
        Some((problem.padded().ok()?, Addresses { seqused_q, seqused_k, ..addresses }))
    }

    /// The address of `count` whole numbers without gaps.
    fn whole(&self, tensor: &Read, count: i64, gpu: i32) -> Option<u64> {
        // SAFETY: the functions take nothing, and return numbers.
        let is_whole = unsafe { [(self.call.int32)(), (self.call.uint32)()] }.contains(&tensor.dtype);
        let is_like = (tensor.rank, tensor.gpu, tensor.sizes[0]) == (1, gpu, count);
        (is_whole && is_like && (count == 1 || tensor.strides[0] == 1)).then_some(tensor.address)
    }

    /// With what changes the scores.
    fn with_changes(
        &self,
        call: &Call,
        asked: &Asked,
        problem: Problem,
        addresses: Addresses,
    ) -> Option<(Problem, Addresses)> {
        let Changes { softcap, slopes, bias } = &call.changes;
        if softcap.is_none() && slopes.is_none() && bias.is_none() {
            return Some((problem, addresses));
        }
        let array = |tensor: &Option<Tensor>| match tensor {
            Some(tensor) => self.array(&tensor.read()?).map(Some),
            None => Some(None),
        };
        let (slopes, bias, q) = (array(slopes)?, array(bias)?, self.array(&asked.q)?);
        let [batch, heads, ..] = asked.of_q;
        let entries = match (call.order, &call.lengths[0]) {
            (Order::Packed, Some(begins)) => begins.read()?.sizes[0] - 1,
            _ => batch,
        };
        let scores = asked.of_scores();
        let alibi =
            slopes.as_ref().map(|slopes| slopes_of(slopes, heads, (entries, "entries"), &q)).transpose().ok()?;
        let strides = bias.as_ref().map(|bias| strides_of(bias, "bias", scores, &q)).transpose().ok()?;
        let problem = problem.with_score_mod(ScoreMod { softcap: *softcap, alibi, bias: strides }).ok()?;
        let [alibi_slopes, bias] = [slopes, bias].map(|array| array.map(|array| array.address));
        Some((problem, Addresses { alibi_slopes, bias, ..addresses }))
    }

    /// A tensor as the argument of a function in Python.
    pub fn array(&self, tensor: &Read) -> Option<Array> {
        let Read { address, dtype, gpu, rank, ref sizes, ref strides } = *tensor;
        let element = match self.element(dtype) {
            Some(Element::F16) => HALF,
            Some(Element::Bf16) => BFLOAT,
            None if dtype == self.float32() => SINGLE,
            None => return None,
        };
        Some(Array::of_torch(address, element, &sizes[..rank], &strides[..rank], usize::try_from(gpu).ok()?))
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

#![doc = include_str!("../README.md")]

mod arguments;
mod operation;
mod problem;

use candle_core::{Result, Tensor};

use arguments::{Lengths, Scores, Sequences, Window};
use operation::Attention;

/// Softmax(scale · QKᵀ) · V of f16 or bf16 tensors `[batch, sequence, heads, head size]` on a GPU. Has the shape of Q.
///
/// K and V may have fewer heads, a divisor of those of Q, and another sequence length. A causal mask is bottom-right
/// aligned (the last query at the last key), as in flash-attn. Q, K and V may be views, such as parts of a fused QKV
/// tensor, if rows are contiguous and 16-byte aligned.
///
/// # Errors
/// Names the argument and what is accepted: other types, devices, head sizes, or heads that cannot be shared.
pub fn flash_attn(q: &Tensor, k: &Tensor, v: &Tensor, softmax_scale: f32, causal: bool) -> Result<Tensor> {
    batch([q, k, v], softmax_scale, Window::unlimited(causal), Scores::default())
}

/// [`flash_attn`] with a window: the query at key i attends to keys i − `window_size_left` … i + `window_size_right`
/// only. `None` means no limit.
///
/// # Errors
/// As for [`flash_attn`].
pub fn flash_attn_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let window = Window { left: window_size_left, right: window_size_right };
    batch([q, k, v], softmax_scale, window, Scores::default())
}

/// [`flash_attn`] with ALiBi: slope · |i − j| is subtracted from the score of the query at key i and key j.
/// `alibi_slopes` holds the slope of each head, f32 `[heads]` on the GPU.
///
/// # Errors
/// As for [`flash_attn`], and when the slopes have the wrong type or shape.
pub fn flash_attn_alibi(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    batch([q, k, v], softmax_scale, Window::unlimited(causal), Scores::new(Some(alibi_slopes), 0.0))
}

/// [`flash_attn_windowed`] with the slopes of [`flash_attn_alibi`].
///
/// # Errors
/// As for [`flash_attn_alibi`].
pub fn flash_attn_alibi_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let window = Window { left: window_size_left, right: window_size_right };
    batch([q, k, v], softmax_scale, window, Scores::new(Some(alibi_slopes), 0.0))
}

/// [`flash_attn_alibi_windowed`] with a softcap: s = softmax_scale · q·k becomes softcap · tanh(s / softcap), before
/// ALiBi is subtracted. A softcap of 0 means none; without slopes there is no ALiBi.
///
/// # Errors
/// As for [`flash_attn_alibi`], and when the softcap is neither 0 nor from 0.001 to 1000.
#[allow(clippy::too_many_arguments, reason = "they are candle-flash-attn's")]
pub fn flash_attn_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> Result<Tensor> {
    let window = Window { left: window_size_left, right: window_size_right };
    batch([q, k, v], softmax_scale, window, Scores::new(alibi_slopes, softcap))
}

/// [`flash_attn`] of packed sequences: f16 or bf16 `[rows of all sequences, heads, head size]`. `seqlens_q` (u32
/// `[sequences + 1]`, on the GPU) holds the first row of each sequence, then the end of the last.
///
/// `seqlens_k` is the same for K and V, whose sequences may have other lengths; a causal mask is bottom-right aligned
/// in each. If the lengths are equal, pass the same tensor as both. The host does not wait for the lengths. A query
/// whose sequence has no key gets zeros. Whatever the lengths are, nothing outside the tensors is read or written, and
/// no sequence affects another's result. Rows before the first sequence and behind the last
/// get zeros.
///
/// # Errors
/// As for [`flash_attn`], and when the lengths have the wrong type or shape.
#[allow(clippy::too_many_arguments, reason = "they are candle-flash-attn's")]
pub fn flash_attn_varlen(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    let lengths = [(seqlens_q, max_seqlen_q), (seqlens_k, max_seqlen_k)];
    varlen([q, k, v], lengths, softmax_scale, Window::unlimited(causal), Scores::default())
}

/// [`flash_attn_varlen`] with a window within each sequence, as for [`flash_attn_windowed`].
///
/// No sequence may be longer than `max_seqlen_q` and `max_seqlen_k`: a window side of that size counts as unlimited.
///
/// # Errors
/// As for [`flash_attn_varlen`].
#[allow(clippy::too_many_arguments, reason = "they are candle-flash-attn's")]
pub fn flash_attn_varlen_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let window = Window { left: window_size_left, right: window_size_right };
    let lengths = [(seqlens_q, max_seqlen_q), (seqlens_k, max_seqlen_k)];
    varlen([q, k, v], lengths, softmax_scale, window, Scores::default())
}

/// [`flash_attn_varlen`] with the slopes of [`flash_attn_alibi`].
///
/// # Errors
/// As for [`flash_attn_varlen`] and [`flash_attn_alibi`].
#[allow(clippy::too_many_arguments, reason = "they are candle-flash-attn's")]
pub fn flash_attn_varlen_alibi(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    let lengths = [(seqlens_q, max_seqlen_q), (seqlens_k, max_seqlen_k)];
    varlen([q, k, v], lengths, softmax_scale, Window::unlimited(causal), Scores::new(Some(alibi_slopes), 0.0))
}

/// [`flash_attn_varlen_windowed`] with the slopes of [`flash_attn_alibi`].
///
/// # Errors
/// As for [`flash_attn_varlen`] and [`flash_attn_alibi`].
#[allow(clippy::too_many_arguments, reason = "they are candle-flash-attn's")]
pub fn flash_attn_varlen_alibi_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let window = Window { left: window_size_left, right: window_size_right };
    let lengths = [(seqlens_q, max_seqlen_q), (seqlens_k, max_seqlen_k)];
    varlen([q, k, v], lengths, softmax_scale, window, Scores::new(Some(alibi_slopes), 0.0))
}

/// [`flash_attn_varlen_windowed`] with the slopes and the softcap of [`flash_attn_alibi_windowed_softcap`].
///
/// # Errors
/// As for [`flash_attn_varlen`] and [`flash_attn_alibi_windowed_softcap`].
#[allow(clippy::too_many_arguments, reason = "they are candle-flash-attn's")]
pub fn flash_attn_varlen_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> Result<Tensor> {
    let window = Window { left: window_size_left, right: window_size_right };
    let lengths = [(seqlens_q, max_seqlen_q), (seqlens_k, max_seqlen_k)];
    varlen([q, k, v], lengths, softmax_scale, window, Scores::new(alibi_slopes, softcap))
}

fn batch([q, k, v]: [&Tensor; 3], softmax_scale: f32, window: Window, scores: Scores) -> Result<Tensor> {
    q.apply_op3(k, v, Attention::new(softmax_scale, window, Sequences::OneLength, scores))
}

fn varlen(
    [q, k, v]: [&Tensor; 3],
    [(seqlens_q, longest_q), (seqlens_k, longest_k)]: [(&Tensor, usize); 2],
    softmax_scale: f32,
    window: Window,
    scores: Scores,
) -> Result<Tensor> {
    let sequences = Sequences::Packed(Lengths::new(seqlens_q, seqlens_k, longest_q, longest_k)?);
    q.apply_op3(k, v, Attention::new(softmax_scale, window, sequences, scores))
}

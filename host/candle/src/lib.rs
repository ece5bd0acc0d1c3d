#![doc = include_str!("../README.md")]

mod arguments;
mod operation;
mod problem;

use candle_core::{Result, Tensor};

use arguments::{Lengths, Scores, Sequences, Window};
use operation::Attention;

/// Softmax(scale · QKᵀ) · V of f16 or bf16 tensors `[batch, sequence, heads, head size]` on a GPU; of the shape of Q.
///
/// K and V may have fewer heads, of which those of Q are a multiple, and another sequence length. With a causal mask the last query
/// is at the last key, as in flash-attn. Q, K and V may be views, such as parts of a fused QKV tensor, whose rows are without gaps and begin at multiples of 16 bytes.
///
/// # Errors
/// With the argument, and what would be accepted: other types, devices, head sizes, or heads that cannot be shared.
pub fn flash_attn(q: &Tensor, k: &Tensor, v: &Tensor, softmax_scale: f32, causal: bool) -> Result<Tensor> {
    batch([q, k, v], softmax_scale, Window::unlimited(causal), Scores::default())
}

/// [`flash_attn`] with a window: the query at key i attends to the keys i − `window_size_left` … i + `window_size_right` only, where
/// `None` is no limit.
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

/// [`flash_attn`] with ALiBi: the score of the query at key i and of key j becomes less by slope · |i − j|, with the head's slope of
/// `alibi_slopes`, f32 `[heads]` on the GPU.
///
/// # Errors
/// As for [`flash_attn`], and when the slopes are of another type or shape.
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

/// [`flash_attn_alibi_windowed`] with a softcap: s = softmax_scale · q·k becomes softcap · tanh(s / softcap) before slopes take anything
/// off. 0 is no softcap; without slopes there is no ALiBi.
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

/// [`flash_attn`] of packed sequences: f16 or bf16 `[rows of all sequences, heads, head size]`, where `seqlens_q` (u32 `[sequences + 1]`, on the
/// GPU) holds the row at which each sequence begins, and where the last one ends.
///
/// `seqlens_k` says the same of the rows of K and V, whose sequences may have other lengths: a causal mask has the last query of each at
/// its last key. Where the lengths are those of Q, pass one tensor as both. The host waits for nothing. A query whose sequence has no key
/// gets zeros. Whatever the lengths are, nothing outside the tensors is read or written, and no sequence reaches another's result; rows of
/// no sequence hold anything.
///
/// # Errors
/// As for [`flash_attn`], and when lengths are of another type or shape.
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
/// No sequence is longer than `max_seqlen_q` and `max_seqlen_k`: a side of the window that reaches as far counts as no limit.
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

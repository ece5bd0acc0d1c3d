//! Checks the functions of this crate on GPU 0 against attention computed on the CPU: batches, packed sequences, views, errors.

use candle_core::{D, DType, Device, Result, Tensor, bail};

/// Keys before a query's own position, and after it; `None`: no limit.
type Window = (Option<usize>, Option<usize>);

/// The window of a causal mask, or of no mask.
fn masked(causal: bool) -> Window {
    (None, causal.then_some(0))
}

/// Softmax(scale · QKᵀ) · V of `[batch, sequence, heads, 64]`, in f32 on the CPU, bottom-right aligned. Needs at least
/// as many keys as queries.
fn reference(q: &Tensor, k: &Tensor, v: &Tensor, scale: f64, window: Window) -> Result<Tensor> {
    reference_with([q, k, v], scale, window, None, None)
}

/// ALiBi slopes for three heads.
const SLOPES: [f32; 3] = [0.5, 0.25, 0.03];

/// [`reference`] with ALiBi slopes and a softcap.
fn reference_with(
    [q, k, v]: [&Tensor; 3],
    scale: f64,
    (left, right): Window,
    slopes: Option<&[f32]>,
    softcap: Option<f64>,
) -> Result<Tensor> {
    let on_cpu = |tensor: &Tensor| tensor.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.transpose(1, 2)?.contiguous();
    let (q, k, v) = (on_cpu(q)?, on_cpu(k)?, on_cpu(v)?);
    let scores = (q.matmul(&k.t()?)? * scale)?;
    let scores = match softcap {
        None => scores,
        Some(cap) => ((scores / cap)?.tanh()? * cap)?,
    };
    let (queries, keys) = (q.dim(2)?, k.dim(2)?);
    let position = |at: usize| at / keys % queries + keys - queries;
    let sees = |query: usize, key: usize| {
        left.is_none_or(|left| key + left >= query) && right.is_none_or(|right| key <= query + right)
    };
    let mask: Vec<f32> =
        (0..queries * keys).map(|at| if sees(position(at), at % keys) { 0.0 } else { f32::NEG_INFINITY }).collect();
    let scores = scores.broadcast_add(&Tensor::from_vec(mask, (queries, keys), &Device::Cpu)?)?;
    let slopes = slopes.unwrap_or(&[0.0]);
    let term = |at: usize| -slopes[at / (queries * keys)] * position(at).abs_diff(at % keys) as f32;
    let terms: Vec<f32> = (0..slopes.len() * queries * keys).map(term).collect();
    let scores = scores.broadcast_add(&Tensor::from_vec(terms, (slopes.len(), queries, keys), &Device::Cpu)?)?;
    candle_nn::ops::softmax(&scores, D::Minus1)?.matmul(&v)?.transpose(1, 2)
}

fn require_close(found: &Tensor, expected: &Tensor, what: &str) -> Result<()> {
    // bf16 has three bits fewer than f16.
    let tolerance = if found.dtype() == DType::BF16 { 16e-3 } else { 2e-3 };
    let found = found.to_device(&Device::Cpu)?.to_dtype(DType::F32)?;
    let difference = (found - expected)?.abs()?.flatten_all()?.max(D::Minus1)?.to_scalar::<f32>()?;
    if difference.is_nan() || difference > tolerance {
        bail!("{what}: the largest difference is {difference}");
    }
    println!("{what}: right, largest difference {difference:.1e}");
    Ok(())
}

fn random(shape: &[usize], device: &Device) -> Result<Tensor> {
    Tensor::randn(0f32, 1f32, shape, device)?.to_dtype(DType::F16)
}

/// ALiBi and softcap, for sequences of one length and packed.
fn changed_scores(device: &Device) -> Result<()> {
    let all = Tensor::new(&SLOPES, device)?;
    let [q, k, v] = [0, 1, 2].map(|_| random(&[1, 130, 3, 64], device));
    let (q, k, v) = (q?, k?, v?);
    let (rows_q, rows_k, rows_v) = (q.squeeze(0)?, k.squeeze(0)?, v.squeeze(0)?);
    let one = &Tensor::new(&[0u32, 130], device)?;
    for (slopes, softcap, (left, right)) in
        [(true, 0.0, (None, None)), (false, 2.0, (None, Some(0))), (true, 2.0, (Some(20), Some(3)))]
    {
        let given = slopes.then_some(&all);
        let cap = (softcap != 0.0).then_some(f64::from(softcap));
        let expected = reference_with([&q, &k, &v], 0.2, (left, right), slopes.then_some(&SLOPES[..]), cap)?;
        let what = format!("slopes {slopes}, softcap {softcap}, window {left:?}, {right:?}");
        let out = fa512_candle::flash_attn_alibi_windowed_softcap(&q, &k, &v, given, 0.2, left, right, softcap)?;
        require_close(&out, &expected, &what)?;
        let packed = fa512_candle::flash_attn_varlen_alibi_windowed_softcap(
            &rows_q, &rows_k, &rows_v, given, one, one, 130, 130, 0.2, left, right, softcap,
        )?;
        require_close(&packed.unsqueeze(0)?, &expected, &format!("packed, {what}"))?;
    }
    Ok(())
}

/// Packed sequences whose K and V have more rows than Q, or none.
fn lengths_of_keys(device: &Device) -> Result<()> {
    let (of_q, of_k) = ([0u32, 17, 18, 90, 95], [0u32, 40, 41, 200, 200]);
    let (seqlens_q, seqlens_k) = (Tensor::new(&of_q, device)?, Tensor::new(&of_k, device)?);
    let (q, k, v) = (random(&[95, 3, 64], device)?, random(&[200, 3, 64], device)?, random(&[200, 3, 64], device)?);
    let all = Tensor::new(&SLOPES, device)?;
    for (slopes, (left, right)) in [(false, (None, None)), (false, (None, Some(0))), (true, (Some(30), Some(3)))] {
        let given = slopes.then_some(&all);
        let out = fa512_candle::flash_attn_varlen_alibi_windowed_softcap(
            &q, &k, &v, given, &seqlens_q, &seqlens_k, 72, 159, 0.125, left, right, 0.0,
        )?;
        for (rows, keys) in of_q.windows(2).zip(of_k.windows(2)) {
            let part = |tensor: &Tensor, bound: &[u32]| {
                tensor.narrow(0, bound[0] as usize, (bound[1] - bound[0]) as usize)?.unsqueeze(0)
            };
            let what = format!("packed rows {rows:?} of keys {keys:?}, slopes {slopes}, window {left:?}, {right:?}");
            let expected = match keys[0] == keys[1] {
                true => part(&q, rows)?.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.zeros_like()?,
                false => {
                    let one = [&part(&q, rows)?, &part(&k, keys)?, &part(&v, keys)?];
                    reference_with(one, 0.125, (left, right), slopes.then_some(&SLOPES[..]), None)?
                }
            };
            require_close(&part(&out, rows)?, &expected, &what)?;
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let device = Device::new_cuda(0)?;
    for (length, causal) in [(1, false), (17, true), (130, false), (512, true)] {
        let [q, k, v] = [0, 1, 2].map(|_| random(&[2, length, 3, 64], &device));
        let (q, k, v) = (q?, k?, v?);
        let out = fa512_candle::flash_attn(&q, &k, &v, 0.2, causal)?;
        require_close(&out, &reference(&q, &k, &v, 0.2, masked(causal))?, &format!("S = {length}, causal {causal}"))?;
    }
    let windows: [Window; 4] = [(Some(64), Some(64)), (Some(10), Some(2)), (None, Some(9)), (Some(20), Some(0))];
    for (length, (left, right)) in [17, 130, 300].into_iter().flat_map(|length| windows.map(|window| (length, window)))
    {
        let (q, k, v) = (
            random(&[2, length, 3, 64], &device)?,
            random(&[2, length, 3, 64], &device)?,
            random(&[2, length, 3, 64], &device)?,
        );
        let out = fa512_candle::flash_attn_windowed(&q, &k, &v, 0.2, left, right)?;
        let expected = reference(&q, &k, &v, 0.2, (left, right))?;
        require_close(&out, &expected, &format!("S = {length}, window {left:?}, {right:?}"))?;
    }
    changed_scores(&device)?;
    lengths_of_keys(&device)?;
    let [q, k, v] = [0, 1, 2].map(|_| random(&[2, 130, 3, 64], &device).and_then(|x| x.to_dtype(DType::BF16)));
    let (q, k, v) = (q?, k?, v?);
    let out = fa512_candle::flash_attn(&q, &k, &v, 0.2, true)?;
    require_close(&out, &reference(&q, &k, &v, 0.2, masked(true))?, "bf16")?;
    let fused = random(&[2, 100, 3, 4, 64], &device)?;
    let part = |index| fused.narrow(2, index, 1)?.squeeze(2);
    let (q, k, v) = (part(0)?, part(1)?, part(2)?);
    let out = fa512_candle::flash_attn(&q, &k, &v, 0.125, false)?;
    require_close(&out, &reference(&q, &k, &v, 0.125, masked(false))?, "parts of a fused tensor")?;

    let bounds = [0u32, 17, 18, 90];
    let lengths = Tensor::new(&bounds, &device)?;
    let (q, k, v) = (random(&[90, 3, 64], &device)?, random(&[90, 3, 64], &device)?, random(&[90, 3, 64], &device)?);
    for window in [(None, None), (None, Some(0)), (Some(10), Some(2))] {
        let one = &lengths;
        let out = match window {
            (None, right) => fa512_candle::flash_attn_varlen(&q, &k, &v, one, one, 72, 72, 0.125, right.is_some()),
            (left, right) => fa512_candle::flash_attn_varlen_windowed(&q, &k, &v, one, one, 72, 72, 0.125, left, right),
        }?;
        for bound in bounds.windows(2) {
            let rows =
                |tensor: &Tensor| tensor.narrow(0, bound[0] as usize, (bound[1] - bound[0]) as usize)?.unsqueeze(0);
            let expected = reference(&rows(&q)?, &rows(&k)?, &rows(&v)?, 0.125, window)?;
            require_close(&rows(&out)?, &expected, &format!("packed rows {bound:?}, window {window:?}"))?;
        }
    }
    for (what, result, words) in [
        (
            "k of another type",
            fa512_candle::flash_attn(&q, &k.to_dtype(DType::BF16)?, &v, 0.125, false),
            "k is BF16 and q F16",
        ),
        ("f32", fa512_candle::flash_attn(&fused.to_dtype(DType::F32)?, &fused, &fused, 0.125, false), "q"),
    ] {
        match result {
            Err(error) if error.to_string().contains(words) => println!("{what}: refused"),
            other => bail!("{what}: {other:?}"),
        }
    }
    Ok(())
}

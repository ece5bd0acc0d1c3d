//! Errors that need no GPU, through the public functions.

use candle_core::{DType, Device, Tensor};
use fa512_candle as attention;

fn tensor(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, DType::F16, &Device::Cpu).unwrap()
}

fn message<T: std::fmt::Debug>(result: candle_core::Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn tensors_on_the_cpu_are_refused_by_name() {
    let x = tensor(&[1, 8, 2, 64]);
    assert!(message(attention::flash_attn(&x, &x, &x, 0.125, true)).contains("q is on the CPU"));
    let (x, lengths) = (tensor(&[8, 2, 64]), Tensor::new(&[0u32, 8], &Device::Cpu).unwrap());
    let packed = attention::flash_attn_varlen(&x, &x, &x, &lengths, &lengths, 8, 8, 0.125, false);
    assert!(message(packed).contains("q is on the CPU"));
    let (left, right) = (Some(2), Some(1));
    let packed = attention::flash_attn_varlen_windowed(&x, &x, &x, &lengths, &lengths, 8, 8, 0.125, left, right);
    assert!(message(packed).contains("q is on the CPU"));
    let x = x.unsqueeze(0).unwrap();
    assert!(message(attention::flash_attn_windowed(&x, &x, &x, 0.125, left, right)).contains("q is on the CPU"));
}

#[test]
fn arguments_that_are_not_computed_are_named() {
    let (x, slopes) = (tensor(&[1, 8, 2, 64]), Tensor::ones(2, DType::F32, &Device::Cpu).unwrap());
    let alibi = |slopes: &Tensor| message(attention::flash_attn_alibi(&x, &x, &x, slopes, 0.125, true));
    assert!(alibi(&slopes).contains("q is on the CPU"));
    assert!(alibi(&slopes.to_dtype(DType::F16).unwrap()).contains("alibi_slopes is F16; it must be F32"));
    let three = Tensor::ones(3, DType::F32, &Device::Cpu).unwrap();
    assert!(alibi(&three).contains("alibi_slopes has the shape [3]; it must be [2]"));
    let windowed = attention::flash_attn_alibi_windowed(&x, &x, &x, &three, 0.125, None, None);
    assert!(message(windowed).contains("alibi_slopes has the shape [3]"));
    let softcap =
        |slopes, softcap| attention::flash_attn_alibi_windowed_softcap(&x, &x, &x, slopes, 0.125, None, None, softcap);
    assert!(message(softcap(Some(&three), 0.0)).contains("alibi_slopes has the shape [3]"));
    assert!(message(softcap(Some(&slopes), 30.0)).contains("q is on the CPU"));
    assert!(message(softcap(None, -30.0)).contains("softcap is -30; it must be from 0.001 to 1000"));
    let (rows, lengths) = (tensor(&[8, 2, 64]), Tensor::new(&[0u32, 8], &Device::Cpu).unwrap());
    let packed = |slopes, softcap| {
        let one = &lengths;
        attention::flash_attn_varlen_alibi_windowed_softcap(
            &rows, &rows, &rows, slopes, one, one, 8, 8, 0.125, None, None, softcap,
        )
    };
    assert!(message(packed(Some(&three), 0.0)).contains("alibi_slopes has the shape [3]"));
    assert!(message(packed(None, f32::NAN)).contains("softcap is NaN"));
    assert!(message(packed(Some(&slopes), 30.0)).contains("q is on the CPU"));
    let (one, of) = (&lengths, &three);
    let packed_alibi = attention::flash_attn_varlen_alibi(&rows, &rows, &rows, of, one, one, 8, 8, 0.125, true);
    assert!(message(packed_alibi).contains("alibi_slopes has the shape [3]"));
    let windowed =
        attention::flash_attn_varlen_alibi_windowed(&rows, &rows, &rows, of, one, one, 8, 8, 0.125, Some(3), None);
    assert!(message(windowed).contains("alibi_slopes has the shape [3]"));
    assert!(message(packed(None, 0.0)).contains("q is on the CPU"));
    let narrow = tensor(&[1, 8, 2, 36]);
    assert!(message(attention::flash_attn(&narrow, &narrow, &narrow, 0.125, true)).contains("head_dim is 36"));
}

#[test]
fn lengths_of_q_and_k_are_of_as_many_sequences() {
    let (q, k) = (tensor(&[8, 2, 64]), tensor(&[11, 2, 64]));
    let lengths = |numbers: &[u32]| Tensor::new(numbers, &Device::Cpu).unwrap();
    let packed = |of_q: &Tensor, of_k: &Tensor| {
        message(attention::flash_attn_varlen_windowed(&q, &k, &k, of_q, of_k, 8, 9, 0.125, None, None))
    };
    let one = lengths(&[0, 3, 8]);
    assert!(packed(&one, &lengths(&[0, 2, 11])).contains("q is on the CPU"));
    assert!(packed(&one, &lengths(&[0, 11])).contains("seqlens_q has the shape [3] and seqlens_k [2]"));
    assert!(packed(&one, &one).contains("they may differ in heads and, with seqlens_k of their own, in rows only"));
    assert!(packed(&one, &one.to_dtype(DType::I64).unwrap()).contains("seqlens_k is I64; it must be U32"));
}

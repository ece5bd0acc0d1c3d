//! Converts candle's layouts to a problem of fa512.

use candle_core::{Layout, Result};
use fa512::contract::problem::check_head_dim;
use fa512::{Alignment, Lengths, Mask, Packing, Problem, Shape, Strides, View, Views, Window};

/// Sizes and strides of a tensor: a batch `[batch, sequence, heads, head size]`, or packed `[rows, heads, head size]`.
struct Rows {
    shape: [usize; 3],
    head_dim: u32,
    view: View,
}

impl Rows {
    fn of(layout: &Layout, name: &str, is_packed: bool) -> Result<Self> {
        let (dims, strides) = (layout.dims(), layout.stride());
        let (shape, [batch, row, head, column]) = match (is_packed, dims, strides) {
            (false, &[batch, rows, heads, _], &[b, r, h, c]) => ([batch, rows, heads], [b, r, h, c]),
            (true, &[rows, heads, _], &[r, h, c]) => ([1, rows, heads], [0, r, h, c]),
            _ => {
                let wanted = if is_packed { "[rows, heads, head size]" } else { "[batch, sequence, heads, head size]" };
                candle_core::bail!("{name} has the shape {dims:?}; it must be {wanted}");
            }
        };
        let head_dim = u32::try_from(dims[dims.len() - 1]).unwrap_or(u32::MAX);
        if let Err(refusal) = check_head_dim(head_dim) {
            candle_core::bail!("{name}: {refusal}");
        }
        if column != 1 {
            candle_core::bail!("{name} has a stride of {column} elements along its last dimension; it must be 1");
        }
        let strides = Strides { batch: batch as u64, head: head as u64, row: row as u64 };
        Ok(Self { shape, head_dim, view: View { offset: layout.start_offset() as u64, strides } })
    }
}

/// The problem of Q, K and V with these layouts; O is contiguous, with Q's order of dimensions. `None` if a dimension
/// is 0 and there is nothing to compute.
///
/// # Errors
/// Names the tensor and what is accepted.
pub fn of(layouts: [&Layout; 3], window: Window, scale: f32, packing: Option<Packing>) -> Result<Option<Problem>> {
    let is_packed = packing.is_some();
    let q = Rows::of(layouts[0], "q", is_packed)?;
    let k = Rows::of(layouts[1], "k", is_packed)?;
    let v = Rows::of(layouts[2], "v", is_packed)?;
    let has_rows_of_q = packing.is_some_and(|packing| packing.lengths == Lengths::Shared);
    if (k.shape[0], k.head_dim) != (q.shape[0], q.head_dim) || (has_rows_of_q && k.shape[1] != q.shape[1]) {
        let may_differ =
            if has_rows_of_q { "heads and, with seqlens_k of their own, in rows" } else { "heads and rows" };
        candle_core::bail!(
            "k has the shape {:?} and q {:?}; they may differ in {may_differ} only",
            layouts[1].dims(),
            layouts[0].dims()
        );
    }
    if (v.shape, v.head_dim) != (k.shape, k.head_dim) {
        candle_core::bail!("v has the shape {:?} and k {:?}; they must be equal", layouts[2].dims(), layouts[1].dims());
    }
    if q.shape.contains(&0) || packing.is_some_and(|packing| packing.sequences == 0) {
        return Ok(None);
    }
    let narrow = |size: usize, name: &str| {
        u32::try_from(size)
            .map_err(|_| candle_core::Error::msg(format!("{name} is {size}, which is more than 32 bits count")))
    };
    let [batch, rows, heads] = q.shape;
    let [_, keys, kv_heads] = k.shape;
    let shape = Shape::new(narrow(batch, "batch")?, narrow(heads, "heads")?, narrow(rows, "sequence")?)
        .with_kv_heads(narrow(kv_heads, "the heads of k")?)
        .with_kv_sequence(narrow(keys, "the sequence of k")?)
        .with_head_dim(q.head_dim);
    let problem = Problem::new(shape, Mask::Full, fa512::Layout::Bshd).and_then(|problem| {
        let o = problem.views().o;
        problem
            .with_window(window)
            // As in flash-attn.
            .aligned(Alignment::BottomRight)
            .with_views(Views { q: q.view, k: k.view, v: v.view, o })?
            .with_scale(f64::from(scale))
    });
    let problem = match packing {
        None => problem,
        Some(packing) => problem.and_then(|problem| problem.packed(packing)),
    };
    problem.map(Some).map_err(candle_core::Error::wrap)
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Tensor};

    use super::*;

    const CAUSAL: Window = Window { left: None, right: Some(0) };

    fn tensor(shape: &[usize]) -> Tensor {
        Tensor::zeros(shape, DType::F16, &Device::Cpu).unwrap()
    }

    fn problem(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Option<Problem>> {
        of([q.layout(), k.layout(), v.layout()], Window::UNLIMITED, 0.125, None)
    }

    fn refused(q: &Tensor, k: &Tensor, v: &Tensor) -> String {
        problem(q, k, v).unwrap_err().to_string()
    }

    #[test]
    fn contiguous_tensors_are_batch_sequence_heads() {
        let x = tensor(&[2, 100, 3, 64]);
        let made = problem(&x, &x, &x).unwrap().unwrap();
        assert_eq!(made.shape(), Shape::new(2, 3, 100));
        assert_eq!(made.views().q, View::new(Strides { batch: 19_200, head: 64, row: 192 }));
        assert_eq!(made.views().o, made.views().q);
        let narrow = tensor(&[2, 100, 3, 32]);
        let made = problem(&narrow, &narrow, &narrow).unwrap().unwrap();
        assert_eq!(made.shape(), Shape::new(2, 3, 100).with_head_dim(32));
        assert_eq!(made.views().o, View::new(Strides { batch: 9_600, head: 32, row: 96 }));
    }

    #[test]
    fn parts_of_a_fused_tensor_keep_their_offsets_and_strides() {
        let fused = tensor(&[2, 10, 3, 4, 64]);
        let part = |index| fused.narrow(2, index, 1).unwrap().squeeze(2).unwrap();
        let made = problem(&part(0), &part(1), &part(2)).unwrap().unwrap();
        let strides = Strides { batch: 7_680, head: 64, row: 768 };
        assert_eq!(
            [made.views().q, made.views().k, made.views().v],
            [0, 256, 512].map(|offset| View { offset, strides })
        );
        assert_eq!(made.views().o, View::new(Strides { batch: 2_560, head: 64, row: 256 }));
    }

    #[test]
    fn transposed_and_broadcast_views_are_taken() {
        let heads_first = tensor(&[2, 3, 100, 64]).transpose(1, 2).unwrap();
        let shared = tensor(&[2, 100, 1, 64]).broadcast_as((2, 100, 3, 64)).unwrap();
        let made = problem(&heads_first, &shared, &shared).unwrap().unwrap();
        assert_eq!(made.views().q.strides, Strides { batch: 19_200, head: 6_400, row: 64 });
        assert_eq!(made.views().k.strides, Strides { batch: 6_400, head: 0, row: 64 });
    }

    #[test]
    fn packed_rows_have_no_batch() {
        let x = tensor(&[50, 3, 64]);
        let packing = Packing::new(4, 20);
        let made = of([x.layout(); 3], CAUSAL, 0.5, Some(packing)).unwrap().unwrap();
        assert_eq!(made.shape(), Shape::new(1, 3, 50));
        assert_eq!((made.packing(), made.mask(), made.scale()), (Some(packing), Mask::Causal, 0.5));
    }

    #[test]
    fn windows_reach_the_problem() {
        let window = Window { left: Some(3), right: Some(4) };
        let batch = tensor(&[2, 10, 3, 64]);
        let made = of([batch.layout(); 3], window, 0.5, None).unwrap().unwrap();
        assert_eq!((made.window(), made.mask()), (window, Mask::Window));
        let rows = tensor(&[50, 3, 64]);
        let made = of([rows.layout(); 3], window, 0.5, Some(Packing::new(4, 20))).unwrap().unwrap();
        assert_eq!((made.window(), made.mask()), (window, Mask::Window));
    }

    #[test]
    fn k_and_v_may_have_fewer_heads_and_other_rows() {
        let (x, shared) = (tensor(&[2, 10, 6, 64]), tensor(&[2, 33, 2, 64]));
        let made = of([x.layout(), shared.layout(), shared.layout()], CAUSAL, 0.5, None).unwrap().unwrap();
        assert_eq!(made.shape(), Shape::new(2, 6, 10).with_kv_heads(2).with_kv_sequence(33));
        assert_eq!(made.attended_keys(0, 10, 33), 0..24, "the last query is at the last key");
        assert_eq!(made.views().o.strides, Strides { batch: 3_840, head: 64, row: 384 });
    }

    #[test]
    fn packed_keys_may_have_other_rows_where_they_have_other_lengths() {
        let (rows, keys) = (tensor(&[50, 6, 64]), tensor(&[70, 2, 64]));
        let layouts = [rows.layout(), keys.layout(), keys.layout()];
        let made = of(layouts, CAUSAL, 0.5, Some(Packing::separate(4, 20))).unwrap().unwrap();
        assert_eq!(made.shape(), Shape::new(1, 6, 50).with_kv_heads(2).with_kv_sequence(70));
        assert_eq!(made.packing(), Some(Packing::separate(4, 20)));
        assert_eq!(made.attended_keys(0, 10, 33), 0..24, "the last query is at the last key");
        let narrow = tensor(&[70, 2, 32]);
        let layouts = [rows.layout(), narrow.layout(), narrow.layout()];
        let words = of(layouts, CAUSAL, 0.5, Some(Packing::separate(4, 20))).unwrap_err().to_string();
        assert!(words.contains("they may differ in heads and rows only"), "{words}");
    }

    #[test]
    fn nothing_to_compute_is_no_problem() {
        let x = tensor(&[0, 10, 3, 64]);
        assert_eq!(problem(&x, &x, &x).unwrap(), None);
        let x = tensor(&[5, 3, 64]);
        let none = Packing::new(0, 0);
        assert_eq!(of([x.layout(); 3], Window::UNLIMITED, 1.0, Some(none)).unwrap(), None);
    }

    #[test]
    fn what_is_not_computed_is_named() {
        let x = tensor(&[2, 10, 4, 64]);
        assert!(refused(&tensor(&[10, 4, 64]), &x, &x).contains("q has the shape [10, 4, 64]"));
        let odd = tensor(&[2, 10, 4, 36]);
        let words = refused(&odd, &odd, &odd);
        assert!(words.contains("head_dim is 36; it must be a multiple of 8 from 8 to 256"), "{words}");
        assert!(
            refused(&x, &tensor(&[2, 10, 4, 32]), &x).contains("k has the shape [2, 10, 4, 32] and q [2, 10, 4, 64]")
        );
        let uneven = tensor(&[2, 10, 3, 64]);
        assert!(refused(&x, &uneven, &uneven).contains("the heads of Q must be a multiple of those of K and V"));
        let longer = tensor(&[2, 11, 4, 64]);
        assert!(refused(&x, &x, &longer).contains("v has the shape [2, 11, 4, 64]"));
        let (rows, more) = (tensor(&[10, 4, 64]), tensor(&[11, 4, 64]));
        let packing = Some(Packing::new(2, 5));
        let words = of([rows.layout(), more.layout(), more.layout()], CAUSAL, 0.5, packing).unwrap_err().to_string();
        assert!(words.contains("k has the shape [11, 4, 64] and q [10, 4, 64]"), "{words}");
        let columns = tensor(&[2, 10, 64, 4]).transpose(2, 3).unwrap();
        assert!(refused(&x, &columns, &x).contains("k has a stride of 4 elements along its last dimension"));
        let odd = tensor(&[2, 10, 4, 65]).narrow(3, 0, 64).unwrap();
        assert!(refused(&odd, &x, &x).contains("stride of 65"), "{}", refused(&odd, &x, &x));
        let misaligned = tensor(&[2, 10, 4, 72]).narrow(3, 4, 64).unwrap();
        assert!(refused(&misaligned, &x, &x).contains("Q starts at element 4"), "{}", refused(&misaligned, &x, &x));
        let scaled = of([x.layout(); 3], Window::UNLIMITED, -1.0, None).unwrap_err().to_string();
        assert!(scaled.contains("negate Q"), "{scaled}");
    }
}

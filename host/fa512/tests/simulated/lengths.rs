//! Sequences of different lengths, packed and in padded batches.

use super::*;

#[test]
fn packed_sequences_are_computed_each_for_itself() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for (mask, element) in [(Mask::Full, Element::F16), (Mask::Causal, Element::F16), (Mask::Causal, Element::Bf16)] {
        // The first two rows and the last three belong to no sequence, and one is empty.
        let case = Case::packed_of(element, 103, &[2, 3, 70, 70, 100], mask, &stream);
        compute(&case);
    }
    assert_eq!(findings(), "");
}

#[test]
fn keys_have_lengths_of_their_own() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for (index, mask) in [Mask::Full, Mask::Causal, Mask::Window].into_iter().enumerate() {
        for alignment in Alignment::ALL {
            let element = Element::ALL[index % 2];
            let of = |shape: Shape| {
                Problem::new(shape, mask, Layout::Bshd).unwrap().with_element(element).aligned(alignment)
            };
            let problem = of(Shape::new(1, 2, 100).with_kv_sequence(130));
            // The second sequence has no query, and the last no key.
            let case = Case::separate(problem, &[0, 30, 30, 95, 100], &[0, 90, 100, 130, 130], &stream);
            compute(&case);
            let problem = of(Shape::new(3, 2, 40).with_kv_sequence(80));
            let case = Case::padded(problem, [&[40, 0, 17], &[3, 80, 0]], &stream);
            compute(&case);
        }
    }
    assert_eq!(findings(), "");
}

#[test]
fn lengths_of_keys_are_checked_as_those_of_queries() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let shape = Shape::new(1, 2, 100).with_kv_sequence(130);
    let problem = Problem::new(shape, Mask::Full, Layout::Bshd).unwrap();
    let case = Case::separate(problem, &[0, 30, 100], &[0, 90, 130], &stream);
    let good = case.addresses();
    let refused = |addresses| message(forward(&case, addresses));
    let missing = refused(Addresses { cu_seqlens_k: None, ..good });
    assert!(missing.contains("cu_seqlens_k is missing"), "{missing}");
    let short = refused(Addresses { seqused_k: Some(good.cu_seqlens.unwrap() + 8), ..good });
    assert!(short.contains("seqused_k"), "{short}");
    let shared = Case::packed(40, &[0, 10, 40], Mask::Full, &stream);
    let unexpected = message(forward(&shared, Addresses { seqused_k: good.cu_seqlens, ..shared.addresses() }));
    assert!(unexpected.contains("seqused_k is given"), "{unexpected}");
    let apart = Problem::new(Shape::new(2, 2, 8), Mask::Full, Layout::Bhsd).unwrap().padded().unwrap_err().to_string();
    assert!(apart.contains("Q has a batch stride of 1024 elements; a padded batch needs"), "{apart}");
    assert!(case.is_untouched() && shared.is_untouched());
}

#[test]
fn lengths_that_are_none_stay_within_the_tensors() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let case = Case::packed(40, &[i32::MIN, 90, -7, i32::MAX], Mask::Full, &stream);
    forward(&case, case.addresses()).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(findings(), "");
}

#[test]
fn lengths_are_checked_as_every_tensor_is() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let case = Case::packed(40, &[0, 10, 40], Mask::Full, &stream);
    let good = case.addresses();
    let lengths = good.cu_seqlens.unwrap();
    let refused = |cu_seqlens| message(forward(&case, Addresses { cu_seqlens, ..good }));
    assert!(refused(None).contains("cu_seqlens"), "{}", refused(None));
    assert!(refused(Some(lengths + 2)).contains("cu_seqlens"), "{}", refused(Some(lengths + 2)));
    match forward(&case, Addresses { cu_seqlens: Some(lengths + 4), ..good }) {
        Err(Error::Memory { tensor: Tensor::CuSeqlens, why, .. }) => {
            assert_eq!(why, MemoryProblem::TooShort { bytes: 8, needed: 12 });
        }
        other => panic!("another result: {other:?}"),
    }
    let equal = Case::new(problem(1, 2, 40, Mask::Full), &stream);
    let unexpected = message(forward(&equal, Addresses { cu_seqlens: good.cu_seqlens, ..equal.addresses() }));
    assert!(unexpected.contains("cu_seqlens"), "{unexpected}");
    assert!(case.is_untouched() && equal.is_untouched());
}

#[cfg(feature = "cudarc")]
#[test]
fn packed_slices_of_cudarc_are_checked_too() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let mut case = Case::packed(30, &[0, 9, 30], Mask::Causal, &stream);
    let Case { problem, q, k, v, o, lse, cu_seqlens, .. } = &mut case;
    let elements = 30 * 2 * 64;
    // SAFETY: every 16-bit pattern is a valid f16.
    let [q, k, v] = [q, k, v].map(|slice| unsafe { slice.transmute::<half::f16>(elements) }.unwrap());
    // SAFETY: as above.
    let mut o = unsafe { o.transmute_mut::<half::f16>(elements) }.unwrap();
    let lengths = cu_seqlens.as_ref().unwrap();
    let short = lengths.slice(..2);
    let error = fa512::cudarc::forward_varlen(problem, &q, &k, &v, &short, &mut o, None, &stream).unwrap_err();
    assert_eq!(error.to_string(), "cu_seqlens: its memory ends after 8 bytes; the tensor spans 12");
    fa512::cudarc::forward_varlen(problem, &q, &k, &v, lengths, &mut o, Some(lse), &stream).unwrap();
    case.check(true);
}

#[cfg(feature = "cudarc")]
#[test]
fn slices_of_cudarc_say_the_lengths_of_keys() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let shape = Shape::new(1, 2, 30).with_kv_sequence(50);
    let problem = Problem::new(shape, Mask::Causal, Layout::Bshd).unwrap().aligned(Alignment::BottomRight);
    let mut case = Case::separate(problem, &[0, 9, 30], &[0, 50, 50], &stream);
    let Case { problem, q, k, v, o, lse, cu_seqlens, cu_seqlens_k, .. } = &mut case;
    // SAFETY: every 16-bit pattern is a valid f16.
    let [q, k, v] = [(q, 30), (k, 50), (v, 50)]
        .map(|(slice, rows)| unsafe { slice.transmute::<half::f16>(rows * 2 * 64) }.unwrap());
    // SAFETY: as above.
    let mut o = unsafe { o.transmute_mut::<half::f16>(30 * 2 * 64) }.unwrap();
    let short = stream.clone_htod(&[0, 50]).unwrap();
    let mut forward = |of_keys: Option<&cudarc::driver::CudaSlice<i32>>| {
        let lengths = fa512::cudarc::Lengths {
            cu_seqlens: cu_seqlens.as_ref().map(|lengths| lengths.as_view()),
            cu_seqlens_k: of_keys.map(|lengths| lengths.as_view()),
            ..Default::default()
        };
        fa512::cudarc::forward_lengths(problem, &q, &k, &v, &lengths, &mut o, Some(lse), &stream)
    };
    let error = forward(Some(&short)).unwrap_err();
    assert_eq!(error.to_string(), "cu_seqlens_k: its memory ends after 8 bytes; the tensor spans 12");
    assert!(forward(None).unwrap_err().to_string().contains("cu_seqlens_k is missing"));
    forward(cu_seqlens_k.as_ref()).unwrap();
    case.check(true);
}

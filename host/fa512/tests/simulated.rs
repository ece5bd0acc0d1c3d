//! Calls through the simulated driver: correct results, no findings, and wrong inputs named in errors before any launch.

mod common;
#[path = "simulated/lengths.rs"]
mod lengths;

use cudarc::driver::CudaContext;
use fa512::{
    Addresses, Alignment, Element, Error, ErrorKind, Gpu, Layout, Mask, MemoryProblem, Options, Plan, Problem, Shape,
    Stream, Strides, Tensor, View, Views, Window,
};

use common::attention::Case;
use common::{findings, gpu, gpus, machine, raw};

fn problem(batch: u32, heads: u32, sequence: u32, mask: Mask) -> Problem {
    Problem::new(Shape::new(batch, heads, sequence), mask, Layout::Bhsd).unwrap()
}

/// Calls `forward`. This is sound: the tensors of a case live until its check has synchronised.
fn forward(case: &Case, addresses: Addresses) -> Result<(), Error> {
    // SAFETY: see above; finding wrong addresses is the purpose of the call.
    unsafe { fa512::forward(&case.problem, addresses, raw(&case.stream)) }
}

/// Computes a case and requires correct O and LSE.
fn compute(case: &Case) {
    forward(case, case.addresses()).unwrap();
    case.check(true);
}

fn message(result: Result<(), Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn results_are_right_whatever_the_length_mask_and_strides() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let contiguous = |sequence, mask, layout| Problem::new(Shape::new(2, 2, sequence), mask, layout).unwrap();
    let padded = {
        let problem = problem(2, 2, 40, Mask::Full);
        let view = View { offset: 8, ..View::new(Strides { batch: 8192, head: 4000, row: 72 }) };
        problem.with_views(Views::all(view)).unwrap().with_scale(0.3).unwrap()
    };
    for problem in [
        contiguous(1, Mask::Full, Layout::Bhsd),
        contiguous(17, Mask::Causal, Layout::Bshd),
        contiguous(130, Mask::Full, Layout::Bshd),
        contiguous(100, Mask::Causal, Layout::Bhsd),
        problem(1, 1, 512, Mask::Causal),
        padded,
    ] {
        let case = Case::new(problem, &stream);
        compute(&case);
        let case = Case::new(problem, &stream);
        forward(&case, Addresses { lse: None, ..case.addresses() }).unwrap();
        case.check(false);
    }
    let entry = |problem| Plan::new(problem, &Gpu::current().unwrap()).unwrap().entry();
    assert!(entry(&problem(2, 2, 100, Mask::Causal)).contains("_tma_"), "tensor maps are among what was tried");
    assert_eq!(findings(), "");
}

/// A thread keeps the plans of its last problems, fewer than there are here.
#[test]
fn problems_that_come_again_in_any_order_are_computed_as_before() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let cases: Vec<Case> = [Mask::Full, Mask::Causal]
        .into_iter()
        .flat_map(|mask| [5, 9, 40].map(|sequence| problem(1, 2, sequence, mask)))
        .flat_map(|problem| [problem, problem.with_scale(0.5).unwrap()])
        .map(|problem| Case::new(problem, &stream))
        .collect();
    for index in [0, 0, 1, 0, 1, 2, 3, 4, 5, 0, 6, 7, 8, 9, 10, 11, 1, 11] {
        compute(&cases[index]);
    }
    assert_eq!(findings(), "");
}

#[test]
fn heads_of_any_size_are_computed_by_tiles_at_least_as_wide() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let at = |shape: Shape, head_dim, mask| Problem::new(shape.with_head_dim(head_dim), mask, Layout::Bshd).unwrap();
    let mut entries = Vec::new();
    for head_dim in [8, 32, 40, 72, 128, 136, 200] {
        for (index, mask) in [Mask::Full, Mask::Causal, Mask::Window].into_iter().enumerate() {
            let problem = at(Shape::new(1, 2, 100), head_dim, mask);
            let problem = if index == 1 { problem.with_element(Element::Bf16) } else { problem };
            let case = Case::new(problem, &stream);
            entries.push(Plan::new(&problem, &Gpu::current().unwrap()).unwrap().entry());
            compute(&case);
            let case = Case::packed_problem(at(Shape::new(1, 2, 100), head_dim, mask), &[3, 3, 20, 90], &stream);
            compute(&case);
        }
    }
    for columns in ["_d32_", "_d128_", "_d192_", "_d256_"] {
        assert!(entries.iter().any(|entry| entry.contains(columns)), "no entry with {columns} among {entries:?}");
    }
    assert_eq!(findings(), "");
}

#[test]
fn heads_of_queries_may_share_heads_of_keys() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for (heads, kv_heads, mask) in [(4, 2, Mask::Full), (6, 1, Mask::Causal), (4, 2, Mask::Window)] {
        for (layout, longest) in [(Layout::Bhsd, 200), (Layout::Bshd, 512)] {
            for (batch, sequence) in [(2, 70), (1, longest)] {
                let shape = Shape::new(batch, heads, sequence).with_kv_heads(kv_heads);
                let case = Case::new(Problem::new(shape, mask, layout).unwrap(), &stream);
                compute(&case);
            }
            let problem = Problem::new(Shape::new(1, heads, 100).with_kv_heads(kv_heads), mask, layout).unwrap();
            let case = Case::packed_problem(problem, &[3, 3, 20, 90], &stream);
            compute(&case);
        }
    }
    assert_eq!(findings(), "");
}

#[test]
fn there_may_be_more_keys_than_queries_or_fewer() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for (sequence, kv_sequence) in [(1, 200), (70, 130), (130, 70), (200, 1)] {
        for mask in [Mask::Full, Mask::Causal, Mask::Window] {
            for alignment in Alignment::ALL {
                let shape = Shape::new(2, 2, sequence).with_kv_sequence(kv_sequence);
                let problem = Problem::new(shape, mask, Layout::Bshd).unwrap().aligned(alignment);
                let case = Case::new(problem, &stream);
                compute(&case);
            }
        }
    }
    assert_eq!(findings(), "");
}

#[test]
fn bf16_is_computed_by_kernels_of_its_own() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for problem in [problem(2, 2, 100, Mask::Causal), problem(1, 1, 512, Mask::Full), problem(1, 2, 3, Mask::Full)] {
        let case = Case::new(problem.with_element(Element::Bf16), &stream);
        compute(&case);
        let entry = Plan::new(&case.problem, &Gpu::current().unwrap()).unwrap().entry();
        assert!(entry.contains("_bf16_"), "{entry}");
    }
    assert_eq!(findings(), "");
}

#[test]
fn windows_are_computed_and_simplified() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let entry = |problem: &Problem| Plan::new(problem, &Gpu::current().unwrap()).unwrap().entry();
    let window = |left, right| Window { left, right };
    for (sequence, window, is_window) in [
        (200, window(Some(64), Some(64)), true),
        (130, window(Some(3), None), true),
        (70, window(None, Some(9)), true),
        (70, window(Some(69), Some(0)), false),
    ] {
        let problem = problem(1, 2, sequence, Mask::Full).with_window(window);
        assert_eq!(entry(&problem).contains("_window_"), is_window, "{}", entry(&problem));
        let case = Case::new(problem, &stream);
        compute(&case);
    }
    let mut case = Case::packed(103, &[2, 3, 70, 70, 100], Mask::Full, &stream);
    case.problem = case.problem.with_window(window(Some(10), Some(2)));
    compute(&case);
    assert_eq!(findings(), "");
}

#[test]
fn a_plan_is_bound_once_and_launched_often() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let mut case = Case::new(problem(1, 2, 64, Mask::Full), &stream);
    let plan = Plan::new(&case.problem, &Gpu::current().unwrap()).unwrap();
    plan.warm_up().unwrap();
    let launch = plan.bind(case.addresses()).unwrap();
    for overlap in [true, false] {
        // SAFETY: the tensors live until the check has synchronised, and the stream is of the current context.
        unsafe { launch.overlap(overlap).launch(raw(&stream)) }.unwrap();
        case.check(true);
        case.clear();
    }
}

#[test]
fn default_streams_are_taken() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for default in [Stream::LEGACY, Stream::PER_THREAD, Stream::from_raw(std::ptr::without_provenance_mut(1))] {
        let case = Case::new(problem(1, 1, 20, Mask::Full), &stream);
        // SAFETY: the tensors live until the context is synchronised below.
        unsafe { fa512::forward(&case.problem, case.addresses(), default) }.unwrap();
        stream.context().synchronize().unwrap();
        case.check(true);
    }
}

#[test]
fn what_an_address_points_to_is_checked() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let case = Case::new(problem(1, 2, 64, Mask::Full), &stream);
    let good = case.addresses();
    let memory = |addresses| match forward(&case, addresses).unwrap_err() {
        Error::Memory { tensor, why, .. } => (tensor, why),
        other => panic!("another error: {other}"),
    };
    assert_eq!(
        memory(Addresses { o: good.o + 16, lse: None, ..good }),
        (Tensor::O, MemoryProblem::TooShort { bytes: 2 * 64 * 64 * 2 - 16, needed: 2 * 64 * 64 * 2 })
    );
    assert_eq!(
        memory(Addresses { lse: Some(case.addresses().lse.unwrap() + 16), ..good }),
        (Tensor::Lse, MemoryProblem::TooShort { bytes: 2 * 64 * 4 - 16, needed: 2 * 64 * 4 })
    );
    let host = vec![0u16; 16384];
    let on_host = (host.as_ptr().addr() as u64).next_multiple_of(16);
    assert_eq!(memory(Addresses { k: on_host, ..good }), (Tensor::K, MemoryProblem::Unknown));
    let freed = {
        let slice = stream.alloc_zeros::<u16>(1 << 16).unwrap();
        common::address(&slice, &stream)
    };
    stream.synchronize().unwrap();
    assert_eq!(memory(Addresses { v: freed, ..good }), (Tensor::V, MemoryProblem::Unknown));
    assert!(case.is_untouched());
    assert_eq!(findings(), "");
}

#[test]
fn wrong_addresses_are_refused_before_the_driver_is_asked() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let case = Case::new(problem(1, 2, 64, Mask::Full), &stream);
    let good = case.addresses();
    for (addresses, expected) in [
        (Addresses { q: 0, ..good }, "Q is at address 0x0"),
        (Addresses { k: good.k + 8, ..good }, "K is at address"),
        (Addresses { o: good.v, ..good }, "O at"),
        (Addresses { lse: Some(good.o), ..good }, "LSE at"),
    ] {
        let error = forward(&case, addresses).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(case.is_untouched());
}

#[test]
fn memory_and_streams_of_other_contexts_are_named() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let case = Case::new(problem(1, 1, 64, Mask::Full), &stream);
    let good = case.addresses();
    if gpus() < 2 {
        eprintln!("not tested: memory of another GPU, as this machine has one");
        return;
    }
    let other = gpu(1);
    let there = other.alloc_zeros::<u16>(64 * 64).unwrap();
    let q = common::address(&there, &other);
    assert_eq!(message(forward(&case, good)), Error::OtherStream.to_string(), "GPU 1 is current");
    stream.context().bind_to_thread().unwrap();
    let error = message(forward(&case, Addresses { q, ..good }));
    assert!(error.contains("it is memory of GPU 1; the current context is on GPU 0"), "{error}");

    let second = CudaContext::new_non_primary(0, 0).unwrap();
    second.bind_to_thread().unwrap();
    let second_stream = second.new_stream().unwrap();
    let there = second_stream.alloc_zeros::<u16>(64 * 64).unwrap();
    let k = common::address(&there, &second_stream);
    stream.context().bind_to_thread().unwrap();
    let error = message(forward(&case, Addresses { k, ..good }));
    assert!(error.contains("K at") && error.contains("allocated in another context"), "{error}");
    // SAFETY: nothing is launched.
    let error = unsafe { fa512::forward(&case.problem, good, raw(&second_stream)) };
    assert_eq!(error, Err(Error::OtherStream));
    assert!(case.is_untouched());
}

#[test]
fn a_thread_without_a_context_is_told_so() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let case = Case::new(problem(1, 1, 64, Mask::Full), &stream);
    // Here, since cudarc makes its context current when it is asked for an address.
    let addresses = case.addresses();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| forward(&case, addresses));
        assert_eq!(thread.join().unwrap(), Err(Error::NoContext));
    });
    assert_eq!(Gpu::of_device(0).unwrap().ordinal(), Some(0));
    let error = Gpu::of_device(99).unwrap_err().to_string();
    assert!(error.contains(&format!("there is no GPU 99: the driver shows {}", gpus())), "{error}");
}

#[test]
fn several_threads_use_several_gpus_at_once() {
    let Some(()) = machine() else { return };
    std::thread::scope(|scope| {
        for thread in 0..6 {
            scope.spawn(move || {
                let stream = gpu(thread % gpus());
                let mask = if thread < 3 { Mask::Full } else { Mask::Causal };
                let case = Case::new(problem(1, 1, 30 + thread as u32, mask), &stream);
                assert_eq!(Gpu::current().unwrap().ordinal(), Some(thread % gpus()));
                compute(&case);
            });
        }
    });
    assert_eq!(findings(), "");
}

#[test]
fn the_driver_is_not_asked_about_pointers_where_that_is_switched_off() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let case = Case::new(problem(1, 1, 33, Mask::Causal), &stream);
    let options = Options::default().check_pointers(false).overlap(false);
    // SAFETY: the tensors live until the check has synchronised.
    unsafe { fa512::forward_with(&case.problem, case.addresses(), raw(&stream), options) }.unwrap();
    case.check(true);
}

#[test]
fn every_type_goes_to_other_threads() {
    fn goes<T: Send + Sync + Copy + 'static>() {}
    goes::<Problem>();
    goes::<Gpu>();
    goes::<Plan>();
    goes::<fa512::Launch>();
    goes::<Stream>();
    fn is_an_error<T: std::error::Error + Send + Sync + Clone + 'static>() {}
    is_an_error::<Error>();
}

#[test]
fn what_runs_on_a_gpu_can_be_asked_without_one() {
    let support = |architecture| {
        let facts =
            fa512::GpuFacts { name: "some GPU", architecture, multiprocessors: 100, shared_bytes_per_block: 99 << 10 };
        fa512::supports(&problem(8, 8, 300, Mask::Full), &Gpu::described(facts))
    };
    assert!(support(86).unwrap().entry.starts_with("fa512_sm80_any_full"));
    assert!(support(86).unwrap().reason.contains("µs at the speed of NVIDIA H100"));
    let h200 = fa512::GpuFacts {
        name: "NVIDIA H200",
        architecture: 90,
        multiprocessors: 132,
        shared_bytes_per_block: 227 << 10,
    };
    let near = problem(8, 8, 300, Mask::Full);
    assert!(fa512::supports(&near, &Gpu::described(h200)).unwrap().entry.contains("_tma_"));
    let k = View::new(Strides { batch: 1 << 40, ..near.views().k.strides });
    let far = near.with_views(Views { k, ..*near.views() }).unwrap();
    let entry = fa512::supports(&far, &Gpu::described(h200)).unwrap().entry;
    assert!(!entry.contains("_tma_"), "no tensor map describes such strides: {entry}");
    let error = support(75).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("needs sm_80 or later"), "{error}");
}

#[cfg(feature = "cudarc")]
#[test]
fn slices_of_cudarc_are_checked_by_their_length_and_context() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let mut case = Case::new(problem(1, 1, 50, Mask::Full), &stream);
    let Case { problem, q, k, v, o, lse, .. } = &mut case;
    let elements = 50 * 64;
    // SAFETY: every 16-bit pattern is a valid f16.
    let [q, k, v] = [q, k, v].map(|slice| unsafe { slice.transmute::<half::f16>(elements) }.unwrap());
    // SAFETY: as above.
    let mut o = unsafe { o.transmute_mut::<half::f16>(elements) }.unwrap();
    let mut short = o.slice_mut(..elements - 1);
    let error = fa512::cudarc::forward(problem, &q, &k, &v, &mut short, None, &stream).unwrap_err();
    assert_eq!(error.to_string(), "O: its memory ends after 6398 bytes; the tensor spans 6400");
    let elsewhere = CudaContext::new_non_primary(0, 0).unwrap().new_stream().unwrap();
    let error = fa512::cudarc::forward(problem, &q, &k, &v, &mut o, None, &elsewhere).unwrap_err();
    assert!(error.to_string().starts_with("Q: it was allocated in another context"), "{error}");
    fa512::cudarc::forward(problem, &q, &k, &v, &mut o, Some(lse), &stream).unwrap();
    case.check(true);
}

#[cfg(feature = "cudarc")]
#[test]
fn slices_of_bf16_make_it_a_problem_of_bf16() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let case = problem(1, 1, 50, Mask::Full);
    let mut case = Case::new(case.with_element(Element::Bf16), &stream);
    let Case { problem, q, k, v, o, lse, .. } = &mut case;
    let elements = 50 * 64;
    // SAFETY: every 16-bit pattern is a valid bf16.
    let [q, k, v] = [q, k, v].map(|slice| unsafe { slice.transmute::<half::bf16>(elements) }.unwrap());
    // SAFETY: as above.
    let mut o = unsafe { o.transmute_mut::<half::bf16>(elements) }.unwrap();
    let unsaid = problem.with_element(Element::F16);
    fa512::cudarc::forward(&unsaid, &q, &k, &v, &mut o, Some(lse), &stream).unwrap();
    case.check(true);
}

#[test]
fn the_primary_context_of_a_gpu_is_entered_and_left() {
    let Some(()) = machine() else { return };
    let _kept = gpu(0);
    let current = || Gpu::current().map(|gpu| gpu.ordinal());
    let last = gpus() - 1;
    {
        let _entered = Gpu::of_device(last).unwrap().enter().unwrap();
        assert_eq!(current(), Ok(Some(last)));
        let _again = Gpu::of_device(last).unwrap().enter().unwrap();
        assert_eq!(current(), Ok(Some(last)));
    }
    assert_eq!(current(), Ok(Some(0)), "the one before is current again");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            drop(Gpu::of_device(0).unwrap().enter().unwrap());
            assert_eq!(current(), Err(Error::NoContext), "a thread that had none has none");
        });
    });
    let described =
        fa512::GpuFacts { name: "some GPU", architecture: 90, multiprocessors: 1, shared_bytes_per_block: 1 };
    assert_eq!(Gpu::described(described).enter().err(), Some(Error::OtherGpu { planned: None }));
    assert!(fa512::driver_version().unwrap() >= fa512::Version { major: 12, minor: 0 });
}

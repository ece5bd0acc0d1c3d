//! A call on a stream that captures: in a process of its own, in which no kernel is loaded yet.

mod common;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use fa512::{Error, Layout, Mask, Problem, Shape};

use common::attention::Case;
use common::{findings, gpu, machine, raw};

#[test]
fn a_call_is_captured_once_its_kernel_is_loaded_and_the_graph_can_be_replayed() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let shape = Shape::new(1, 2, 70);
    let problem = Problem::new(shape, Mask::Causal, Layout::Bhsd).unwrap();
    let mut case = Case::new(problem, &stream);
    // cudarc would record events of its own into the graph.
    let addresses = case.addresses();
    // SAFETY: the tensors live until the case is dropped at the end, when the stream is synchronised.
    let forward = || unsafe { fa512::forward(&problem, addresses, raw(&stream)) };

    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    let error = forward().unwrap_err();
    assert!(matches!(error, Error::NotLoaded { .. }), "{error}");
    assert!(error.to_string().contains("call warm_up with this problem before the capture begins"), "{error}");
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    drop(stream.end_capture(flags).expect("the capture is still valid"));

    fa512::warm_up(&[problem]).unwrap();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    forward().unwrap();
    forward().unwrap();
    let graph = stream.end_capture(flags).unwrap().expect("a graph");
    assert!(case.is_untouched(), "nothing runs while the stream captures");
    for _ in 0..2 {
        graph.launch().unwrap();
        case.check(true);
        case.clear();
    }
    assert_eq!(findings(), "");
}

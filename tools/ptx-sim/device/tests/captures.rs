//! Stream capture: forbidden calls, and the resulting graphs.

mod common;

use std::sync::Arc;

use common::{Bench, code, function, one_thread, read_u32, stream, submit};
use sim_device::{
    Call, Code, Context, Event, Fill, Graph, Mode, Operation, Result, Stream, StreamKind, exchange_thread_mode,
};

/// A context with a stream and a zeroed counter.
fn prepared() -> (Bench, Arc<Context>, Arc<Stream>, u64) {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let counter = context.allocate("counter", 4).unwrap();
    context.write(counter, &[0; 4]).unwrap();
    let stream = stream(&context);
    (bench, context, stream, counter)
}

fn run(graph: &Graph, stream: &Stream) -> Result<()> {
    stream.submit(Operation::Graph(graph.instantiate()))
}

/// A launch, prepared before anything captures, as modules cannot be loaded then.
fn add_one(context: &Arc<Context>, counter: u64) -> Operation {
    Operation::Launch(one_thread(&function(context, "add_one"), &[counter]))
}

#[test]
fn what_is_captured_is_executed_when_the_graph_is_launched() {
    let (_bench, context, stream, counter) = prepared();
    let add = add_one(&context, counter);
    stream.begin_capture(Mode::Global).unwrap();
    stream
        .submit(Operation::Fill(Fill { address: counter, value: vec![8, 0, 0, 0], width: 1, height: 1, pitch: 0 }))
        .unwrap();
    stream.submit(add.clone()).unwrap();
    stream.submit(add).unwrap();
    let graph = stream.end_capture().unwrap();
    assert_eq!(read_u32(&context, counter), 0, "nothing was executed");
    let nodes = graph.nodes();
    assert_eq!(nodes.iter().map(|node| node.kind()).collect::<Vec<_>>(), [2, 0, 0]);
    assert_eq!(nodes.iter().map(|node| node.dependencies.clone()).collect::<Vec<_>>(), [vec![], vec![0], vec![1]]);
    run(&graph, &stream).unwrap();
    run(&graph.duplicate(), &stream).unwrap();
    assert_eq!(read_u32(&context, counter), 10);
}

#[test]
fn an_error_in_a_graph_is_the_contexts() {
    let (_bench, context, stream, counter) = prepared();
    let (bad, good) = (add_one(&context, 0), add_one(&context, counter));
    stream.begin_capture(Mode::Relaxed).unwrap();
    stream.submit(bad).unwrap();
    stream.submit(good).unwrap();
    let graph = stream.end_capture().unwrap();
    run(&graph, &stream).unwrap();
    assert_eq!(code(stream.synchronize()), Code::ILLEGAL_ADDRESS);
}

#[test]
fn memory_that_a_graph_still_uses_is_missed_when_it_is_launched() {
    let (bench, context, stream, counter) = prepared();
    stream.begin_capture(Mode::Relaxed).unwrap();
    let fill = Fill { address: counter, value: vec![1], width: 4, height: 1, pitch: 0 };
    stream.submit(Operation::Fill(fill)).unwrap();
    let graph = stream.end_capture().unwrap();
    context.free(counter, Call::Synchronous).unwrap();
    run(&graph, &stream).unwrap();
    assert_eq!(code(stream.synchronize()), Code::ILLEGAL_ADDRESS);
    let messages = bench.messages();
    assert!(messages.contains("buffer `allocation 1 of 4 bytes, by counter`, which was freed"), "{messages}");
}

#[test]
fn streams_fork_and_join_by_events() {
    let (_bench, context, main, counter) = prepared();
    let (side, add) = (stream(&context), add_one(&context, counter));
    let (forked, joined) = (Event::new(&context, false).unwrap(), Event::new(&context, false).unwrap());
    main.begin_capture(Mode::Global).unwrap();
    main.submit(add.clone()).unwrap();
    main.record(&forked).unwrap();
    side.wait(&forked).unwrap();
    side.submit(add.clone()).unwrap();
    main.submit(add.clone()).unwrap();
    side.record(&joined).unwrap();
    main.wait(&joined).unwrap();
    main.submit(add).unwrap();
    assert!(side.capture().is_some());
    let graph = main.end_capture().unwrap();
    assert!(side.capture().is_none(), "the other stream is free as well");
    let dependencies: Vec<_> = graph.nodes().into_iter().map(|node| node.dependencies).collect();
    assert_eq!(dependencies, [vec![], vec![0], vec![0], vec![1, 2]]);
}

#[test]
fn work_that_is_not_joined_ends_the_capture_with_an_error() {
    let (_bench, context, main, counter) = prepared();
    let (side, add, event) = (stream(&context), add_one(&context, counter), Event::new(&context, false).unwrap());
    main.begin_capture(Mode::Global).unwrap();
    main.record(&event).unwrap();
    side.wait(&event).unwrap();
    side.submit(add).unwrap();
    assert_eq!(code(main.end_capture()), Code::STREAM_CAPTURE_UNJOINED);
    assert!(main.capture().is_none() && side.capture().is_none());
}

#[test]
fn captures_are_not_mixed_with_other_work() {
    let (_bench, context, main, _) = prepared();
    let other = stream(&context);
    let (before, captured) = (Event::new(&context, true).unwrap(), Event::new(&context, true).unwrap());
    other.record(&before).unwrap();
    main.begin_capture(Mode::Relaxed).unwrap();
    assert_eq!(code(main.wait(&before)), Code::STREAM_CAPTURE_ISOLATION, "an event of work that is not captured");
    assert_eq!(code(main.submit(Operation::Empty)), Code::STREAM_CAPTURE_INVALIDATED);
    assert_eq!(code(main.end_capture()), Code::STREAM_CAPTURE_INVALIDATED);
    main.begin_capture(Mode::Relaxed).unwrap();
    other.begin_capture(Mode::Relaxed).unwrap();
    main.record(&captured).unwrap();
    assert_eq!(code(other.wait(&captured)), Code::STREAM_CAPTURE_MERGE, "an event of another capture");
    assert_eq!(code(main.end_capture()), Code::STREAM_CAPTURE_INVALIDATED);
    assert_eq!(code(other.end_capture()), Code::STREAM_CAPTURE_INVALIDATED);
}

#[test]
fn a_captured_event_cannot_be_waited_for_by_the_host() {
    let (_bench, context, main, _) = prepared();
    let event = Event::new(&context, true).unwrap();
    main.begin_capture(Mode::Relaxed).unwrap();
    main.record(&event).unwrap();
    assert_eq!(code(event.synchronize()), Code::CAPTURED_EVENT);
    assert_eq!(code(main.end_capture()), Code::STREAM_CAPTURE_INVALIDATED);
}

#[test]
fn asking_for_an_event_is_not_safe_while_something_captures() {
    let (_bench, context, main, _) = prepared();
    let (event, other) = (Event::new(&context, true).unwrap(), stream(&context));
    other.record(&event).unwrap();
    event.query().unwrap();
    main.begin_capture(Mode::Global).unwrap();
    assert_eq!(code(event.query()), Code::STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(code(main.end_capture()), Code::STREAM_CAPTURE_INVALIDATED);
}

#[test]
fn waiting_for_what_captures_invalidates_the_capture() {
    let (_bench, context, main, _) = prepared();
    for wait in [&|| main.synchronize(), &|| context.synchronize()] as [&dyn Fn() -> Result<()>; 2] {
        main.begin_capture(Mode::Relaxed).unwrap();
        assert_eq!(code(wait()), Code::STREAM_CAPTURE_UNSUPPORTED);
        assert_eq!(code(main.end_capture()), Code::STREAM_CAPTURE_INVALIDATED);
    }
}

#[test]
fn the_mode_says_which_threads_may_not_make_unsafe_calls() {
    let (bench, _context, main, _) = prepared();
    let call = || code(bench.machine.check_unsafe_call());
    let elsewhere = || std::thread::scope(|scope| scope.spawn(call).join().unwrap());
    let none = Code::SUCCESS;
    let refused = Code::STREAM_CAPTURE_UNSUPPORTED;
    for (mode, own, other) in
        [(Mode::Global, refused, refused), (Mode::ThreadLocal, refused, none), (Mode::Relaxed, none, none)]
    {
        for (attempt, expected) in [(&call as &dyn Fn() -> Code, own), (&elsewhere, other)] {
            main.begin_capture(mode).unwrap();
            assert_eq!(attempt(), expected, "{mode:?}");
            let ended = if expected == none { none } else { Code::STREAM_CAPTURE_INVALIDATED };
            assert_eq!(code(main.end_capture()), ended, "{mode:?}");
        }
    }
    assert_eq!(exchange_thread_mode(Mode::Relaxed), Mode::Global);
    main.begin_capture(Mode::Global).unwrap();
    assert_eq!(call(), none, "this thread has said that it knows what it does");
    assert_eq!(exchange_thread_mode(Mode::Global), Mode::Relaxed);
    main.end_capture().unwrap();
}

#[test]
fn a_capture_is_ended_where_it_began() {
    let (_bench, context, main, _) = prepared();
    let (side, event) = (stream(&context), Event::new(&context, false).unwrap());
    assert_eq!(code(main.end_capture()), Code::ILLEGAL_STATE, "none has begun");
    main.begin_capture(Mode::ThreadLocal).unwrap();
    assert_eq!(code(main.begin_capture(Mode::Global)), Code::ILLEGAL_STATE);
    let elsewhere = std::thread::scope(|scope| scope.spawn(|| code(main.end_capture())).join().unwrap());
    assert_eq!(elsewhere, Code::STREAM_CAPTURE_WRONG_THREAD);
    main.record(&event).unwrap();
    side.wait(&event).unwrap();
    assert_eq!(code(side.end_capture()), Code::STREAM_CAPTURE_UNMATCHED);
    assert_eq!(code(main.end_capture()), Code::STREAM_CAPTURE_INVALIDATED);
}

#[test]
fn the_legacy_stream_cannot_take_part() {
    let (_bench, context, _, counter) = prepared();
    let legacy = Stream::new(&context, StreamKind::Legacy, true, 0).unwrap();
    assert_eq!(code(legacy.begin_capture(Mode::Relaxed)), Code::STREAM_CAPTURE_UNSUPPORTED);
    let add = add_one(&context, counter);
    for (is_blocking, expected) in [(true, Code::STREAM_CAPTURE_IMPLICIT), (false, Code::SUCCESS)] {
        let capturing = Stream::new(&context, StreamKind::Created, is_blocking, 0).unwrap();
        capturing.begin_capture(Mode::Relaxed).unwrap();
        assert_eq!(code(legacy.submit(add.clone())), expected, "blocking: {is_blocking}");
        capturing.destroy();
        assert!(capturing.capture().is_none());
    }
}

#[test]
fn a_context_takes_its_captures_along() {
    let (bench, context, main, _) = prepared();
    main.begin_capture(Mode::Global).unwrap();
    context.destroy().unwrap();
    bench.machine.check_unsafe_call().expect("nothing captures any more");
    assert_eq!(code(submit(&stream(&bench.context(0)), "stop", &[])), Code::SUCCESS);
}

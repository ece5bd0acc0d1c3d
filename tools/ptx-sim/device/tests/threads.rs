//! Many threads on one machine.

mod common;

use std::sync::Arc;
use std::thread;

use common::{Bench, code, function, one_thread, read_u32, stream, submit};
use sim_device::{Call, Code, Copy, Mode, Operation, Place};

#[test]
fn contexts_of_many_threads_do_not_disturb_each_other() {
    let bench = Bench::new(2);
    thread::scope(|scope| {
        for index in 0..8_u32 {
            let bench = &bench;
            scope.spawn(move || {
                for round in 0..10 {
                    let context = bench.context(index % 2);
                    let buffer = context.allocate("sum", 4).unwrap();
                    context.write(buffer, &index.to_le_bytes()).unwrap();
                    for _ in 0..5 {
                        submit(&stream(&context), "add_one", &[buffer]).unwrap();
                    }
                    assert_eq!(read_u32(&context, buffer), index + 5);
                    if (index + round) % 3 == 0 {
                        submit(&stream(&context), "store", &[0]).unwrap();
                        assert_eq!(code(context.synchronize()), Code::ILLEGAL_ADDRESS);
                    }
                    context.destroy().unwrap();
                }
            });
        }
    });
    assert!(bench.machine.gpus().iter().all(|gpu| gpu.memory_used() == 0), "everything was given back");
}

#[test]
fn one_context_serves_many_threads() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let add = function(&context, "add_one");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let stream = stream(&context);
                let buffer = context.allocate("sum", 4).unwrap();
                context.write(buffer, &[0; 4]).unwrap();
                for _ in 0..10 {
                    stream.submit(Operation::Launch(one_thread(&add, &[buffer]))).unwrap();
                }
                assert_eq!(read_u32(&context, buffer), 10);
                context.free(buffer, Call::Synchronous).unwrap();
            });
        }
    });
}

#[test]
fn gpus_copy_to_each_other_in_both_directions_at_once() {
    let bench = Bench::new(2);
    let ends = [bench.context(0), bench.context(1)].map(|context| {
        let buffers = [0, 1].map(|_| context.allocate("buffer", 1 << 20).unwrap());
        buffers.iter().for_each(|buffer| context.write(*buffer, &vec![1; 1 << 20]).unwrap());
        (context, buffers)
    });
    thread::scope(|scope| {
        for index in 0..2 {
            let ((context, [from, _]), (_, [_, to])) = (&ends[index], &ends[1 - index]);
            scope.spawn(move || {
                let copy = Copy { destination: Place::Device(*to), source: Place::Device(*from), bytes: 1 << 20 };
                for _ in 0..5 {
                    stream(context).submit_and_wait(Operation::Copy(copy.clone())).unwrap();
                }
            });
        }
    });
}

#[test]
fn a_context_may_end_while_others_capture_and_launch_in_it() {
    let bench = Bench::new(1);
    for _ in 0..20 {
        let context = bench.context(0);
        let (add, buffer) = (function(&context, "add_one"), context.allocate("sum", 4).unwrap());
        context.write(buffer, &[0; 4]).unwrap();
        thread::scope(|scope| {
            for captures in [false, true] {
                let (stream, launch) = (stream(&context), one_thread(&add, &[buffer]));
                scope.spawn(move || {
                    if captures {
                        let _ = stream.begin_capture(Mode::Relaxed);
                    }
                    // Until the context is gone.
                    while stream.submit(Operation::Launch(launch.clone())).is_ok() {}
                });
            }
            let ending = Arc::clone(&context);
            scope.spawn(move || ending.destroy());
        });
        assert_eq!(code(context.synchronize()), Code::CONTEXT_IS_DESTROYED);
    }
}

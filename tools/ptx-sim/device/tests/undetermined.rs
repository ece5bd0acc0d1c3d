//! Undetermined values that kernels leave in memory: told of when they go to the host or their memory ends, not before.

mod common;

use std::sync::Arc;

use common::{Bench, stream, submit};
use sim_device::{Call, Config, Context, Copy, HostMemory, Operation, Place};

/// Memory of the program that nobody looks at.
struct Nowhere;

impl HostMemory for Nowhere {
    fn address(&self) -> u64 {
        0x1000
    }

    fn is_page_locked(&self) -> bool {
        false
    }

    fn read(&self, _: u64, data: &mut [u8]) {
        data.fill(0);
    }

    fn write(&self, _: u64, _: &[u8]) {}
}

/// A context in which a kernel has stored to the second allocation what nobody wrote to the first.
struct Stored {
    bench: Bench,
    context: Arc<Context>,
    result: u64,
}

impl Stored {
    fn new() -> Stored {
        let bench =
            Bench::with(Config { continues: true, uninitialised_copies: true, leaks: true, ..Config::default() });
        let context = bench.context(0);
        let [from, result] = [8, 8].map(|bytes| context.allocate("cuMemAlloc_v2", bytes).unwrap());
        submit(&stream(&context), "load", &[from, result + 4]).unwrap();
        context.synchronize().unwrap();
        let stored = Stored { bench, context, result };
        assert_eq!(stored.bench.messages(), "");
        stored
    }

    fn copy(&self, source: u64, destination: Place) {
        let copy = Copy { source: Place::Device(source), destination, bytes: 4 };
        stream(&self.context).submit(Operation::Copy(copy)).unwrap();
        self.context.synchronize().unwrap();
    }

    fn copy_to_host(&self, source: u64) {
        self.copy(source, Place::Host(Arc::new(Nowhere)));
    }

    #[track_caller]
    fn assert_told(&self, consequence: &str) {
        let messages = self.bench.messages();
        for words in
            ["error: uninitialised read: ", "st.global.u32 [%rd1], %r0;", "launch of load; the values ", consequence]
        {
            assert!(messages.contains(words), "no {words:?} in\n{messages}");
        }
        assert_eq!(messages.matches("error: ").count(), 1, "{messages}");
        assert!(!messages.contains("nothing was ever written"), "{messages}");
    }
}

#[test]
fn when_they_go_to_the_host() {
    let stored = Stored::new();
    stored.copy_to_host(stored.result + 4);
    stored.assert_told("the values go to the host by a copy of 4 bytes");
    stored.copy_to_host(stored.result + 4);
    stored.assert_told("");
}

#[test]
fn when_a_copy_of_them_goes_to_the_host() {
    let stored = Stored::new();
    let other = stored.context.allocate("cuMemAlloc_v2", 4).unwrap();
    stored.context.write(other, &[1; 4]).unwrap();
    stored.copy(stored.result + 4, Place::Device(other));
    assert_eq!(stored.bench.messages(), "");
    stored.copy_to_host(other);
    stored.assert_told("the values go to the host by a copy of 4 bytes");
}

#[test]
fn when_their_memory_ends_and_nobody_has_read_there() {
    let stored = Stored::new();
    stored.context.free(stored.result, Call::Synchronous).unwrap();
    stored.assert_told("the values are left in allocation 2 of 8 bytes");
}

#[test]
fn when_the_program_ends() {
    let stored = Stored::new();
    stored.bench.machine.end();
    stored.assert_told("the values are left in allocation 2 of 8 bytes");
}

#[test]
fn not_when_others_have_read_there() {
    let stored = Stored::new();
    let stream = stream(&stored.context);
    submit(&stream, "store", &[stored.result]).unwrap();
    let other = stored.context.allocate("cuMemAlloc_v2", 4).unwrap();
    submit(&stream, "load", &[stored.result, other]).unwrap();
    stored.context.synchronize().unwrap();
    stored.context.free(stored.result, Call::Synchronous).unwrap();
    assert_eq!(stored.bench.messages(), "");
}

#[test]
fn not_when_they_are_replaced() {
    let stored = Stored::new();
    submit(&stream(&stored.context), "store", &[stored.result + 4]).unwrap();
    stored.context.synchronize().unwrap();
    stored.copy_to_host(stored.result + 4);
    assert_eq!(stored.bench.messages(), "");
}

#[test]
fn a_copy_on_the_gpu_leaves_nothing_of_what_was_there() {
    let stored = Stored::new();
    let [from, other] = [4, 4].map(|bytes| stored.context.allocate("cuMemAlloc_v2", bytes).unwrap());
    stored.context.write(other, &[1; 4]).unwrap();
    stored.copy(from, Place::Device(other));
    assert_eq!(stored.context.first_unwritten(other, 4).unwrap(), Some(other));
}

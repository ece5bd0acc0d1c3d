//! Memory: sizes, copies, fills, and who may free what.

mod common;

use common::{Bench, assert_says, code, read_u32, stream, submit};
use sim_device::{Call, Code, Config, Context, Copy, Fill, Operation, Place};

fn copy(context: &std::sync::Arc<Context>, to: u64, from: u64, bytes: u64) -> sim_device::Result<()> {
    let copy = Copy { destination: Place::Device(to), source: Place::Device(from), bytes };
    stream(context).submit(Operation::Copy(copy))
}

fn fill(
    context: &std::sync::Arc<Context>,
    address: u64,
    value: &[u8],
    [width, height, pitch]: [u64; 3],
) -> sim_device::Result<()> {
    let fill = Fill { address, value: value.to_vec(), width, height, pitch };
    stream(context).submit(Operation::Fill(fill))
}

#[test]
fn a_gpu_has_as_much_memory_as_it_is_said_to_have() {
    let bench = Bench::with(Config { memory_bytes: 1 << 20, gpus: 2, ..Config::default() });
    let (first, second) = (bench.context(0), bench.context(0));
    let half = first.allocate("cuMemAlloc_v2", 1 << 19).unwrap();
    second.allocate("cuMemAlloc_v2", 1 << 19).unwrap();
    assert_says(first.allocate("cuMemAlloc_v2", 1), Code::OUT_OF_MEMORY, "1 bytes asked for, 0 of 1048576 are free");
    bench.context(1).allocate("cuMemAlloc_v2", 1 << 20).expect("the other GPU is empty");
    first.free(half, Call::Synchronous).unwrap();
    second.destroy().unwrap();
    first.allocate("cuMemAlloc_v2", 1 << 20).expect("both halves are free again");
}

#[test]
fn no_memory_is_no_allocation() {
    assert_says(Bench::new(1).context(0).allocate("cuMemAlloc_v2", 0), Code::INVALID_VALUE, "0 bytes");
}

#[test]
fn memory_is_freed_once_and_from_its_start() {
    let context = Bench::new(1).context(0);
    let buffer = context.allocate("cuMemAlloc_v2", 64).unwrap();
    assert_says(context.free(buffer + 8, Call::Synchronous), Code::INVALID_VALUE, "byte 8 of allocation 1");
    context.free(buffer, Call::Synchronous).unwrap();
    assert_says(
        context.free(buffer, Call::Synchronous),
        Code::INVALID_VALUE,
        "by cuMemAlloc_v2, which was freed before",
    );
}

#[test]
fn copies_move_bytes_between_contexts_and_gpus() {
    let bench = Bench::new(2);
    let (here, there) = (bench.context(0), bench.context(1));
    let (from, to) = (here.allocate("a", 3 << 20).unwrap(), there.allocate("b", 3 << 20).unwrap());
    let data: Vec<u8> = (0..3 << 20).map(|index: u32| (index * 31 / 8) as u8).collect();
    here.write(from, &data).unwrap();
    copy(&here, to, from, 3 << 20).unwrap();
    let mut copied = vec![0; 3 << 20];
    there.read(to, &mut copied).unwrap();
    assert!(copied == data);
}

#[test]
fn a_copy_has_to_lie_in_one_allocation_at_both_ends() {
    let bench = Bench::new(2);
    let (context, other) = (bench.context(0), bench.context(1));
    let (a, b) = (context.allocate("cuMemAlloc_v2", 64).unwrap(), other.allocate("cuMemAlloc_v2", 32).unwrap());
    context.write(a, &[1; 64]).unwrap();
    assert_says(copy(&context, b, a, 33), Code::INVALID_VALUE, "the last 1 bytes are past the end");
    assert_says(copy(&context, b, a, 33), Code::INVALID_VALUE, "of a context of GPU 1");
    assert_says(copy(&context, 0, a, 4), Code::INVALID_VALUE, "a copy to a null pointer");
    assert_says(copy(&context, a, 4096, 4), Code::INVALID_VALUE, "a copy from 0x1000, which is no device memory");
    copy(&context, 0, 0, 0).expect("no bytes, no copy");
}

#[test]
fn bytes_that_nobody_wrote_stay_unwritten_when_they_are_copied() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let (from, to) = (context.allocate("from", 8).unwrap(), context.allocate("to", 8).unwrap());
    context.write(from, &[5, 0, 0, 0]).unwrap();
    copy(&context, to, from, 8).unwrap();
    assert_eq!(context.first_unwritten(to, 8).unwrap(), Some(to + 4));
    let stream = stream(&context);
    submit(&stream, "add_one", &[to]).unwrap();
    assert_eq!(read_u32(&context, to), 6);
    submit(&stream, "add_one", &[to + 4]).unwrap();
    assert_eq!(code(context.synchronize()), Code::LAUNCH_FAILED);
    assert!(bench.messages().contains("uninitialised read"), "{}", bench.messages());
}

#[test]
fn fills_write_values_in_rows() {
    let context = Bench::new(1).context(0);
    let buffer = context.allocate("cuMemAlloc_v2", 32).unwrap();
    fill(&context, buffer, &[0xff], [32, 1, 0]).unwrap();
    fill(&context, buffer + 2, &[1, 2], [3, 2, 16]).unwrap();
    let mut data = [0; 32];
    context.read(buffer, &mut data).unwrap();
    let row = [0xff, 0xff, 1, 2, 1, 2, 1, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(data, *[row, row].concat());
    assert_says(fill(&context, buffer + 1, &[1, 2], [1, 1, 0]), Code::INVALID_VALUE, "not a multiple of 2");
    assert_says(fill(&context, buffer, &[1], [8, 2, 4]), Code::INVALID_VALUE, "rows of 8 bytes that lie 4 bytes apart");
    assert_says(fill(&context, buffer, &[1], [33, 1, 0]), Code::INVALID_VALUE, "the last 1 bytes are past the end");
}

#[test]
fn addresses_tell_their_context() {
    let bench = Bench::new(2);
    let (first, second) = (bench.context(0), bench.context(1));
    let buffer = second.allocate("cuMemAlloc_v2", 64).unwrap();
    let owner = bench.machine.context_at(buffer + 5).unwrap();
    assert_eq!((owner.id(), owner.gpu()), (second.id(), 1));
    let allocation = owner.allocation_at(buffer + 5).unwrap();
    assert_eq!((allocation.address, allocation.bytes, allocation.number), (buffer, 64, 1));
    assert!(first.allocation_at(buffer).is_none());
    assert!(bench.machine.context_at(4096).is_none());
}

#[test]
fn contexts_may_come_and_go_for_ever() {
    let bench = Bench::new(1);
    for _ in 0..500 {
        bench.context(0).allocate("cuMemAlloc_v2", 64).unwrap();
    }
}

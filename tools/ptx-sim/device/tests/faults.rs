//! Kernels with errors: what is said, what the context returns, and what ends that.

mod common;

use common::{Bench, assert_says, code, function, one_thread, read_u32, stream, submit};
use sim_device::{Code, Config, Context, Options};
use std::sync::Arc;

/// Stores through a pointer and requires the code and words.
#[track_caller]
fn assert_fault(bench: &Bench, context: &Arc<Context>, pointer: u64, expected: Code, words: &[&str]) {
    let stream = stream(context);
    submit(&stream, "store", &[pointer]).expect("a launch returns before the kernel has failed");
    assert_eq!(code(stream.synchronize()), expected);
    let messages = bench.messages();
    for words in words {
        assert!(messages.contains(words), "no {words:?} in\n{messages}");
    }
}

#[test]
fn a_buffer_that_is_too_short_is_named_with_its_size() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let buffer = context.allocate("cuMemAlloc_v2", 5000).unwrap();
    submit(&stream(&context), "store", &[buffer + 4996]).unwrap();
    context.synchronize().expect("the last four bytes are the buffer's");
    let words =
        ["past the end of buffer `allocation 1 of 5,000 bytes, by cuMemAlloc_v2`", "test.ptx:11", "st.global.u32"];
    assert_fault(&bench, &context, buffer + 5000, Code::ILLEGAL_ADDRESS, &words);
}

#[test]
fn a_buffer_that_was_freed_is_named() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let buffer = context.allocate("cuMemAllocAsync", 64).unwrap();
    context.free(buffer, sim_device::Call::Asynchronous).unwrap();
    let words = ["`allocation 1 of 64 bytes, by cuMemAllocAsync`, which was freed"];
    assert_fault(&bench, &context, buffer, Code::ILLEGAL_ADDRESS, &words);
}

#[test]
fn a_null_pointer_is_called_so() {
    let bench = Bench::new(1);
    assert_fault(&bench, &bench.context(0), 0, Code::ILLEGAL_ADDRESS, &["a null pointer"]);
}

#[test]
fn memory_of_another_gpu_is_named_with_its_owner() {
    let bench = Bench::new(2);
    let other = bench.context(1);
    let buffer = other.allocate("cuMemAlloc_v2", 64).unwrap();
    let words = ["the address is that of byte 8 of allocation 1 of 64 bytes", "memory of a context of GPU 1"];
    assert_fault(&bench, &bench.context(0), buffer + 8, Code::ILLEGAL_ADDRESS, &words);
    assert_eq!(code(other.synchronize()), Code::SUCCESS, "the owner has lost nothing");
}

#[test]
fn memory_of_another_context_is_named_with_its_owner() {
    let bench = Bench::new(1);
    let other = bench.machine.retain_primary(0).unwrap();
    let buffer = other.allocate("cuMemAlloc_v2", 64).unwrap();
    let words = ["byte 0 of allocation 1 of 64 bytes", "memory of the primary context of GPU 0"];
    assert_fault(&bench, &bench.context(0), buffer, Code::ILLEGAL_ADDRESS, &words);
}

#[test]
fn host_memory_is_called_so() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let words = ["far from every buffer", "the host's memory, which kernels do not reach"];
    context.allocate("cuMemAlloc_v2", 64).unwrap();
    assert_fault(&bench, &context, 0x5555_0000_0000, Code::ILLEGAL_ADDRESS, &words);
}

#[test]
fn a_misaligned_address_has_a_code_of_its_own() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let buffer = context.allocate("cuMemAlloc_v2", 64).unwrap();
    assert_fault(&bench, &context, buffer + 2, Code::MISALIGNED_ADDRESS, &["misaligned access"]);
}

#[test]
fn traps_uninitialised_reads_and_endless_loops_fail_the_launch() {
    let options = Options { instructions_per_warp: 1000, ..Options::default() };
    let bench = Bench::with(Config { options, ..Config::default() });
    for (kernel, expected) in
        [("stop", Code::LAUNCH_FAILED), ("add_one", Code::LAUNCH_FAILED), ("spin", Code::LAUNCH_TIMEOUT)]
    {
        let context = bench.context(0);
        let buffer = context.allocate("cuMemAlloc_v2", 4).unwrap();
        let arguments = if kernel == "add_one" { vec![buffer] } else { Vec::new() };
        submit(&stream(&context), kernel, &arguments).unwrap();
        assert_eq!(code(context.synchronize()), expected, "{kernel}");
    }
}

#[test]
fn the_error_comes_with_the_next_call_that_waits_and_stays() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let (stream, buffer) = (stream(&context), context.allocate("cuMemAlloc_v2", 4).unwrap());
    context.write(buffer, &[1, 0, 0, 0]).unwrap();
    submit(&stream, "store", &[0]).unwrap();
    submit(&stream, "add_one", &[buffer]).expect("what is only queued does not tell");
    context.allocate("cuMemAlloc_v2", 4).expect("what does not wait does not tell");
    for _ in 0..2 {
        assert_eq!(code(context.synchronize()), Code::ILLEGAL_ADDRESS);
    }
    assert_eq!(code(submit_again(&context)), Code::ILLEGAL_ADDRESS, "from now on everything tells");
    assert_eq!(code(context.allocate("cuMemAlloc_v2", 4)), Code::ILLEGAL_ADDRESS);
    assert_eq!(code(context.read(buffer, &mut [0; 4])), Code::ILLEGAL_ADDRESS);
    assert_eq!(bench.messages().matches("is lost by it").count(), 1, "what came after it was not executed");
}

fn submit_again(context: &Arc<Context>) -> sim_device::Result<()> {
    context.load(common::PTX, None).map(drop)
}

#[test]
fn a_context_that_is_destroyed_takes_its_error_along() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    submit(&stream(&context), "store", &[0]).unwrap();
    context.destroy().unwrap();
    assert_eq!(code(context.synchronize()), Code::CONTEXT_IS_DESTROYED);
    assert_eq!(code(bench.context(0).synchronize()), Code::SUCCESS);
}

#[test]
fn a_primary_context_that_is_reset_is_a_new_one() {
    let bench = Bench::new(1);
    let machine = &bench.machine;
    for end in [
        |machine: &sim_device::Machine| machine.reset_primary(0),
        |machine: &sim_device::Machine| machine.release_primary(0),
    ] {
        let context = machine.retain_primary(0).unwrap();
        submit(&stream(&context), "store", &[0]).unwrap();
        assert_eq!(code(context.synchronize()), Code::ILLEGAL_ADDRESS);
        end(machine).unwrap();
        assert!(machine.primary(0).unwrap().is_none());
        let context = machine.retain_primary(0).unwrap();
        assert_eq!(code(context.synchronize()), Code::SUCCESS);
        machine.release_primary(0).unwrap();
    }
    assert_eq!(code(machine.release_primary(0)), Code::INVALID_CONTEXT, "nobody has it");
}

#[test]
fn findings_and_counters_are_values_where_they_are_asked_for() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let (store, buffer) = (function(&context, "store"), context.allocate_as("result", 4).unwrap());
    let options = Options::default();
    let report = context.run(&one_thread(&store, &[buffer + 4]), &options).unwrap();
    assert!(report.findings[0].message.contains("buffer `result`"), "{}", report.findings[0]);
    let report = context.run(&one_thread(&store, &[buffer]), &options).unwrap();
    assert!(report.findings.is_empty());
    assert_eq!(report.counters.global_bytes_written, 4);
    assert_eq!(read_u32(&context, buffer), 7, "the context is usable");
    assert_eq!(bench.messages(), "");
}

#[test]
fn what_the_launch_in_front_may_still_use_has_to_be_waited_for_only_where_it_overlaps() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let (store, buffer) = (function(&context, "store"), context.allocate_as("result", 4).unwrap());
    let launch = one_thread(&store, &[buffer]);
    let overlapping = sim_device::Launch { overlaps_previous: true, ..launch.clone() };
    let findings = |launch| context.run(launch, &Options::default()).unwrap().findings.len();
    assert_eq!((findings(&launch), findings(&overlapping)), (0, 1));
}

#[test]
fn an_instruction_that_is_not_simulated_is_refused_with_its_line() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    assert_says(submit(&stream(&context), "unsupported", &[]), Code::NOT_SUPPORTED, "nosuchinstruction");
    assert_eq!(code(context.synchronize()), Code::SUCCESS, "nothing was executed");
}

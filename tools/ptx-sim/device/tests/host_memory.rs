//! Memory of the host that kernels reach: page-locked, registered, managed.

mod common;

use std::sync::atomic::Ordering::Relaxed;

use common::{Bench, assert_says, code, host_memory, one_thread, stream, submit};
use sim_device::{Call, Code, Config, Context, HostKind, HostRange, Life, Operation, Problem};

fn bench() -> Bench {
    Bench::with(Config { gpus: 2, leaks: true, host_memory: Some(host_memory), ..Config::default() })
}

/// Page-locked memory of so many bytes.
fn page_locked(context: &Context, bytes: u64) -> HostRange {
    let words = host_memory(bytes).unwrap();
    let (address, name) = (words.words().as_ptr() as u64, "allocation 1, by cuMemHostAlloc".to_owned());
    HostRange { address, bytes, flags: 0, context: context.id(), kind: HostKind::PageLocked, name, words }
}

#[test]
fn kernels_of_every_context_write_to_the_hosts_memory() {
    let bench = bench();
    let before = bench.context(0);
    let range = page_locked(&before, 64);
    bench.machine.add_host_range(range.clone()).unwrap();
    for (context, offset) in [(before, 0), (bench.context(1), 8)] {
        submit(&stream(&context), "store", &[range.address + offset]).unwrap();
        context.synchronize().unwrap();
        assert_eq!(range.words.words()[offset as usize / 8].load(Relaxed), 7);
    }
    assert_eq!(bench.messages(), "");
}

#[test]
fn what_runs_over_the_hosts_memory_or_uses_it_when_it_was_freed_is_found() {
    for (beyond, words) in
        [(64, "0 bytes past the end of buffer `allocation 1, by cuMemHostAlloc`"), (0, "which was freed")]
    {
        let bench = bench();
        let context = bench.context(0);
        let range = page_locked(&context, 64);
        bench.machine.add_host_range(range.clone()).unwrap();
        if beyond == 0 {
            bench.machine.remove_host_range(range.address).unwrap();
        }
        let stream = stream(&context);
        submit(&stream, "store", &[range.address + beyond]).unwrap();
        assert_eq!(code(stream.synchronize()), Code::ILLEGAL_ADDRESS);
        let messages = bench.messages();
        assert!(messages.contains(words) && !messages.contains("do not reach"), "{messages}");
    }
}

#[test]
fn memory_is_registered_once() {
    let bench = bench();
    let range = page_locked(&bench.context(0), 64);
    bench.machine.add_host_range(range.clone()).unwrap();
    let again = HostRange { address: range.address + 8, bytes: 8, ..range };
    assert_eq!(code(bench.machine.add_host_range(again)), Code::HOST_MEMORY_ALREADY_REGISTERED);
}

#[test]
fn managed_memory_is_told_when_it_is_never_freed_or_freed_twice() {
    let bench = bench();
    let context = bench.context(0);
    let allocate = || bench.machine.allocate_managed(&context, "cuMemAllocManaged", 64, 1).unwrap();
    let (kept, freed) = (allocate(), allocate());
    submit(&stream(&context), "store", &[kept]).unwrap();
    assert!(bench.machine.host_range(kept + 63).unwrap().is_managed());
    bench.machine.remove_host_range(freed).unwrap();
    let error = context.free(freed, Call::Synchronous).unwrap_err();
    assert_eq!(error.problem, Some(Problem::DoubleFree), "{error}");
    context.destroy().unwrap();
    let messages = bench.messages();
    assert!(messages.contains("allocation 1 of 64 bytes, by cuMemAllocManaged, is never freed"), "{messages}");
    assert!(!messages.contains("allocation 2"), "{messages}");
}

#[test]
fn managed_memory_takes_a_program_that_has_memory() {
    let bench = Bench::new(1);
    let refused = bench.machine.allocate_managed(&bench.context(0), "cuMemAllocManaged", 64, 1);
    assert_says(refused, Code::NOT_SUPPORTED, "there is no managed memory");
}

#[test]
fn managed_variables_are_the_hosts_too() {
    const MANAGED: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .visible .global .attribute(.managed) .align 4 .u32 counter = 5;\n\
        .visible .entry add()\n{ .reg .b32 %r<1>; ld.global.u32 %r0, [counter]; add.u32 %r0, %r0, 2; \
        st.global.u32 [counter], %r0; ret; }";
    let bench = bench();
    let context = bench.context(0);
    let module = context.load(MANAGED, None).unwrap();
    let (address, bytes) = module.variable("counter").unwrap();
    assert_eq!(bytes, 4);
    let range = bench.machine.host_range(address).unwrap();
    assert_eq!(range.kind, HostKind::Variable { gpu: 0 });
    let launch = one_thread(&module.function("add").unwrap(), &[]);
    stream(&context).submit(Operation::Launch(launch)).unwrap();
    assert_eq!(range.words.words()[0].load(Relaxed), 7);
    context.destroy().unwrap();
    assert!(!bench.messages().contains("never freed"), "{}", bench.messages());
}

#[test]
fn streams_that_race_with_the_life_of_memory_are_told() {
    let race = |ends: bool, is_ordered: bool| {
        let bench = bench();
        let context = bench.context(0);
        let (one, other) = (stream(&context), stream(&context));
        let address = context.allocate("cuMemAllocAsync", 64).unwrap();
        let life = || one.submit(Operation::Life(Life { address, bytes: 64, ends })).unwrap();
        let (first, second): (&dyn Fn(), &dyn Fn()) = match ends {
            true => (&|| submit(&other, "store", &[address]).unwrap(), &life),
            false => (&life, &|| submit(&other, "store", &[address]).unwrap()),
        };
        first();
        if is_ordered {
            context.synchronize().unwrap();
        }
        second();
        bench.messages()
    };
    for (ends, words) in [(false, "which allocates it"), (true, "which frees it")] {
        assert!(race(ends, false).contains(words), "{}", race(ends, false));
        assert_eq!(race(ends, true), "");
    }
}

#[test]
fn an_early_grid_meets_only_what_is_not_ended() {
    const EARLY: &str = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry early(.param .u64 from, .param .u64 to)\n\
        { .reg .b32 %r<1>; .reg .b64 %rd<2>; ld.param.u64 %rd0, [from]; ld.param.u64 %rd1, [to]; ld.global.u32 %r0, [%rd0]; \
        griddepcontrol.wait; st.global.u32 [%rd1], %r0; ret; }";
    let bench = Bench::with(Config { continues: true, ..Config::default() });
    let context = bench.context(0);
    let (weights, data) = (context.allocate("weights", 4).unwrap(), context.allocate("data", 4).unwrap());
    context.write(weights, &[1, 0, 0, 0]).unwrap();
    context.write(data, &[2, 0, 0, 0]).unwrap();
    let function = context.load(EARLY, None).unwrap().function("early").unwrap();
    let stream = stream(&context);
    let launch = |from: u64| {
        let launch = sim_device::Launch { overlaps_previous: true, ..one_thread(&function, &[from, data]) };
        stream.submit(Operation::Launch(launch)).unwrap();
    };
    launch(weights);
    launch(weights);
    assert_eq!(bench.messages(), "", "nothing before it writes the weights");
    stream.synchronize().unwrap();
    launch(data);
    assert_eq!(bench.messages(), "", "the host has waited for those before");
    launch(data);
    assert!(bench.messages().contains("comes behind no griddepcontrol.wait"), "{}", bench.messages());
}

//! Modules, libraries, functions.

mod common;

use common::{Bench, PTX, assert_says, code, function, one_thread, read_u32, stream};
use sim_device::{Code, Config, Launch, Operation};

#[test]
fn every_module_has_variables_of_its_own() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let buffer = context.allocate("sum", 4).unwrap();
    let modules = [context.load(PTX, None).unwrap(), context.load(PTX, None).unwrap()];
    let mut sums = Vec::new();
    for module in [&modules[0], &modules[0], &modules[1]] {
        let count = module.function("count").unwrap();
        stream(&context).submit(Operation::Launch(one_thread(&count, &[buffer]))).unwrap();
        sums.push(read_u32(&context, buffer));
    }
    assert_eq!(sums, [1, 2, 1]);
}

#[test]
fn a_variable_has_an_address_that_kernels_and_copies_share() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let buffer = context.allocate("sum", 4).unwrap();
    let module = context.load(PTX, Some("test.ptx")).unwrap();
    let (address, bytes) = module.variable("counter").unwrap();
    assert_eq!((bytes, read_u32(&context, address)), (4, 0));
    context.write(address, &[41, 0, 0, 0]).unwrap();
    let count = module.function("count").unwrap();
    stream(&context).submit(Operation::Launch(one_thread(&count, &[buffer]))).unwrap();
    assert_eq!((read_u32(&context, buffer), read_u32(&context, address)), (42, 42));
    assert_says(module.variable("dynamic"), Code::NOT_FOUND, "test.ptx has no variable dynamic");
    assert_says(context.free(address, sim_device::Call::Asynchronous), Code::INVALID_VALUE, "byte 0 of counter");
}

#[test]
fn text_without_a_name_gets_one_and_keeps_it() {
    let context = Bench::new(1).context(0);
    let message = |text: &str| context.load(text, None).err().unwrap().to_string();
    let first = message("nonsense");
    assert!(first.starts_with("CUDA_ERROR_INVALID_PTX: module-") && first.contains(".ptx:1:1"), "{first}");
    assert_says(context.load("nonsense", Some("given.ptx")), Code::INVALID_PTX, "given.ptx:1:1");
}

#[test]
fn code_for_another_architecture_is_refused_when_it_is_loaded() {
    let config = Config { architecture: sim_device::Architecture::find(80).unwrap(), ..Config::default() };
    let context = Bench::with(config).context(0);
    let text = PTX.replace("sm_80", "sm_90a");
    assert_says(
        context.load(&text, Some("k.ptx")),
        Code::NO_BINARY_FOR_GPU,
        "k.ptx is compiled for sm_90a and does not run on sm_80",
    );
}

#[test]
fn an_entry_that_is_not_there_is_refused_with_those_there_are() {
    let context = Bench::new(1).context(0);
    let module = context.load(PTX, Some("test.ptx")).unwrap();
    assert_says(module.function("nothing"), Code::NOT_FOUND, "test.ptx has no entry nothing; it has store, load");
}

#[test]
fn a_function_tells_its_bounds_and_sizes() {
    let context = Bench::new(1).context(0);
    let bounded = function(&context, "bounded");
    assert_eq!((bounded.max_threads(), bounded.shared_bytes(), bounded.local_bytes()), (640, 4096, 24));
    assert_eq!(bounded.max_dynamic_shared_bytes(), (48 << 10) - 4096);
    assert_eq!(bounded.registers(), 96, "65536 / 640, in steps of 8");
    let parameters: Vec<_> = bounded.parameters().iter().map(|one| (one.offset, one.bytes)).collect();
    assert_eq!(parameters, [(0, 4), (8, 8)]);
    assert_eq!(bounded.parameter_bytes(), 16);
    assert_eq!(bounded.active_blocks(640, 0), 1, "by registers");
    assert_eq!(bounded.active_blocks(641, 0), 0, "more threads than allowed");
}

#[test]
fn shared_memory_above_48_kib_has_to_be_asked_for() {
    let context = Bench::new(1).context(0);
    let shared = function(&context, "shared");
    let launch = |bytes| Launch { dynamic_shared_bytes: bytes, ..one_thread(&shared, &[]) };
    launch(48 << 10).check().unwrap();
    assert_says(launch((48 << 10) + 1).check(), Code::INVALID_VALUE, "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES");
    assert_says(shared.allow_dynamic_shared((227 << 10) + 1), Code::INVALID_VALUE, "at most 232448");
    shared.allow_dynamic_shared(227 << 10).unwrap();
    launch(227 << 10).check().unwrap();
    assert_eq!(shared.active_blocks(128, 227 << 10), 1);
    assert_eq!(shared.active_blocks(128, 100 << 10), 2);
    assert_eq!(shared.best_block(|_| 0, 0), (1024, 8), "two blocks on each of four multiprocessors");
    assert_eq!(shared.available_dynamic_shared(2, 128), 113 << 10);
}

#[test]
fn a_launch_that_no_gpu_takes_is_refused() {
    let context = Bench::new(1).context(0);
    let store = function(&context, "store");
    let good = one_thread(&store, &[0]);
    for (launch, expected) in [
        (Launch { grid: [0, 1, 1], ..good.clone() }, "a grid of [0, 1, 1]"),
        (Launch { grid: [1, 65536, 1], ..good.clone() }, "a grid of [1, 65536, 1]"),
        (Launch { block: [1, 1, 65], ..good.clone() }, "a block of [1, 1, 65]"),
        (Launch { block: [33, 32, 1], ..good.clone() }, "1056 threads in a block; at most 1024"),
        (Launch { parameters: vec![vec![0; 4]], ..good.clone() }, "parameters of [4] bytes; it takes [8]"),
    ] {
        assert_says(launch.check(), Code::INVALID_VALUE, expected);
    }
}

#[test]
fn a_library_serves_every_context() {
    let bench = Bench::new(2);
    let library = bench.machine.load_library(PTX, None).unwrap();
    let kernel = library.kernel("store").unwrap();
    for gpu in [0, 1, 0] {
        let context = bench.context(gpu);
        let buffer = context.allocate("result", 4).unwrap();
        let function = kernel.function(&context).unwrap();
        assert!(std::sync::Arc::ptr_eq(&function, &kernel.function(&context).unwrap()), "it is loaded once");
        stream(&context).submit(Operation::Launch(one_thread(&function, &[buffer]))).unwrap();
        assert_eq!(read_u32(&context, buffer), 7);
    }
    assert_eq!(code(library.kernel("nothing")), Code::NOT_FOUND);
}

#[test]
fn a_kernel_is_allowed_shared_memory_for_a_gpu() {
    let bench = Bench::new(2);
    let architecture = &bench.machine.config().architecture;
    let kernel = bench.machine.load_library(PTX, None).unwrap().kernel("shared").unwrap();
    kernel.allow_dynamic_shared(1, 100 << 10, architecture).unwrap();
    let allowed = |gpu| kernel.function(&bench.context(gpu)).unwrap().max_dynamic_shared_bytes();
    assert_eq!((allowed(0), allowed(1)), (48 << 10, 100 << 10));
    assert_says(kernel.allow_dynamic_shared(0, 228 << 10, architecture), Code::INVALID_VALUE, "at most 232448");
}

#[test]
fn a_function_of_another_context_is_refused() {
    let bench = Bench::new(1);
    let store = function(&bench.context(0), "store");
    let launch = one_thread(&store, &[0]);
    let refused = bench.context(0).run(&launch, &Default::default());
    assert_says(refused, Code::INVALID_HANDLE, "belongs to another context");
}

#[test]
fn the_ptx_version_of_a_function_is_its_target() {
    let context = Bench::new(1).context(0);
    let module = context.load(&PTX.replace(".version 8.0", ".version 7.4"), None).unwrap();
    assert_eq!(module.function("count").unwrap().ptx_version(), 80, "that of .target sm_80");
}

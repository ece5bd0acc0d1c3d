//! A call whose kernel is already loaded allocates no host memory.

mod common;

use std::alloc::{GlobalAlloc, Layout as MemoryLayout, System};
use std::cell::Cell;
use std::ffi::CString;

use fa512::contract::variants::{VARIANTS, Variant};
use fa512::{GpuFacts, Layout, Mask, Module, Problem, Shape, contract};

use common::attention::Case;
use common::{gpu, machine, raw};

/// The system's allocator with a count of each thread's allocations. (The simulated driver has its own allocator.)
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u32> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: MemoryLayout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: MemoryLayout) {
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_call_allocates_nothing_once_its_kernel_is_loaded() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for sequence in [60, 512] {
        let shape = Shape::new(1, 1, sequence);
        let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap();
        let case = Case::new(problem, &stream);
        fa512::warm_up(&[problem]).unwrap();
        let (addresses, stream) = (case.addresses(), raw(&stream));
        let before = ALLOCATIONS.get();
        // SAFETY: the tensors live until the check has synchronised.
        let launched = unsafe { fa512::forward(&problem, addresses, stream) };
        let allocations = ALLOCATIONS.get() - before;
        launched.unwrap();
        case.check(true);
        assert_eq!(allocations, 0, "S = {sequence}");
    }
}

#[test]
fn a_launch_of_a_module_allocates_nothing() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let problem = Problem::new(Shape::new(1, 1, 60), Mask::Full, Layout::Bhsd).unwrap();
    let case = Case::new(problem, &stream);
    let plain = |variant: &&Variant<'_>| !variant.waits_for_previous_grid && variant.check_accepts(&problem).is_ok();
    let variant = VARIANTS.iter().find(plain).expect("there is one");
    let facts = GpuFacts { name: "", architecture: 90, multiprocessors: 2, shared_bytes_per_block: 227 << 10 };
    let launch = contract::plan::Plan::new(&problem, *variant, &facts).unwrap().bind(case.addresses()).unwrap();
    let bytes = size_of::<contract::args::ForwardArgs>();
    let entry = variant.entry;
    let ptx = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry {entry}(.param .align 8 .b8 p[{bytes}])\n{{\nret;\n}}\n"
    );
    let module = Module::load(&CString::new(ptx).unwrap()).unwrap();
    let kernel = module.kernel(variant).unwrap();
    let stream = raw(&stream);
    // SAFETY: the kernel does nothing.
    let launch = || unsafe { kernel.launch(&launch, stream, true) };
    launch().unwrap();
    let before = ALLOCATIONS.get();
    let launched = launch();
    assert_eq!(ALLOCATIONS.get() - before, 0);
    launched.unwrap();
}

//! Kernels whose blocks meet in a cooperative launch, memory of the host, and functions that another entry put into memory.
//! `compiled/whole_grid.ptx` was made by nvcc 13.0 with `-O3 -lineinfo -arch=sm_80` from `compiled/whole_grid.cu`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::common::words;
use ptx_sim::{FindingClass, GlobalMemory, HostWords, Launch, LaunchError, MemoryError, Module, Options, Report, run};

const TEXT: &str = include_str!("compiled/whole_grid.ptx");

fn module() -> Module {
    Module::parse(TEXT, "whole_grid.ptx").unwrap_or_else(|error| panic!("{error}"))
}

struct Launched<'a> {
    entry: &'a str,
    extent: [u32; 2],
    params: &'a [&'a [u8]],
    cooperative: bool,
}

fn launch(module: &Module, memory: &mut GlobalMemory, launched: &Launched<'_>) -> Result<Report, LaunchError> {
    let Launched { entry, extent: [blocks, threads], params, cooperative } = *launched;
    let (grid, block) = ([blocks, 1, 1], [threads, 1, 1]);
    let launch = Launch { entry, grid, block, dynamic_shared_bytes: 0, params, architecture: 80 };
    let options = Options { threads: 2, instructions_per_warp: 1_000_000, cooperative, ..Options::default() };
    run(module, memory, &launch, &options)
}

fn reverse(blocks: u32, cooperative: bool) -> (Result<Report, LaunchError>, Vec<u32>) {
    const COUNT: u32 = 100;
    let mut memory = GlobalMemory::new();
    let out = memory.allocate("out", 2 * 4 * u64::from(COUNT)).expect("allocating");
    let (address, count) = (out.to_le_bytes(), COUNT.to_le_bytes());
    let params: &[&[u8]] = &[&address, &count];
    let launched = Launched { entry: "reverse", extent: [blocks, 32], params, cooperative };
    let report = launch(&module(), &mut memory, &launched);
    assert_eq!(memory.bytes_in_use(), 800, "what blocks meet at is nobody's allocation");
    let mut data = vec![0; 800];
    memory.read(out, &mut data).expect("reading");
    (report, words(&data))
}

#[test]
fn blocks_of_a_cooperative_launch_meet() {
    let (report, out) = reverse(3, true);
    let findings = report.expect("a possible launch").findings;
    assert!(findings.is_empty(), "{findings:#?}");
    let expected: Vec<u32> = (0..100).chain((0..100).rev()).collect();
    assert_eq!(out, expected);
}

#[test]
fn a_grid_that_waits_for_all_blocks_needs_a_cooperative_launch() {
    let (report, _) = reverse(3, false);
    let finding = report.expect("a possible launch").findings.swap_remove(0);
    assert_eq!(finding.class, FindingClass::Trap);
    assert!(finding.message.contains("needs a cooperative launch"), "{}", finding.message);
    assert!(
        finding.at.source.iter().chain(&finding.at.inlined_at).any(|at| at.file == "whole_grid.cu" && at.line == 13)
    );
}

#[test]
fn blocks_that_do_not_fit_the_gpu_cannot_meet() {
    // 108 multiprocessors, of which each holds 32 blocks.
    let error = reverse(108 * 32 + 1, true).0.expect_err("one too many");
    assert!(matches!(error, LaunchError::Cooperative { blocks: 3457, limit: 3456, .. }), "{error}");
}

#[test]
fn functions_that_another_entry_put_into_memory_are_called() {
    let (module, mut memory) = (module(), GlobalMemory::new());
    let shapes = memory.allocate("shapes", 8 * 16).expect("allocating").to_le_bytes();
    let out = memory.allocate("out", 8 * 4).expect("allocating");
    for (entry, params) in [("make", &[&shapes[..]][..]), ("areas", &[&shapes[..], &out.to_le_bytes()[..]][..])] {
        let launched = Launched { entry, extent: [1, 8], params, cooperative: false };
        let findings = launch(&module, &mut memory, &launched).expect("a possible launch").findings;
        assert!(findings.is_empty(), "{findings:#?}");
    }
    let mut data = [0; 32];
    memory.read(out, &mut data).expect("reading");
    assert_eq!(words(&data), [0, 1, 2, 9, 4, 25, 6, 49]);
}

/// Words that the host has, which lie at the address that it says.
struct Host(Vec<AtomicU64>);

impl HostWords for Host {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

fn host(words: usize) -> (Arc<Host>, u64) {
    let host = Arc::new(Host((0..words).map(|_| AtomicU64::new(0)).collect()));
    let address = host.0.as_ptr() as u64;
    (host, address)
}

#[test]
fn a_managed_variable_lies_where_the_host_reaches_it() {
    let (module, mut memory) = (module(), GlobalMemory::new());
    assert_eq!(module.managed_variables().collect::<Vec<_>>(), [("steps", 16)]);
    let (host, address) = host(2);
    memory.map_host("steps", address, 16, host.clone()).expect("mapping");
    module.reserve_variable("steps", address, &mut memory);
    let placed = module.place_variables(&mut memory).expect("placing");
    assert!(placed.iter().any(|variable| variable.name == "steps" && variable.address == address));
    assert_eq!(host.0[0].load(Relaxed), 1 | 2 << 32, "its initial values");
    host.0[1].store(30 | 40 << 32, Relaxed);
    let out = memory.allocate("out", 16).expect("allocating");
    let params: &[&[u8]] = &[&out.to_le_bytes()];
    let launched = Launched { entry: "step", extent: [1, 4], params, cooperative: false };
    let findings = launch(&module, &mut memory, &launched).expect("a possible launch").findings;
    assert!(findings.is_empty(), "{findings:#?}");
    let mut data = [0; 16];
    memory.read(out, &mut data).expect("reading");
    assert_eq!(words(&data), [1, 2, 30, 40]);
    assert_eq!(host.0[1].load(Relaxed), 31 | 41 << 32, "the kernel wrote where the host reads");
}

#[test]
fn memory_of_the_host_has_bounds_and_an_end() {
    let mut memory = GlobalMemory::new();
    let (host, first) = host(16);
    // It need not begin at a multiple of 8.
    let address = first + 3;
    memory.map_host("pinned", address, 100, host.clone()).expect("mapping");
    memory.write(address, &[1, 2, 3, 4, 5, 6]).expect("writing");
    assert_eq!(host.0[0].load(Relaxed).to_le_bytes(), [0, 0, 0, 1, 2, 3, 4, 5]);
    assert_eq!(host.0[1].load(Relaxed), 6);
    assert_eq!(memory.first_unwritten(address, 100), Ok(None), "the host may have written all of it");
    let beyond = memory.read(address + 98, &mut [0; 4]).expect_err("two bytes too many").to_string();
    assert!(beyond.contains("the last 2 bytes are past the end of buffer `pinned` (100 bytes)"), "{beyond}");
    let twice = memory.map_host("again", address + 50, 10, host.clone()).expect_err("it is mapped");
    assert!(matches!(twice, MemoryError::Host { .. }), "{twice}");
    assert_eq!(memory.bytes_in_use(), 0, "it is none of the GPU's");
    memory.free(address).expect("unmapping");
    let freed = memory.read(address, &mut [0]).expect_err("it is gone").to_string();
    assert!(freed.contains("which was freed"), "{freed}");
    memory.map_host("new", address, 100, host).expect("the address is free again");
    memory.read(address, &mut [0]).expect("reading");
}

#[test]
fn memory_of_the_host_lies_apart_and_is_as_large_as_said() {
    let mut memory = GlobalMemory::new();
    let (host, address) = host(2);
    let of_gpu = memory.allocate("buffer", 64).expect("allocating");
    // An address of the GPU's, one of shared memory's window, more bytes than there are words, none, too many.
    for (address, bytes) in [(of_gpu, 8), (0x5200_0000_0010, 8), (address, 17), (address, 0), (address, u64::MAX)] {
        let error = memory.map_host("host", address, bytes, host.clone()).expect_err("impossible");
        assert!(matches!(error, MemoryError::Host { .. }), "{error}");
    }
}

//! Blocks of one grid that wait for each other and read what others wrote. The PTX in `compiled/blocks*.ptx` was made by nvcc
//! 13.0 with `-O3 -lineinfo` from `compiled/blocks.cu`, with and without its fences.

use crate::common::{bytes, words};
use ptx_sim::{Finding, FindingClass, GlobalMemory, Launch, Module, Options, run};

const FENCED: &str = include_str!("compiled/blocks.ptx");
const UNFENCED: &str = include_str!("compiled/blocks_unfenced.ptx");

/// Runs a kernel on buffers of words; returns their contents afterwards, and the findings.
fn launch(text: &str, entry: &str, [blocks, threads]: [u32; 2], buffers: &[Vec<u32>]) -> (Vec<Vec<u32>>, Vec<Finding>) {
    let module = Module::parse(text, "blocks.ptx").unwrap_or_else(|error| panic!("{error}"));
    let mut memory = GlobalMemory::new();
    let addresses: Vec<[u8; 8]> = buffers
        .iter()
        .map(|buffer| {
            let address = memory.allocate("buffer", 4 * buffer.len() as u64).expect("allocating");
            memory.write(address, &bytes(buffer)).expect("writing");
            address.to_le_bytes()
        })
        .collect();
    let params: Vec<&[u8]> = addresses.iter().map(<[u8; 8]>::as_slice).collect();
    let (grid, block) = ([blocks, 1, 1], [threads, 1, 1]);
    let launch = Launch { entry, grid, block, dynamic_shared_bytes: 0, params: &params, architecture: 80 };
    let options = Options { threads: 2, instructions_per_warp: 1_000_000, ..Options::default() };
    let report = run(&module, &mut memory, &launch, &options).expect("running");
    let read = |(address, buffer): (&[u8; 8], &Vec<u32>)| {
        let mut data = vec![0; 4 * buffer.len()];
        memory.read(u64::from_le_bytes(*address), &mut data).expect("reading");
        words(&data)
    };
    (addresses.iter().zip(buffers).map(read).collect(), report.findings)
}

/// With its fences the kernel gives `expected` in one of the buffers and no findings; without them it has races in that line of
/// `blocks.cu`.
fn needs_fences(entry: &str, extent: [u32; 2], buffers: &[Vec<u32>], (index, expected): (usize, &[u32]), line: u32) {
    let (contents, findings) = launch(FENCED, entry, extent, buffers);
    assert!(findings.is_empty(), "{entry}: {findings:#?}");
    assert_eq!(contents[index], expected, "{entry}");
    let (_, findings) = launch(UNFENCED, entry, extent, buffers);
    let is_race = |finding: &Finding| finding.class == FindingClass::Race;
    assert!(!findings.is_empty() && findings.iter().all(is_race), "{entry}: {findings:#?}");
    let mut lines = findings.iter().flat_map(|finding| [&finding.at, &finding.other.as_ref().expect("a race").at]);
    let names_line = lines.any(|at| at.source.as_ref().is_some_and(|source| source.line == line));
    assert!(names_line, "{entry}: {findings:#?}");
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u32> {
    values.into_iter().map(f32::to_bits).collect()
}

#[test]
fn the_last_block_adds_up() {
    let input = floats((0..8 * 64).map(|index| (index % 7) as f32));
    let sum: f32 = (0..8 * 64).map(|index| (index % 7) as f32).sum();
    let buffers = [input, vec![0; 8], vec![0], vec![0]];
    needs_fences("last_block", [8, 64], &buffers, (2, &[sum.to_bits()]), 20);
}

#[test]
fn a_lock_of_all_blocks() {
    needs_fences("locked", [20, 32], &[vec![0], vec![5]], (1, &[25]), 38);
}

#[test]
fn a_scan_that_looks_back() {
    let input: Vec<u32> = (0..6 * 32).map(|index| index % 5).collect();
    let expected: Vec<u32> = input
        .iter()
        .scan(0, |sum, value| {
            *sum += value;
            Some(*sum)
        })
        .collect();
    let buffers = [input, vec![0; 6], vec![0; 6], vec![0; 192]];
    needs_fences("look_back", [6, 32], &buffers, (3, &expected), 59);
}

#[test]
fn a_barrier_of_all_blocks() {
    let (blocks, threads) = (7, 64);
    let n = blocks * threads;
    // Four rounds move everything by four blocks.
    let expected: Vec<u32> = (0..n).map(|index| (index + 4 * threads) % n + 4).collect();
    let buffers = [vec![0], vec![0; n as usize], vec![0; n as usize]];
    needs_fences("grid_barrier", [blocks, threads], &buffers, (1, &expected), 83);
}

#[test]
fn volatile_accesses_do_not_order_the_lanes_of_a_warp() {
    let input = floats((0..32).map(|lane| lane as f32));
    needs_fences("warp_reduce", [1, 32], &[input, vec![0]], (1, &[496_f32.to_bits()]), 101);
}

/// Runs `grid_barrier` with blocks that each fill a multiprocessor.
fn barrier_of_large_blocks(blocks: u32, threads: usize) -> Vec<Finding> {
    let module = Module::parse(FENCED, "blocks.ptx").unwrap_or_else(|error| panic!("{error}"));
    let mut memory = GlobalMemory::new();
    let addresses = [4, 4 * 32 * u64::from(blocks), 4 * 32 * u64::from(blocks)].map(|size| {
        let address = memory.allocate("buffer", size).expect("allocating");
        memory.set_8(address, 0, size).expect("filling");
        address.to_le_bytes()
    });
    let params: Vec<&[u8]> = addresses.iter().map(<[u8; 8]>::as_slice).collect();
    let launch = Launch {
        entry: "grid_barrier",
        grid: [blocks, 1, 1],
        block: [32, 1, 1],
        dynamic_shared_bytes: 160 << 10,
        params: &params,
        architecture: 80,
    };
    let options = Options { threads, races: false, ..Options::default() };
    run(&module, &mut memory, &launch, &options).expect("running").findings
}

#[test]
fn blocks_beyond_those_that_fit_are_waited_for_in_vain() {
    for threads in [1, 3] {
        assert!(barrier_of_large_blocks(108, threads).is_empty(), "an sm_80 has 108 multiprocessors");
        let findings = barrier_of_large_blocks(110, threads);
        let [finding] = findings.as_slice() else { panic!("one finding: {findings:#?}") };
        assert_eq!((finding.class, finding.at.block), (FindingClass::Deadlock, [0; 3]), "{finding}");
        assert!(finding.message.contains("as 107 others do; 2 blocks cannot begin, as 108 fill the GPU"), "{finding}");
        assert_eq!(finding.at.source.as_ref().map(|source| source.line), Some(77), "{finding}");
    }
}

//! Blocks of one grid that wait for each other and read what others wrote. The PTX in `compiled/blocks*.ptx` was made by nvcc
//! 13.0 with `-O3 -lineinfo` from `compiled/blocks.cu`, with and without its fences.

mod common;

use common::{bytes, words};
use ptx_sim::{Finding, FindingClass, GlobalMemory, Launch, Module, Options, run};

const FENCED: &str = include_str!("compiled/blocks.ptx");
const UNFENCED: &str = include_str!("compiled/blocks_unfenced.ptx");

/// Runs a kernel on buffers of words; what is in them afterwards, and what was found.
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

/// The kernel is right with its fences, and gives `expected` in one of the buffers; without them it has races, in that line of
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

//! Clusters as CUDA's cooperative groups write them: `compiled/clusters.ptx` was made by nvcc 13.0 from the source beside it.

use crate::common::{bytes, words};
use ptx_sim::{FindingClass, GlobalMemory, Launch, Module, Options, Report, run};

/// Result of a kernel, and the words of its output.
fn launch(entry: &str, input: &[u32], rest: &[u32], output: usize, cluster: Option<u32>) -> (Report, Vec<u32>) {
    let module = Module::parse(include_str!("compiled/clusters.ptx"), "clusters.ptx").expect("nvcc's PTX");
    let mut memory = GlobalMemory::new();
    let from = memory.allocate("in", 4 * input.len() as u64).expect("allocating");
    memory.write(from, &bytes(input)).expect("writing");
    let to = memory.allocate("out", 4 * output as u64).expect("allocating");
    memory.write(to, &vec![0; 4 * output]).expect("writing");
    let (from, address) = (from.to_le_bytes(), to.to_le_bytes());
    let rest: Vec<[u8; 4]> = rest.iter().map(|word| word.to_le_bytes()).collect();
    let params: Vec<&[u8]> = match rest.as_slice() {
        [] => vec![&from, &address],
        [count, bins] => vec![&from, count, &address, bins],
        _ => panic!("no such parameters"),
    };
    let launch = Launch {
        entry,
        grid: [8, 1, 1],
        block: [64, 1, 1],
        dynamic_shared_bytes: 4 * 16,
        params: &params,
        architecture: 90,
    };
    let options = Options { cluster: cluster.map(|size| [size, 1, 1]), ..Options::default() };
    let report = run(&module, &mut memory, &launch, &options).expect("running");
    let mut data = vec![0; 4 * output];
    memory.read(to, &mut data).expect("reading");
    (report, words(&data))
}

#[test]
fn a_block_reads_its_neighbours_memory() {
    let input: Vec<u32> = (0..512).map(|index| 7 * index).collect();
    let (report, output) = launch("neighbours", &input, &[], 512, None);
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    let expected = |index: u32| 7 * (index ^ 64) + 1000 * (index / 64 % 2);
    assert_eq!(output, (0..512).map(expected).collect::<Vec<u32>>());
}

#[test]
fn the_last_barrier_is_missed() {
    let (report, _) = launch("leaving", &vec![1; 512], &[], 512, None);
    let [finding] = report.findings.as_slice() else { panic!("{:#?}", report.findings) };
    assert_eq!(finding.class, FindingClass::BlockLifetime, "{finding}");
}

#[test]
fn a_histogram_in_the_memory_of_all_blocks() {
    let input: Vec<u32> = (0..1000).map(|index| index * index % 101).collect();
    for cluster in [1, 2, 4, 8] {
        let bins = 16 * cluster;
        let (report, output) = launch("histogram", &input, &[1000, 16], bins as usize, Some(cluster));
        assert!(report.findings.is_empty(), "clusters of {cluster}: {:#?}", report.findings);
        let count = |bin: u32| input.iter().filter(|value| **value % bins == bin).count() as u32;
        assert_eq!(output, (0..bins).map(count).collect::<Vec<u32>>(), "clusters of {cluster}");
    }
}

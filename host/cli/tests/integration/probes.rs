//! The tensor-core throughput probes in the simulator: no findings, and the number of products from which their rate is computed.

use contract::config::Family;
use contract::probe::{PROBES, Probe, ProbeArgs, THREADS};
use ptx_sim::{GlobalMemory, Launch, Module, Options, Report};

use super::support::ptx;

const BLOCKS: u32 = 2;

/// Runs `probe` for `iterations`; returns the simulator's report and what the threads wrote.
fn run(probe: &Probe, iterations: u64) -> (Report, Vec<f32>) {
    let ptx = ptx().probe(probe).unwrap().unwrap_or_else(|| panic!("the PTX folder has no {}", probe.file));
    let module = Module::parse(ptx.text().unwrap(), &ptx.file).unwrap_or_else(|error| panic!("{error}"));
    let mut memory = GlobalMemory::new();
    let mut sink = vec![0; (BLOCKS * THREADS) as usize * size_of::<f32>()];
    let address = memory.allocate("sink", sink.len() as u64).unwrap();
    let arguments = ProbeArgs { sink: address, iterations };
    let params = [arguments.sink.to_le_bytes(), arguments.iterations.to_le_bytes()].concat();
    let launch = Launch {
        entry: probe.entry,
        grid: [BLOCKS, 1, 1],
        block: [THREADS, 1, 1],
        dynamic_shared_bytes: probe.dynamic_shared_bytes,
        params: &[&params],
        architecture: match probe.family {
            Family::Sm80 => 80,
            Family::Sm90a => 90,
        },
    };
    let report =
        ptx_sim::run(&module, &mut memory, &launch, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    memory.read(address, &mut sink).unwrap();
    (report, sink.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
}

#[test]
fn probes_are_clean_and_their_sums_grow_with_the_iterations() {
    for probe in &PROBES {
        let (once, first) = run(probe, 1);
        let (twice, second) = run(probe, 2);
        assert!(once.findings.is_empty() && twice.findings.is_empty(), "{}: {:?}", probe.entry, once.findings);
        for (first, second) in first.iter().zip(&second) {
            assert!(*first > 0.0 && (second / first - 2.0).abs() < 1e-3, "{}: {first}, then {second}", probe.entry);
        }
    }
}

#[test]
fn a_probe_makes_as_many_products_as_it_says() {
    for probe in PROBES.iter().filter(|probe| probe.family == Family::Sm80) {
        let (one, two) = (run(probe, 1).0.counters, run(probe, 2).0.counters);
        let operations = (two.mma - one.mma) * 2 * 16 * 8 * 16;
        assert_eq!(operations, u64::from(BLOCKS) * probe.operations, "{}", probe.entry);
    }
}

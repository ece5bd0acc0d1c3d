//! Running a planted kernel in the simulator.

use kernel_gpu::planted::{Arguments, Case};
use ptx_sim::{Finding, GlobalMemory, Launch, MemoryError, Module, Options, run as simulate};

/// More than any kernel but an endless one executes.
const INSTRUCTIONS_PER_WARP: u64 = 10_000;

/// What is found in `entry`, one of the two of `case`.
pub fn run(module: &Module, case: &Case, entry: &str) -> Result<Vec<Finding>, String> {
    let mut memory = GlobalMemory::new();
    let arguments = allocate(&mut memory, case).map_err(|error| format!("{entry}: {error}"))?.bytes();
    let launch = Launch {
        entry,
        grid: [case.blocks, 1, 1],
        block: [case.threads, 1, 1],
        dynamic_shared_bytes: case.shared_bytes,
        params: &[&arguments],
        architecture: 90,
    };
    let options = Options { threads: 1, instructions_per_warp: INSTRUCTIONS_PER_WARP, ..Options::default() };
    let report = simulate(module, &mut memory, &launch, &options).map_err(|error| format!("{entry}: {error}"))?;
    Ok(report.findings)
}

fn allocate(memory: &mut GlobalMemory, case: &Case) -> Result<Arguments, MemoryError> {
    let mut buffer = |name, bytes| if bytes == 0 { Ok(0) } else { memory.allocate(name, bytes) };
    let (input, output) = (buffer("input", case.input_bytes)?, buffer("output", case.output_bytes)?);
    if input != 0 {
        memory.write(input, &case.input().collect::<Vec<u8>>())?;
    }
    Ok(Arguments { input, output })
}

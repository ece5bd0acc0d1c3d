//! Running a planted kernel in the simulator.

use planted::{Arguments, Case, Swizzle, TensorMap};
use ptx_sim::{Finding, GlobalMemory, Launch, MemoryError, Module, Options, TensorElement, run as simulate};

/// Instruction limit: more than any kernel that ends executes.
const INSTRUCTIONS_PER_WARP: u64 = 10_000;

/// Result of a kernel.
pub struct Outcome {
    /// Findings.
    pub findings: Vec<Finding>,
    /// The output buffer.
    pub output: Vec<u8>,
}

/// Runs `entry`, one of the two of `case`.
pub fn run(module: &Module, case: &Case, entry: &str) -> Result<Outcome, String> {
    let said = |error: &dyn std::error::Error| format!("{entry}: {error}");
    let mut memory = GlobalMemory::new();
    let arguments = allocate(&mut memory, case).map_err(|error| said(&error))?;
    let launch = Launch {
        entry,
        grid: [case.blocks, 1, 1],
        block: [case.threads, 1, 1],
        dynamic_shared_bytes: case.shared_bytes,
        params: &[&arguments.bytes()],
        architecture: 90,
    };
    let cluster = (case.cluster > 1).then_some([case.cluster, 1, 1]);
    let options = Options { threads: 1, instructions_per_warp: INSTRUCTIONS_PER_WARP, cluster, ..Options::default() };
    let report = simulate(module, &mut memory, &launch, &options).map_err(|error| said(&error))?;
    let mut output = vec![0; case.output_bytes as usize];
    if !output.is_empty() {
        memory.read(arguments.output, &mut output).map_err(|error| said(&error))?;
    }
    Ok(Outcome { findings: report.findings, output })
}

fn allocate(memory: &mut GlobalMemory, case: &Case) -> Result<Arguments, MemoryError> {
    let mut buffer = |name, bytes| if bytes == 0 { Ok(0) } else { memory.allocate(name, bytes) };
    let (input, output) = (buffer("input", case.input_bytes)?, buffer("output", case.output_bytes)?);
    if input != 0 {
        memory.write(input, &case.input().collect::<Vec<u8>>())?;
    }
    let map = case.tensor_map.map(|map| memory.allocate_tensor_map("tensor map", tensor_map(map, input)));
    Ok(Arguments { input, output, tensor_map: map.transpose()?.unwrap_or(0) })
}

/// The map as the simulator wants it.
fn tensor_map(map: TensorMap, address: u64) -> ptx_sim::TensorMap {
    let TensorMap { rows, columns, box_rows, box_columns, swizzle } = map;
    ptx_sim::TensorMap {
        element: TensorElement::U32,
        address,
        sizes: vec![columns.into(), rows.into()],
        strides: vec![map.pitch()],
        box_sizes: vec![box_columns, box_rows],
        element_strides: vec![1, 1],
        swizzle: match swizzle {
            Swizzle::None => ptx_sim::Swizzle::None,
            Swizzle::Bytes128 => ptx_sim::Swizzle::Bytes128,
        },
    }
}

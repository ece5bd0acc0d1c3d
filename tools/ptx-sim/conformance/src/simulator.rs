//! Runs cases in the simulator.

use anyhow::{Context, Result, bail};
use ptx_sim::{GlobalMemory, Launch, Module, Options, TensorMap, run};

use crate::case::{ARCHITECTURE, Case, ENTRY, MapPlace};

/// The output of a case.
///
/// # Errors
/// When the simulator refuses the case, or finds something wrong with it.
pub fn output(case: &Case) -> Result<Vec<u8>> {
    let module = Module::parse(&case.ptx, &case.name).context("parsing")?;
    let mut memory = GlobalMemory::new();
    let output = memory.allocate("output", case.output_bytes as u64)?;
    let input = memory.allocate("input", case.input.len() as u64)?;
    memory.write(output, &vec![0; case.output_bytes])?;
    memory.write(input, &case.input)?;
    let (output_address, input_address) = (output.to_le_bytes(), input.to_le_bytes());
    let mut params: Vec<&[u8]> = vec![&output_address, &input_address];
    let (mut map_bytes, map_address);
    if let Some((map, place)) = &case.tensor_map {
        let map = TensorMap { address: input + map.address, ..map.clone() };
        let address = memory.allocate_tensor_map("map", map)?;
        map_bytes = [0; 128];
        memory.read(address, &mut map_bytes)?;
        map_address = address.to_le_bytes();
        params.push(match place {
            MapPlace::Parameter => &map_bytes,
            MapPlace::Global => &map_address,
        });
    }
    let launch = Launch {
        entry: ENTRY,
        grid: [case.blocks, 1, 1],
        block: [case.threads, 1, 1],
        dynamic_shared_bytes: 0,
        params: &params,
        architecture: ARCHITECTURE,
    };
    let options = Options {
        threads: 1,
        instructions_per_warp: 1_000_000,
        // As when its result was recorded.
        overlaps_previous: Some(false),
        ..Options::default()
    };
    let report = run(&module, &mut memory, &launch, &options)?;
    if let Some(finding) = report.findings.first() {
        bail!("the simulator finds something wrong:\n{finding}");
    }
    let mut bytes = vec![0; case.output_bytes];
    memory.read(output, &mut bytes)?;
    Ok(bytes)
}

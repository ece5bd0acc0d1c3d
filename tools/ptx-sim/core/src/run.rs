//! Preparation of a launch: checks before anything runs.

use crate::architecture;
use crate::decode::Refusal;
use crate::exec::run_grid;
use crate::isa::{self, Code};
use crate::launch::{Launch, LaunchError, Options, Report};
use crate::machine::Machine;
use crate::memory::GlobalMemory;
use crate::module::Module;
use crate::parse::{Entry, Position};
use crate::program::{Layout, Reach};

/// Maximum threads of a block on every architecture.
const THREADS_PER_BLOCK: u64 = 1024;
/// Largest block in each dimension.
const BLOCK_EXTENT: [u32; 3] = [1024, 1024, 64];
/// Largest grid in each dimension.
const GRID_EXTENT: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

/// Maximum blocks of a cluster; more than 8 are not portable (CUDA C++ Programming Guide, "Thread Block Clusters").
const BLOCKS_PER_CLUSTER: u32 = 16;
/// The first architecture with clusters.
const FIRST_WITH_CLUSTERS: u32 = 90;

/// Maximum size of an entry's parameters, bytes (PTX ISA, "Kernel Function Parameters").
const PARAMETER_BYTES: u64 = 32_764;

/// Maximum local memory of a thread on every architecture.
const LOCAL_BYTES_PER_THREAD: u64 = 512 << 10;

/// Executes a launch, with blocks in parallel, and reports errors of the kernel.
///
/// # Errors
/// If the launch cannot be executed: an unknown entry, a wrong number or size of parameters, an instruction that the
/// simulator does not know, an exceeded limit of the architecture. Nothing has been executed then. Errors of the kernel
/// are findings in the report instead.
pub fn run(
    module: &Module,
    memory: &mut GlobalMemory,
    launch: &Launch<'_>,
    options: &Options,
) -> Result<Report, LaunchError> {
    let entry = entry_of(module, launch.entry)?;
    check_target(module, launch.architecture)?;
    check_geometry(entry, launch)?;
    let cluster = cluster_of(entry, launch, options)?;
    check_parameter_space(entry)?;
    let reach = Reach::of(module.syntax(), entry);
    let layout = Layout::new(module.syntax(), module.identity(), entry, &reach, memory)?;
    check_parameters(&layout, launch)?;
    check_shared(&layout, launch)?;
    let Code { program, operations } = decode(module, entry, &reach, layout)?;
    if operations.iter().any(isa::Operation::uses_heap) {
        memory.prepare_heap()?;
    }
    memory.begin_launch();
    let grid_workspace = if options.cooperative { Some(memory.prepare_grid_workspace()?) } else { None };
    let machine = Machine::new(module, &program, launch, memory, cluster, grid_workspace, options);
    if options.cooperative {
        check_cooperative(&machine)?;
    }
    let mut report = run_grid(&machine, &operations, options)?;
    if !options.keeps_undetermined {
        report.findings.extend(memory.left_by_launch().into_iter().map(|store| store.finding));
        report.findings.truncate(options.max_findings);
    }
    Ok(report)
}

/// Checks that an entry can be executed, independent of the launch. Nothing runs.
///
/// # Errors
/// Those of [`run()`] that do not depend on the launch, for instance an instruction that the simulator does not know.
pub fn check(module: &Module, entry: &str, architecture: u32) -> Result<(), LaunchError> {
    let entry = entry_of(module, entry)?;
    check_target(module, architecture)?;
    check_parameter_space(entry)?;
    let reach = Reach::of(module.syntax(), entry);
    let layout = Layout::new(module.syntax(), module.identity(), entry, &reach, &mut GlobalMemory::new())?;
    decode(module, entry, &reach, layout).map(drop)
}

fn decode(module: &Module, entry: &Entry, reach: &Reach<'_>, layout: Layout) -> Result<Code, LaunchError> {
    check_local(layout.local_bytes)?;
    let code = isa::decode(module.syntax(), entry, reach, layout)
        .map_err(|(position, refusal)| refusal_of(module, position, refusal))?;
    check_local(code.program.frame.bytes)?;
    Ok(code)
}

fn check_geometry(entry: &Entry, launch: &Launch<'_>) -> Result<(), LaunchError> {
    let error = |text: String| Err(LaunchError::Geometry(text));
    for (what, extent, limits) in [("grid", launch.grid, GRID_EXTENT), ("block", launch.block, BLOCK_EXTENT)] {
        if extent.contains(&0) || extent.iter().zip(limits).any(|(size, limit)| *size > limit) {
            return error(format!("a {what} of {extent:?}; each size must be between 1 and {limits:?}"));
        }
    }
    let threads: u64 = launch.block.iter().map(|size| u64::from(*size)).product();
    if threads > THREADS_PER_BLOCK {
        return error(format!("{threads} threads in a block; at most {THREADS_PER_BLOCK} are possible"));
    }
    if let Some(required) = entry.required_threads
        && required != launch.block
    {
        return error(format!("a block of {:?}; .reqntid of `{}` demands {required:?}", launch.block, entry.name));
    }
    if let Some(maximum) = entry.maximum_threads {
        let most: u64 = maximum.iter().map(|size| u64::from(*size)).product();
        if threads > most {
            return error(format!("{threads} threads in a block; .maxntid of `{}` allows {most}", entry.name));
        }
    }
    Ok(())
}

/// The blocks of a cluster in each dimension; `None` for a launch without clusters.
fn cluster_of(entry: &Entry, launch: &Launch<'_>, options: &Options) -> Result<Option<[u32; 3]>, LaunchError> {
    let error = |text: String| Err(LaunchError::Geometry(text));
    let name = &entry.name;
    let cluster = match (options.cluster, entry.cluster) {
        (Some(asked), Some(required)) if asked != required => {
            return error(format!("clusters of {asked:?} blocks; .reqnctapercluster of `{name}` demands {required:?}"));
        }
        (None, None) if entry.needs_cluster => {
            return error(format!(
                "`{name}` (.explicitcluster) demands that the launch names the size of its clusters"
            ));
        }
        (None, None) => return Ok(None),
        (asked, required) => asked.or(required).unwrap_or([1; 3]),
    };
    let blocks: u128 = cluster.iter().map(|size| u128::from(*size)).product();
    let most = entry.maximum_cluster.map_or(BLOCKS_PER_CLUSTER, |most| most.min(BLOCKS_PER_CLUSTER));
    if blocks == 0 || blocks > most.into() {
        return error(format!("clusters of {cluster:?} blocks; `{name}` takes 1 to {most} together"));
    }
    if launch.architecture < FIRST_WITH_CLUSTERS {
        return error(format!("clusters need sm_{FIRST_WITH_CLUSTERS}; sm_{} has none", launch.architecture));
    }
    if launch.grid.iter().zip(cluster).any(|(blocks, size)| !blocks.is_multiple_of(size)) {
        return error(format!("a grid of {:?} blocks is not a multiple of clusters of {cluster:?}", launch.grid));
    }
    Ok(Some(cluster))
}

fn check_cooperative(machine: &Machine<'_>) -> Result<(), LaunchError> {
    let blocks = machine.launch.grid.iter().map(|size| u64::from(*size)).product();
    let limit = machine.resident_clusters() as u64 * u64::from(machine.blocks_of_cluster());
    let architecture = machine.launch.architecture;
    if blocks > limit { Err(LaunchError::Cooperative { blocks, limit, architecture }) } else { Ok(()) }
}

fn check_parameter_space(entry: &Entry) -> Result<(), LaunchError> {
    let mut end = 0_u64;
    for parameter in &entry.parameters {
        end = end.next_multiple_of(parameter.alignment) + parameter.bytes.unwrap_or(0);
        if end > PARAMETER_BYTES {
            let (entry, bytes, limit) = (entry.name.clone(), end, PARAMETER_BYTES);
            return Err(LaunchError::ParameterSpace { entry, bytes, limit });
        }
    }
    Ok(())
}

fn check_parameters(layout: &Layout, launch: &Launch<'_>) -> Result<(), LaunchError> {
    let entry = || launch.entry.to_owned();
    let (expected, given) = (layout.parameters.len(), launch.params.len());
    if expected != given {
        return Err(LaunchError::ParameterCount { entry: entry(), expected, given });
    }
    for (index, (parameter, bytes)) in layout.parameters.iter().zip(launch.params).enumerate() {
        if parameter.bytes != bytes.len() as u64 {
            let (expected, given) = (parameter.bytes, bytes.len() as u64);
            return Err(LaunchError::ParameterSize { entry: entry(), index, expected, given });
        }
    }
    Ok(())
}

fn check_shared(layout: &Layout, launch: &Launch<'_>) -> Result<(), LaunchError> {
    let architecture = launch.architecture;
    let Some(limit) = architecture::shared_bytes(architecture) else {
        return Err(LaunchError::UnknownArchitecture { architecture, known: architecture::known().collect() });
    };
    let (fixed, dynamic) = (layout.static_shared_bytes, u64::from(launch.dynamic_shared_bytes));
    let total = fixed + dynamic;
    if total > limit {
        return Err(LaunchError::SharedMemory { total, fixed, dynamic, limit, architecture });
    }
    Ok(())
}

fn check_local(bytes: u64) -> Result<(), LaunchError> {
    let limit = LOCAL_BYTES_PER_THREAD;
    if bytes > limit { Err(LaunchError::LocalMemory { bytes, limit }) } else { Ok(()) }
}

fn entry_of<'a>(module: &'a Module, name: &str) -> Result<&'a Entry, LaunchError> {
    module.syntax().entries.iter().find(|entry| entry.name == name).ok_or_else(|| LaunchError::UnknownEntry {
        entry: name.to_owned(),
        file: module.file().to_owned(),
        available: module.entries().map(str::to_owned).collect(),
    })
}

fn refusal_of(module: &Module, position: Position, refusal: Refusal) -> LaunchError {
    let (file, Position { line, column }) = (module.file().to_owned(), position);
    match refusal {
        Refusal::Unsupported(what) => LaunchError::Unsupported { file, line, column, what },
        Refusal::Invalid(what) => LaunchError::Invalid { file, line, column, what },
    }
}

fn check_target(module: &Module, architecture: u32) -> Result<(), LaunchError> {
    let target = module.target();
    if architecture::runs(architecture, target) {
        return Ok(());
    }
    Err(LaunchError::Target { file: module.file().to_owned(), target: target.to_owned(), architecture })
}

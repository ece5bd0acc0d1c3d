//! Launches and occupancy.

use std::sync::Arc;

use sim_device::{Code, Error, Function, Kernel, Launch, Operation, Result, Stream};

use crate::border::driver_api;
use crate::driver::{self, find};
use crate::modules::function;
use crate::types::{Handle, Host, HostFunction, In, Out, SharedBytes};

/// `CU_LAUNCH_PARAM_END`, `CU_LAUNCH_PARAM_BUFFER_POINTER`, `CU_LAUNCH_PARAM_BUFFER_SIZE`.
const EXTRA_END: usize = 0;
const EXTRA_BUFFER: usize = 1;
const EXTRA_SIZE: usize = 2;

/// The first CUDA version whose driver supports programmatic dependent launches in graphs.
const OVERLAP_IN_GRAPHS: u32 = 12_030;

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: Handle,
    attributes: In<Attribute>,
    attribute_count: u32,
}

/// `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Attribute {
    number: u32,
    padding: u32,
    value: [u32; 16],
}

/// Configuration of a launch.
struct Shape {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    overlaps_previous: bool,
    /// Blocks per cluster, if the launch specifies them.
    cluster: Option<[u32; 3]>,
    cooperative: bool,
}

/// First architecture with clusters, and the largest cluster that needs no opt-in.
const FIRST_WITH_CLUSTERS: u32 = 90;
const PORTABLE_CLUSTER: u32 = 8;

/// Arguments of a cluster query: function, configuration, blocks per cluster.
fn clusters(of: Handle, config: In<Config>) -> Result<(Arc<Function>, Config, u32)> {
    let (function, config) = (function(of)?, config.get()?);
    let architecture = &driver::config()?.architecture;
    if architecture.number < FIRST_WITH_CLUSTERS {
        return Err(Error::unsupported(format!(
            "sm_{} has no clusters; sm_{FIRST_WITH_CLUSTERS} has",
            architecture.number
        )));
    }
    let asked = attributes_of(config.attributes, config.attribute_count)?;
    let cluster = asked.cluster.or(function.required_cluster()).unwrap_or([1; 3]);
    let blocks =
        cluster.iter().try_fold(1_u32, |product, size| product.checked_mul(*size)).filter(|blocks| *blocks > 0);
    let blocks = blocks.ok_or_else(|| Error::invalid(format!("clusters of {cluster:?} blocks")))?;
    Ok((function, config, blocks))
}

/// Threads of a block.
fn block_threads(config: &Config) -> Result<u32> {
    let threads = config.block.iter().try_fold(1_u32, |product, size| product.checked_mul(*size));
    threads
        .filter(|threads| *threads > 0)
        .ok_or_else(|| Error::invalid(format!("blocks of {:?} threads", config.block)))
}

/// The function launched on `stream`; a kernel becomes a function of the stream's context.
fn launched(of: Handle, stream: &Stream) -> Result<Arc<Function>> {
    let function = match find::<Kernel>(of) {
        Some(kernel) => kernel.function(stream.context())?,
        None => function(of)?,
    };
    if function.context().id() != stream.context().id() {
        return Err(Error::new(
            Code::INVALID_HANDLE,
            format!("{} belongs to another context than the stream", function.name()),
        ));
    }
    Ok(function)
}

/// The values of all parameters, in bytes.
pub fn parameters(function: &Function, each: In<Host>, extra: In<usize>) -> Result<Vec<Vec<u8>>> {
    let parameters = function.parameters();
    if !extra.is_null() {
        if !each.is_null() {
            return Err(Error::invalid("parameters are given twice: one by one and in a buffer"));
        }
        let buffer = buffer(extra)?;
        let bytes =
            |offset: u64, bytes: u64| buffer.get(offset as usize..(offset + bytes) as usize).map(<[u8]>::to_vec);
        let all =
            parameters.iter().map(|parameter| bytes(parameter.offset, parameter.bytes)).collect::<Option<Vec<_>>>();
        return all.ok_or_else(|| {
            Error::invalid(format!(
                "{} bytes of parameters; {} takes {}",
                buffer.len(),
                function.name(),
                function.parameter_bytes()
            ))
        });
    }
    if !parameters.is_empty() && each.is_null() {
        return Err(Error::invalid(format!("{} takes {} parameters and gets none", function.name(), parameters.len())));
    }
    let one = |(index, parameter): (usize, &sim_device::Parameter)| {
        let place = each.at(index)?;
        place
            .bytes(parameter.bytes as usize)
            .map_err(|_| Error::invalid(format!("the pointer to parameter {index} is null")))
    };
    parameters.iter().enumerate().map(one).collect()
}

/// The parameter buffer in `extra`, a list of keys and values.
fn buffer(extra: In<usize>) -> Result<Vec<u8>> {
    /// Maximum keys, so that an unterminated list is refused.
    const KEYS: usize = 8;
    let (mut address, mut size) = (None, None);
    for index in (0..2 * KEYS).step_by(2) {
        match extra.at(index)? {
            EXTRA_END => break,
            EXTRA_BUFFER => address = Some(Host(extra.at(index + 1)? as *mut _)),
            EXTRA_SIZE => size = Some(In::<usize>::at_address(extra.at(index + 1)?).get()?),
            key => return Err(Error::invalid(format!("{key} is no key of the extra options"))),
        }
    }
    match (address, size) {
        (Some(address), Some(size)) => address.bytes(size),
        _ => Err(Error::invalid("the extra options lack the buffer or its size")),
    }
}

fn launch(of: Handle, shape: Shape, stream: Handle, each: In<Host>, extra: In<usize>) -> Result<()> {
    let stream = driver::stream(stream)?;
    let function = launched(of, &stream)?;
    let parameters = parameters(&function, each, extra)?;
    let Shape { grid, block, shared_bytes: dynamic_shared_bytes, overlaps_previous, cluster, cooperative } = shape;
    stream.submit(Operation::Launch(Launch {
        function,
        grid,
        block,
        dynamic_shared_bytes,
        overlaps_previous,
        cluster,
        cooperative,
        parameters,
    }))
}

/// Values of launch attributes.
#[derive(Default)]
struct Asked {
    /// Whether it may begin before the previous launch has ended.
    overlaps_previous: bool,
    /// Blocks per cluster.
    cluster: Option<[u32; 3]>,
    cooperative: bool,
}

/// Reads the attributes of a launch; those that are not simulated are refused.
fn attributes_of(attributes: In<Attribute>, count: u32) -> Result<Asked> {
    let mut asked = Asked::default();
    let refused = |what: &str| Err(Error::unsupported(format!("{what} are not simulated")));
    for Attribute { number, value, .. } in attributes.all(count as usize)? {
        match number {
            // Ignore; hints about caches, waiting, scheduling, priorities, domains, carve-out, links.
            0 | 1 | 3 | 5 | 8 | 9 | 10 | 14 | 16 => {}
            2 => asked.cooperative = value[0] != 0,
            // The cluster size, and the preferred cluster size.
            4 => asked.cluster = Some([value[0], value[1], value[2]]),
            11 => {}
            6 => asked.overlaps_previous = value[0] != 0,
            7 | 12 => return refused("events inside a launch"),
            13 if value[0] == 0 => {}
            13 => return refused("nodes that the device changes"),
            _ => return Err(Error::invalid(format!("{number} is no attribute of a launch"))),
        }
    }
    Ok(asked)
}

fn active_blocks(count: Out<i32>, of: Handle, threads: i32, shared_bytes: usize) -> Result<()> {
    count.require()?;
    let threads = u32::try_from(threads).ok().filter(|threads| *threads > 0);
    let threads = threads.ok_or_else(|| Error::invalid("a block without threads"))?;
    count.set(function(of)?.active_blocks(threads, shared_bytes as u64) as i32)
}

fn best_block(
    grid: Out<i32>,
    block: Out<i32>,
    of: Handle,
    shared: SharedBytes,
    bytes: usize,
    limit: i32,
) -> Result<()> {
    grid.require()?;
    block.require()?;
    let limit = u32::try_from(limit).map_err(|_| Error::invalid(format!("{limit} threads at most")))?;
    let (threads, blocks) = function(of)?.best_block(|threads| shared.of(threads).unwrap_or(bytes as u64), limit);
    block.set(threads as i32)?;
    grid.set(blocks as i32)
}

driver_api! {
    fn cuLaunchKernel(
        of: Handle,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared_bytes: u32,
        stream: Handle,
        each: In<Host>,
        extra: In<usize>,
    ) per_thread cuLaunchKernel_ptsz(stream) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let shape = Shape { grid, block, shared_bytes, overlaps_previous: false, cluster: None, cooperative: false };
        launch(of, shape, stream, each, extra)
    }

    fn cuLaunchCooperativeKernel(
        of: Handle,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared_bytes: u32,
        stream: Handle,
        each: In<Host>,
    ) per_thread cuLaunchCooperativeKernel_ptsz(stream) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let shape = Shape { grid, block, shared_bytes, overlaps_previous: false, cluster: None, cooperative: true };
        launch(of, shape, stream, each, In::nowhere())
    }

    fn cuLaunchKernelEx(config: In<Config>, of: Handle, each: In<Host>, extra: In<usize>) {
        launch_with(config.get()?, of, each, extra)
    }

    fn cuLaunchKernelEx_ptsz(config: In<Config>, of: Handle, each: In<Host>, extra: In<usize>) {
        let config = config.get()?;
        launch_with(Config { stream: config.stream.per_thread(), ..config }, of, each, extra)
    }

    fn cuLaunchHostFunc(stream: Handle, function: HostFunction, data: Host) per_thread cuLaunchHostFunc_ptsz(stream) {
        let stream = driver::stream(stream)?;
        let call = function.with(data)?;
        stream.submit(Operation::Call(Arc::new(call)))
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(count: Out<i32>, of: Handle, threads: i32, shared_bytes: usize) {
        active_blocks(count, of, threads, shared_bytes)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: Out<i32>,
        of: Handle,
        threads: i32,
        shared_bytes: usize,
        _flags: u32,
    ) {
        active_blocks(count, of, threads, shared_bytes)
    }

    fn cuOccupancyMaxActiveClusters(count: Out<i32>, of: Handle, config: In<Config>) {
        count.require()?;
        let (function, config, blocks) = clusters(of, config)?;
        let active = function.active_clusters(blocks, block_threads(&config)?, config.shared_bytes.into());
        count.set(i32::try_from(active).unwrap_or(i32::MAX))
    }

    fn cuOccupancyMaxPotentialClusterSize(blocks: Out<i32>, of: Handle, config: In<Config>) {
        blocks.require()?;
        let (function, config, _) = clusters(of, config)?;
        let threads = block_threads(&config)?;
        let fits = |size: &u32| function.active_clusters(*size, threads, config.shared_bytes.into()) > 0;
        blocks.set((1..=PORTABLE_CLUSTER).rev().find(fits).unwrap_or(0) as i32)
    }

    fn cuOccupancyMaxPotentialBlockSize(grid: Out<i32>, block: Out<i32>, of: Handle, shared: SharedBytes, bytes: usize, limit: i32) {
        best_block(grid, block, of, shared, bytes, limit)
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: Out<i32>,
        block: Out<i32>,
        of: Handle,
        shared: SharedBytes,
        bytes: usize,
        limit: i32,
        _flags: u32,
    ) {
        best_block(grid, block, of, shared, bytes, limit)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, of: Handle, blocks: i32, threads: i32) {
        let positive = |number: i32| u32::try_from(number).map_err(|_| Error::invalid(format!("{number} blocks or threads")));
        bytes.set(function(of)?.available_dynamic_shared(positive(blocks)?, positive(threads)?) as usize)
    }
}

fn launch_with(config: Config, of: Handle, each: In<Host>, extra: In<usize>) -> Result<()> {
    let Asked { overlaps_previous, cluster, cooperative } = attributes_of(config.attributes, config.attribute_count)?;
    if overlaps_previous && driver::version() < OVERLAP_IN_GRAPHS && driver::stream(config.stream)?.capture().is_some()
    {
        return Err(Error::unsupported(
            "graphs hold launches that begin before the one in front of them ends since CUDA 12.3",
        ));
    }
    let Config { grid, block, shared_bytes, stream, .. } = config;
    launch(of, Shape { grid, block, shared_bytes, overlaps_previous, cluster, cooperative }, stream, each, extra)
}

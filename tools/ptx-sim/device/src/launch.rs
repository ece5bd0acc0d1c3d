//! Launches: checks, execution by ptx-sim, and handling of findings.

use std::sync::atomic::Ordering::Relaxed;

use ptx_diagnostics::short_name;
use ptx_sim::{Finding, FindingClass, GlobalAccess, LaunchError, Options, Report};

use crate::architecture::{BLOCK_EXTENT, GRID_EXTENT};
use crate::code::Code;
use crate::error::{Error, Result};
use crate::objects::{Call, Context, LAST_ADDRESS, Launch};
use crate::operation::During;
use crate::problem::Problem;
use crate::stream_races::{Access, By};

/// Maximum blocks of a cluster; on a GPU more than 8 need an opt-in.
const BLOCKS_PER_CLUSTER: u128 = 16;

impl Launch {
    /// Whether a driver would accept the launch.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] with the reason; [`Code::INVALID_CLUSTER_SIZE`] for a bad cluster size.
    pub fn check(&self) -> Result<()> {
        let function = &self.function;
        let refused = |what: String| Err(Error::invalid(format!("launch of {}: {what}", function.name())));
        for (what, extent, limits) in [("grid", self.grid, GRID_EXTENT), ("block", self.block, BLOCK_EXTENT)] {
            if extent.contains(&0) || extent.iter().zip(limits).any(|(size, limit)| *size > limit) {
                return refused(format!("a {what} of {extent:?}; each size must be between 1 and {limits:?}"));
            }
        }
        self.check_cluster()?;
        let threads: u64 = self.block.iter().map(|size| u64::from(*size)).product();
        if threads > u64::from(function.max_threads()) {
            return refused(format!("{threads} threads in a block; at most {} are possible", function.max_threads()));
        }
        let (bytes, allowed) = (self.dynamic_shared_bytes, function.max_dynamic_shared_bytes());
        if bytes > allowed {
            return refused(format!(
                "{bytes} bytes of dynamic shared memory; {allowed} are allowed, more have to be asked for by setting \
                 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
            ));
        }
        let sizes: Vec<_> = self.parameters.iter().map(|bytes| bytes.len() as u64).collect();
        let expected: Vec<_> = function.parameters().iter().map(|parameter| parameter.bytes).collect();
        if sizes != expected {
            return refused(format!("parameters of {sizes:?} bytes; it takes {expected:?}"));
        }
        Ok(())
    }

    fn check_cluster(&self) -> Result<()> {
        let function = &self.function;
        let refused = |what: String| {
            Err(Error::new(Code::INVALID_CLUSTER_SIZE, format!("launch of {}: {what}", function.name())))
        };
        let required = function.required_cluster();
        let Some(cluster) = self.cluster.or(required) else {
            let needs = function.needs_cluster();
            return if needs { refused("it has to name the size of its clusters".to_owned()) } else { Ok(()) };
        };
        if let Some(required) = required.filter(|required| *required != cluster) {
            return refused(format!("clusters of {cluster:?} blocks; the function demands {required:?}"));
        }
        let blocks: u128 = cluster.iter().map(|size| u128::from(*size)).product();
        if !(1..=BLOCKS_PER_CLUSTER).contains(&blocks) {
            return refused(format!("clusters of {cluster:?} blocks; 1 to {BLOCKS_PER_CLUSTER} are possible"));
        }
        if self.grid.iter().zip(cluster).any(|(blocks, size)| !blocks.is_multiple_of(size)) {
            return refused(format!("a grid of {:?} blocks is not a multiple of clusters of {cluster:?}", self.grid));
        }
        Ok(())
    }

    fn describe(&self) -> String {
        let extent = |[x, y, z]: [u32; 3]| format!("({x}, {y}, {z})");
        let name = short_name(self.function.name());
        format!("{name} with a grid of {} and blocks of {}", extent(self.grid), extent(self.block))
    }
}

impl Context {
    /// Executes `launch` with the given options and returns findings and counters: nothing is printed and the context
    /// stays usable.
    ///
    /// # Errors
    /// Those of [`Launch::check`] and [`Context::check`]; [`Code::NOT_SUPPORTED`] with position and instruction for
    /// instructions that ptx-sim does not execute; [`Code::INVALID_HANDLE`] for a function of another context.
    pub fn run(&self, launch: &Launch, options: &Options) -> Result<Report> {
        launch.check()?;
        if launch.function.context().id() != self.id() {
            return Err(Error::new(Code::INVALID_HANDLE, "the function belongs to another context"));
        }
        let options = Options {
            overlaps_previous: Some(launch.overlaps_previous),
            cluster: launch.cluster,
            cooperative: launch.cooperative,
            ..options.clone()
        };
        let parameters: Vec<&[u8]> = launch.parameters.iter().map(Vec::as_slice).collect();
        let simulated = ptx_sim::Launch {
            entry: launch.function.name(),
            grid: launch.grid,
            block: launch.block,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            params: &parameters,
            architecture: self.machine().config().architecture.number,
        };
        let mut state = self.state(Call::Asynchronous)?;
        let module = &launch.function.image.module;
        ptx_sim::run(module, &mut state.memory.global, &simulated, &options).map_err(launch_error)
    }

    /// Executes `launch` as a GPU does: findings are printed and become the error of the context.
    pub(crate) fn execute(&self, launch: &Launch, during: &mut During) -> Result<()> {
        if self.state(Call::Asynchronous)?.has_fault() {
            return Ok(());
        }
        let machine = self.machine();
        machine.launches.fetch_add(1, Relaxed);
        let (races, dependents) = (machine.stream_races.is_watching(), &machine.dependents);
        if launch.overlaps_previous || launch.function.image.module.uses_dependent_launches() {
            dependents.begin();
        }
        let accesses = races || dependents.is_watching();
        let unfinished = if launch.overlaps_previous { dependents.unfinished(during.line) } else { None };
        let keeps_undetermined = machine.config().continues;
        let options = Options { accesses, unfinished, keeps_undetermined, ..machine.config().options.clone() };
        let mut report = self.run(launch, &options)?;
        let keeps_previous = launch.overlaps_previous && report.ends_before_previous;
        dependents.add(during.line, dependents.is_watching().then(|| report.accesses.clone()), keeps_previous);
        if races {
            let name = || format!("the launch of {}{}", launch.describe(), machine.caller(launch.function.name()));
            during.add(self, name, || report.accesses.drain(..).map(access).collect());
        }
        machine.reporter.printed(&report.printed);
        let continues = machine.config().continues;
        let stops = |class: &FindingClass| !continues || stops_a_gpu(*class);
        let fault = report.findings.iter().map(|finding| finding.class).find(stops).map(fault_code);
        if continues {
            machine.reporter.retain_new(&mut report.findings);
        }
        for finding in &mut report.findings {
            self.name_foreign_memory(finding);
        }
        if report.findings.is_empty() && fault.is_none() {
            return Ok(());
        }
        let (place, launch) = (self.describe(), launch.describe() + &machine.caller(launch.function.name()));
        let consequence = match fault {
            Some(code) => format!("{code}: launch of {launch} fails; {place} is lost by it"),
            None => format!("launch of {launch}; the program goes on, as on a GPU"),
        };
        if !report.findings.is_empty() {
            machine.reporter.findings(&report.findings, &launch, &consequence);
        }
        if let Some(code) = fault {
            self.state(Call::Asynchronous)?.fail(code);
        }
        Ok(())
    }

    /// Names in `finding` the owner of memory that belongs to another context.
    fn name_foreign_memory(&self, finding: &mut Finding) {
        let Some(address) = finding.address.filter(|_| finding.class == FindingClass::OutOfBounds) else { return };
        let machine = self.machine();
        let foreign = match machine.context_at(address) {
            Some(owner) if owner.id() != self.id() => {
                owner.describe_address(address).map(|what| format!("{what}, memory of {}", owner.describe()))
            }
            Some(_) => None,
            None if address >= LAST_ADDRESS && !self.knows(address) && !machine.is_near_host_range(address) => {
                Some("the host's memory, which kernels do not reach: give them what cuMemAlloc gave".to_owned())
            }
            None => None,
        };
        if let Some(foreign) = foreign {
            finding.message = format!("{}; the address is that of {foreign}", finding.message);
        }
    }
}

/// A kernel's memory access as stream races count it.
fn access(access: GlobalAccess) -> Access {
    let GlobalAccess { address, bytes, writes, is_strong, ptx_line, source } = access;
    Access { address, bytes, writes, is_strong, by: By::Line(ptx_line, source) }
}

/// Whether a GPU detects such a finding.
fn stops_a_gpu(class: FindingClass) -> bool {
    !matches!(
        class,
        FindingClass::Race
            | FindingClass::VolatileRace
            | FindingClass::BlockLifetime
            | FindingClass::Uninitialised
            | FindingClass::BarrierDivergence
            | FindingClass::CollectiveLanesMissing
            | FindingClass::AsyncCopyNotWaited
            | FindingClass::MissingProxyFence
            | FindingClass::WgmmaNotWaited
            | FindingClass::MissingWgmmaFence
            | FindingClass::PreviousGridNotWaited
            | FindingClass::InvalidOperand
    )
}

/// The code that a GPU returns for a kernel with such a finding.
fn fault_code(class: FindingClass) -> Code {
    match class {
        FindingClass::OutOfBounds => Code::ILLEGAL_ADDRESS,
        FindingClass::Misaligned => Code::MISALIGNED_ADDRESS,
        // On a GPU such a kernel never ends.
        FindingClass::InstructionLimit | FindingClass::Deadlock => Code::LAUNCH_TIMEOUT,
        _ => Code::LAUNCH_FAILED,
    }
}

fn launch_error(error: LaunchError) -> Error {
    let code = match error {
        LaunchError::Unsupported { .. } => Code::NOT_SUPPORTED,
        LaunchError::Invalid { .. } => Code::INVALID_PTX,
        LaunchError::Target { .. } | LaunchError::UnknownArchitecture { .. } => Code::NO_BINARY_FOR_GPU,
        LaunchError::Memory(_) => Code::OUT_OF_MEMORY,
        LaunchError::Cooperative { .. } => Code::COOPERATIVE_LAUNCH_TOO_LARGE,
        LaunchError::Threads(_) => Code::OPERATING_SYSTEM,
        _ => Code::INVALID_VALUE,
    };
    let refused = Error::new(code, format!("ptx-sim refuses the launch: {error}"));
    if code == Code::NOT_SUPPORTED { refused.of(Problem::NotSimulated) } else { refused }
}

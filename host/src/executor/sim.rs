//! The simulator as an executor.

use kernel_gpu::config::ARCHITECTURES;
use ptx_sim::{GlobalMemory, LaunchError, MemoryError, Module, Options};

use super::{Buffer, Device, DeviceKind, Execution, Executor, GuardDamage, PtxModule};
use crate::error::{Error, Result};
use crate::launch::Launch;

/// The architecture a simulator stands for unless told otherwise.
pub const DEFAULT_ARCHITECTURE: u32 = 90;

/// Runs PTX on the CPU with ptx-sim.
pub struct SimExecutor {
    device: Device,
    memory: GlobalMemory,
    modules: Vec<(String, Module)>,
    next_id: usize,
    options: Options,
}

impl SimExecutor {
    /// A simulator that stands for a GPU of `architecture`, as in 90 for `sm_90`, and runs blocks on all cores.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the limits of the architecture are not known.
    pub fn new(architecture: u32) -> Result<Self> {
        let limits = ARCHITECTURES.iter().find(|limits| limits.architecture == architecture).ok_or_else(|| {
            let known: Vec<_> = ARCHITECTURES.iter().map(|limits| limits.architecture.to_string()).collect();
            Error::Invalid(format!("the simulator does not know sm_{architecture}, only {}", known.join(", ")))
        })?;
        let threads = rayon::current_num_threads();
        let device = Device {
            kind: DeviceKind::Simulator,
            name: format!("ptx-sim ({threads} threads)"),
            architecture,
            shared_bytes_per_block: limits.shared_bytes_per_block,
            driver: None,
        };
        let options = Options { threads, ..Options::default() };
        Ok(Self { device, memory: GlobalMemory::new(), modules: Vec::new(), next_id: 0, options })
    }
}

impl Executor for SimExecutor {
    fn device(&self) -> &Device {
        &self.device
    }

    fn load(&mut self, module: &PtxModule) -> Result<()> {
        let parsed = Module::parse(&module.text, &module.file).map_err(|error| Error::Invalid(error.to_string()))?;
        self.modules.retain(|(file, _)| *file != module.file);
        self.modules.push((module.file.clone(), parsed));
        Ok(())
    }

    fn allocate(&mut self, name: &str, bytes: u64) -> Result<Buffer> {
        let address = self.memory.allocate(name, bytes).map_err(memory_error)?;
        let id = self.next_id;
        self.next_id += 1;
        Ok(Buffer { id, address, bytes })
    }

    fn free(&mut self, buffer: Buffer) -> Result<()> {
        self.memory.free(buffer.address).map_err(memory_error)
    }

    fn write(&mut self, buffer: Buffer, data: &[u8]) -> Result<()> {
        self.memory.write(buffer.address, data).map_err(memory_error)
    }

    fn read(&mut self, buffer: Buffer, data: &mut [u8]) -> Result<()> {
        self.memory.read(buffer.address, data).map_err(memory_error)
    }

    fn launch(&mut self, launch: &Launch) -> Result<Execution> {
        let module = module_with_entry(&self.modules, launch.entry())?;
        let launch = ptx_sim::Launch {
            entry: launch.entry(),
            grid: [launch.blocks(), 1, 1],
            block: [launch.threads(), 1, 1],
            dynamic_shared_bytes: launch.dynamic_shared_bytes(),
            params: &[launch.argument_bytes()],
            architecture: self.device.architecture,
        };
        let report = ptx_sim::run(module, &mut self.memory, &launch, &self.options).map_err(launch_error)?;
        Ok(Execution { findings: report.findings, counters: Some(report.counters) })
    }

    fn time(&mut self, _: &Launch, _: usize) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }

    fn damaged_guards(&mut self) -> Result<Vec<GuardDamage>> {
        Ok(Vec::new())
    }
}

fn module_with_entry<'a>(modules: &'a [(String, Module)], entry: &str) -> Result<&'a Module> {
    let has_entry = |(_, module): &&(String, Module)| module.entries().any(|name| name == entry);
    let found = modules.iter().find(has_entry).map(|(_, module)| module);
    found.ok_or_else(|| Error::Invalid(format!("no loaded module has an entry {entry}")))
}

fn launch_error(error: LaunchError) -> Error {
    match error {
        LaunchError::Unsupported { .. } => Error::Unsupported(error.to_string()),
        _ => Error::Invalid(format!("the simulator refuses the launch: {error}")),
    }
}

fn memory_error(error: MemoryError) -> Error {
    Error::Invalid(format!("simulated memory: {error}"))
}

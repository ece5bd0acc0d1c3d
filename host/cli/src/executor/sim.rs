//! The simulator executor: a context on a simulated GPU.

use std::borrow::Cow;
use std::sync::Arc;

use contract::architecture::ARCHITECTURES;
use contract::args::TensorMaps;
use contract::backward::args::{BackwardMaps, MAPPED};
use contract::backward::plan::BackwardLaunch;
use contract::plan::Launch;
use contract::tensor_map::{self, TensorMap};
use ptx_sim::{Options, Swizzle, TENSOR_MAP_BYTES, TensorElement};
use sim_device::{Architecture, Call, Code, Config, Context, Function, Machine, Messages, Module};

use super::{Buffer, Execution, Executor, GuardDamage, Sample, one_entry};
use crate::device::{Device, DeviceKind};
use crate::error::{Error, Result};
use crate::ptx_module::PtxModule;
use crate::timing::Protocol;

/// The default simulated architecture.
pub const DEFAULT_ARCHITECTURE: u32 = 90;

/// Default number of multiprocessors of a simulated GPU: few, so that blocks of a persistent grid get several work items even for
/// small problems, but enough that a last round is distributed in halves of heads and parts of others.
pub const MULTIPROCESSORS: u32 = 4;
/// Memory size of a simulated GPU, bytes; the machine's memory is the real limit.
const MEMORY_BYTES: u64 = 256 << 30;

/// Runs PTX on the CPU with ptx-sim and returns its findings.
pub struct SimExecutor {
    device: Device,
    context: Arc<Context>,
    modules: Vec<LoadedModule>,
    next_id: usize,
    options: Options,
}

struct LoadedModule {
    source: PtxModule,
    /// The only entry that was loaded; `None` if all were.
    entry: Option<String>,
    module: Arc<Module>,
}

impl SimExecutor {
    /// A simulator of a GPU of `architecture`, such as 90 for `sm_90`, that runs blocks on all cores.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the limits of the architecture are unknown.
    pub fn new(architecture: u32) -> Result<Self> {
        Self::with_options(architecture, Self::default_options())
    }

    /// The options of [`Self::new`]: blocks on all cores, otherwise the simulator's defaults.
    pub fn default_options() -> Options {
        Options { threads: rayon::current_num_threads(), ..Options::default() }
    }

    /// A simulator with other options.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_options(architecture: u32, options: Options) -> Result<Self> {
        Self::with_multiprocessors(architecture, MULTIPROCESSORS, options)
    }

    /// The same with so many multiprocessors.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_multiprocessors(architecture: u32, multiprocessors: u32, options: Options) -> Result<Self> {
        let limits = ARCHITECTURES.iter().find(|limits| limits.architecture == architecture).ok_or_else(|| {
            let known: Vec<_> = ARCHITECTURES.iter().map(|limits| limits.architecture.to_string()).collect();
            Error::Invalid(format!("the simulator does not know sm_{architecture}, only {}", known.join(", ")))
        })?;
        let config = Config {
            architecture: Architecture::find(architecture).map_err(Error::Invalid)?,
            multiprocessors,
            memory_bytes: MEMORY_BYTES,
            messages: Messages::Quiet,
            ..Config::default()
        };
        let device = Device {
            kind: DeviceKind::Simulator,
            name: format!("ptx-sim ({} threads)", options.threads),
            architecture,
            shared_bytes_per_block: limits.shared_bytes_per_block,
            multiprocessors,
            l2_bytes: None,
            driver: None,
            uuid: None,
        };
        let context = Machine::new(config).create_context(0, 0).map_err(simulated)?;
        Ok(Self { device, context, modules: Vec::new(), next_id: 0, options })
    }

    /// Loads `source`, or one entry of it, unless it is already loaded.
    fn load_part(&mut self, source: &PtxModule, entry: Option<&str>) -> Result<()> {
        let is_it = |loaded: &LoadedModule| loaded.entry.as_deref() == entry && loaded.source == *source;
        if self.modules.iter().any(is_it) {
            return Ok(());
        }
        let (file, text) = (&source.file, source.text()?);
        let text = entry.map_or(Cow::Borrowed(text), |entry| one_entry::only(text, entry).into());
        let module = self.context.load(&text, Some(file)).map_err(simulated)?;
        self.modules.retain(|loaded| loaded.source.file != *file || loaded.entry.as_deref() != entry);
        self.modules.push(LoadedModule { source: source.clone(), entry: entry.map(str::to_owned), module });
        Ok(())
    }

    /// Runs a launch, and returns what was observed.
    fn observe(&self, launch: &sim_device::Launch) -> Result<Execution> {
        let report = self.context.run(launch, &self.options).map_err(simulated)?;
        let ptx_sim::Report { findings, counters, box_loads, .. } = report;
        Ok(Execution { findings, counters: Some(counters), box_loads })
    }

    /// The function of `entry`, with dynamic shared memory allowed.
    fn function(&self, entry: &str, dynamic_shared_bytes: u32) -> Result<Arc<Function>> {
        let function = self.module(entry)?.function(entry).map_err(simulated)?;
        function.allow_dynamic_shared(dynamic_shared_bytes).map_err(simulated)?;
        Ok(function)
    }

    /// A launch of a gradient's kernel, without those that have to precede or follow it.
    fn launch_of(&self, launch: &BackwardLaunch) -> Result<sim_device::Launch> {
        let maps = launch.encoded_tensor_maps().map(|maps| maps.0.as_flattened().to_vec());
        Ok(sim_device::Launch {
            function: self.function(launch.variant().entry, launch.shared_bytes())?,
            grid: [launch.blocks(), 1, 1],
            block: [launch.threads(), 1, 1],
            dynamic_shared_bytes: launch.shared_bytes(),
            overlaps_previous: false,
            cooperative: launch.is_cooperative(),
            cluster: None,
            parameters: std::iter::once(launch.argument_bytes().to_vec()).chain(maps).collect(),
        })
    }

    /// The newest module that has `entry`.
    fn module(&self, entry: &str) -> Result<&Arc<Module>> {
        let modules = self.modules.iter().rev().map(|loaded| &loaded.module);
        let found = modules.into_iter().find(|module| module.entries().any(|name| name == entry));
        found.ok_or_else(|| Error::Invalid(format!("no loaded module has an entry {entry}")))
    }
}

impl Executor for SimExecutor {
    fn device(&self) -> &Device {
        &self.device
    }

    fn load(&mut self, module: &PtxModule) -> Result<()> {
        self.load_part(module, None)
    }

    fn load_entry(&mut self, module: &PtxModule, entry: &str) -> Result<()> {
        self.load_part(module, Some(entry))
    }

    fn allocate(&mut self, name: &str, bytes: u64) -> Result<Buffer> {
        let address = self.context.allocate_as(name, bytes).map_err(simulated)?;
        let id = self.next_id;
        self.next_id += 1;
        Ok(Buffer { id, address, bytes })
    }

    fn free(&mut self, buffer: Buffer) -> Result<()> {
        self.context.free(buffer.address, Call::Synchronous).map_err(simulated)
    }

    fn write(&mut self, buffer: Buffer, data: &[u8]) -> Result<()> {
        self.context.write(buffer.address, data).map_err(simulated)
    }

    fn read(&mut self, buffer: Buffer, data: &mut [u8]) -> Result<()> {
        self.context.read(buffer.address, data).map_err(simulated)
    }

    fn complete(&mut self, launch: &mut Launch<'_>) -> Result<()> {
        let Some([q, k, v, o]) = launch.tensor_maps() else { return Ok(()) };
        let encoded = [encode("Q", q)?, encode("K", k)?, encode("V", v)?, encode("O", o)?];
        launch.set_tensor_maps(TensorMaps(encoded));
        Ok(())
    }

    fn launch(&mut self, launch: &Launch<'_>) -> Result<Execution> {
        let function = self.function(launch.entry(), launch.dynamic_shared_bytes())?;
        let maps = launch.encoded_tensor_maps().map(|maps| maps.0.as_flattened().to_vec());
        let [blocks, parts] = launch.grid();
        let combining = launch.combining();
        let launch = sim_device::Launch {
            function,
            grid: [blocks, parts, 1],
            block: [launch.threads(), 1, 1],
            dynamic_shared_bytes: launch.dynamic_shared_bytes(),
            overlaps_previous: launch.overlaps_previous(),
            cooperative: false,
            cluster: launch.cluster().map(|blocks| [blocks.get(), 1, 1]),
            parameters: std::iter::once(launch.argument_bytes().to_vec()).chain(maps).collect(),
        };
        let mut execution = self.observe(&launch)?;
        if let Some(combining) = combining {
            execution.add(self.launch(&combining)?);
        }
        Ok(execution)
    }

    fn launch_backward(&mut self, launch: &mut BackwardLaunch) -> Result<Execution> {
        if let Some(maps) = launch.tensor_maps() {
            let mut encoded = [[0; TENSOR_MAP_BYTES]; MAPPED.len()];
            for ((tensor, map), encoded) in MAPPED.iter().zip(maps).zip(&mut encoded) {
                *encoded = encode(tensor.name(), map)?;
            }
            launch.set_tensor_maps(BackwardMaps(encoded));
        }
        let mut execution = match launch.preparing() {
            Some(preparing) => self.observe(&self.launch_of(&preparing)?)?,
            None => Execution::default(),
        };
        for launch in [*launch].into_iter().chain(launch.adding()) {
            execution.add(self.observe(&self.launch_of(&launch)?)?);
        }
        Ok(execution)
    }

    fn prepare_sample(&mut self, _: &[Launch<'_>], _: &Protocol) -> Result<Option<Sample>> {
        Ok(None)
    }

    fn take_sample(&mut self, _: Sample) -> Result<f64> {
        Err(Error::Invalid("the simulator takes no samples of time".into()))
    }

    fn free_sample(&mut self, _: Sample) -> Result<()> {
        Ok(())
    }

    fn damaged_guards(&mut self) -> Result<Vec<GuardDamage>> {
        Ok(Vec::new())
    }
}

/// Encodes a tensor map. `name` appears in messages.
fn encode(name: &str, map: &TensorMap) -> Result<[u8; TENSOR_MAP_BYTES]> {
    let map = ptx_sim::TensorMap {
        element: TensorElement::F16,
        address: map.address,
        sizes: map.sizes.to_vec(),
        strides: map.strides.to_vec(),
        box_sizes: map.box_sizes().to_vec(),
        element_strides: tensor_map::ELEMENT_STRIDES.to_vec(),
        swizzle: match map.swizzle() {
            tensor_map::Swizzle::Bytes64 => Swizzle::Bytes64,
            tensor_map::Swizzle::Bytes128 => Swizzle::Bytes128,
        },
    };
    map.encode(name).map_err(|error| Error::Invalid(format!("simulated memory: {error}")))
}

/// An error of the simulated GPU, with its message, which says more than a driver's code.
fn simulated(error: sim_device::Error) -> Error {
    let sim_device::Error { code, message, .. } = error;
    let words = message.unwrap_or_else(|| code.to_string());
    if code == Code::NOT_SUPPORTED { Error::Unsupported(words) } else { Error::Invalid(words) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::L2;
    use contract::config::Mask;
    use contract::plan::{Addresses, Plan};
    use contract::problem::{Problem, Shape};
    use contract::variants::{VARIANTS, Variant};
    use contract::view::Layout;

    fn simulator() -> SimExecutor {
        SimExecutor::new(DEFAULT_ARCHITECTURE).unwrap()
    }

    fn module(text: &str) -> PtxModule {
        PtxModule::new("test.ptx", text)
    }

    /// A variant without tensor maps.
    fn variant() -> Variant<'static> {
        let is_plain = |variant: &&Variant<'_>| !variant.waits_for_previous_grid && variant.mask == Mask::Full;
        *VARIANTS.iter().find(is_plain).expect("there is one")
    }

    /// A launch of it, with invalid addresses.
    fn launch(simulator: &SimExecutor) -> Launch<'static> {
        let problem = Problem::new(Shape::new(1, 1, 512), Mask::Full, Layout::Bhsd).unwrap();
        let plan = Plan::new(&problem, variant(), &simulator.device().gpu()).unwrap();
        plan.bind(Addresses::new(1 << 20, 2 << 20, 3 << 20, 4 << 20)).unwrap()
    }

    #[test]
    fn buffers_are_written_read_and_freed() {
        let mut simulator = simulator();
        let buffer = simulator.allocate("Q", 4).unwrap();
        simulator.write(buffer, &[1, 2, 3, 4]).unwrap();
        let mut data = [0; 3];
        simulator.read(buffer, &mut data).unwrap();
        assert_eq!(data, [1, 2, 3]);
        assert!(simulator.write(buffer, &[0; 5]).is_err(), "longer than the buffer");
        simulator.free(buffer).unwrap();
        assert!(simulator.read(buffer, &mut data).is_err(), "freed");
    }

    #[test]
    fn an_architecture_without_known_limits_is_refused() {
        let message = SimExecutor::new(75).err().expect("sm_75 is too old").to_string();
        assert!(message.contains("sm_75, only 80, 86, 89, 90"), "{message}");
    }

    #[test]
    fn ptx_that_does_not_parse_is_refused_with_its_position() {
        let message = simulator().load(&module("this is not PTX")).unwrap_err().to_string();
        assert!(message.contains("test.ptx:1:"), "{message}");
    }

    #[test]
    fn an_entry_that_is_not_loaded_is_named() {
        let mut simulator = simulator();
        let launch = launch(&simulator);
        let message = simulator.launch(&launch).unwrap_err().to_string();
        assert!(message.contains(variant().entry), "{message}");
    }

    #[test]
    fn a_module_of_the_same_name_replaces_the_one_before() {
        let ptx = |body: &str| {
            module(&format!(
                ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry {}(.param .align 8 .b8 args[{}]) {{\n{body}\n}}\n",
                variant().entry,
                size_of::<contract::args::ForwardArgs>()
            ))
        };
        let mut simulator = simulator();
        let launch = launch(&simulator);
        simulator.load(&ptx("trap;")).unwrap();
        assert!(!simulator.launch(&launch).unwrap().findings.is_empty(), "a trap is a finding");
        simulator.load(&ptx("ret;")).unwrap();
        assert!(simulator.launch(&launch).unwrap().findings.is_empty());
        let sample = simulator.prepare_sample(&[launch], &Protocol::new(L2::Warm)).unwrap();
        assert_eq!(sample, None, "simulated time means nothing");
    }
}

//! A sequence of launches on the memory of a description.

use ptx_diagnostics::short_name;
use ptx_sim::{Launch, LaunchError, Module, Options, Report};

use crate::description::{Description, LaunchSpec};
use crate::entry::{parameter_name, resolve};
use crate::kinds;
use crate::report;
use crate::world::World;

/// A fully specified launch.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The entry.
    pub entry: String,
    grid: [u32; 3],
    block: [u32; 3],
    cluster: Option<[u32; 3]>,
    cooperative: bool,
    shared: u32,
    params: Vec<Vec<u8>>,
}

/// Launches and their memory.
pub struct Session<'a> {
    module: &'a Module,
    architecture: u32,
    /// The launches, in order.
    pub launches: Vec<Ready>,
    /// The memory.
    pub world: World,
}

impl<'a> Session<'a> {
    /// Allocates and fills everything; runs nothing.
    ///
    /// # Errors
    /// If a named object does not exist, or the description is incomplete.
    pub fn prepare(module: &'a Module, description: &Description) -> Result<Self, String> {
        let mut world = World::default();
        for (name, spec) in &description.buffers {
            world.allocate(name, spec).map_err(|error| format!("buffers.{name}: {error}"))?;
        }
        let several = description.launches.len() > 1;
        let mut launches: Vec<Ready> = Vec::new();
        let mut names = Vec::new();
        for (number, spec) in (1..).zip(&description.launches) {
            let in_launch = |error: String| if several { format!("launch {number}: {error}") } else { error };
            let ready = ready(module, spec).map_err(in_launch)?;
            kinds::check(module, &ready.entry, &spec.params).map_err(in_launch)?;
            let is_repeated = launches.iter().any(|before| before.entry == ready.entry);
            let own = parameter_names(module, &ready.entry, spec.params.len(), is_repeated.then_some(number));
            for ((ptx_name, name), parameter) in own.iter().zip(&spec.params) {
                world.add_alias(ptx_name, name);
                world.allocate_parameter(name, parameter).map_err(in_launch)?;
            }
            launches.push(ready);
            names.push(own);
        }
        world.place_variables(module)?;
        for (name, spec) in &description.tensor_maps {
            world.add_tensor_map(name, spec).map_err(|error| format!("tensor_maps.{name}: {error}"))?;
        }
        for (name, value) in &description.variables {
            world.set_variable(name, value).map_err(|error| format!("variables.{name}: {error}"))?;
        }
        for (name, spec) in &description.buffers {
            let address = world.named(name)?.address;
            world.fill(address, spec).map_err(|error| format!("buffers.{name}: {error}"))?;
        }
        for ((spec, names), launch) in description.launches.iter().zip(&names).zip(&mut launches) {
            for ((_, name), parameter) in names.iter().zip(&spec.params) {
                launch.params.push(world.bytes_of(name, parameter).map_err(|error| format!("{name}: {error}"))?);
            }
        }
        for (name, _) in &description.expected {
            world.named(name).map_err(|error| format!("expect.{name}: {error}"))?;
        }
        let architecture = description.architecture.or_else(|| module.architecture());
        let architecture = architecture.ok_or_else(|| {
            format!("{} is compiled for {}, which is not simulated; say --arch", module.file(), module.target())
        })?;
        Ok(Self { module, architecture, launches, world })
    }

    /// Runs the launches and returns their reports.
    ///
    /// # Errors
    /// If a launch is refused; includes the parameters of the entry if they are the reason.
    pub fn run(&mut self, options: &Options) -> Result<Vec<Report>, String> {
        let several = self.launches.len() > 1;
        let reports = (1..).zip(&self.launches).map(|(number, ready)| {
            let launch = Launch {
                entry: &ready.entry,
                grid: ready.grid,
                block: ready.block,
                dynamic_shared_bytes: ready.shared,
                params: &ready.params.iter().map(Vec::as_slice).collect::<Vec<_>>(),
                architecture: self.architecture,
            };
            let Ready { cluster, cooperative, .. } = *ready;
            let options = Options { cluster, cooperative, ..options.clone() };
            ptx_sim::run(self.module, &mut self.world.memory, &launch, &options).map_err(|error| {
                let hint = hint(&error, self.module, &ready.entry);
                let which =
                    if several { format!("launch {number}, {}: ", short_name(&ready.entry)) } else { String::new() };
                format!("{which}{error}{hint}")
            })
        });
        reports.collect()
    }
}

fn ready(module: &Module, spec: &LaunchSpec) -> Result<Ready, String> {
    let entry = resolve(module, spec.entry.as_deref())?;
    let block = spec.block.or_else(|| module.required_block(&entry));
    Ok(Ready {
        grid: spec.grid.unwrap_or([1; 3]),
        block: block.ok_or("how many threads does a block have? Say --block X[,Y,Z]")?,
        cluster: spec.cluster,
        cooperative: spec.cooperative.unwrap_or(false),
        shared: spec.shared.unwrap_or(0),
        params: Vec::new(),
        entry,
    })
}

/// Names of an entry's parameters in the PTX, and of their buffers, for `given` parameters even if those are too many. For a repeated
/// launch of an entry, its number is appended.
fn parameter_names(module: &Module, entry: &str, given: usize, number: Option<usize>) -> Vec<(String, String)> {
    let ptx_names: Vec<&str> = module.parameters(entry).into_iter().flatten().map(|parameter| parameter.name).collect();
    let behind = number.map_or(String::new(), |number| format!("@{number}"));
    let name = |index: usize| match ptx_names.get(index) {
        Some(name) => (format!("{name}{behind}"), parameter_name(entry, name) + &behind),
        None => (format!("{index}{behind}"), format!("{index}{behind}")),
    };
    (0..given).map(name).collect()
}

/// The parameters of the entry, if the launch got those wrong.
fn hint(error: &LaunchError, module: &Module, entry: &str) -> String {
    match error {
        LaunchError::ParameterCount { .. } | LaunchError::ParameterSize { .. } => {
            format!("\n{}", report::signature(module, entry))
        }
        _ => String::new(),
    }
}

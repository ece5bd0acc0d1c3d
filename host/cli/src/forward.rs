//! One forward call on an executor: its tensors, its launch, its outputs.

use contract::manifest::Entry;

use crate::check::{LSE_POISON, O_POISON, Outputs};
use crate::element::Bits;
use crate::error::Result;
use crate::executor::{Buffer, Executor, Outcome, Sample};
use crate::inputs::Inputs;
use crate::launch;
use crate::ptx_module::PtxModule;
use crate::tensors::{DeviceMemory, InputTensors, bytes_of};
use crate::timing::{Batch, Protocol, Sampler};
use contract::plan::{Addresses, Launch, Plan};
use contract::problem::Problem;
use contract::refusal::Tensor;

/// A forward call with its inputs in device memory. Buffers are freed on drop.
pub struct Forward<'a> {
    memory: DeviceMemory<'a>,
    plan: Plan<'a>,
    inputs: Inputs,
    tensors: Tensors<'a>,
}

impl<'a> Forward<'a> {
    /// Plans the launch of `entry`, loads `module` and copies `inputs` to device memory, one buffer per storage. `lse`
    /// requests LSE.
    ///
    /// # Errors
    /// When the executor cannot load or allocate, or the entry does not accept the problem.
    pub fn prepare(
        executor: &'a mut dyn Executor,
        module: &PtxModule,
        entry: &'a Entry,
        inputs: &Inputs,
        lse: bool,
    ) -> Result<Self> {
        let plan = launch::plan(entry, inputs.problem(), executor.device())?;
        executor.load_entry(module, &entry.name)?;
        let mut memory = DeviceMemory::new(executor);
        let tensors = Tensors::new(&mut memory, &plan, inputs, lse)?;
        Ok(Self { memory, plan, inputs: inputs.clone(), tensors })
    }

    /// The launch.
    pub fn launch(&self) -> &Launch<'a> {
        &self.tensors.launch
    }

    /// Fills the outputs with poison, launches once, and reads everything back.
    ///
    /// # Errors
    /// When the launch or a copy fails.
    pub fn execute(&mut self) -> Result<Outcome<Outputs>> {
        let executor = &mut *self.memory.executor;
        let Tensors { inputs, o: o_buffer, lse: lse_buffer, launch } = &self.tensors;
        let mut o = vec![O_POISON; o_elements(self.inputs.problem())];
        executor.write(*o_buffer, bytemuck::cast_slice(&o))?;
        let mut lse =
            lse_buffer.map(|buffer| (buffer, vec![f32::from_bits(LSE_POISON); lse_elements(self.inputs.problem())]));
        if let Some((buffer, lse)) = &lse {
            executor.write(*buffer, bytemuck::cast_slice(lse))?;
        }
        let execution = executor.launch(launch)?;
        executor.read(*o_buffer, bytemuck::cast_slice_mut(&mut o))?;
        if let Some((buffer, lse)) = &mut lse {
            executor.read(*buffer, bytemuck::cast_slice_mut(lse))?;
        }
        let changed_inputs = inputs.changed(executor)?;
        let damaged_guards = executor.damaged_guards()?;
        let outputs = Outputs { o, lse: lse.map(|(_, lse)| lse) };
        Ok(Outcome { execution, outputs, changed_inputs, damaged_guards })
    }

    /// Prepares the launch for timing: copies the inputs to the additional input sets of `protocol`, and warms up.
    /// `None` if times are meaningless (the simulator).
    ///
    /// # Errors
    /// When the executor cannot allocate or a launch fails.
    pub fn into_sampler(mut self, protocol: &Protocol) -> Result<Option<ForwardSampler<'a>>> {
        let sets = protocol.input_sets(self.inputs.problem().shape().bytes() as u64).get();
        let mut launches = vec![self.tensors.launch];
        for _ in 1..sets {
            let lse = self.tensors.lse.is_some();
            launches.push(Tensors::new(&mut self.memory, &self.plan, &self.inputs, lse)?.launch);
        }
        let sample = self.memory.executor.prepare_sample(&launches, protocol)?;
        Ok(sample.map(|sample| ForwardSampler { memory: self.memory, sample }))
    }
}

/// A forward call prepared for timing. Its device resources are freed on drop.
pub struct ForwardSampler<'a> {
    memory: DeviceMemory<'a>,
    sample: Sample,
}

impl Sampler for ForwardSampler<'_> {
    fn batch(&self) -> Batch {
        self.sample.batch
    }

    fn sample(&mut self) -> Result<f64> {
        self.memory.executor.take_sample(self.sample)
    }
}

impl Drop for ForwardSampler<'_> {
    fn drop(&mut self) {
        // Ignored as when freeing buffers.
        let _ = self.memory.executor.free_sample(self.sample);
    }
}

/// One input set with its outputs in device memory, and the launch on them.
struct Tensors<'a> {
    inputs: InputTensors,
    o: Buffer,
    lse: Option<Buffer>,
    launch: Launch<'a>,
}

impl<'a> Tensors<'a> {
    fn new(memory: &mut DeviceMemory, plan: &Plan<'a>, inputs: &Inputs, lse: bool) -> Result<Self> {
        let problem = inputs.problem();
        let inputs = InputTensors::copy(memory, inputs)?;
        let o = memory.allocate("O", bytes_of::<Bits>(o_elements(problem)))?;
        let lse = lse.then(|| memory.allocate("LSE", bytes_of::<f32>(lse_elements(problem)))).transpose()?;
        let bytes = plan.workspace_bytes();
        let workspace = (bytes > 0).then(|| memory.allocate("workspace", bytes)).transpose()?;
        let mut launch = plan.bind(Addresses {
            o: o.address,
            lse: lse.map(|buffer| buffer.address),
            workspace: workspace.map(|buffer| buffer.address),
            ..inputs.addresses()
        })?;
        memory.executor.complete(&mut launch)?;
        Ok(Self { inputs, o, lse, launch })
    }
}

/// Elements of O's storage.
fn o_elements(problem: &Problem) -> usize {
    (problem.views().o.offset + problem.extent(Tensor::O)) as usize
}

fn lse_elements(problem: &Problem) -> usize {
    problem.shape().rows() as usize
}

//! One forward call on an executor: its tensors, its launch, its outputs.

use std::sync::Arc;

use contract::manifest::Entry;

use crate::check::{LSE_POISON, O_POISON, Outputs};
use crate::element::Bits;
use crate::error::Result;
use crate::executor::{Buffer, Execution, Executor, GuardDamage, Sample};
use crate::inputs::Inputs;
use crate::launch;
use crate::ptx_module::PtxModule;
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

/// The result of one execution.
#[derive(Debug)]
pub struct Outcome {
    /// The executor's observations.
    pub execution: Execution,
    /// O and LSE.
    pub outputs: Outputs,
    /// Names of the inputs that the kernel changed.
    pub changed_inputs: Vec<String>,
    /// Guards that the kernel wrote to.
    pub damaged_guards: Vec<GuardDamage>,
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
        let mut memory = DeviceMemory { executor, buffers: Vec::new() };
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
    pub fn execute(&mut self) -> Result<Outcome> {
        let executor = &mut *self.memory.executor;
        let Tensors { storages, lengths, o: o_buffer, lse: lse_buffer, launch } = &self.tensors;
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
        let mut changed_inputs = Vec::new();
        for storage in storages {
            if storage.changed(executor)? {
                changed_inputs.push(storage.name.clone());
            }
        }
        for lengths in lengths {
            if lengths.changed(executor)? {
                changed_inputs.push(lengths.name.name().to_owned());
            }
        }
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
    storages: Vec<Storage>,
    lengths: Vec<Lengths>,
    o: Buffer,
    lse: Option<Buffer>,
    launch: Launch<'a>,
}

impl<'a> Tensors<'a> {
    fn new(memory: &mut DeviceMemory, plan: &Plan<'a>, inputs: &Inputs, lse: bool) -> Result<Self> {
        let problem = inputs.problem();
        let mut storages = Vec::new();
        let mut addresses = [0; 3];
        for ((storage, name), address) in inputs.storages().into_iter().zip(["Q", "K", "V"]).zip(&mut addresses) {
            *address = memory.copy(&mut storages, name, storage)?.address;
        }
        let o = memory.allocate("O", bytes_of::<Bits>(o_elements(problem)))?;
        let lse = lse.then(|| memory.allocate("LSE", bytes_of::<f32>(lse_elements(problem)))).transpose()?;
        let [q, k, v] = addresses;
        let arrays = inputs.lengths().iter();
        let lengths: Vec<_> = arrays.map(|array| Lengths::copy(memory, array)).collect::<Result<_>>()?;
        let array = |tensor| lengths.iter().find(|array| array.name == tensor).map(|array| array.buffer.address);
        let bias = inputs.bias().map(|bias| memory.copy(&mut storages, "bias", bias)).transpose()?;
        let slopes = inputs.slopes().map(|slopes| memory.copy_slopes(slopes)).transpose()?;
        let (bias, alibi_slopes) = (bias.map(|buffer| buffer.address), slopes.map(|buffer| buffer.address));
        let bytes = plan.workspace_bytes();
        let workspace = (bytes > 0).then(|| memory.allocate("workspace", bytes)).transpose()?;
        let workspace = workspace.map(|buffer| buffer.address);
        let mut launch = plan.bind(Addresses {
            q,
            k,
            v,
            o: o.address,
            lse: lse.map(|buffer| buffer.address),
            cu_seqlens: array(Tensor::CuSeqlens),
            cu_seqlens_k: array(Tensor::CuSeqlensK),
            seqused_q: array(Tensor::SequsedQ),
            seqused_k: array(Tensor::SequsedK),
            bias,
            alibi_slopes,
            workspace,
        })?;
        memory.executor.complete(&mut launch)?;
        Ok(Self { storages, lengths, o, lse, launch })
    }
}

/// Elements of O's storage.
fn o_elements(problem: &Problem) -> usize {
    (problem.views().o.offset + problem.extent(Tensor::O)) as usize
}

fn lse_elements(problem: &Problem) -> usize {
    problem.shape().rows() as usize
}

/// Buffers of one executor, freed on drop.
struct DeviceMemory<'a> {
    executor: &'a mut dyn Executor,
    buffers: Vec<Buffer>,
}

impl DeviceMemory<'_> {
    fn allocate(&mut self, name: &str, bytes: u64) -> Result<Buffer> {
        let buffer = self.executor.allocate(name, bytes)?;
        self.buffers.push(buffer);
        Ok(buffer)
    }

    /// The buffer with `elements`: that of an equal storage in `storages`, else a new one.
    fn copy(&mut self, storages: &mut Vec<Storage>, name: &str, elements: &Arc<[Bits]>) -> Result<Buffer> {
        if let Some(storage) = storages.iter_mut().find(|storage| Arc::ptr_eq(&storage.elements, elements)) {
            storage.name.push_str(name);
            return Ok(storage.buffer);
        }
        let buffer = self.allocate(name, bytes_of::<Bits>(elements.len()))?;
        self.executor.write(buffer, bytemuck::cast_slice(elements))?;
        storages.push(Storage { name: name.to_owned(), elements: elements.clone(), buffer });
        Ok(buffer)
    }

    fn copy_slopes(&mut self, slopes: &[f32]) -> Result<Buffer> {
        let buffer = self.allocate("alibi_slopes", bytes_of::<f32>(slopes.len()))?;
        self.executor.write(buffer, bytemuck::cast_slice(slopes))?;
        Ok(buffer)
    }
}

impl Drop for DeviceMemory<'_> {
    fn drop(&mut self) {
        for buffer in self.buffers.drain(..) {
            // An error here follows from a lost device, which an earlier call has reported.
            let _ = self.executor.free(buffer);
        }
    }
}

/// A storage of [`Inputs`], named after its tensors, and its copy in device memory.
struct Storage {
    name: String,
    elements: Arc<[Bits]>,
    buffer: Buffer,
}

impl Storage {
    /// Whether the copy differs from the original.
    fn changed(&self, executor: &mut dyn Executor) -> Result<bool> {
        let expected: &[u8] = bytemuck::cast_slice(&self.elements);
        let mut actual = vec![0; expected.len()];
        executor.read(self.buffer, &mut actual)?;
        Ok(actual != expected)
    }
}

/// A length array in device memory.
struct Lengths {
    name: Tensor,
    elements: Arc<[u32]>,
    buffer: Buffer,
}

impl Lengths {
    fn copy(memory: &mut DeviceMemory, (name, elements): &(Tensor, Arc<[u32]>)) -> Result<Self> {
        let buffer = memory.allocate(name.name(), bytes_of::<u32>(elements.len()))?;
        memory.executor.write(buffer, bytemuck::cast_slice(elements))?;
        Ok(Self { name: *name, elements: elements.clone(), buffer })
    }

    /// Whether the kernel changed it.
    fn changed(&self, executor: &mut dyn Executor) -> Result<bool> {
        let mut actual = vec![0u32; self.elements.len()];
        executor.read(self.buffer, bytemuck::cast_slice_mut(&mut actual))?;
        Ok(*actual != *self.elements)
    }
}

fn bytes_of<T>(elements: usize) -> u64 {
    (elements * size_of::<T>()) as u64
}

//! One forward call on an executor: its tensors in device memory, its launch, its outputs.

use std::sync::Arc;

use half::f16;
use kernel_gpu::manifest::Entry;

use crate::check::{LSE_POISON, O_POISON, Outputs};
use crate::error::Result;
use crate::executor::{Buffer, Execution, Executor, GuardDamage, PtxModule};
use crate::inputs::Inputs;
use crate::launch::{Addresses, Launch};

/// A forward call whose inputs are in device memory. Its buffers are freed when it is dropped.
pub struct Forward<'a> {
    memory: DeviceMemory<'a>,
    launch: Launch,
    inputs: Vec<Storage>,
    o: Buffer,
    o_elements: usize,
    lse: Option<Buffer>,
    lse_elements: usize,
}

/// What one execution did and left.
#[derive(Debug)]
pub struct Outcome {
    /// What the executor observed.
    pub execution: Execution,
    /// O and LSE.
    pub outputs: Outputs,
    /// Names of the inputs that are no longer what they were.
    pub changed_inputs: Vec<String>,
    /// Guards behind buffers that were written to.
    pub damaged_guards: Vec<GuardDamage>,
}

impl<'a> Forward<'a> {
    /// Loads `module`, copies `inputs` to device memory, one buffer for each storage, and plans the launch of `entry`;
    /// with `lse`, LSE is asked for.
    ///
    /// # Errors
    /// When the executor cannot load or allocate, or the entry does not accept the problem.
    pub fn prepare(
        executor: &'a mut dyn Executor,
        module: &PtxModule,
        entry: &Entry,
        inputs: &Inputs,
        lse: bool,
    ) -> Result<Self> {
        executor.load(module)?;
        let mut memory = DeviceMemory { executor, buffers: Vec::new() };
        let problem = inputs.problem();
        let mut storages = Vec::new();
        let mut addresses = [0; 3];
        for ((operand, name), address) in inputs.operands().into_iter().zip(["Q", "K", "V"]).zip(&mut addresses) {
            let buffer = memory.copy(&mut storages, name, &operand.storage)?;
            *address = buffer.address + bytes_of::<f16>(operand.offset);
        }
        let o_elements = (problem.output_offset() + problem.extent(problem.strides().o)) as usize;
        let o = memory.allocate("O", bytes_of::<f16>(o_elements))?;
        let lse_elements = problem.shape().rows() as usize;
        let lse = lse.then(|| memory.allocate("LSE", bytes_of::<f32>(lse_elements))).transpose()?;
        let [q, k, v] = addresses;
        let o_address = o.address + bytes_of::<f16>(problem.output_offset() as usize);
        let addresses = Addresses { q, k, v, o: o_address, lse: lse.map(|buffer| buffer.address) };
        let launch = Launch::plan(problem, entry, addresses, memory.executor.device())?;
        Ok(Self { memory, launch, inputs: storages, o, o_elements, lse, lse_elements })
    }

    /// The launch.
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// Fills the outputs with poison, launches once, and reads back everything.
    ///
    /// # Errors
    /// When the launch or a copy fails.
    pub fn execute(&mut self) -> Result<Outcome> {
        let executor = &mut *self.memory.executor;
        let mut o = vec![O_POISON; self.o_elements];
        executor.write(self.o, bytemuck::cast_slice(&o))?;
        let mut lse = vec![f32::from_bits(LSE_POISON); self.lse_elements];
        if let Some(buffer) = self.lse {
            executor.write(buffer, bytemuck::cast_slice(&lse))?;
        }
        let execution = executor.launch(&self.launch)?;
        executor.read(self.o, bytemuck::cast_slice_mut(&mut o))?;
        let lse = match self.lse {
            Some(buffer) => {
                executor.read(buffer, bytemuck::cast_slice_mut(&mut lse))?;
                Some(lse)
            }
            None => None,
        };
        let mut changed_inputs = Vec::new();
        for storage in &self.inputs {
            if storage.changed(executor)? {
                changed_inputs.push(storage.name.clone());
            }
        }
        let damaged_guards = executor.damaged_guards()?;
        Ok(Outcome { execution, outputs: Outputs { o, lse }, changed_inputs, damaged_guards })
    }

    /// Device times in µs, see [`Executor::time`].
    ///
    /// # Errors
    /// When a launch fails.
    pub fn time(&mut self, samples: usize) -> Result<Option<Vec<f64>>> {
        self.memory.executor.time(&self.launch, samples)
    }
}

/// Buffers of one executor that are freed when this is dropped.
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

    /// The buffer that holds `elements`: one of `storages` when it was copied before, else a new one.
    fn copy(&mut self, storages: &mut Vec<Storage>, name: &str, elements: &Arc<[f16]>) -> Result<Buffer> {
        if let Some(storage) = storages.iter_mut().find(|storage| Arc::ptr_eq(&storage.elements, elements)) {
            storage.name.push_str(name);
            return Ok(storage.buffer);
        }
        let buffer = self.allocate(name, bytes_of::<f16>(elements.len()))?;
        self.executor.write(buffer, bytemuck::cast_slice(elements))?;
        storages.push(Storage { name: name.to_owned(), elements: elements.clone(), buffer });
        Ok(buffer)
    }
}

impl Drop for DeviceMemory<'_> {
    fn drop(&mut self) {
        for buffer in self.buffers.drain(..) {
            // A failure to free follows a lost device, which the call before it has reported.
            let _ = self.executor.free(buffer);
        }
    }
}

/// A storage of [`Inputs`], named after the operands in it, and its copy in device memory.
struct Storage {
    name: String,
    elements: Arc<[f16]>,
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

fn bytes_of<T>(elements: usize) -> u64 {
    (elements * size_of::<T>()) as u64
}

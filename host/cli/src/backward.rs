//! One backward call on an executor: its tensors, its launch, its gradients.

use contract::backward::plan::{BackwardAddresses, BackwardPlan};
use contract::backward::variants::BackwardVariant;
use contract::plan::Addresses;
use contract::refusal::Tensor;

use crate::element::Bits;
use crate::error::Result;
use crate::executor::{Buffer, Executor, Outcome};
use crate::gradients::{GRADIENTS, GradientInputs};
use crate::launch;
use crate::ptx_module::PtxModule;
use crate::tensors::{DeviceMemory, InputTensors, bytes_of};

/// A backward call with its inputs in device memory. Buffers are freed on drop.
pub struct Backward<'a> {
    memory: DeviceMemory<'a>,
    plan: BackwardPlan,
    inputs: InputTensors,
    addresses: BackwardAddresses,
    outputs: Vec<Buffer>,
    poison: Vec<Vec<Bits>>,
}

impl<'a> Backward<'a> {
    /// Plans the launch of `variant`, with a workspace if it can use one, loads `module` and copies `inputs` to device memory.
    ///
    /// # Errors
    /// When the executor cannot load or allocate, or the entry does not compute the gradient.
    pub fn prepare(
        executor: &'a mut dyn Executor,
        module: &PtxModule,
        variant: &'static BackwardVariant,
        inputs: &GradientInputs,
    ) -> Result<Self> {
        let plan = launch::backward_plan(variant, inputs.gradient(), executor.device())?;
        executor.load_entry(module, variant.entry)?;
        let mut memory = DeviceMemory::new(executor);
        let mut tensors = InputTensors::copy(&mut memory, inputs.inputs())?;
        let o = tensors.add(&mut memory, "O", inputs.o())?;
        let lse: Vec<u32> = inputs.lse().iter().map(|lse| lse.to_bits()).collect();
        let lse = Some(tensors.add_words(&mut memory, Tensor::Lse, &lse)?);
        let d_o = tensors.add(&mut memory, "dO", inputs.d_o())?;
        let poison = inputs.poisoned();
        let storages = GRADIENTS.iter().zip(&poison);
        let allocate =
            |(tensor, storage): (&Tensor, &Vec<_>)| memory.allocate(tensor.name(), bytes_of::<Bits>(storage.len()));
        let outputs = storages.map(allocate).collect::<Result<Vec<_>>>()?;
        let bytes = plan.workspace_bytes();
        let workspace = (bytes > 0).then(|| memory.allocate("workspace", bytes)).transpose()?;
        let workspace = workspace.map(|buffer| buffer.address);
        let gradients: Vec<u64> = outputs.iter().map(|buffer| buffer.address).collect();
        let [dq, dk, dv, ref of_bias @ ..] = gradients[..] else { unreachable!("every gradient has dQ, dK and dV") };
        let d_bias = of_bias.first().copied();
        let forward = Addresses { o, lse, workspace, ..tensors.addresses() };
        let addresses = BackwardAddresses { forward, d_o, dq, dk, dv, d_bias };
        Ok(Self { memory, plan, inputs: tensors, addresses, outputs, poison })
    }

    /// The plan of the launch.
    pub fn plan(&self) -> &BackwardPlan {
        &self.plan
    }

    /// Fills the gradients with poison, launches once, and reads everything back: the storages of [`GRADIENTS`].
    ///
    /// # Errors
    /// When the launch or a copy fails.
    pub fn execute(&mut self) -> Result<Outcome<Vec<Vec<Bits>>>> {
        let executor = &mut *self.memory.executor;
        let mut outputs = self.poison.clone();
        for (buffer, poison) in self.outputs.iter().zip(&outputs) {
            executor.write(*buffer, bytemuck::cast_slice(poison))?;
        }
        let execution = executor.launch_backward(&mut self.plan.bind(self.addresses)?)?;
        for (buffer, output) in self.outputs.iter().zip(&mut outputs) {
            executor.read(*buffer, bytemuck::cast_slice_mut(output))?;
        }
        let changed_inputs = self.inputs.changed(executor)?;
        let damaged_guards = executor.damaged_guards()?;
        Ok(Outcome { execution, outputs, changed_inputs, damaged_guards })
    }
}

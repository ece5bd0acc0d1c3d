//! Tensors in an executor's memory: what launches read, and whether they have changed it.

use std::sync::Arc;

use contract::plan::Addresses;
use contract::refusal::Tensor;

use crate::element::Bits;
use crate::error::Result;
use crate::executor::{Buffer, Executor};
use crate::inputs::Inputs;

/// What a launch only reads, in device memory.
pub struct InputTensors {
    storages: Vec<Storage>,
    words: Vec<Words>,
    addresses: Addresses,
}

impl InputTensors {
    /// Copies `inputs` to device memory, one buffer per storage.
    ///
    /// # Errors
    /// When the executor cannot allocate or write.
    pub fn copy(memory: &mut DeviceMemory, inputs: &Inputs) -> Result<Self> {
        let mut storages = Vec::new();
        let mut rows = [0; 3];
        for ((storage, name), address) in inputs.storages().into_iter().zip(["Q", "K", "V"]).zip(&mut rows) {
            *address = memory.copy(&mut storages, name, storage)?.address;
        }
        let arrays = inputs.lengths().iter();
        let words: Vec<_> = arrays.map(|(name, array)| Words::copy(memory, *name, array)).collect::<Result<_>>()?;
        let array = |tensor| words.iter().find(|array| array.name == tensor).map(|array| array.buffer.address);
        let bias = inputs.bias().map(|bias| memory.copy(&mut storages, "bias", bias)).transpose()?;
        let slopes = inputs.slopes().map(|slopes| memory.copy_slopes(slopes)).transpose()?;
        let [q, k, v] = rows;
        let addresses = Addresses {
            cu_seqlens: array(Tensor::CuSeqlens),
            cu_seqlens_k: array(Tensor::CuSeqlensK),
            seqused_q: array(Tensor::SequsedQ),
            seqused_k: array(Tensor::SequsedK),
            bias: bias.map(|buffer| buffer.address),
            alibi_slopes: slopes.map(|buffer| buffer.address),
            ..Addresses::new(q, k, v, 0)
        };
        Ok(Self { storages, words, addresses })
    }

    /// The addresses of the inputs, without O, LSE and a workspace.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Copies another tensor with rows, and returns its address.
    ///
    /// # Errors
    /// As for [`Self::copy`].
    pub fn add(&mut self, memory: &mut DeviceMemory, name: &str, elements: &[Bits]) -> Result<u64> {
        Ok(memory.copy(&mut self.storages, name, &elements.into())?.address)
    }

    /// Copies another tensor of 32-bit words, and returns its address.
    ///
    /// # Errors
    /// As for [`Self::copy`].
    pub fn add_words(&mut self, memory: &mut DeviceMemory, name: Tensor, elements: &[u32]) -> Result<u64> {
        let words = Words::copy(memory, name, &elements.into())?;
        let address = words.buffer.address;
        self.words.push(words);
        Ok(address)
    }

    /// Names of those that are no longer what they were.
    ///
    /// # Errors
    /// When the executor cannot read.
    pub fn changed(&self, executor: &mut dyn Executor) -> Result<Vec<String>> {
        let mut changed = Vec::new();
        for storage in &self.storages {
            if storage.changed(executor)? {
                changed.push(storage.name.clone());
            }
        }
        for words in &self.words {
            if words.changed(executor)? {
                changed.push(words.name.name().to_owned());
            }
        }
        Ok(changed)
    }
}

/// Buffers of one executor, freed on drop.
pub struct DeviceMemory<'a> {
    /// Where the buffers are.
    pub executor: &'a mut dyn Executor,
    buffers: Vec<Buffer>,
}

impl<'a> DeviceMemory<'a> {
    /// Of `executor`, without any buffer yet.
    pub fn new(executor: &'a mut dyn Executor) -> Self {
        Self { executor, buffers: Vec::new() }
    }

    /// A buffer of its own.
    ///
    /// # Errors
    /// When the executor cannot allocate it.
    pub fn allocate(&mut self, name: &str, bytes: u64) -> Result<Buffer> {
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

/// An array of 32-bit words and its copy in device memory.
struct Words {
    name: Tensor,
    elements: Arc<[u32]>,
    buffer: Buffer,
}

impl Words {
    fn copy(memory: &mut DeviceMemory, name: Tensor, elements: &Arc<[u32]>) -> Result<Self> {
        let buffer = memory.allocate(name.name(), bytes_of::<u32>(elements.len()))?;
        memory.executor.write(buffer, bytemuck::cast_slice(elements))?;
        Ok(Self { name, elements: elements.clone(), buffer })
    }

    /// Whether the copy differs from the original.
    fn changed(&self, executor: &mut dyn Executor) -> Result<bool> {
        let mut actual = vec![0u32; self.elements.len()];
        executor.read(self.buffer, bytemuck::cast_slice_mut(&mut actual))?;
        Ok(*actual != *self.elements)
    }
}

/// Bytes of so many elements.
pub fn bytes_of<T>(elements: usize) -> u64 {
    (elements * size_of::<T>()) as u64
}

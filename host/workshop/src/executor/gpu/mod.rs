//! The GPU executor: cust for context, modules, functions, stream, events and memory, and `driver` for what cust lacks.

mod ceilings;
mod discovery;
mod driver;
mod failure;
mod graph;
mod kernel;
mod memory;
mod timing;

#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::ffi::CString;
use std::num::NonZeroU32;

use cust::context::{Context, CurrentContext};
use cust::error::{CudaError, CudaResult};
use cust::function::{Function, FunctionAttribute};
use cust::memory::mem_get_info;
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use libcuda_delay_load::tensor_map::Tiled;
use ptx_sim::TENSOR_MAP_BYTES;

use self::driver::Code;
use self::failure::{Doing, Fault, cuda_error};
use self::kernel::Kernel;
use self::memory::{Allocation, mebibytes};
use self::timing::TimedGraph;
use super::{Buffer, Execution, Executor, GuardDamage, PtxModule, Sample};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::timing::{Batch, Protocol};
use contract::plan::Launch;
use contract::tensor_map::{self, TensorMap};

/// Runs kernels on an NVIDIA GPU.
///
/// A kernel that faults takes the CUDA context with it. Every later call then returns the error of that kernel.
pub struct GpuExecutor {
    // Fields are dropped in this order: what lives in the context goes before the context.
    timed: Vec<Option<TimedKernels>>,
    modules: Vec<LoadedModule>,
    memory: Vec<Option<Allocation>>,
    stream: Stream,
    context: Context,
    device: Device,
    fault: OnceCell<Fault>,
}

struct LoadedModule {
    source: PtxModule,
    module: Module,
}

struct TimedKernels {
    graph: TimedGraph,
    /// What is done, for messages.
    action: String,
}

/// What one thread of a kernel takes, as the driver compiled it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct KernelResources {
    /// 32-bit registers of a thread.
    pub registers: u32,
    /// Local memory of a thread in bytes: spilled registers and arrays; 0 for a kernel that is as fast as it should be.
    pub local_bytes: u32,
}

impl GpuExecutor {
    /// Opens the first GPU, in the order of `CUDA_VISIBLE_DEVICES`.
    ///
    /// # Errors
    /// As [`GpuExecutor::open_device`].
    pub fn open() -> Result<Self> {
        Self::open_device(0)
    }

    /// Opens GPU `index`, counted from 0 in the order of `CUDA_VISIBLE_DEVICES`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where there is no driver, no GPU or not that many; [`Error::Cuda`] when the driver refuses
    /// a context on the GPU.
    pub fn open_device(index: u32) -> Result<Self> {
        let found = discovery::find(index)?;
        let opening = || format!("opening GPU {index}");
        let device = discovery::describe(found).map_err(|code| cuda_error(opening(), code, ""))?;
        let context = Context::new(found).map_err(|error| {
            let code = driver::primary_context(found).err().unwrap_or(error.into());
            cuda_error(format!("creating a context on GPU {index} ({})", device.name), code, "")
        })?;
        // cust makes every stream wait for the default stream and the other way round, which orders copies and launches.
        let stream = Stream::new(StreamFlags::DEFAULT, None).doing(opening)?;
        Ok(Self {
            timed: Vec::new(),
            modules: Vec::new(),
            memory: Vec::new(),
            stream,
            context,
            device,
            fault: OnceCell::new(),
        })
    }

    /// What a thread of a loaded kernel takes.
    ///
    /// # Errors
    /// [`Error::Invalid`] when no loaded module has the entry, [`Error::Cuda`] when the driver refuses to tell.
    pub fn resources(&self, entry: &str) -> Result<KernelResources> {
        self.enter()?;
        let function = self.function(entry)?;
        let attribute = |attribute| {
            let value = function.get_attribute(attribute).doing(|| format!("asking for the resources of {entry}"))?;
            Ok::<_, Error>(u32::try_from(value).unwrap_or(0))
        };
        Ok(KernelResources {
            registers: attribute(FunctionAttribute::NumRegisters)?,
            local_bytes: attribute(FunctionAttribute::LocalSizeBytes)?,
        })
    }

    /// Makes the context current on this thread, unless a kernel has destroyed it.
    fn enter(&self) -> Result<()> {
        match self.fault.get() {
            Some(fault) => Err(fault.error()),
            None => CurrentContext::set_current(&self.context).doing(|| "using the CUDA context".to_owned()),
        }
    }

    /// The error for what the driver refused. Finds out, and remembers, whether the context is lost by it.
    fn failed(&self, action: String, code: impl Into<Code>, detail: &str) -> Error {
        let code = code.into();
        if driver::synchronize_context().is_ok() {
            return cuda_error(action, code, detail);
        }
        self.fault.get_or_init(|| Fault { action, code }).error()
    }

    /// The entry in the newest module that has it.
    fn function(&self, entry: &str) -> Result<Function<'_>> {
        if entry.contains('\0') {
            return Err(Error::Invalid(format!("{entry:?} cannot be the name of an entry: it holds a NUL")));
        }
        for LoadedModule { module, .. } in self.modules.iter().rev() {
            match module.get_function(entry) {
                Err(CudaError::NotFound) => {}
                answer => return answer.doing(|| format!("looking for entry {entry}")),
            }
        }
        let files: Vec<_> = self.modules.iter().map(|loaded| loaded.source.file.as_str()).collect();
        let loaded = if files.is_empty() { "nothing".to_owned() } else { files.join(", ") };
        Err(Error::Invalid(format!("no entry {entry} in the loaded PTX ({loaded})")))
    }

    /// The entry of `kernel`, allowed the shared memory that it is to be launched with.
    fn prepare(&self, kernel: &Kernel) -> Result<Function<'_>> {
        let function = self.function(kernel.entry)?;
        kernel.check_arguments(&function)?;
        let Kernel { entry, dynamic_shared_bytes: bytes, .. } = kernel;
        driver::allow_dynamic_shared(&function, *bytes).map_err(|code| {
            let action = format!("giving the blocks of {entry} {bytes} bytes of dynamic shared memory");
            let limit = self.device.shared_bytes_per_block;
            self.failed(action, code, &format!("; {} allows {limit} bytes", self.device.name))
        })?;
        Ok(function)
    }

    /// Runs `kernel` and waits for it.
    ///
    /// # Safety
    /// As for [`Kernel::submit`], but for sizes and surplus arguments where the driver knows the parameters: these are
    /// errors.
    unsafe fn run(&self, kernel: &Kernel) -> Result<()> {
        self.enter()?;
        let function = self.prepare(kernel)?;
        // SAFETY: the caller's promise.
        let launched = unsafe { kernel.submit(&function, &self.stream) };
        let done = launched.and_then(|()| self.stream.synchronize().map_err(Code::from));
        done.map_err(|code| self.failed(kernel.running(), code, ""))
    }

    /// Makes `kernels`, one for each set of inputs, ready to be timed.
    ///
    /// # Safety
    /// As for [`GpuExecutor::run`].
    unsafe fn timed(&self, kernels: &[Kernel], protocol: &Protocol) -> Result<(TimedKernels, Batch)> {
        self.enter()?;
        let (Some(first), Ok(sets)) = (kernels.first(), u32::try_from(kernels.len())) else {
            return Err(Error::Invalid(format!("{} launches cannot be timed together", kernels.len())));
        };
        let functions: Vec<_> = kernels.iter().map(|kernel| self.prepare(kernel)).collect::<Result<_>>()?;
        let sets = NonZeroU32::new(sets).expect("there is a first");
        let submit = |set: u32| {
            // SAFETY: the caller's promise.
            unsafe { kernels[set as usize].submit(&functions[set as usize], &self.stream) }
        };
        let action = first.running();
        match TimedGraph::prepare(&self.stream, protocol, sets, submit) {
            Ok((graph, batch)) => Ok((TimedKernels { graph, action }, batch)),
            Err(code) => Err(self.failed(action, code, "")),
        }
    }

    /// The kernels of a sample that was not freed.
    fn timed_kernels(&self, sample: Sample) -> Result<&TimedKernels> {
        let timed = self.timed.get(sample.id).and_then(Option::as_ref);
        timed.ok_or_else(|| Error::Invalid(format!("sample {} was freed or is of another executor", sample.id)))
    }

    fn allocation(&self, buffer: Buffer) -> Result<&Allocation> {
        let allocation = self.memory.get(buffer.id).and_then(Option::as_ref);
        allocation.filter(|allocation| allocation.address() == buffer.address).ok_or_else(|| {
            Error::Invalid(format!("buffer {} at {:#x} was freed or is of another executor", buffer.id, buffer.address))
        })
    }

    /// The allocation of `buffer`, if a copy of `length` bytes fits into it.
    fn copyable(&self, buffer: Buffer, length: usize) -> Result<&Allocation> {
        self.enter()?;
        let allocation = self.allocation(buffer)?;
        if length <= allocation.bytes() {
            return Ok(allocation);
        }
        let (name, bytes) = (allocation.name(), allocation.bytes());
        Err(Error::Invalid(format!("{length} bytes cannot be copied: buffer {name} has {bytes} bytes")))
    }
}

impl Executor for GpuExecutor {
    fn device(&self) -> &Device {
        &self.device
    }

    fn load(&mut self, module: &PtxModule) -> Result<()> {
        self.enter()?;
        if self.modules.iter().any(|loaded| loaded.source == *module) {
            return Ok(());
        }
        let source = module.clone();
        let PtxModule { file, text } = module;
        let text = CString::new(text.as_str()).map_err(|error| {
            Error::Invalid(format!("{file}: byte {} is NUL, so it is no PTX", error.nul_position()))
        })?;
        let module = Module::from_ptx_cstr(&text, &[]).map_err(|error| {
            let (code, log) = match driver::jit_log(&text) {
                (Err(code), log) => (code, log),
                (Ok(()), _) => (error.into(), String::new()),
            };
            let detail = if log.is_empty() { log } else { format!("; the driver's compiler says:\n{log}") };
            self.failed(format!("compiling {file} for {}", self.device.name), code, &detail)
        })?;
        self.modules.retain(|loaded| loaded.source.file != *file);
        self.modules.push(LoadedModule { source, module });
        Ok(())
    }

    fn allocate(&mut self, name: &str, bytes: u64) -> Result<Buffer> {
        self.enter()?;
        let allocated = Allocation::new(name, usize::try_from(bytes).unwrap_or(usize::MAX));
        let allocation = allocated.map_err(|error| {
            let detail = mem_get_info().map_or(String::new(), |(free, total)| {
                format!("; {} of the GPU's {} are free", mebibytes(free as u64), mebibytes(total as u64))
            });
            self.failed(format!("allocating {} for {name}", mebibytes(bytes)), error, &detail)
        })?;
        let buffer = Buffer { id: self.memory.len(), address: allocation.address(), bytes };
        self.memory.push(Some(allocation));
        Ok(buffer)
    }

    fn free(&mut self, buffer: Buffer) -> Result<()> {
        self.enter()?;
        self.allocation(buffer)?;
        let Some(allocation) = self.memory[buffer.id].take() else { return Ok(()) };
        let name = allocation.name().to_owned();
        allocation.free().map_err(|error| self.failed(format!("freeing {name}"), error, ""))
    }

    fn write(&mut self, buffer: Buffer, data: &[u8]) -> Result<()> {
        let allocation = self.copyable(buffer, data.len())?;
        allocation.write(data).map_err(|error| {
            let action = format!("copying {} bytes to {}", data.len(), allocation.name());
            self.failed(action, error, "")
        })
    }

    fn read(&mut self, buffer: Buffer, data: &mut [u8]) -> Result<()> {
        let allocation = self.copyable(buffer, data.len())?;
        allocation.read(data).map_err(|error| {
            let action = format!("copying {} bytes from {}", data.len(), allocation.name());
            self.failed(action, error, "")
        })
    }

    fn encode_tensor_map(&mut self, name: &str, map: &TensorMap) -> Result<[u8; TENSOR_MAP_BYTES]> {
        self.enter()?;
        let TensorMap { address, sizes, strides } = map;
        let tiled = Tiled {
            element: tensor_map::ELEMENT_TYPE,
            address: *address,
            sizes,
            strides,
            box_sizes: &tensor_map::BOX_SIZES,
            element_strides: &tensor_map::ELEMENT_STRIDES,
            swizzle: tensor_map::SWIZZLE,
        };
        tiled.encode().map(|encoded| encoded.0).map_err(|code| {
            let detail = format!("; {sizes:?} elements from {address:#x} on with strides of {strides:?} bytes");
            self.failed(format!("making the tensor map of {name}"), Code(code), &detail)
        })
    }

    fn launch(&mut self, launch: &Launch<'_>) -> Result<Execution> {
        let arguments = Kernel::arguments_of(launch);
        // SAFETY: a planned launch is one of an entry that takes exactly these arguments.
        unsafe { self.run(&Kernel::of(launch, &arguments)) }?;
        Ok(Execution::default())
    }

    fn prepare_sample(&mut self, launches: &[Launch<'_>], protocol: &Protocol) -> Result<Option<Sample>> {
        let arguments: Vec<_> = launches.iter().map(Kernel::arguments_of).collect();
        let kernels: Vec<_> = launches
            .iter()
            .zip(&arguments)
            .map(|(launch, arguments)| {
                let kernel = Kernel::of(launch, arguments);
                Kernel { overlaps_previous: kernel.overlaps_previous && protocol.overlap, ..kernel }
            })
            .collect();
        // SAFETY: as for `launch`.
        let (timed, batch) = unsafe { self.timed(&kernels, protocol) }?;
        self.timed.push(Some(timed));
        Ok(Some(Sample { id: self.timed.len() - 1, batch }))
    }

    fn take_sample(&mut self, sample: Sample) -> Result<f64> {
        self.enter()?;
        let timed = self.timed_kernels(sample)?;
        timed.graph.sample(&self.stream).map_err(|code| self.failed(timed.action.clone(), code, ""))
    }

    fn free_sample(&mut self, sample: Sample) -> Result<()> {
        self.enter()?;
        self.timed_kernels(sample)?;
        self.timed[sample.id] = None;
        Ok(())
    }

    fn damaged_guards(&mut self) -> Result<Vec<GuardDamage>> {
        self.enter()?;
        let damages: CudaResult<Vec<_>> = self.memory.iter().flatten().map(Allocation::guard_damage).collect();
        let damages = damages.map_err(|error| self.failed("reading the guards".to_owned(), error, ""))?;
        Ok(damages.into_iter().flatten().collect())
    }
}

impl Drop for GpuExecutor {
    fn drop(&mut self) {
        // The fields release what they hold in the context of the thread; on a lost context nothing can be released.
        let _ = CurrentContext::set_current(&self.context);
    }
}

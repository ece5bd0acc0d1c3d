//! The GPU executor. cust provides context, stream, events and memory, `driver` what cust lacks, and the library PTX,
//! tensor maps and launches, so that the code checked and timed here is the code that users of the library call.

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
use cust::error::CudaResult;
use cust::memory::mem_get_info;
use cust::stream::{Stream, StreamFlags};
use fa512::{Module, ModuleKernel};

use self::driver::Function;
use self::failure::{Doing, Failure, Fault, compiler_log, cuda_error};
use self::kernel::Kernel;
use self::memory::{Allocation, mebibytes};
use self::timing::TimedGraph;
use super::{Buffer, Execution, Executor, GuardDamage, Sample, one_entry};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::ptx_module::PtxModule;
use crate::timing::{Batch, Protocol};
use contract::backward::plan::BackwardLaunch;
use contract::plan::Launch;

/// Runs kernels on an NVIDIA GPU.
///
/// A kernel that faults destroys the CUDA context. Every later call then returns that kernel's error.
pub struct GpuExecutor {
    // Fields are dropped in this order: objects in the context before the context.
    timed: Vec<Option<TimedKernels>>,
    modules: Vec<LoadedModule>,
    memory: Vec<Option<Allocation>>,
    stream: Stream,
    context: Context,
    device: Device,
    fault: OnceCell<Fault>,
}

struct LoadedModule {
    /// The whole module.
    source: PtxModule,
    /// The single entry that was loaded; `None` if all were.
    entry: Option<String>,
    module: Module,
}

struct TimedKernels {
    graph: TimedGraph,
    /// The operation, for messages.
    action: String,
}

/// Resources of a kernel's thread, as compiled by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct KernelResources {
    /// 32-bit registers per thread.
    pub registers: u32,
    /// Local memory per thread, bytes: spilled registers and arrays; 0 for a kernel of full speed.
    pub local_bytes: u32,
}

/// Whether there is a GPU that [`GpuExecutor::open`] may open.
///
/// # Errors
/// [`Error::Unavailable`] when there is no driver or no GPU, or one of them is too old.
pub fn check_present() -> Result<()> {
    discovery::find(0).map(drop)
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
    /// [`Error::Unavailable`] when there is no driver, no GPU or no GPU `index`, or one of them is too old;
    /// [`Error::Cuda`] when the driver refuses a context on the GPU.
    pub fn open_device(index: u32) -> Result<Self> {
        let found = discovery::find(index)?;
        let opening = || format!("opening GPU {index}");
        let device = discovery::describe(found).map_err(|code| cuda_error(opening(), code, ""))?;
        let context = Context::new(found).map_err(|error| {
            let code = driver::primary_context(found).err().unwrap_or(error.into());
            cuda_error(format!("creating a context on GPU {index} ({})", device.name), code, "")
        })?;
        // cust's streams synchronise with the default stream in both directions, which orders copies and launches.
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

    /// The resources of a loaded kernel's thread.
    ///
    /// # Errors
    /// [`Error::Invalid`] when no loaded module has the entry, [`Error::Cuda`] when the driver refuses the query.
    pub fn resources(&self, entry: &str) -> Result<KernelResources> {
        self.enter()?;
        let function = self.find(entry, |module| Function::of(module, entry))?;
        let asking = |code| self.failed(format!("asking for the resources of {entry}"), code, "");
        Ok(KernelResources {
            registers: function.registers().map_err(asking)?,
            local_bytes: function.local_bytes().map_err(asking)?,
        })
    }

    /// Makes the context current on this thread, unless a kernel has destroyed it.
    fn enter(&self) -> Result<()> {
        match self.fault.get() {
            Some(fault) => Err(fault.error()),
            None => CurrentContext::set_current(&self.context).doing(|| "using the CUDA context".to_owned()),
        }
    }

    /// The error for a failed driver call. Checks whether it has lost the context, and remembers it.
    fn failed(&self, action: String, failure: impl Into<Failure>, detail: &str) -> Error {
        let code = match failure.into().code() {
            Ok(code) => code,
            Err(error) => return error,
        };
        if driver::synchronize_context().is_ok() {
            return cuda_error(action, code, detail);
        }
        self.fault.get_or_init(|| Fault { action, code }).error()
    }

    /// [`Self::failed`] for an error of the library, with its message.
    fn refused(&self, error: fa512::Error) -> Error {
        match error {
            fa512::Error::Cuda { action, code, log, .. } => {
                self.failed(action, driver::Code(code), &compiler_log(&log))
            }
            error => failure::library_error(error),
        }
    }

    /// The stream in the library's type.
    fn raw_stream(&self) -> fa512::Stream {
        fa512::Stream::from_raw(self.stream.as_inner().cast())
    }

    /// Loads `source`, or one entry of it, unless it is already loaded.
    fn load_part(&mut self, source: &PtxModule, entry: Option<&str>) -> Result<()> {
        self.enter()?;
        let is_it = |loaded: &LoadedModule| loaded.entry.as_deref() == entry && loaded.source == *source;
        if self.modules.iter().any(is_it) {
            return Ok(());
        }
        let (file, text) = (&source.file, source.text()?);
        let text = entry.map_or_else(|| text.to_owned(), |entry| one_entry::only(text, entry));
        let text = CString::new(text).map_err(|error| {
            Error::Invalid(format!("{file}: byte {} is NUL, so it is not PTX", error.nul_position()))
        })?;
        let module = Module::load(&text).map_err(|error| {
            let detail = if let fa512::Error::Cuda { log, .. } = &error { compiler_log(log) } else { String::new() };
            self.failed(format!("compiling {file} for {}", self.device.name), error, &detail)
        })?;
        self.modules.retain(|loaded| loaded.source.file != *file || loaded.entry.as_deref() != entry);
        self.modules.push(LoadedModule { source: source.clone(), entry: entry.map(str::to_owned), module });
        Ok(())
    }

    /// The result of `take` for the newest module that has `entry`.
    fn find<'a, T>(
        &'a self,
        entry: &str,
        take: impl Fn(&'a Module) -> std::result::Result<T, fa512::Error>,
    ) -> Result<T> {
        for LoadedModule { module, .. } in self.modules.iter().rev() {
            match take(module) {
                Err(fa512::Error::NoEntry { .. }) => {}
                answer => return answer.map_err(|error| self.refused(error)),
            }
        }
        let files: Vec<_> = self.modules.iter().map(|loaded| loaded.source.file.as_str()).collect();
        let loaded = if files.is_empty() { "nothing".to_owned() } else { files.join(", ") };
        Err(Error::Invalid(format!("no entry {entry} in the loaded PTX ({loaded})")))
    }

    /// The kernel of `launch`.
    fn forward_kernel<'a>(&'a self, launch: &Launch<'a>) -> Result<ModuleKernel<'a>> {
        let variant = launch.variant();
        self.find(variant.entry, |module| module.kernel(&variant))
    }

    /// The function of `kernel`, which is not one of ours, with its dynamic shared memory allowed.
    fn prepare(&self, kernel: &Kernel) -> Result<Function<'_>> {
        self.enter()?;
        let Kernel { entry, dynamic_shared_bytes: bytes, .. } = kernel;
        let parameters = kernel.argument_bytes();
        let function = self.find(entry, |module| {
            module.check_parameters(entry, &parameters)?;
            Function::of(module, entry)
        })?;
        function.allow_dynamic_shared(*bytes).map_err(|code| {
            let action = format!("giving the blocks of {entry} {bytes} bytes of dynamic shared memory");
            let limit = self.device.shared_bytes_per_block;
            self.failed(action, code, &format!("; {} allows {limit} bytes", self.device.name))
        })?;
        Ok(function)
    }

    /// Runs `submit`, an operation called `action`, and waits for it.
    fn run(&self, action: String, submit: impl FnOnce() -> std::result::Result<(), Failure>) -> Result<()> {
        let done = submit().and_then(|()| Ok(self.stream.synchronize()?));
        done.map_err(|failure| self.failed(action, failure, ""))
    }

    /// Prepares launches, one per input set, for timing. `submit` enqueues the launch of a set; `action` describes the
    /// operation.
    fn timed(
        &self,
        sets: usize,
        action: String,
        protocol: &Protocol,
        submit: impl Fn(usize) -> std::result::Result<(), Failure>,
    ) -> Result<(TimedKernels, Batch)> {
        let sets = u32::try_from(sets).ok().and_then(NonZeroU32::new);
        let sets =
            sets.ok_or_else(|| Error::Invalid(format!("{action} cannot be timed with so many sets of inputs")))?;
        match TimedGraph::prepare(&self.stream, protocol, sets, |set| submit(set as usize)) {
            Ok((graph, batch)) => Ok((TimedKernels { graph, action }, batch)),
            Err(failure) => Err(self.failed(action, failure, "")),
        }
    }

    /// The kernels of a sample that has not been freed.
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

    /// The allocation of `buffer`, if it holds at least `length` bytes.
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

/// `launch` as an operation, for messages.
fn running(launch: &Launch<'_>) -> String {
    kernel::running(launch.entry(), launch.blocks(), launch.threads())
}

impl Executor for GpuExecutor {
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

    fn complete(&mut self, launch: &mut Launch<'_>) -> Result<()> {
        self.enter()?;
        fa512::encode_tensor_maps(launch).map_err(|error| self.refused(error))
    }

    fn launch(&mut self, launch: &Launch<'_>) -> Result<Execution> {
        self.enter()?;
        let (kernel, stream) = (self.forward_kernel(launch)?, self.raw_stream());
        self.run(running(launch), || {
            // SAFETY: a planned launch refers to tensors in this context's memory and to an entry whose parameters, by
            // its manifest, are exactly the arguments; the stream belongs to this context.
            Ok(unsafe { kernel.launch(launch, stream, true) }?)
        })?;
        Ok(Execution::default())
    }

    fn launch_backward(&mut self, launch: &mut BackwardLaunch) -> Result<Execution> {
        self.enter()?;
        let entry = launch.variant().entry;
        let (module, stream) = (self.find(entry, |module| module.function(entry).map(|_| module))?, self.raw_stream());
        self.run(kernel::running(entry, launch.blocks(), launch.threads()), || {
            // SAFETY: as for `launch`.
            Ok(unsafe { module.launch_backward(launch, stream) }?)
        })?;
        Ok(Execution::default())
    }

    fn prepare_sample(&mut self, launches: &[Launch<'_>], protocol: &Protocol) -> Result<Option<Sample>> {
        self.enter()?;
        let first = launches.first().ok_or_else(|| Error::Invalid("0 launches cannot be timed".into()))?;
        let kernels: Vec<_> = launches.iter().map(|launch| self.forward_kernel(launch)).collect::<Result<_>>()?;
        let stream = self.raw_stream();
        let (timed, batch) = self.timed(launches.len(), running(first), protocol, |set| {
            // SAFETY: as for `launch`.
            Ok(unsafe { kernels[set].launch(&launches[set], stream, protocol.overlap) }?)
        })?;
        self.timed.push(Some(timed));
        Ok(Some(Sample { id: self.timed.len() - 1, batch }))
    }

    fn take_sample(&mut self, sample: Sample) -> Result<f64> {
        self.enter()?;
        let timed = self.timed_kernels(sample)?;
        timed.graph.sample(&self.stream).map_err(|failure| self.failed(timed.action.clone(), failure, ""))
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
        // The fields release their resources in the thread's current context; a lost context has none to release.
        let _ = CurrentContext::set_current(&self.context);
    }
}

//! A context: memory, what was loaded to it, and the error that a kernel left.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use ptx_sim::{GlobalMemory, Texels};

use crate::code::Code;
use crate::error::{Error, Result};
use crate::host_range::HostRange;
use crate::image::ContextId;
use crate::memory::{Allocation, Memory};
use crate::objects::{Call, Context, FIRST_ADDRESS, Fault, Kind, Machine, SPAN, State};
use crate::problem::Problem;
use crate::sync::lock;

/// Maximum leaked allocations that are listed one by one.
const LEAKS_SHOWN: usize = 16;

impl State {
    /// Whether a kernel has left an error; nothing is executed after that.
    pub fn has_fault(&self) -> bool {
        self.fault.is_some()
    }

    /// Records an error; the first one is kept.
    pub fn fail(&mut self, code: Code) {
        self.fault.get_or_insert(Fault { code, was_returned: false });
    }
}

impl Context {
    pub(crate) fn new(machine: Arc<Machine>, id: u64, gpu: u32, flags: u32, kind: Kind, span: u64) -> Arc<Self> {
        let first = FIRST_ADDRESS + span * SPAN;
        let global = GlobalMemory::within(first..first + SPAN).expect("the spans lie where memory can lie");
        let state = State { memory: Memory::new(global), fault: None };
        let (flags, state) = (AtomicU32::new(flags), Mutex::new(Some(state)));
        Arc::new(Self { machine, id, gpu, flags, kind, span, told_unwritten: Mutex::default(), state })
    }

    /// The machine that it belongs to.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// Its number, unique among the contexts of the machine, including destroyed ones.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its number, unique among the contexts of all machines of the process.
    pub(crate) fn id_in_process(&self) -> ContextId {
        ContextId { machine: self.machine.number(), context: self.id }
    }

    /// The GPU, by the program's numbering.
    pub fn gpu(&self) -> u32 {
        self.gpu
    }

    /// The flags that it was created with or that were set later.
    pub fn flags(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    /// Sets the flags (`cuCtxSetFlags`).
    pub fn set_flags(&self, flags: u32) {
        self.flags.store(flags, Relaxed);
    }

    /// Whether it is a primary context or one that the program created.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether it has not been destroyed.
    pub fn is_alive(&self) -> bool {
        lock(&self.state).is_some()
    }

    /// Its description in messages.
    pub fn describe(&self) -> String {
        let kind = if self.kind == Kind::Primary { "the primary context" } else { "a context" };
        format!("{kind} of GPU {} (context {})", self.gpu, self.id)
    }

    /// Destroys it with everything in it (`cuCtxDestroy`); its error goes with it.
    ///
    /// # Errors
    /// [`Code::CONTEXT_IS_DESTROYED`] when it was destroyed before.
    pub fn destroy(&self) -> Result<()> {
        self.tell_end();
        let state = lock(&self.state).take().ok_or(Code::CONTEXT_IS_DESTROYED)?;
        if let Ok(gpu) = self.machine.gpu(self.gpu) {
            gpu.release(state.memory.live_bytes());
        }
        self.machine.captures.forget_context(self.id);
        self.machine.stream_races.forget_context(self.id);
        self.machine.release_span(self.span);
        Ok(())
    }

    /// Reports memory that the program has not freed, and undetermined values that kernels left there.
    pub(crate) fn tell_end(&self) {
        // A lost context has been reported already.
        let _ = self.tell_left_at_end();
        self.tell_leaks();
    }

    fn tell_leaks(&self) {
        if !self.machine.config().leaks {
            return;
        }
        let mut leaks: Vec<_> = match &*lock(&self.state) {
            Some(state) => state.memory.leaks().map(str::to_owned).collect(),
            None => return,
        };
        let host = self.machine.host_ranges_of(self.id);
        leaks.extend(host.into_iter().filter(HostRange::is_allocated_managed).map(|range| range.name));
        let place = self.describe();
        for name in leaks.iter().take(LEAKS_SHOWN) {
            self.machine.problem(Problem::Leak, &format!("{name}, is never freed, in {place}"));
        }
        if let more @ 1.. = leaks.len().saturating_sub(LEAKS_SHOWN) {
            self.machine.problem(Problem::Leak, &format!("{more} more allocations are never freed, in {place}"));
        }
    }

    /// Reports a copy to the host of `bytes` bytes at `address`, of which `count` were never written, the first at an
    /// offset. Once per allocation.
    pub(crate) fn tell_unwritten(&self, address: u64, bytes: u64, first: u64, count: u64) {
        if !self.machine.config().uninitialised_copies {
            return;
        }
        let Some(allocation) = self.allocation_at(address) else { return };
        if !lock(&self.told_unwritten).insert(allocation.address) {
            return;
        }
        let (offset, name) = (address - allocation.address, allocation.name);
        let from = self.machine.caller("");
        match count == bytes {
            true => self.machine.problem(
                Problem::UninitialisedCopy,
                &format!("{bytes} bytes from byte {offset} of {name}, are copied to the host{from}; nothing was ever written there"),
            ),
            false => self.machine.problem(
                Problem::PartlyUninitialisedCopy,
                &format!(
                    "{bytes} bytes from byte {offset} of {name}, are copied to the host{from}; {count} of them were never written, \
                     the first is byte {}",
                    offset + first
                ),
            ),
        }
    }

    /// The number of its address span.
    pub(crate) fn span(&self) -> u64 {
        self.span
    }

    /// The locked state, even if a kernel left an error.
    pub(crate) fn state_in_any_case(&self) -> Result<StateGuard<'_>> {
        let guard = lock(&self.state);
        if guard.is_some() { Ok(StateGuard(guard)) } else { Err(Code::CONTEXT_IS_DESTROYED.into()) }
    }

    /// The locked state, for a kind of call.
    pub(crate) fn state(&self, call: Call) -> Result<StateGuard<'_>> {
        let mut guard = lock(&self.state);
        let state = guard.as_mut().ok_or(Code::CONTEXT_IS_DESTROYED)?;
        if let Some(fault) = &mut state.fault
            && (fault.was_returned || call == Call::Synchronous)
        {
            fault.was_returned = true;
            return Err(fault.code.into());
        }
        Ok(StateGuard(guard))
    }

    /// Whether a kind of call is allowed.
    ///
    /// # Errors
    /// [`Code::CONTEXT_IS_DESTROYED`], or the error that a kernel left.
    pub fn check(&self, call: Call) -> Result<()> {
        self.state(call).map(drop)
    }

    /// Waits for all work (`cuCtxSynchronize`).
    ///
    /// # Errors
    /// As [`Context::check`]; [`Code::STREAM_CAPTURE_UNSUPPORTED`] while a stream of the context captures, which
    /// invalidates the capture.
    pub fn synchronize(&self) -> Result<()> {
        self.machine.captures.check_context_synchronized(self.id)?;
        self.machine.stream_races.synchronize_context(self.id);
        self.machine.dependents.end_context(self.id);
        self.check(Call::Synchronous)
    }

    /// Allocates memory for `owner`, as in `cuMemAlloc_v2`, and returns its address.
    ///
    /// # Errors
    /// [`Code::OUT_OF_MEMORY`]; [`Code::INVALID_VALUE`] for zero bytes; those of [`Context::check`].
    pub fn allocate(&self, owner: &str, bytes: u64) -> Result<u64> {
        let number = self.machine.next_allocation();
        self.allocate_named(number, self.machine.numbered_name(number, owner, bytes), bytes)
    }

    /// Allocates memory named `name` in messages.
    ///
    /// # Errors
    /// As [`Context::allocate`].
    pub fn allocate_as(&self, name: &str, bytes: u64) -> Result<u64> {
        self.allocate_named(self.machine.next_allocation(), name.to_owned(), bytes)
    }

    fn allocate_named(&self, number: u64, name: String, bytes: u64) -> Result<u64> {
        if bytes == 0 {
            return Err(Error::invalid("an allocation of 0 bytes"));
        }
        let mut state = self.state(Call::Asynchronous)?;
        let gpu = self.machine.gpu(self.gpu)?;
        gpu.reserve(bytes, self.machine.config().memory_bytes)?;
        state.memory.allocate(number, &name, bytes).inspect_err(|_| gpu.release(bytes))
    }

    /// Allocates an array named `name` in messages.
    pub(crate) fn allocate_array(&self, number: u64, name: &str, shape: &Texels) -> Result<Texels> {
        let mut state = self.state(Call::Asynchronous)?;
        let gpu = self.machine.gpu(self.gpu)?;
        let bytes = shape.bytes().unwrap_or(u64::MAX);
        gpu.reserve(bytes, self.machine.config().memory_bytes)?;
        state.memory.allocate_array(number, name, shape).inspect_err(|_| gpu.release(bytes))
    }

    /// Frees the array that begins at `address`.
    pub(crate) fn free_array(&self, address: u64) -> Result<()> {
        let bytes = self.state(Call::Synchronous)?.memory.free_array(address)?;
        self.machine.gpu(self.gpu)?.release(bytes);
        self.machine.stream_races.synchronize_context(self.id);
        Ok(())
    }

    /// Frees the allocation that begins at `address`.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] if no live allocation begins there, with what is at the address; those of
    /// [`Context::check`].
    pub fn free(&self, address: u64, call: Call) -> Result<()> {
        self.tell_left(address)?;
        let mut state = self.state(call)?;
        let bytes = state.memory.free(address)?;
        self.machine.gpu(self.gpu)?.release(bytes);
        drop(state);
        if call == Call::Synchronous {
            // Freeing waits for all work that may use the memory.
            self.machine.stream_races.synchronize_context(self.id);
        }
        Ok(())
    }

    /// Writes `data` to `address`.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] if the bytes do not lie in one allocation; those of [`Context::check`].
    pub fn write(&self, address: u64, data: &[u8]) -> Result<()> {
        self.state(Call::Synchronous)?.memory.write(address, data)
    }

    /// Reads from `address`; unwritten bytes read as 0.
    ///
    /// # Errors
    /// As [`Context::write`].
    pub fn read(&self, address: u64, data: &mut [u8]) -> Result<()> {
        self.state(Call::Synchronous)?.memory.read(address, data)
    }

    /// The address of the first unwritten byte among the `bytes` bytes at `address`.
    ///
    /// # Errors
    /// As [`Context::write`].
    pub fn first_unwritten(&self, address: u64, bytes: u64) -> Result<Option<u64>> {
        self.state(Call::Synchronous)?.memory.first_unwritten(address, bytes)
    }

    /// Requires `bytes` bytes at `address` to lie in one allocation of the context.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] with what is at the address; those of [`Context::check`].
    pub fn check_range(&self, address: u64, bytes: u64) -> Result<()> {
        self.state(Call::Asynchronous)?.memory.check_plain(address, bytes)
    }

    /// The live allocation that contains `address`.
    pub fn allocation_at(&self, address: u64) -> Option<Allocation> {
        lock(&self.state).as_ref()?.memory.find(address)
    }

    /// Whether `address` lies in memory that is or was allocated.
    pub fn knows(&self, address: u64) -> bool {
        lock(&self.state).as_ref().is_some_and(|state| state.memory.global.allocation_at(address).is_some())
    }

    /// Whether `address` lies in freed memory.
    pub fn was_freed(&self, address: u64) -> bool {
        let is_freed = |state: &State| state.memory.global.allocation_at(address).is_some_and(|found| !found.live);
        lock(&self.state).as_ref().is_some_and(is_freed)
    }

    /// What is at `address`, in words; includes freed memory.
    pub fn describe_address(&self, address: u64) -> Option<String> {
        lock(&self.state).as_ref().map(|state| state.memory.describe(address))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let _ = self.destroy();
    }
}

/// The locked state of a live context.
pub(crate) struct StateGuard<'a>(MutexGuard<'a, Option<State>>);

impl std::ops::Deref for StateGuard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.0.as_ref().expect("a guard is made only where there is a state")
    }
}

impl std::ops::DerefMut for StateGuard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.0.as_mut().expect("a guard is made only where there is a state")
    }
}

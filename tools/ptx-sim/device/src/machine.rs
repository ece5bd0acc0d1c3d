//! A machine with simulated GPUs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

use crate::code::Code;
use crate::config::Config;
use crate::dependents::Dependents;
use crate::error::{Error, Result};
use crate::objects::{Captures, Context, FIRST_ADDRESS, Gpu, Kind, LAST_ADDRESS, Machine, SPAN};
use crate::problem::Problem;
use crate::report::Reporter;
use crate::stream_races::StreamRaces;
use crate::sync::lock;

/// Maximum contexts with addresses at a time.
const SPANS: u64 = (LAST_ADDRESS - FIRST_ADDRESS) / SPAN;

/// Whether `address` is in the range of simulated GPU memory, which the host does not use.
pub fn is_device_address(address: u64) -> bool {
    (FIRST_ADDRESS..LAST_ADDRESS).contains(&address)
}

/// Prefix of the names of simulated GPUs.
pub const NAME: &str = "ptx-sim GPU";

impl Machine {
    /// Creates the machine that `config` describes.
    pub fn new(config: Config) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let visible = config.visible.clone().unwrap_or_else(|| (0..config.gpus).collect());
        Arc::new(Self {
            gpus: visible.into_iter().map(Gpu::new).collect(),
            reporter: Reporter::new(config.messages.clone(), config.journal.clone()),
            config,
            number: NEXT.fetch_add(1, Relaxed),
            captures: Captures::default(),
            stream_races: StreamRaces::default(),
            dependents: Dependents::default(),
            contexts: Mutex::default(),
            free_spans: Mutex::new((0..SPANS).collect()),
            host: Mutex::default(),
            next_context: AtomicU64::new(1),
            next_allocation: AtomicU64::new(1),
            launches: AtomicU64::new(0),
        })
    }

    /// Its number among the machines of the process.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The description that it was created from.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The GPUs visible to the program, in its order.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// The GPU that the program numbers `ordinal`.
    ///
    /// # Errors
    /// [`Code::INVALID_DEVICE`] if there is no such GPU.
    pub fn gpu(&self, ordinal: u32) -> Result<&Gpu> {
        self.gpus.get(ordinal as usize).ok_or_else(|| {
            let text = format!("there is no GPU {ordinal}: the machine shows {}, counted from 0", self.gpus.len());
            Error::new(Code::INVALID_DEVICE, text)
        })
    }

    /// Creates a context on a GPU (`cuCtxCreate`).
    ///
    /// # Errors
    /// [`Code::INVALID_DEVICE`]; [`Code::OUT_OF_MEMORY`] if there are too many contexts.
    pub fn create_context(self: &Arc<Self>, gpu: u32, flags: u32) -> Result<Arc<Context>> {
        self.new_context(gpu, flags, Kind::Own)
    }

    fn new_context(self: &Arc<Self>, gpu: u32, flags: u32, kind: Kind) -> Result<Arc<Context>> {
        self.gpu(gpu)?;
        let span = lock(&self.free_spans).pop_front().ok_or_else(|| {
            Error::new(Code::OUT_OF_MEMORY, format!("there are {SPANS} contexts, more than have addresses"))
        })?;
        let id = self.next_context.fetch_add(1, Relaxed);
        let context = Context::new(self.clone(), id, gpu, flags, kind, span);
        lock(&self.contexts).insert(span, Arc::downgrade(&context));
        self.map_all_host(&context)?;
        Ok(context)
    }

    /// Returns the address span of a context that is gone; it is reused after all others.
    pub(crate) fn release_span(&self, span: u64) {
        lock(&self.contexts).remove(&span);
        lock(&self.free_spans).push_back(span);
    }

    /// Retains the primary context of a GPU, creating it on the first reference (`cuDevicePrimaryCtxRetain`).
    ///
    /// # Errors
    /// As [`Machine::create_context`].
    pub fn retain_primary(self: &Arc<Self>, gpu: u32) -> Result<Arc<Context>> {
        let mut primary = lock(&self.gpu(gpu)?.primary);
        let context = match &primary.context {
            Some(context) => context.clone(),
            None => self.new_context(gpu, primary.flags, Kind::Primary)?,
        };
        primary.context = Some(context.clone());
        primary.retained += 1;
        Ok(context)
    }

    /// Releases the primary context of a GPU, and destroys it with the last reference (`cuDevicePrimaryCtxRelease`).
    ///
    /// # Errors
    /// [`Code::INVALID_CONTEXT`] if it is not retained.
    pub fn release_primary(&self, gpu: u32) -> Result<()> {
        let mut primary = lock(&self.gpu(gpu)?.primary);
        if primary.retained == 0 {
            return Err(Code::INVALID_CONTEXT.into());
        }
        primary.retained -= 1;
        let last = if primary.retained == 0 { primary.context.take() } else { None };
        drop(primary);
        last.map_or(Ok(()), |context| context.destroy())
    }

    /// Destroys the primary context of a GPU, even if it is retained (`cuDevicePrimaryCtxReset`).
    ///
    /// # Errors
    /// [`Code::INVALID_DEVICE`].
    pub fn reset_primary(&self, gpu: u32) -> Result<()> {
        let mut primary = lock(&self.gpu(gpu)?.primary);
        primary.retained = 0;
        let context = primary.context.take();
        drop(primary);
        context.map_or(Ok(()), |context| context.destroy())
    }

    /// The primary context of a GPU, while it is retained.
    ///
    /// # Errors
    /// [`Code::INVALID_DEVICE`].
    pub fn primary(&self, gpu: u32) -> Result<Option<Arc<Context>>> {
        Ok(lock(&self.gpu(gpu)?.primary).context.clone())
    }

    /// The flags of the primary context (`cuDevicePrimaryCtxGetState`).
    ///
    /// # Errors
    /// [`Code::INVALID_DEVICE`].
    pub fn primary_flags(&self, gpu: u32) -> Result<u32> {
        Ok(lock(&self.gpu(gpu)?.primary).flags)
    }

    /// Sets the flags of the primary context (`cuDevicePrimaryCtxSetFlags`).
    ///
    /// # Errors
    /// [`Code::INVALID_DEVICE`].
    pub fn set_primary_flags(&self, gpu: u32, flags: u32) -> Result<()> {
        lock(&self.gpu(gpu)?.primary).flags = flags;
        Ok(())
    }

    /// The context that owns or owned the memory at `address`.
    pub fn context_at(&self, address: u64) -> Option<Arc<Context>> {
        self.context_in_span(address.checked_sub(FIRST_ADDRESS)? / SPAN)
    }

    pub(crate) fn context_in_span(&self, span: u64) -> Option<Arc<Context>> {
        lock(&self.contexts).get(&span)?.upgrade()
    }

    /// Whether this thread may make calls that are unsafe during capture now. Captures that forbid them are
    /// invalidated.
    ///
    /// # Errors
    /// [`Code::STREAM_CAPTURE_UNSUPPORTED`].
    pub fn check_unsafe_call(&self) -> Result<()> {
        self.captures.check_unsafe_call()
    }

    /// ` from ` and the program's line that makes this call, skipping the function `except`; empty if unknown.
    pub(crate) fn caller(&self, except: &str) -> String {
        let line = self.config.caller.and_then(|caller| caller(except));
        line.map_or(String::new(), |line| format!(" from {line}"))
    }

    /// Reports a problem.
    pub fn problem(&self, problem: Problem, text: &str) {
        self.reporter.problem(problem, text);
    }

    /// Adds an already reported problem to the journal.
    pub fn record(&self, problem: Problem, text: &str) {
        self.reporter.record_problem(problem, text);
    }

    /// Reports memory that the program has not freed in live contexts, and the number of launches.
    pub fn end(&self) {
        let contexts: Vec<_> = lock(&self.contexts).values().filter_map(Weak::upgrade).collect();
        contexts.iter().for_each(|context| context.tell_end());
        self.reporter.end(self.launches.load(Relaxed));
    }

    pub(crate) fn next_allocation(&self) -> u64 {
        self.next_allocation.fetch_add(1, Relaxed)
    }
}

impl Gpu {
    fn new(index: u32) -> Self {
        Self { index, memory_used: Mutex::new(0), primary: Mutex::default() }
    }

    /// Its name.
    pub fn name(&self, config: &Config) -> String {
        format!("{NAME} {} (sm_{})", self.index, config.architecture.number)
    }

    /// Its identifier, the same in every process.
    pub fn uuid(&self) -> [u8; 16] {
        let mut uuid = *b"ptx-sim gpu \0\0\0\0";
        uuid[12..].copy_from_slice(&self.index.to_be_bytes());
        uuid
    }

    /// Its position among the GPUs of the machine, whether or not the program sees all of them.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Bytes allocated by all contexts.
    pub fn memory_used(&self) -> u64 {
        *lock(&self.memory_used)
    }

    /// Reserves `bytes` of `total`.
    pub(crate) fn reserve(&self, bytes: u64, total: u64) -> Result<()> {
        let mut used = lock(&self.memory_used);
        if bytes > total - *used {
            let free = total - *used;
            let text = format!("{bytes} bytes asked for, {free} of {total} are free; PTX_SIM_MEMORY gives a GPU more");
            return Err(Error::new(Code::OUT_OF_MEMORY, text));
        }
        *used += bytes;
        Ok(())
    }

    pub(crate) fn release(&self, bytes: u64) {
        let mut used = lock(&self.memory_used);
        *used = used.saturating_sub(bytes);
    }
}

//! State of the process: the machine, the handles, and the current context of each thread.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ptx_diagnostics::streams::note;
use sim_device::{Code, Config, Context, Error, Kind, Machine, NEWEST_DRIVER, Problem, Result, Stream, StreamKind};

use crate::caller;
use crate::pages::Pages;
use crate::types::Handle;

static MACHINE: OnceLock<Result<Arc<Machine>>> = OnceLock::new();
static CONFIG: OnceLock<Result<Config>> = OnceLock::new();
static HANDLES: Mutex<Option<Handles>> = Mutex::new(None);

/// The process that created the machine. A process forked from it must not use the machine.
static OWNER: OnceLock<u32> = OnceLock::new();

/// Called by the loader at process exit, after the program's own destructors.
#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".fini_array"))]
static AT_END: extern "C" fn() = end;

/// Reports memory that the program has not freed.
extern "C" fn end() {
    if let (Ok(machine), Some(owner)) = (machine(), OWNER.get())
        && *owner == std::process::id()
    {
        // Nothing may unwind into the loader.
        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| machine.end())));
    }
}

/// The simulated machine's description; a bad environment is reported once.
///
/// # Errors
/// As [`Config::from_environment`].
pub fn config() -> Result<&'static Config> {
    config_by(Config::from_environment)
}

fn config_by(describe: impl FnOnce() -> Result<Config>) -> Result<&'static Config> {
    let told = || {
        let config = describe().inspect_err(|error| note(&format!("ptx-sim: {error}")))?;
        // Looking up source lines takes time: only if something reads them.
        let caller = config.caller.or(config.journal.is_some().then_some(caller::line as fn(&str) -> Option<String>));
        Ok(Config { caller, host_memory: Some(Pages::allocate), ..config })
    };
    CONFIG.get_or_init(told).as_ref().map_err(Clone::clone)
}

/// The CUDA version of the driver: 13000 for 13.0.
pub fn version() -> u32 {
    config().map_or(NEWEST_DRIVER, |config| config.driver_version)
}

/// Creates the machine (`cuInit`).
pub fn init() -> Result<()> {
    init_with(Config::from_environment)
}

/// Creates the machine that `describe` returns, unless one has been described before.
pub fn init_with(describe: impl FnOnce() -> Result<Config>) -> Result<()> {
    let machine = MACHINE.get_or_init(|| Ok(Machine::new(config_by(describe)?.clone())));
    OWNER.get_or_init(std::process::id);
    if let Ok(machine) = machine {
        let early = std::mem::take(&mut *EARLY.lock().unwrap_or_else(PoisonError::into_inner));
        early.iter().for_each(|(problem, text)| machine.record(*problem, text));
    }
    match machine {
        Ok(machine) if machine.gpus().is_empty() => Err(Code::NO_DEVICE.into()),
        Ok(_) => Ok(()),
        // Reported when it was found.
        Err(error) => Err(error.code.into()),
    }
}

/// The machine.
pub fn machine() -> Result<&'static Arc<Machine>> {
    MACHINE.get().and_then(|machine| machine.as_ref().ok()).ok_or_else(|| Code::NOT_INITIALIZED.into())
}

/// Problems reported before the machine existed; they go to the start of its journal.
static EARLY: Mutex<Vec<(Problem, String)>> = Mutex::new(Vec::new());

/// Reports a problem.
pub fn problem(problem: Problem, text: &str) {
    if machine().is_err() {
        EARLY.lock().unwrap_or_else(PoisonError::into_inner).push((problem, text.to_owned()));
    }
    match machine() {
        Ok(machine) => machine.problem(problem, text),
        Err(_) if std::env::var_os("PTX_SIM_QUIET").is_some_and(|value| value == "1") => {}
        Err(_) => note(&format!("ptx-sim: {text}")),
    }
}

/// The object behind a handle.
type Object = Arc<dyn Any + Send + Sync>;

/// All live handles.
#[derive(Default)]
struct Handles {
    objects: HashMap<Handle, Entry>,
    /// Handles by the address of their object.
    known: HashMap<usize, Handle>,
    /// Handles of primary contexts by GPU; they stay the same when the context is created again.
    primary: HashMap<u32, Handle>,
    given: usize,
}

struct Entry {
    object: Object,
    /// The context to which it belongs.
    context: Option<u64>,
}

fn handles() -> MutexGuard<'static, Option<Handles>> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handles {
    /// A new handle, which is not a valid address.
    fn next(&mut self) -> Handle {
        self.given += 1;
        Handle(0x51_0000_0000 + 64 * self.given)
    }
}

/// The handle of `object`, the same on every call; `context` is the context to which it belongs.
pub fn handle<T: Any + Send + Sync>(object: &Arc<T>, context: Option<&Context>) -> Handle {
    let mut handles = handles();
    let handles = handles.get_or_insert_default();
    let address = Arc::as_ptr(object) as usize;
    if let Some(known) = handles.known.get(&address) {
        return *known;
    }
    let handle = handles.next();
    handles.known.insert(address, handle);
    handles.objects.insert(handle, Entry { object: object.clone(), context: context.map(Context::id) });
    handle
}

/// The object of `handle`, if it is a `T`.
pub fn find<T: Any + Send + Sync>(handle: Handle) -> Option<Arc<T>> {
    let object = handles().as_ref()?.objects.get(&handle)?.object.clone();
    object.downcast().ok()
}

/// As [`find`], with an error instead of `None`.
///
/// # Errors
/// [`Code::INVALID_HANDLE`]; `what` names the kind of object in the message.
pub fn lookup<T: Any + Send + Sync>(handle: Handle, what: &str) -> Result<Arc<T>> {
    machine()?;
    find(handle).ok_or_else(|| Error::new(Code::INVALID_HANDLE, format!("{:#x} is no {what}", handle.0)))
}

/// As [`lookup`], and invalidates the handle.
pub fn remove<T: Any + Send + Sync>(handle: Handle, what: &str) -> Result<Arc<T>> {
    let object = lookup::<T>(handle, what)?;
    let mut handles = handles();
    if let Some(handles) = handles.as_mut() {
        handles.objects.remove(&handle);
        handles.known.remove(&(Arc::as_ptr(&object) as usize));
    }
    Ok(object)
}

/// Drops the handles for which `forgets` returns true, given the object and its context.
pub fn forget(forgets: impl Fn(&(dyn Any + Send + Sync), Option<u64>) -> bool) {
    let mut handles = handles();
    let Some(handles) = handles.as_mut() else { return };
    let gone: Vec<Handle> = handles
        .objects
        .iter()
        .filter(|(_, entry)| forgets(&*entry.object, entry.context))
        .map(|(handle, _)| *handle)
        .collect();
    for handle in gone {
        handles.objects.remove(&handle);
        handles.known.retain(|_, known| *known != handle);
    }
}

/// The handle of the first object for which `is_it` returns true.
pub fn first<T: Any + Send + Sync>(is_it: impl Fn(&T) -> bool) -> Option<Handle> {
    let handles = handles();
    let mut entries = handles.as_ref()?.objects.iter();
    entries.find(|(_, entry)| entry.object.downcast_ref::<T>().is_some_and(&is_it)).map(|(handle, _)| *handle)
}

/// The handle of a context.
pub fn context_handle(context: &Arc<Context>) -> Handle {
    if context.kind() == Kind::Own {
        return handle(context, None);
    }
    let mut handles = handles();
    let handles = handles.get_or_insert_default();
    let handle = match handles.primary.get(&context.gpu()) {
        Some(handle) => *handle,
        None => {
            let handle = handles.next();
            handles.primary.insert(context.gpu(), handle);
            handle
        }
    };
    handles.objects.insert(handle, Entry { object: context.clone(), context: None });
    handle
}

/// The context of `handle`.
///
/// # Errors
/// [`Code::INVALID_CONTEXT`], or [`Code::CONTEXT_IS_DESTROYED`].
pub fn context(handle: Handle) -> Result<Arc<Context>> {
    machine()?;
    let context: Arc<Context> = find(handle).ok_or(Code::INVALID_CONTEXT)?;
    if context.is_alive() { Ok(context) } else { Err(Code::CONTEXT_IS_DESTROYED.into()) }
}

thread_local! {
    /// Context stack of this thread; the last one is current.
    static STACK: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
    /// Per-thread default streams of this thread, by context.
    static STREAMS: RefCell<HashMap<u64, Arc<Stream>>> = RefCell::new(HashMap::new());
}

/// Runs a closure on the context stack of this thread; the last one is current.
pub fn with_stack<T>(action: impl FnOnce(&mut Vec<Handle>) -> T) -> T {
    STACK.with_borrow_mut(action)
}

/// The handle of the current context.
pub fn current_handle() -> Handle {
    with_stack(|stack| stack.last().copied().unwrap_or(Handle::NULL))
}

/// The current context.
///
/// # Errors
/// [`Code::INVALID_CONTEXT`] when there is none, [`Code::CONTEXT_IS_DESTROYED`].
pub fn current() -> Result<Arc<Context>> {
    machine()?;
    match current_handle() {
        Handle::NULL => Err(Code::INVALID_CONTEXT.into()),
        handle => context(handle),
    }
}

/// The stream of `handle`, including default streams.
///
/// # Errors
/// [`Code::INVALID_HANDLE`]; those of [`current`] for default streams.
pub fn stream(handle: Handle) -> Result<Arc<Stream>> {
    match handle {
        Handle::NULL | Handle::LEGACY => Stream::new(&current()?, StreamKind::Legacy, true, 0),
        Handle::PER_THREAD => {
            let context = current()?;
            STREAMS.with_borrow_mut(|streams| match streams.get(&context.id()) {
                Some(stream) => Ok(stream.clone()),
                None => {
                    let stream = Stream::new(&context, StreamKind::PerThread, true, 0)?;
                    streams.insert(context.id(), stream.clone());
                    Ok(stream)
                }
            })
        }
        _ => {
            current()?;
            lookup(handle, "stream")
        }
    }
}

/// Drops everything that was in a context that is gone.
pub fn forget_context(id: u64) {
    forget(|_, context| context == Some(id));
    STREAMS.with_borrow_mut(|streams| streams.remove(&id));
}

//! Kernels and variables that nvcc embeds in the program, and launches with `<<<…>>>`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::context::{self, enter};
use crate::driver::call;
use crate::handles::{DevicePointer, Handle, per_thread};
use crate::status::{Result, Status, border, put, runtime_api};

/// Largest block in each dimension (CUDA C++ Programming Guide, "Compute Capabilities").
const BLOCK_EXTENT: [u32; 3] = [1024, 1024, 64];
/// Maximum threads of a block.
const BLOCK_THREADS: u64 = 1024;
/// Largest grid in each dimension.
const GRID_EXTENT: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

/// A `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// In x.
    pub x: u32,
    /// In y.
    pub y: u32,
    /// In z.
    pub z: u32,
}

/// Everything that the program registered before `main`.
#[derive(Default)]
struct Registry {
    /// Addresses of the fat binaries; 0 after unregistration.
    fat_binaries: Vec<usize>,
    /// Kernels by address of their host stub: fat binary and name.
    kernels: HashMap<usize, (usize, CString)>,
    /// Variables by address of their host shadow.
    variables: HashMap<usize, (usize, CString)>,
    managed: Vec<Managed>,
    /// Modules by fat binary and GPU.
    modules: HashMap<(usize, i32), Handle>,
}

/// A managed variable.
struct Managed {
    fat_binary: usize,
    /// Address of the host's pointer to it.
    place: usize,
    name: CString,
}

impl Managed {
    /// The address in the host's pointer.
    fn address(&self) -> DevicePointer {
        // SAFETY: nvcc's code registered the address of a pointer that stays in place.
        unsafe { (self.place as *const DevicePointer).read() }
    }

    /// Points the host's pointer at the variable in a module that was just loaded.
    fn place(&self, module: Handle) -> Result<()> {
        let (mut address, mut bytes) = (0, 0);
        call!(cuModuleGetGlobal_v2(&mut address, &mut bytes, module, self.name.as_ptr()))?;
        // SAFETY: as above.
        unsafe { (self.place as *mut DevicePointer).write(address) };
        Ok(())
    }
}

/// `cudaStreamCaptureModeRelaxed`.
const RELAXED_CAPTURE: u32 = 2;

static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

fn registry() -> MutexGuard<'static, Option<Registry>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    /// The module of a fat binary on the current GPU, loaded on first use.
    fn module(&mut self, fat_binary: usize) -> Result<Handle> {
        let key = (fat_binary, context::current());
        if let Some(module) = self.modules.get(&key) {
            return Ok(*module);
        }
        let address = self.fat_binaries.get(fat_binary).copied().filter(|address| *address != 0);
        let image = address.ok_or(Status::INVALID_FUNCTION)? as *const c_void;
        let mut module = 0;
        // A stream of the program may be capturing; loading a module must not affect it.
        let mut mode = RELAXED_CAPTURE;
        call!(cuThreadExchangeStreamCaptureMode(&mut mode))?;
        let loaded = call!(cuModuleLoadData(&mut module, image));
        call!(cuThreadExchangeStreamCaptureMode(&mut mode))?;
        loaded?;
        self.modules.insert(key, module);
        self.managed
            .iter()
            .filter(|variable| variable.fat_binary == fat_binary)
            .try_for_each(|variable| variable.place(module))?;
        Ok(module)
    }
}

/// The driver's function of a kernel, by address of its stub.
pub fn function(stub: *const c_void) -> Result<Handle> {
    enter()?;
    let mut registry = registry();
    let registry = registry.get_or_insert_default();
    let (fat_binary, name) = registry.kernels.get(&(stub as usize)).cloned().ok_or(Status::INVALID_FUNCTION)?;
    let module = registry.module(fat_binary)?;
    let mut function = 0;
    call!(cuModuleGetFunction(&mut function, module, name.as_ptr()))?;
    Ok(function)
}

/// Device address and size of a variable, by address of its shadow or, if managed, of the variable.
pub fn variable(shadow: *const c_void) -> Result<(DevicePointer, usize)> {
    enter()?;
    let mut registry = registry();
    let registry = registry.get_or_insert_default();
    let managed = registry.managed.iter().find(|variable| variable.address() == shadow as DevicePointer);
    let managed = managed.map(|variable| (variable.fat_binary, variable.name.clone()));
    let known = managed.or_else(|| registry.variables.get(&(shadow as usize)).cloned());
    let (fat_binary, name) = known.ok_or(Status::INVALID_SYMBOL)?;
    let module = registry.module(fat_binary)?;
    let (mut address, mut bytes) = (0, 0);
    call!(cuModuleGetGlobal_v2(&mut address, &mut bytes, module, name.as_ptr()))?;
    Ok((address, bytes))
}

/// Forgets the modules of a GPU whose context was destroyed.
pub fn forget_device(device: i32) {
    registry().get_or_insert_default().modules.retain(|(_, own), _| *own != device);
}

/// A NUL-terminated text of the program.
fn text(text: *const c_char) -> CString {
    if text.is_null() {
        return CString::default();
    }
    // SAFETY: not null, so nvcc's code provides a text that ends in NUL.
    unsafe { CStr::from_ptr(text) }.to_owned()
}

/// Index of the fat binary of a handle.
fn number(handle: *mut *mut c_void) -> usize {
    (handle as usize).wrapping_sub(1)
}

/// `__cudaRegisterFatBinary`: registers a fat binary of the program; it is loaded when a kernel of it is first used.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinary(wrapper: *const c_void) -> *mut *mut c_void {
    let mut registry = registry();
    let all = &mut registry.get_or_insert_default().fat_binaries;
    all.push(wrapper as usize);
    all.len() as *mut *mut c_void
}

/// `__cudaRegisterFatBinaryEnd`.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinaryEnd(_handle: *mut *mut c_void) {}

/// `__cudaUnregisterFatBinary`: called at the end of the program, or when it unloads a library.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) {
    let mut registry = registry();
    if let Some(address) = registry.get_or_insert_default().fat_binaries.get_mut(number(handle)) {
        *address = 0;
    }
}

/// `__cudaInitModule`: called before the program uses managed variables.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaInitModule(handle: *mut *mut c_void) -> c_char {
    let is_there = border(|| {
        enter()?;
        registry().get_or_insert_default().module(number(handle)).map(drop)
    });
    c_char::from(is_there == Status::SUCCESS.0)
}

/// `__cudaRegisterFunction`: registers a kernel by the address of its host stub.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFunction(
    handle: *mut *mut c_void,
    stub: *const c_void,
    _device_function: *mut c_char,
    name: *const c_char,
    _thread_limit: i32,
    _thread: *mut c_void,
    _block: *mut c_void,
    _block_size: *mut c_void,
    _grid_size: *mut c_void,
    _warp_size: *mut i32,
) {
    registry().get_or_insert_default().kernels.insert(stub as usize, (number(handle), text(name)));
}

/// `__cudaRegisterVar`: registers a variable by the address of its host shadow.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterVar(
    handle: *mut *mut c_void,
    shadow: *const c_void,
    _device_address: *mut c_char,
    name: *const c_char,
    _external: i32,
    _bytes: usize,
    _constant: i32,
    _global: i32,
) {
    registry().get_or_insert_default().variables.insert(shadow as usize, (number(handle), text(name)));
}

/// `__cudaRegisterManagedVar`: registers a managed variable by the address of the host's pointer to it.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterManagedVar(
    handle: *mut *mut c_void,
    place: *mut *mut c_void,
    _device_address: *mut c_char,
    name: *const c_char,
    _external: i32,
    _bytes: usize,
    _constant: i32,
    _global: i32,
) {
    let mut registry = registry();
    let registry = registry.get_or_insert_default();
    registry.managed.push(Managed { fat_binary: number(handle), place: place as usize, name: text(name) });
}

/// Launch configuration of a `<<<…>>>`.
#[derive(Clone, Copy)]
struct Configuration {
    grid: Extent,
    block: Extent,
    shared_bytes: usize,
    stream: Handle,
}

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// `cudaLaunchConfig_t`; the driver's `CUlaunchConfig` has 32 bits for the shared memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchConfig {
    grid: Extent,
    block: Extent,
    shared_bytes: usize,
    stream: Handle,
    attributes: *mut c_void,
    attribute_count: u32,
}

/// `CUlaunchConfig`.
#[repr(C)]
struct DriverConfig {
    grid: Extent,
    block: Extent,
    shared_bytes: u32,
    stream: Handle,
    attributes: *mut c_void,
    attribute_count: u32,
}

/// The number of bytes of shared memory in the driver's 32 bits.
fn shared(bytes: usize) -> Result<u32> {
    u32::try_from(bytes).map_err(|_| Status::INVALID_VALUE)
}

/// The driver's form of a configuration.
fn driver_config(config: *const LaunchConfig) -> Result<DriverConfig> {
    if config.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: not null, so the program provides a configuration.
    let LaunchConfig { grid, block, shared_bytes, stream, attributes, attribute_count } =
        unsafe { config.read_unaligned() };
    Ok(DriverConfig { grid, block, shared_bytes: shared(shared_bytes)?, stream, attributes, attribute_count })
}

fn launch(
    stub: *const c_void,
    grid: Extent,
    block: Extent,
    arguments: *mut *mut c_void,
    shared_bytes: usize,
    stream: Handle,
) -> Result<()> {
    let function = function(stub)?;
    let (none, bytes) = (std::ptr::null_mut(), shared(shared_bytes)?);
    let launched = call!(cuLaunchKernel(
        function, grid.x, grid.y, grid.z, block.x, block.y, block.z, bytes, stream, arguments, none
    ));
    configured(launched, grid, block)
}

/// The runtime's error for a launch of an impossible size, which the driver calls an invalid value.
fn configured(launched: Result<()>, grid: Extent, block: Extent) -> Result<()> {
    let is_possible = |Extent { x, y, z }: Extent, limits: [u32; 3]| {
        [x, y, z].iter().zip(limits).all(|(size, limit)| (1..=limit).contains(size))
    };
    let threads = u64::from(block.x) * u64::from(block.y) * u64::from(block.z);
    let is_possible = is_possible(grid, GRID_EXTENT) && is_possible(block, BLOCK_EXTENT) && threads <= BLOCK_THREADS;
    launched.map_err(|error| if is_possible { error } else { Status::INVALID_CONFIGURATION })
}

fn launch_with(config: DriverConfig, stub: *const c_void, arguments: *mut *mut c_void) -> Result<()> {
    let function = function(stub)?;
    let launched = call!(cuLaunchKernelEx((&raw const config).cast(), function, arguments, std::ptr::null_mut()));
    configured(launched, config.grid, config.block)
}

runtime_api! {
    fn __cudaPushCallConfiguration(grid: Extent, block: Extent, shared_bytes: usize, stream: Handle) {
        CONFIGURATIONS.with_borrow_mut(|all| all.push(Configuration { grid, block, shared_bytes, stream }));
        Ok(())
    }

    fn __cudaPopCallConfiguration(grid: *mut Extent, block: *mut Extent, shared_bytes: *mut usize, stream: *mut Handle) {
        let last = CONFIGURATIONS.with_borrow_mut(Vec::pop).ok_or(Status::MISSING_CONFIGURATION)?;
        put(grid, last.grid)?;
        put(block, last.block)?;
        put(shared_bytes, last.shared_bytes)?;
        put(stream, last.stream)
    }

    fn __cudaGetKernel(kernel: *mut *const c_void, stub: *const c_void) {
        // A kernel is identified by its stub.
        put(kernel, stub)
    }

    fn __cudaLaunchKernel(kernel: *const c_void, grid: Extent, block: Extent, arguments: *mut *mut c_void, shared_bytes: usize, stream: Handle) per_thread __cudaLaunchKernel_ptsz(stream) {
        launch(kernel, grid, block, arguments, shared_bytes, stream)
    }

    fn cudaLaunchKernel(stub: *const c_void, grid: Extent, block: Extent, arguments: *mut *mut c_void, shared_bytes: usize, stream: Handle) per_thread cudaLaunchKernel_ptsz(stream) {
        launch(stub, grid, block, arguments, shared_bytes, stream)
    }

    fn cudaLaunchKernelExC(config: *const LaunchConfig, stub: *const c_void, arguments: *mut *mut c_void) {
        launch_with(driver_config(config)?, stub, arguments)
    }

    fn cudaLaunchKernelExC_ptsz(config: *const LaunchConfig, stub: *const c_void, arguments: *mut *mut c_void) {
        let config = driver_config(config)?;
        launch_with(DriverConfig { stream: per_thread(config.stream), ..config }, stub, arguments)
    }

    fn cudaOccupancyMaxActiveClusters(count: *mut i32, stub: *const c_void, config: *const LaunchConfig) {
        let function = function(stub)?;
        let config = driver_config(config)?;
        call!(cuOccupancyMaxActiveClusters(count, function, (&raw const config).cast()))
    }

    fn cudaOccupancyMaxPotentialClusterSize(blocks: *mut i32, stub: *const c_void, config: *const LaunchConfig) {
        let function = function(stub)?;
        let config = driver_config(config)?;
        call!(cuOccupancyMaxPotentialClusterSize(blocks, function, (&raw const config).cast()))
    }

    fn cudaLaunchCooperativeKernel(stub: *const c_void, grid: Extent, block: Extent, arguments: *mut *mut c_void, shared_bytes: usize, stream: Handle) per_thread cudaLaunchCooperativeKernel_ptsz(stream) {
        let (function, bytes) = (function(stub)?, shared(shared_bytes)?);
        call!(cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, bytes, stream, arguments))
    }

    fn cudaGetSymbolAddress(result: *mut DevicePointer, shadow: *const c_void) {
        put(result, variable(shadow)?.0)
    }

    fn cudaGetSymbolSize(result: *mut usize, shadow: *const c_void) {
        put(result, variable(shadow)?.1)
    }
}

//! Modules, libraries, kernels, functions.

use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::sync::{Arc, Mutex, PoisonError};

use sim_device::{Call, Code, Error, Function, Kernel, Library, Module, Parameter, Result};

use crate::border::driver_api;
use crate::devices::ordinal;
use crate::driver::{self, current, find, handle, lookup, machine, remove};
use crate::types::{DevicePointer, Handle, Host, ImageData, In, Out, Text};

/// `CU_JIT_INFO_LOG_BUFFER` and its size, `CU_JIT_ERROR_LOG_BUFFER` and its size.
const LOGS: [(u32, u32); 2] = [(3, 4), (5, 6)];
/// Number of `CUjit_option`s.
const JIT_OPTIONS: u32 = 35;

/// What a caller tells the compiler: option numbers and values, which are numbers or pointers.
#[derive(Clone, Copy)]
struct JitOptions {
    count: u32,
    numbers: In<u32>,
    values: Out<usize>,
}

impl JitOptions {
    fn none() -> Self {
        Self { count: 0, numbers: In::nowhere(), values: Out::nowhere() }
    }

    fn index(self, option: u32) -> Option<usize> {
        (0..self.count as usize).find(|index| self.numbers.at(*index).is_ok_and(|number| number == option))
    }

    /// Requires options that there are.
    fn check(self) -> Result<()> {
        for number in self.numbers.all(self.count as usize)? {
            if number >= JIT_OPTIONS {
                return Err(Error::invalid(format!("{number} is no option of the compiler")));
            }
        }
        if self.count > 0 { self.values.require() } else { Ok(()) }
    }

    /// Writes the logs: nothing to tell, or an error.
    fn log(self, error: Option<&str>) {
        for ((buffer, size), text) in LOGS.into_iter().zip(["", error.unwrap_or_default()]) {
            let (Some(buffer), Some(size)) = (self.index(buffer), self.index(size)) else { continue };
            if let (Ok(address), Ok(bytes)) = (self.values.at(buffer), self.values.at(size)) {
                // The size is 32 bits of the slot.
                let written = Host(address as *mut _).set_text(text, bytes as u32 as usize);
                let _ = self.values.element(size).set(written);
            }
        }
    }

    /// `result`, whose error the caller finds in its log.
    fn logged<T>(self, result: Result<T>) -> Result<T> {
        let message = result.as_ref().err().and_then(|error| error.message.clone());
        let message = message.map(|message| format!("ptx-sim: {message}"));
        self.log(message.as_deref());
        result
    }
}

fn load(result: Out<Handle>, image: ImageData, file: Option<&str>, options: JitOptions) -> Result<()> {
    let context = current()?;
    result.require()?;
    options.check()?;
    machine()?.check_unsafe_call()?;
    let module = options.logged(image.ptx().and_then(|text| context.load(&text, file)))?;
    result.set(handle(&module, Some(&context)))
}

fn read_file(path: &str) -> Result<Vec<u8>> {
    let mut bytes =
        std::fs::read(path).map_err(|error| Error::new(Code::FILE_NOT_FOUND, format!("{path}: {error}")))?;
    // The data of a module ends in NUL; what no PTX begins with is longer than this.
    bytes.extend([0; 8]);
    Ok(bytes)
}

/// A function, or a kernel as the function that it is in the current context.
pub fn function(of: Handle) -> Result<Arc<Function>> {
    machine()?;
    if let Some(function) = find::<Function>(of) {
        return Ok(function);
    }
    match find::<Kernel>(of) {
        Some(kernel) => kernel.function(&current()?),
        None => Err(Error::new(Code::INVALID_HANDLE, format!("{:#x} is no function and no kernel", of.0))),
    }
}

fn function_handle(function: &Arc<Function>) -> Handle {
    handle(function, Some(function.context()))
}

/// The value of a `CUfunction_attribute`.
fn attribute(function: &Function, number: u32) -> Result<i32> {
    let machine = machine()?;
    let small = |bytes: u64| i32::try_from(bytes).unwrap_or(i32::MAX);
    Ok(match number {
        0 => small(function.max_threads().into()),
        1 => small(function.shared_bytes()),
        2 => small(function.constant_bytes()),
        3 => small(function.local_bytes()),
        4 => small(function.registers().into()),
        5 => small(function.ptx_version().into()),
        6 => small(machine.config().architecture.number.into()),
        8 => small(function.max_dynamic_shared_bytes().into()),
        // Caching, carve-out (the driver's choice), clusters.
        9 => -1,
        7 | 10..=15 => 0,
        _ => return Err(Error::invalid(format!("{number} is no attribute of a function"))),
    })
}

/// Sets a `CUfunction_attribute`; `allow` takes the dynamic shared memory.
fn set_attribute(number: u32, value: i32, allow: impl FnOnce(u32) -> Result<()>) -> Result<()> {
    match number {
        8 => allow(u32::try_from(value).map_err(|_| Error::invalid(format!("{value} bytes of shared memory")))?),
        9 if (-1..=100).contains(&value) => Ok(()),
        10..=13 if value == 0 => Ok(()),
        14 | 15 => Ok(()),
        10..=13 => Err(Error::unsupported("clusters of several blocks are not simulated")),
        _ => Err(Error::invalid(format!("attribute {number} cannot be set to {value}"))),
    }
}

fn parameter(parameters: &[Parameter], index: usize, offset: Out<usize>, bytes: Out<usize>) -> Result<()> {
    offset.require()?;
    // Programs ask for one more than there are.
    let parameter = parameters.get(index).ok_or(Code::INVALID_VALUE)?;
    bytes.set_if_wanted(parameter.bytes as usize);
    offset.set(parameter.offset as usize)
}

/// A text that stays where it is, as callers of `cuFuncGetName` may keep it.
fn lasting(text: &str) -> *const c_char {
    static TEXTS: Mutex<Option<HashMap<String, CString>>> = Mutex::new(None);
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let new = || CString::new(text).unwrap_or_default();
    texts.get_or_insert_default().entry(text.to_owned()).or_insert_with(new).as_ptr()
}

fn fill<'a>(
    names: impl Iterator<Item = &'a str>,
    out: Out<Handle>,
    count: u32,
    find: impl Fn(&str) -> Result<Handle>,
) -> Result<()> {
    let handles = names.take(count as usize).map(find).collect::<Result<Vec<_>>>()?;
    out.set_all(handles.into_iter())
}

fn global(module: &Module, address: Out<DevicePointer>, bytes: Out<usize>, name: &str) -> Result<()> {
    let size = module.variable_bytes(name);
    let size = size.ok_or_else(|| Error::new(Code::NOT_FOUND, format!("there is no variable {name}")))?;
    let _ = (address, bytes);
    Err(Error::unsupported(format!("the address of the variable {name} ({size} bytes) cannot be told yet")))
}

driver_api! {
    fn cuModuleLoad(result: Out<Handle>, path: Text) {
        let path = path.get()?;
        let data = read_file(&path)?;
        load(result, ImageData::of(&data), Some(&path), JitOptions::none())
    }

    fn cuModuleLoadData(result: Out<Handle>, image: ImageData) {
        load(result, image, None, JitOptions::none())
    }

    fn cuModuleLoadDataEx(result: Out<Handle>, image: ImageData, count: u32, numbers: In<u32>, values: Out<usize>) {
        load(result, image, None, JitOptions { count, numbers, values })
    }

    fn cuModuleLoadFatBinary(result: Out<Handle>, image: ImageData) {
        load(result, image, None, JitOptions::none())
    }

    fn cuModuleUnload(module: Handle) {
        current()?;
        let module = remove::<Module>(module, "module")?;
        machine()?.check_unsafe_call()?;
        for name in module.entries() {
            let function = module.function(name)?;
            driver::forget(|object, _| object.downcast_ref::<Function>().is_some_and(|known| std::ptr::eq(known, &*function)));
        }
        Ok(())
    }

    fn cuModuleGetLoadingMode(mode: Out<u32>) {
        machine()?;
        // CU_MODULE_LAZY_LOADING: instructions are looked at when a function is launched.
        mode.set(2)
    }

    fn cuModuleGetFunction(result: Out<Handle>, module: Handle, name: Text) {
        result.require()?;
        let module = lookup::<Module>(module, "module")?;
        result.set(function_handle(&module.function(&name.get()?)?))
    }

    fn cuModuleGetFunctionCount(count: Out<u32>, module: Handle) {
        count.set(lookup::<Module>(module, "module")?.entries().count() as u32)
    }

    fn cuModuleEnumerateFunctions(functions: Out<Handle>, count: u32, module: Handle) {
        let module = lookup::<Module>(module, "module")?;
        fill(module.entries(), functions, count, |name| Ok(function_handle(&module.function(name)?)))
    }

    fn cuModuleGetGlobal_v2(address: Out<DevicePointer>, bytes: Out<usize>, module: Handle, name: Text) {
        global(&*lookup::<Module>(module, "module")?, address, bytes, &name.get()?)
    }

    fn cuLibraryLoadData(
        result: Out<Handle>,
        image: ImageData,
        numbers: In<u32>,
        values: Out<usize>,
        count: u32,
        _library_options: In<u32>,
        _library_values: In<usize>,
        _library_count: u32,
    ) {
        let machine = machine()?;
        result.require()?;
        let options = JitOptions { count, numbers, values };
        options.check()?;
        let library = options.logged(image.ptx().and_then(|text| machine.load_library(&text, None)))?;
        result.set(handle(&library, None))
    }

    fn cuLibraryLoadFromFile(
        result: Out<Handle>,
        path: Text,
        numbers: In<u32>,
        values: Out<usize>,
        count: u32,
        _library_options: In<u32>,
        _library_values: In<usize>,
        _library_count: u32,
    ) {
        let machine = machine()?;
        result.require()?;
        let options = JitOptions { count, numbers, values };
        options.check()?;
        let path = path.get()?;
        let data = read_file(&path)?;
        let library = options.logged(ImageData::of(&data).ptx().and_then(|text| machine.load_library(&text, Some(&path))))?;
        result.set(handle(&library, None))
    }

    fn cuLibraryUnload(library: Handle) {
        let library = remove::<Library>(library, "library")?;
        driver::forget(|object, _| object.downcast_ref::<Kernel>().is_some_and(|kernel| Arc::ptr_eq(kernel.library(), &library)));
        let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
        kernels.get_or_insert_default().retain(|_, kernel| !Arc::ptr_eq(kernel.library(), &library));
        Ok(())
    }

    fn cuLibraryGetKernel(result: Out<Handle>, library: Handle, name: Text) {
        result.require()?;
        result.set(kernel_handle(&lookup::<Library>(library, "library")?, &name.get()?)?)
    }

    fn cuLibraryGetKernelCount(count: Out<u32>, library: Handle) {
        count.set(lookup::<Library>(library, "library")?.entries().count() as u32)
    }

    fn cuLibraryEnumerateKernels(kernels: Out<Handle>, count: u32, library: Handle) {
        let library = lookup::<Library>(library, "library")?;
        fill(library.entries(), kernels, count, |name| kernel_handle(&library, name))
    }

    fn cuLibraryGetModule(result: Out<Handle>, library: Handle) {
        result.require()?;
        let context = current()?;
        let module = lookup::<Library>(library, "library")?.module(&context)?;
        result.set(handle(&module, Some(&context)))
    }

    fn cuLibraryGetGlobal(address: Out<DevicePointer>, bytes: Out<usize>, library: Handle, name: Text) {
        let module = lookup::<Library>(library, "library")?.module(&current()?)?;
        global(&module, address, bytes, &name.get()?)
    }

    fn cuKernelGetFunction(result: Out<Handle>, kernel: Handle) {
        result.require()?;
        result.set(function_handle(&lookup::<Kernel>(kernel, "kernel")?.function(&current()?)?))
    }

    fn cuKernelGetLibrary(result: Out<Handle>, kernel: Handle) {
        result.set(handle(lookup::<Kernel>(kernel, "kernel")?.library(), None))
    }

    fn cuKernelGetName(name: Out<*const c_char>, kernel: Handle) {
        name.set(lasting(lookup::<Kernel>(kernel, "kernel")?.name()))
    }

    fn cuKernelGetParamInfo(kernel: Handle, index: usize, offset: Out<usize>, bytes: Out<usize>) {
        parameter(&lookup::<Kernel>(kernel, "kernel")?.parameters(), index, offset, bytes)
    }

    fn cuKernelGetAttribute(value: Out<i32>, number: u32, kernel: Handle, device: i32) {
        value.require()?;
        let gpu = ordinal(device)?;
        let kernel = lookup::<Kernel>(kernel, "kernel")?;
        // What the kernel is on a GPU is asked of a context there.
        let context = match current().ok().filter(|context| context.gpu() == gpu) {
            Some(context) => context,
            None => machine()?.primary(gpu)?.ok_or(Code::INVALID_CONTEXT)?,
        };
        value.set(attribute(&*kernel.function(&context)?, number)?)
    }

    fn cuKernelSetAttribute(number: u32, value: i32, kernel: Handle, device: i32) {
        let gpu = ordinal(device)?;
        let kernel = lookup::<Kernel>(kernel, "kernel")?;
        let architecture = &machine()?.config().architecture;
        set_attribute(number, value, |bytes| kernel.allow_dynamic_shared(gpu, bytes, architecture))
    }

    fn cuKernelSetCacheConfig(kernel: Handle, _config: u32, device: i32) {
        ordinal(device)?;
        lookup::<Kernel>(kernel, "kernel").map(drop)
    }

    fn cuFuncGetAttribute(value: Out<i32>, number: u32, of: Handle) {
        value.set(attribute(&*function(of)?, number)?)
    }

    fn cuFuncSetAttribute(of: Handle, number: u32, value: i32) {
        let function = function(of)?;
        set_attribute(number, value, |bytes| function.allow_dynamic_shared(bytes))
    }

    fn cuFuncSetCacheConfig(of: Handle, _config: u32) {
        function(of)?.context().check(Call::Asynchronous)
    }

    fn cuFuncSetSharedMemConfig(of: Handle, _config: u32) {
        function(of)?.context().check(Call::Asynchronous)
    }

    fn cuFuncGetModule(result: Out<Handle>, of: Handle) {
        let function = function(of)?;
        let module = driver::first(|module: &Module| module.entries().any(|name| module.function(name).is_ok_and(|known| Arc::ptr_eq(&known, &function))));
        result.set(module.ok_or(Code::INVALID_HANDLE)?)
    }

    fn cuFuncGetName(name: Out<*const c_char>, of: Handle) {
        name.set(lasting(function(of)?.name()))
    }

    fn cuFuncGetParamInfo(of: Handle, index: usize, offset: Out<usize>, bytes: Out<usize>) {
        parameter(function(of)?.parameters(), index, offset, bytes)
    }

    fn cuFuncIsLoaded(state: Out<u32>, of: Handle) {
        function(of)?;
        state.set(1)
    }

    fn cuFuncLoad(of: Handle) {
        function(of).map(drop)
    }
}

/// The kernels that were given out, by library and name, so that a kernel keeps its handle and attributes.
static KERNELS: Mutex<Option<HashMap<(usize, String), Arc<Kernel>>>> = Mutex::new(None);

fn kernel_handle(library: &Arc<Library>, name: &str) -> Result<Handle> {
    let new = library.kernel(name)?;
    let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (Arc::as_ptr(library) as usize, name.to_owned());
    let kernel = kernels.get_or_insert_default().entry(key).or_insert_with(|| Arc::new(new));
    Ok(handle(kernel, None))
}

//! Modules, libraries, kernels, functions.

use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::sync::{Arc, Mutex, PoisonError};

use sim_device::{Call, Code, Error, Function, Kernel, Module, Parameter, Result, fat_binary};

use crate::border::driver_api;
use crate::driver::{self, current, find, handle, lookup, machine, remove};
use crate::image::ImageData;
use crate::jit::JitOptions;
use crate::types::{DevicePointer, Handle, In, Out, Text};

fn load(result: Out<Handle>, image: ImageData, file: Option<&str>, options: JitOptions) -> Result<()> {
    let context = current()?;
    result.require()?;
    options.check()?;
    machine()?.check_unsafe_call()?;
    let module = options.logged(image.ptx().and_then(|text| context.load(&text, file)))?;
    result.set(handle(&module, Some(&context)))
}

pub fn read_file(path: &str) -> Result<Vec<u8>> {
    let mut bytes =
        std::fs::read(path).map_err(|error| Error::new(Code::FILE_NOT_FOUND, format!("{path}: {error}")))?;
    // Image data ends in NULs, which are added below: a fat binary that is cut off must not read past them.
    if let Some(header) = bytes.first_chunk().filter(|header| header.starts_with(&fat_binary::MAGIC.to_le_bytes()))
        && fat_binary::size(header)? > bytes.len()
    {
        return Err(Error::new(Code::INVALID_IMAGE, format!("{path}: the fat binary is cut off")));
    }
    bytes.extend([0; 8]);
    Ok(bytes)
}

/// A function, or a kernel's function in the current context.
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

pub fn function_handle(function: &Arc<Function>) -> Handle {
    handle(function, Some(function.context()))
}

/// The value of a `CUfunction_attribute`.
pub fn attribute(function: &Function, number: u32) -> Result<i32> {
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
        // Cache preference, carve-out (the driver's choice), permissions and hints about clusters.
        9 => -1,
        10 => function.needs_cluster().into(),
        11..=13 => small(function.required_cluster().map_or(0, |cluster| cluster[number as usize - 11]).into()),
        7 | 14 | 15 => 0,
        _ => return Err(Error::invalid(format!("{number} is no attribute of a function"))),
    })
}

/// Sets a `CUfunction_attribute`; `allow` sets the maximum dynamic shared memory.
pub fn set_attribute(number: u32, value: i32, allow: impl FnOnce(u32) -> Result<()>) -> Result<()> {
    match number {
        8 => allow(u32::try_from(value).map_err(|_| Error::invalid(format!("{value} bytes of shared memory")))?),
        9 if (-1..=100).contains(&value) => Ok(()),
        10..=13 if value == 0 => Ok(()),
        14 | 15 => Ok(()),
        10..=13 => {
            Err(Error::unsupported("a size of clusters that is set for a function is not simulated: launches name it"))
        }
        _ => Err(Error::invalid(format!("attribute {number} cannot be set to {value}"))),
    }
}

pub fn parameter(parameters: &[Parameter], index: usize, offset: Out<usize>, bytes: Out<usize>) -> Result<()> {
    offset.require()?;
    // Programs ask for one parameter too many to find the end.
    let parameter = parameters.get(index).ok_or(Code::INVALID_VALUE)?;
    bytes.set_if_wanted(parameter.bytes as usize);
    offset.set(parameter.offset as usize)
}

/// Text that stays at its address, since callers may keep the result of `cuFuncGetName`.
pub fn lasting(text: &str) -> *const c_char {
    static TEXTS: Mutex<Option<HashMap<String, CString>>> = Mutex::new(None);
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let new = || CString::new(text).unwrap_or_default();
    texts.get_or_insert_default().entry(text.to_owned()).or_insert_with(new).as_ptr()
}

pub fn fill<'a>(
    names: impl Iterator<Item = &'a str>,
    out: Out<Handle>,
    count: u32,
    find: impl Fn(&str) -> Result<Handle>,
) -> Result<()> {
    let handles = names.take(count as usize).map(find).collect::<Result<Vec<_>>>()?;
    out.set_all(handles.into_iter())
}

pub fn global(module: &Module, address: Out<DevicePointer>, bytes: Out<usize>, name: &str) -> Result<()> {
    let (found, size) = module.variable(name)?;
    address.set_if_wanted(found);
    bytes.set_if_wanted(size as usize);
    Ok(())
}

/// Drops the handles of an unloaded module and of its functions.
pub fn forget_module(gone: &Module) {
    driver::forget(|object, _| {
        object.downcast_ref::<Function>().is_some_and(|function| gone.owns(function))
            || object.downcast_ref::<Module>().is_some_and(|module| std::ptr::eq(module, gone))
    });
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
        forget_module(&module);
        Ok(())
    }

    fn cuModuleGetLoadingMode(mode: Out<u32>) {
        machine()?;
        // CU_MODULE_LAZY_LOADING: code is loaded when a function is first launched.
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
        let module = driver::first(|module: &Module| module.owns(&function));
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

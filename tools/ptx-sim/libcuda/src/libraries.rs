//! Libraries and kernels.

use std::ffi::c_char;

use sim_device::{Code, Kernel, Library};

use crate::border::driver_api;
use crate::devices::ordinal;
use crate::driver::{self, current, handle, lookup, machine, remove};
use crate::image::ImageData;
use crate::jit::JitOptions;
use crate::modules::{
    attribute, fill, forget_module, function_handle, global, lasting, parameter, read_file, set_attribute,
};
use crate::types::{DevicePointer, Handle, In, Out, Text};

driver_api! {
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
        let library = image.ptx().and_then(|text| machine.load_library(&text, None));
        result.set(handle(&options.library(library)?, None))
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
        let library = ImageData::of(&data).ptx().and_then(|text| machine.load_library(&text, Some(&path)));
        result.set(handle(&options.library(library)?, None))
    }

    fn cuLibraryUnload(library: Handle) {
        let library = remove::<Library>(library, "library")?;
        driver::forget(|object, _| object.downcast_ref::<Kernel>().is_some_and(|kernel| library.owns(kernel)));
        for module in library.modules() {
            forget_module(&module);
        }
        Ok(())
    }

    fn cuLibraryGetKernel(result: Out<Handle>, library: Handle, name: Text) {
        result.require()?;
        result.set(handle(&lookup::<Library>(library, "library")?.kernel(&name.get()?)?, None))
    }

    fn cuLibraryGetKernelCount(count: Out<u32>, library: Handle) {
        count.set(lookup::<Library>(library, "library")?.entries().count() as u32)
    }

    fn cuLibraryEnumerateKernels(kernels: Out<Handle>, count: u32, library: Handle) {
        let library = lookup::<Library>(library, "library")?;
        fill(library.entries(), kernels, count, |name| Ok(handle(&library.kernel(name)?, None)))
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
        let kernel = lookup::<Kernel>(kernel, "kernel")?;
        result.set(driver::first(|library: &Library| library.owns(&kernel)).ok_or(Code::INVALID_HANDLE)?)
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
        // Attributes of a kernel on a GPU need a context there.
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
}

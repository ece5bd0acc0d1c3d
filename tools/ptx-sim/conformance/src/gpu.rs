//! Runs cases on a GPU.

use std::ffi::{CString, c_void};

use anyhow::{Context as _, Result, anyhow, ensure};
use cust::CudaApiVersion;
use cust::context::Context;
use cust::device::{Device, DeviceAttribute};
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use libcuda_delay_load::tensor_map::{self, Tiled};
use ptx_sim::TensorMap;

use crate::case::{ARCHITECTURE, Case, ENTRY, MapPlace};

/// The first GPU, ready to run cases. The stream has to be dropped before the context.
pub struct Gpu {
    device: Device,
    stream: Stream,
    _context: Context,
}

impl Gpu {
    /// Opens the first GPU.
    ///
    /// # Errors
    /// Where there is none, no driver, or one of another architecture than the cases are made for.
    pub fn open() -> Result<Gpu> {
        libcuda_delay_load::load()?;
        cust::init(cust::CudaFlags::empty()).context("initialising the CUDA driver")?;
        let device = Device::get_device(0).context("opening GPU 0")?;
        let attribute = |attribute| device.get_attribute(attribute);
        let major = attribute(DeviceAttribute::ComputeCapabilityMajor)?;
        let architecture = 10 * major + attribute(DeviceAttribute::ComputeCapabilityMinor)?;
        ensure!(
            u32::try_from(architecture) == Ok(ARCHITECTURE),
            "the GPU is an sm_{architecture}; results are recorded on sm_{ARCHITECTURE}"
        );
        let context = Context::new(device)?;
        Ok(Gpu { device, stream: Stream::new(StreamFlags::NON_BLOCKING, None)?, _context: context })
    }

    /// The name of the GPU.
    ///
    /// # Errors
    /// When the driver does not say.
    pub fn name(&self) -> Result<String> {
        Ok(self.device.name()?)
    }

    /// The CUDA version of the driver.
    ///
    /// # Errors
    /// When the driver does not say.
    pub fn cuda_version(&self) -> Result<String> {
        let version = CudaApiVersion::get()?;
        Ok(format!("{}.{}", version.major(), version.minor()))
    }

    /// The output of a case.
    ///
    /// # Errors
    /// When the driver refuses the case or it fails; the GPU may then refuse everything else that this process asks for.
    pub fn output(&self, case: &Case) -> Result<Vec<u8>> {
        run(&self.stream, case)
    }
}

fn run(stream: &Stream, case: &Case) -> Result<Vec<u8>> {
    let text = CString::new(case.ptx.as_str())?;
    let module = Module::from_ptx_cstr(&text, &[]).context("the driver refuses the PTX")?;
    let function = module.get_function(ENTRY)?;
    let input = DeviceBuffer::from_slice(&case.input)?;
    let output = DeviceBuffer::from_slice(&vec![0_u8; case.output_bytes])?;
    let (output_address, input_address) = (output.as_device_ptr().as_raw(), input.as_device_ptr().as_raw());
    let (map, map_buffer, map_address);
    let mut arguments: Vec<*mut c_void> =
        [&output_address, &input_address].map(|address| std::ptr::from_ref(address).cast_mut().cast()).to_vec();
    if let Some((description, place)) = &case.tensor_map {
        map = encode(description, input_address)?;
        map_buffer = DeviceBuffer::from_slice(&map.0)?;
        map_address = map_buffer.as_device_ptr().as_raw();
        arguments.push(match place {
            MapPlace::Parameter => std::ptr::from_ref(&map).cast_mut().cast(),
            MapPlace::Global => std::ptr::from_ref(&map_address).cast_mut().cast(),
        });
    }
    // SAFETY: the entry of a case has exactly these parameters, and they outlive the launch.
    unsafe { stream.launch(&function, case.blocks, case.threads, 0, &arguments) }.context("launching")?;
    stream.synchronize().context("running")?;
    let mut bytes = vec![0; case.output_bytes];
    output.copy_to(&mut bytes)?;
    Ok(bytes)
}

/// Makes the tensor map of a tensor whose address counts from `base`.
fn encode(map: &TensorMap, base: u64) -> Result<tensor_map::TensorMap> {
    let tiled = Tiled {
        element: map.element as u32,
        address: base + map.address,
        sizes: &map.sizes,
        strides: &map.strides,
        box_sizes: &map.box_sizes,
        element_strides: &map.element_strides,
        swizzle: map.swizzle as u32,
    };
    tiled.encode().map_err(|code| anyhow!("the driver refuses the tensor map: CUDA error {code}"))
}

//! Runs cases on a GPU.

use std::ffi::{CString, c_int, c_uint, c_void};

use anyhow::{Context as _, Result, bail, ensure};
use cust::CudaApiVersion;
use cust::context::Context;
use cust::device::{Device, DeviceAttribute};
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use ptx_sim::{Swizzle, TensorElement, TensorMap};

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
    unsafe { stream.launch(&function, 1, case.threads, 0, &arguments) }.context("launching")?;
    stream.synchronize().context("running")?;
    let mut bytes = vec![0; case.output_bytes];
    output.copy_to(&mut bytes)?;
    Ok(bytes)
}

/// A tensor map as the hardware has it.
#[repr(C, align(64))]
struct Encoded([u8; 128]);

/// Makes the tensor map of a tensor whose address counts from `base`.
fn encode(map: &TensorMap, base: u64) -> Result<Encoded> {
    let element = match map.element {
        TensorElement::U8 => 0,
        TensorElement::U16 => 1,
        TensorElement::U32 => 2,
        TensorElement::S32 => 3,
        TensorElement::U64 => 4,
        TensorElement::S64 => 5,
        TensorElement::F16 => 6,
        TensorElement::F32 => 7,
        TensorElement::F64 => 8,
        TensorElement::Bf16 => 9,
    };
    let swizzle = match map.swizzle {
        Swizzle::None => 0,
        Swizzle::Bytes32 => 1,
        Swizzle::Bytes64 => 2,
        Swizzle::Bytes128 => 3,
    };
    let mut encoded = Encoded([0; 128]);
    // SAFETY: every array has as many elements as the tensor has dimensions (strides one less), which `map` promises to
    // whoever made it and the simulator checks; the result goes to 128 bytes with the alignment they need.
    let status = unsafe {
        raw::cuTensorMapEncodeTiled(
            (&raw mut encoded).cast(),
            element,
            map.sizes.len() as c_uint,
            base + map.address,
            map.sizes.as_ptr(),
            map.strides.as_ptr(),
            map.box_sizes.as_ptr(),
            map.element_strides.as_ptr(),
            0,
            swizzle,
            0,
            0,
        )
    };
    if status != 0 {
        bail!("the driver refuses the tensor map: CUDA error {status}");
    }
    Ok(encoded)
}

/// What cust lacks of the driver API (`cuda.h`).
mod raw {
    use super::{c_int, c_uint, c_void};

    unsafe extern "C" {
        pub fn cuTensorMapEncodeTiled(
            map: *mut c_void,
            element: c_int,
            rank: c_uint,
            address: u64,
            sizes: *const u64,
            strides: *const u64,
            box_sizes: *const u32,
            element_strides: *const u32,
            interleave: c_int,
            swizzle: c_int,
            promotion: c_int,
            fill: c_int,
        ) -> c_uint;
    }
}

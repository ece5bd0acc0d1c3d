//! Launches one planted kernel on the first GPU.

use std::error::Error;
use std::fs;
use std::path::Path;

use cust::memory::{CopyDestination, DeviceBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use planted::{Arguments, Case};

use crate::{one_entry, tensor_map};

/// Launches `entry`, one of the two of `case`, from the PTX in `folder`, and waits for it. Buffers have exactly the
/// sizes of the case, so that compute-sanitizer knows where they end.
pub fn run(folder: &Path, case: &Case, entry: &str) -> Result<(), Box<dyn Error>> {
    libcuda_delay_load::load()?;
    let _context = cust::quick_init()?;
    let module = load(folder, case, entry)?;
    let function = module.get_function(entry)?;
    let stream = Stream::new(StreamFlags::DEFAULT, None)?;
    let (input, output) = (allocate(case.input_bytes)?, allocate(case.output_bytes)?);
    if let Some(input) = &input {
        input.index(..).copy_from(&case.input().collect::<Vec<u8>>())?;
    }
    let map = case.tensor_map.map(|map| tensor_map::encode(map, address(input.as_ref()))).transpose()?;
    let map = map.map(|map| DeviceBuffer::from_slice(&map.0)).transpose()?;
    let arguments = Arguments {
        input: address(input.as_ref()),
        output: address(output.as_ref()),
        tensor_map: address(map.as_ref()),
    };
    let parameters = [(&raw const arguments).cast_mut().cast()];
    // SAFETY: the entry takes one `Arguments`. A planted bug is meant to happen on the GPU.
    unsafe { stream.launch(&function, case.blocks, case.threads, case.shared_bytes, &parameters) }?;
    Ok(stream.synchronize()?)
}

/// A module with one entry of a case.
fn load(folder: &Path, case: &Case, entry: &str) -> Result<Module, Box<dyn Error>> {
    let path = folder.join(case.architecture.file());
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Module::from_ptx(one_entry::extract(&text, entry, case.threads, case.cluster), &[])?)
}

/// Uninitialised memory; `None` for 0 bytes.
fn allocate(bytes: u64) -> Result<Option<DeviceBuffer<u8>>, Box<dyn Error>> {
    if bytes == 0 {
        return Ok(None);
    }
    // SAFETY: the host never reads it.
    Ok(Some(unsafe { DeviceBuffer::uninitialized(usize::try_from(bytes)?) }?))
}

fn address(buffer: Option<&DeviceBuffer<u8>>) -> u64 {
    buffer.map_or(0, |buffer| buffer.as_device_ptr().as_raw())
}

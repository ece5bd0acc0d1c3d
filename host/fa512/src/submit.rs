//! Submits a planned launch: encodes its tensor maps, calls `cuLaunchKernelEx`.

use std::ffi::c_void;
use std::num::NonZeroU32;
use std::ptr;

use contract::args::{ForwardArgs, TensorMaps};
use contract::backward::args::{BackwardArgs, BackwardMaps, MAPPED};
use contract::backward::plan::BackwardLaunch;
use contract::backward::variants::BackwardVariant;
use contract::plan::Launch;
use contract::refusal::Tensor;
use contract::tensor_map;
use contract::variants::Variant;

use crate::driver::{Driver, LaunchAttribute, LaunchConfig, TensorMap};
use crate::error::Error;
use crate::library::LoadedKernel;
use crate::stream::Stream;

/// Sizes in bytes of the arguments that a launch of `variant` passes.
pub fn argument_bytes(variant: &Variant<'_>) -> &'static [usize] {
    match variant.config.uses_tensor_maps() {
        false => &[size_of::<ForwardArgs>()],
        true => &[size_of::<ForwardArgs>(), size_of::<TensorMaps>()],
    }
}

/// Sizes in bytes of the arguments that a backward launch of `variant` passes.
pub fn backward_argument_bytes(variant: &BackwardVariant) -> &'static [usize] {
    match variant.uses_tensor_maps() {
        false => &[size_of::<BackwardArgs>()],
        true => &[size_of::<BackwardArgs>(), size_of::<BackwardMaps>()],
    }
}

/// Encodes the tensor maps of a backward launch, if its kernel copies through them, and puts it on `stream`, behind the one that has to precede
/// it, if any.
///
/// # Errors
/// When the driver refuses a map or the launch.
///
/// # Safety
/// As for [`submit`].
pub unsafe fn submit_backward(
    driver: &Driver,
    kernel: LoadedKernel,
    launch: &mut BackwardLaunch,
    stream: Stream,
) -> Result<(), Error> {
    if let Some(maps) = launch.tensor_maps() {
        launch.set_tensor_maps(BackwardMaps(encode_all(driver, maps, MAPPED)?));
    }
    // SAFETY: passed on to the caller; the launches are of one kernel and on the same memory.
    unsafe {
        if let Some(preparing) = launch.preparing() {
            submit_one_backward(driver, kernel, &preparing, stream)?;
        }
        submit_one_backward(driver, kernel, launch, stream)?;
        launch.adding().map_or(Ok(()), |adding| submit_one_backward(driver, kernel, &adding, stream))
    }
}

/// [`submit_backward`] without the launches that have to precede or follow.
///
/// # Safety
/// As for [`submit_backward`].
unsafe fn submit_one_backward(
    driver: &Driver,
    kernel: LoadedKernel,
    launch: &BackwardLaunch,
    stream: Stream,
) -> Result<(), Error> {
    let mut attributes = [LaunchAttribute::cooperative()];
    let config = LaunchConfig {
        grid: [launch.blocks(), 1, 1],
        block: [launch.threads(), 1, 1],
        shared_bytes: launch.shared_bytes(),
        stream: stream.handle(),
        attributes: attributes.as_mut_ptr(),
        attribute_count: launch.is_cooperative().into(),
    };
    let maps = launch.encoded_tensor_maps().map_or(ptr::null(), ptr::from_ref);
    let arguments = [ptr::from_ref(launch.args()).cast::<c_void>(), maps.cast()];
    // SAFETY: the kernel takes the first argument, and the second if it copies through tensor maps. The driver copies both before it returns;
    // the caller vouches for the rest.
    let code = unsafe { (driver.call.launch_kernel)(&config, kernel.handle(), arguments.as_ptr(), ptr::null()) };
    driver.check(code, || format!("launching {}", launch.variant().entry))
}

/// Puts `launch` on `stream` (`cuLaunchKernelEx`), and the one that has to follow it, if any. It may begin before the previous launch ends if `overlap` is set,
/// the kernel supports it, and the driver supports it in graphs too.
///
/// # Errors
/// When the driver refuses the launch.
///
/// # Safety
/// `kernel` is that of the launch's variant and takes the variant's arguments. Its library stays loaded until the
/// launch has completed. The rest is as for [`crate::Launch::launch`].
#[inline]
pub unsafe fn submit(
    driver: &Driver,
    kernel: LoadedKernel,
    launch: &Launch<'_>,
    stream: Stream,
    overlap: bool,
) -> Result<(), Error> {
    // SAFETY: passed on to the caller; both launches are of one kernel and on the same memory.
    unsafe {
        submit_one(driver, kernel, launch, stream, overlap)?;
        match launch.combining() {
            Some(combining) => submit_one(driver, kernel, &combining, stream, overlap),
            None => Ok(()),
        }
    }
}

/// [`submit`] without the launch that has to follow.
///
/// # Safety
/// As for [`submit`].
#[inline]
unsafe fn submit_one(
    driver: &Driver,
    kernel: LoadedKernel,
    launch: &Launch<'_>,
    stream: Stream,
    overlap: bool,
) -> Result<(), Error> {
    let overlaps = overlap && driver.overlaps && launch.overlaps_previous();
    let (cluster, [blocks, parts]) = (launch.cluster(), launch.grid());
    let of_cluster = LaunchAttribute::cluster(cluster.unwrap_or(NonZeroU32::MIN));
    let mut attributes = [of_cluster, LaunchAttribute::programmatic_stream_serialization()];
    let attributes = &mut attributes[usize::from(cluster.is_none())..];
    let config = LaunchConfig {
        grid: [blocks, parts, 1],
        block: [launch.threads(), 1, 1],
        shared_bytes: launch.launched_shared_bytes(),
        stream: stream.handle(),
        attributes: attributes.as_mut_ptr(),
        attribute_count: u32::from(cluster.is_some()) + u32::from(overlaps),
    };
    let maps = launch.encoded_tensor_maps().map_or(ptr::null(), ptr::from_ref);
    let arguments = [ptr::from_ref(launch.args()).cast::<c_void>(), maps.cast()];
    // SAFETY: the kernel takes the first argument, and the second if it copies through tensor maps; the caller vouches
    // for the stream and for the memory behind the arguments. The driver copies the arguments before it returns.
    let code = unsafe { (driver.call.launch_kernel)(&config, kernel.handle(), arguments.as_ptr(), ptr::null()) };
    driver.check(code, || format!("launching {}", launch.entry()))
}

/// Encodes the tensor maps of Q, K, V and O into `launch`, if its kernel copies through them. All on the host
/// (`cuTensorMapEncodeTiled`). [`crate::Plan::bind`] already does this.
///
/// # Errors
/// When there is no driver, or it refuses a map.
pub fn encode_tensor_maps(launch: &mut Launch<'_>) -> Result<(), Error> {
    const TENSORS: [Tensor; 4] = [Tensor::Q, Tensor::K, Tensor::V, Tensor::O];
    let Some(maps) = launch.tensor_maps() else { return Ok(()) };
    launch.set_tensor_maps(TensorMaps(encode_all(Driver::get()?, maps, TENSORS)?));
    Ok(())
}

/// The encoded maps of some tensors.
fn encode_all<const COUNT: usize>(
    driver: &Driver,
    maps: &[tensor_map::TensorMap; COUNT],
    tensors: [Tensor; COUNT],
) -> Result<[[u8; 128]; COUNT], Error> {
    let mut encoded = [TensorMap([0; 128]); COUNT];
    for ((map, encoded), tensor) in maps.iter().zip(&mut encoded).zip(tensors) {
        encode(driver, map, encoded, tensor)?;
    }
    Ok(encoded.map(|map| map.0))
}

fn encode(driver: &Driver, map: &tensor_map::TensorMap, encoded: &mut TensorMap, tensor: Tensor) -> Result<(), Error> {
    const NO_INTERLEAVE: u32 = 0;
    const ZEROS_OUTSIDE: u32 = 0;
    let tensor_map::TensorMap { address, sizes, strides, .. } = map;
    // SAFETY: the sizes, the strides (one fewer), the box and its element strides have four dimensions; `encoded` is
    // aligned as the function requires.
    let code = unsafe {
        (driver.call.tensor_map_encode_tiled)(
            encoded,
            tensor_map::ELEMENT_TYPE,
            sizes.len() as u32,
            *address,
            sizes.as_ptr(),
            strides.as_ptr(),
            map.box_sizes().as_ptr(),
            tensor_map::ELEMENT_STRIDES.as_ptr(),
            NO_INTERLEAVE,
            map.swizzle() as u32,
            tensor_map::L2_PROMOTION,
            ZEROS_OUTSIDE,
        )
    };
    driver.check(code, || {
        format!(
            "making the tensor map of {tensor}, {sizes:?} elements from {address:#x} on with strides of {strides:?} bytes"
        )
    })
}

//! From a problem to a launch: which kernel, with what geometry, on which tensors.

use std::ffi::c_void;
use std::ptr;

use contract::args::TensorMaps;
use contract::plan::{self, Addresses};
use contract::problem::Problem;
use contract::refusal::Tensor;
use contract::tensor_map;
use contract::view::{ELEMENT_BYTES, View};

use crate::driver::{Driver, LaunchAttribute, LaunchConfig, TensorMap};
use crate::error::Error;
use crate::gpu::Gpu;
use crate::kernels::Kernel;
use crate::memory::{self, Place};
use crate::select;
use crate::stream::Stream;

/// Bytes of an element of LSE, which is f32.
const LSE_ELEMENT_BYTES: u64 = 4;

/// What a launch for a problem on a GPU consists of, but for the addresses of its tensors. Plans are values: keep them,
/// copy them, use them from many threads.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    gpu: Gpu,
    kernel: Kernel,
    plan: plan::Plan<'static>,
}

impl Plan {
    /// Chooses the kernel for `problem` on `gpu` and plans its launch. Pure: nothing is allocated, loaded or asked.
    ///
    /// # Errors
    /// When no kernel computes the problem on the GPU.
    pub fn new(problem: &Problem, gpu: &Gpu) -> Result<Self, Error> {
        let plan = select::choose(problem, gpu)?.plan;
        Ok(Self { gpu: *gpu, kernel: Kernel::of(plan.variant().entry)?, plan })
    }

    /// Name of the kernel.
    pub fn entry(&self) -> &'static str {
        self.plan.variant().entry
    }

    /// The GPU it is for.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Blocks of the grid.
    pub fn blocks(&self) -> u32 {
        self.plan.blocks()
    }

    /// Loads the kernel, if that was not done yet, and puts it into the current context.
    ///
    /// # Errors
    /// When the driver does not load it.
    pub fn warm_up(&self) -> Result<(), Error> {
        let gpu = self.gpu.ordinal().ok_or(Error::OtherGpu { planned: None })?;
        self.kernel.warm_up(Driver::get()?, gpu)
    }

    /// The launch on the tensors at `addresses`. Their alignment and overlap are checked, and tensor maps encoded, which is
    /// all on the host (`cuTensorMapEncodeTiled`).
    ///
    /// # Errors
    /// When an address is null or misaligned, or an output overlaps another tensor.
    pub fn bind(&self, addresses: Addresses) -> Result<Launch, Error> {
        let mut launch = self.plan.bind(addresses)?;
        if let Some(maps) = launch.tensor_maps() {
            let maps = encode(Driver::get()?, maps)?;
            launch.set_tensor_maps(maps);
        }
        Ok(Launch { gpu: self.gpu, kernel: self.kernel, launch, overlap: true })
    }

    /// Requires the tensors at `addresses` to lie in memory at `place`.
    pub(crate) fn check_memory(&self, driver: &Driver, place: Place, addresses: &Addresses) -> Result<(), Error> {
        let problem = self.plan.problem();
        let views = problem.views();
        let check = |tensor, address: u64, view: View| {
            let first = address.saturating_add(view.offset * ELEMENT_BYTES);
            memory::check(driver, place, tensor, first, problem.extent(view) * ELEMENT_BYTES)
        };
        check(Tensor::Q, addresses.q, views.q)?;
        check(Tensor::K, addresses.k, views.k)?;
        check(Tensor::V, addresses.v, views.v)?;
        check(Tensor::O, addresses.o, views.o)?;
        let Some(lse) = addresses.lse else { return Ok(()) };
        // A problem's rows fit 64 bits, as its O does.
        memory::check(driver, place, Tensor::Lse, lse, problem.shape().rows() as u64 * LSE_ELEMENT_BYTES)
    }
}

/// A launch on tensors, which may be put on streams any number of times.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    gpu: Gpu,
    kernel: Kernel,
    launch: plan::Launch<'static>,
    overlap: bool,
}

impl Launch {
    /// Whether it may begin while the launch in front of it on the stream ends (programmatic dependent launch), as it may
    /// unless this says otherwise. It is safe behind every kernel: ours wait by themselves before they touch the tensors.
    pub fn overlap(self, overlap: bool) -> Self {
        Self { overlap, ..self }
    }

    /// Puts it on `stream`, by one call of the driver (`cuLaunchKernelEx`).
    ///
    /// # Errors
    /// When the kernel is not loaded yet and the stream captures, or when the driver refuses the launch.
    ///
    /// # Safety
    /// The calling thread's current context is on the plan's GPU, and the stream is of that context and alive. The tensors
    /// are device memory that this context can access, as large as the problem's views say, and stay so until the stream has
    /// come to the end of the launch. Until then nobody else writes them or reads O or LSE, but behind this launch on the
    /// stream.
    pub unsafe fn launch(&self, stream: Stream) -> Result<(), Error> {
        // SAFETY: passed on to the caller.
        unsafe { self.put(Driver::get()?, stream) }
    }

    /// # Safety
    /// As for [`Self::launch`].
    pub(crate) unsafe fn put(&self, driver: &Driver, stream: Stream) -> Result<(), Error> {
        let gpu = self.gpu.ordinal().ok_or(Error::OtherGpu { planned: None })?;
        let kernel = self.kernel.get(driver, gpu, stream)?;
        let mut attributes = [LaunchAttribute::programmatic_stream_serialization()];
        let overlaps = self.overlap && driver.overlaps && self.launch.overlaps_previous();
        let config = LaunchConfig {
            grid: [self.launch.blocks(), 1, 1],
            block: [self.launch.threads(), 1, 1],
            shared_bytes: self.launch.dynamic_shared_bytes(),
            stream: stream.handle(),
            attributes: attributes.as_mut_ptr(),
            attribute_count: overlaps.into(),
        };
        let maps = self.launch.encoded_tensor_maps().map_or(ptr::null(), ptr::from_ref);
        let arguments = [ptr::from_ref(self.launch.args()).cast::<c_void>(), maps.cast()];
        // SAFETY: the kernel takes the first argument, and the second where it copies through tensor maps, of the sizes that
        // `embedded` compared; the stream and what the arguments point to are the caller's promise. The driver copies them
        // before it returns.
        let code = unsafe { (driver.call.launch_kernel)(&config, kernel, arguments.as_ptr(), ptr::null()) };
        driver.check(code, || format!("launching {}", self.launch.entry()))
    }
}

/// The maps of Q, K, V and O as the kernel takes them.
fn encode(driver: &Driver, maps: &[tensor_map::TensorMap; 4]) -> Result<TensorMaps, Error> {
    const NO_INTERLEAVE: u32 = 0;
    const ZEROS_OUTSIDE: u32 = 0;
    let mut encoded = [TensorMap([0; 128]); 4];
    for (map, encoded) in maps.iter().zip(&mut encoded) {
        // SAFETY: the sizes, the strides but for the innermost, the box and its element strides are of four dimensions;
        // `encoded` is aligned as the function wants it.
        let code = unsafe {
            (driver.call.tensor_map_encode_tiled)(
                encoded,
                tensor_map::ELEMENT_TYPE,
                map.sizes.len() as u32,
                map.address,
                map.sizes.as_ptr(),
                map.strides.as_ptr(),
                tensor_map::BOX_SIZES.as_ptr(),
                tensor_map::ELEMENT_STRIDES.as_ptr(),
                NO_INTERLEAVE,
                tensor_map::SWIZZLE,
                tensor_map::L2_PROMOTION,
                ZEROS_OUTSIDE,
            )
        };
        driver.check(code, || format!("describing the tensor at {:#x} by a tensor map", map.address))?;
    }
    Ok(TensorMaps(encoded.map(|map| map.0)))
}

//! What the driver's objects are called.

/// An address of device memory.
pub type DevicePointer = u64;
/// A driver handle.
pub type Handle = usize;

/// `cudaStreamPerThread`.
pub const PER_THREAD: Handle = 2;

/// The stream that this handle means for functions with per-thread default streams.
pub fn per_thread(stream: Handle) -> Handle {
    if stream == 0 { PER_THREAD } else { stream }
}

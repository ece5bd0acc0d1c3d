//! What the GPU reaches at most.

use cust::memory::mem_get_info;

use super::timing::Stopwatch;
use super::{Executor, GpuExecutor, driver};
use crate::error::Result;
use crate::statistics::Samples;

/// Bytes of a copy: many times any L2.
const COPY_BYTES: u64 = 1 << 30;
/// Copies that are timed, after one that is not.
const COPIES: usize = 20;

impl GpuExecutor {
    /// 10¹² bytes a second of copies within device memory, counting bytes read and bytes written: the median of 20 copies
    /// of 1 GiB, or of a quarter of the free memory.
    ///
    /// # Errors
    /// When the driver refuses memory or a copy.
    pub fn copy_terabytes_per_second(&mut self) -> Result<f64> {
        self.enter()?;
        let free = mem_get_info().map_or(COPY_BYTES, |(free, _)| free as u64);
        let bytes = COPY_BYTES.min(free / 4);
        let [source, destination] = ["copy source", "copy destination"].map(|name| self.allocate(name, bytes));
        let (source, destination) = (source?, destination?);
        let copy = || {
            // SAFETY: two buffers of this size, which are freed after the last copy was waited for.
            unsafe { driver::copy_on_device(destination.address, source.address, bytes as usize, &self.stream) }
        };
        let times = Stopwatch::new().and_then(|watch| {
            watch.time(&self.stream, copy)?;
            (0..COPIES).map(|_| watch.time(&self.stream, copy)).collect::<std::result::Result<Vec<f64>, _>>()
        });
        let times = times.map_err(|code| self.failed("copying within device memory".into(), code, ""));
        self.free(source)?;
        self.free(destination)?;
        let seconds = Samples::new(times?)?.median() * 1e-6;
        Ok(2.0 * bytes as f64 / seconds / 1e12)
    }
}

//! Measures the peak rates of the GPU.

use contract::probe::{BLOCKS, PROBES, Probe, ProbeArgs, THREADS};
use cust::memory::mem_get_info;

use super::kernel::{Argument, Kernel};
use super::timing::Stopwatch;
use super::{Executor, GpuExecutor, driver};
use crate::error::Result;
use crate::ptx_folder::PtxFolder;
use crate::ptx_module::PtxModule;
use crate::record::{Ceilings, TensorCeiling};
use crate::statistics::Samples;
use crate::timing::{L2, Protocol};

/// Bytes of a copy: many times the size of any L2.
const COPY_BYTES: u64 = 1 << 30;
/// Number of timed copies, after an untimed one.
const COPIES: usize = 20;

/// Iterations of a probe: some milliseconds on an H200.
const PROBE_ITERATIONS: u64 = 8192;
/// Samples of a probe.
const PROBE_SAMPLES: usize = 20;

impl GpuExecutor {
    /// Measures the peak rates of the GPU: by copies, and by the probes of `folder` that run on it.
    ///
    /// # Errors
    /// When the driver refuses an allocation, a copy or a probe.
    pub fn ceilings(&mut self, folder: &PtxFolder) -> Result<Ceilings> {
        let mut tensor = Vec::new();
        for probe in &PROBES {
            let runs = probe.family.runs_on(self.device.architecture);
            if let (true, Some(module)) = (runs, folder.probe(probe)?) {
                let teraflops = self.teraflops(probe, &module)?;
                tensor.push(TensorCeiling { instruction: probe.instruction.into(), teraflops });
            }
        }
        Ok(Ceilings { copy_terabytes_per_second: Some(self.copy_terabytes_per_second()?), tensor })
    }

    /// 10¹² floating-point operations per second of `probe`, the median of 20 launches after a warm-up.
    fn teraflops(&mut self, probe: &Probe, module: &PtxModule) -> Result<f64> {
        self.load(module)?;
        let blocks = BLOCKS * self.device.multiprocessors;
        let sink = self.allocate("probe sink", u64::from(blocks) * u64::from(THREADS) * size_of::<f32>() as u64)?;
        let arguments = ProbeArgs { sink: sink.address, iterations: PROBE_ITERATIONS };
        let arguments = [Argument::of(&arguments)];
        let kernel = Kernel {
            entry: probe.entry,
            blocks,
            threads: THREADS,
            dynamic_shared_bytes: probe.dynamic_shared_bytes,
            arguments: &arguments,
        };
        let prepared = self.prepare(&kernel).and_then(|function| {
            // SAFETY: a probe takes one `ProbeArgs`, and its sink has an f32 per thread.
            let submit = |_| Ok(unsafe { kernel.submit(function, &self.stream) }?);
            self.timed(1, kernel.running(), &Protocol::new(L2::Warm), submit)
        });
        let times = prepared.and_then(|(timed, _)| {
            let sample = |_| timed.graph.sample(&self.stream);
            let times = (0..PROBE_SAMPLES).map(sample).collect::<std::result::Result<Vec<f64>, _>>();
            times.map_err(|failure| self.failed(timed.action.clone(), failure, ""))
        });
        self.free(sink)?;
        let seconds = Samples::new(times?)?.median() * 1e-6;
        let operations = f64::from(blocks) * probe.operations as f64 * PROBE_ITERATIONS as f64;
        Ok(operations / seconds / 1e12)
    }

    /// 10¹² bytes per second of copies within device memory, counting bytes read and written: the median of 20 copies
    /// of 1 GiB, or of a quarter of the free memory.
    ///
    /// # Errors
    /// When the driver refuses an allocation or a copy.
    pub fn copy_terabytes_per_second(&mut self) -> Result<f64> {
        self.enter()?;
        let free = mem_get_info().map_or(COPY_BYTES, |(free, _)| free as u64);
        let bytes = COPY_BYTES.min(free / 4);
        let [source, destination] = ["copy source", "copy destination"].map(|name| self.allocate(name, bytes));
        let (source, destination) = (source?, destination?);
        let copy = || {
            // SAFETY: both buffers have this size, and are freed only after waiting for the last copy.
            Ok(unsafe { driver::copy_on_device(destination.address, source.address, bytes as usize, &self.stream) }?)
        };
        let times = Stopwatch::new().and_then(|watch| {
            watch.time(&self.stream, copy)?;
            (0..COPIES).map(|_| watch.time(&self.stream, copy)).collect::<std::result::Result<Vec<f64>, _>>()
        });
        let times = times.map_err(|failure| self.failed("copying within device memory".into(), failure, ""));
        self.free(source)?;
        self.free(destination)?;
        let seconds = Samples::new(times?)?.median() * 1e-6;
        Ok(2.0 * bytes as f64 / seconds / 1e12)
    }
}

//! Timing of launches by events.

use std::time::{Duration, Instant};

use cust::error::CudaResult;
use cust::event::{Event, EventFlags};
use cust::stream::Stream;

/// How long the device works before the first sample, so that its clocks have risen.
const WARM_UP: Duration = Duration::from_millis(20);

/// What one sample should take, in µs: 400 times the resolution of an event (CUDA Driver API, `cuEventElapsedTime`).
const SAMPLE_US: f64 = 200.0;

/// Most launches of a sample; the driver queues about a thousand before it makes the caller wait.
const MAXIMUM_BATCH: u32 = 1000;

/// Times in µs of `samples` launches, each the average over a batch of back-to-back launches that `submit` makes on
/// `stream`. Kernels that are shorter than the time the CPU takes for a launch, about 2 µs, appear as long as that.
pub fn sample(stream: &Stream, samples: usize, mut submit: impl FnMut() -> CudaResult<()>) -> CudaResult<Vec<f64>> {
    let (start, stop) = (Event::new(EventFlags::DEFAULT)?, Event::new(EventFlags::DEFAULT)?);
    let mut time = |launches: u32| {
        start.record(stream)?;
        for _ in 0..launches {
            submit()?;
        }
        stop.record(stream)?;
        stop.synchronize()?;
        Ok(f64::from(stop.elapsed_time_f32(&start)?) * 1e3 / f64::from(launches))
    };
    let batch = warm_up(&mut time)?;
    (0..samples).map(|_| time(batch)).collect()
}

/// Calls `time`, which returns µs per launch, with growing batches for [`WARM_UP`]; returns the launches of a sample.
fn warm_up(mut time: impl FnMut(u32) -> CudaResult<f64>) -> CudaResult<u32> {
    let started = Instant::now();
    let mut batch = 1;
    loop {
        let each = time(batch)?;
        if started.elapsed() >= WARM_UP {
            return Ok(launches_of_a_sample(each));
        }
        batch = (2 * batch).min(MAXIMUM_BATCH);
    }
}

/// Launches of `each` µs that together take [`SAMPLE_US`].
fn launches_of_a_sample(each: f64) -> u32 {
    (SAMPLE_US / each).ceil().max(1.0).min(f64::from(MAXIMUM_BATCH)) as u32
}

#[cfg(test)]
mod tests {
    use super::launches_of_a_sample;

    #[test]
    fn a_sample_is_well_over_the_resolution_of_events() {
        assert_eq!(launches_of_a_sample(30.0), 7, "210 µs");
        assert_eq!(launches_of_a_sample(5000.0), 1, "a long kernel is timed by itself");
        assert_eq!(launches_of_a_sample(0.0), 1000, "below the resolution");
        assert_eq!(launches_of_a_sample(f64::NAN), 1, "whatever the driver answers");
    }
}

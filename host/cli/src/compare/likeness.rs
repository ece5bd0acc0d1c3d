//! Checks that two records measured the same thing.

use crate::error::{Error, Result};
use crate::record::{BenchRecord, Telemetry};
use crate::timing::L2;

/// Checks that the times of `new` and `old` are comparable.
///
/// # Errors
/// [`Error::Invalid`] lists every difference that makes them incomparable.
pub fn require(new: &BenchRecord, old: &BenchRecord) -> Result<()> {
    let device = |record: &BenchRecord| {
        let device = &record.environment.device;
        format!("{} (sm_{})", device.name, device.architecture)
    };
    let l2 = |record: &BenchRecord| match record.protocol.timing.l2 {
        L2::Warm => "warm",
        L2::Cold { .. } => "cold",
    };
    let inputs = |record: &BenchRecord| record.protocol.distribution.name();
    let differing = [
        ("measured on", device(new), device(old)),
        ("L2", l2(new).into(), l2(old).into()),
        ("inputs", inputs(new).into(), inputs(old).into()),
    ];
    let reasons: Vec<_> = differing.iter().filter_map(|(what, new, old)| differs(what, new, old)).collect();
    match reasons.is_empty() {
        true => Ok(()),
        false => Err(Error::Invalid(format!("the records measured unlike things: {}", reasons.join("; ")))),
    }
}

/// Differences that do not make times incomparable, but may explain a change.
pub fn differences(new: &BenchRecord, old: &BenchRecord) -> Vec<String> {
    let driver = |record: &BenchRecord| match &record.environment.telemetry {
        Telemetry::Nvml { driver_version, .. } => driver_version.clone(),
        Telemetry::Absent { .. } => "unknown".into(),
    };
    let identity = |record: &BenchRecord| record.environment.device.uuid.clone().unwrap_or("unknown".into());
    let clock = |record: &BenchRecord| {
        let clocks = record.rows.iter().filter_map(|row| row.measurement()?.gpu.as_ref().map(|gpu| gpu.sm_clock_mhz));
        let lowest = clocks.map(|clock| clock.low).min_by(f64::total_cmp);
        lowest.map_or("unknown".into(), |clock| format!("{clock:.0} MHz"))
    };
    let named = [
        ("driver", driver(new), driver(old)),
        ("GPU", identity(new), identity(old)),
        ("lowest clock", clock(new), clock(old)),
        ("samples", new.protocol.samples.to_string(), old.protocol.samples.to_string()),
        ("input seed", new.protocol.input_seed.to_string(), old.protocol.input_seed.to_string()),
        ("version", new.environment.program_version.clone(), old.environment.program_version.clone()),
    ];
    named.iter().filter_map(|(what, new, old)| differs(what, new, old)).collect()
}

fn differs(what: &str, new: &str, old: &str) -> Option<String> {
    (new != old).then(|| format!("{what} {new}, before {old}"))
}

//! Command lines of ncu for one launch of one kernel.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::profile::{STALL_REASONS, stall_metric};

/// Metrics requested by name, since not every version's section sets contain them.
pub const METRICS: [&str; 18] = [
    "gpu__time_duration.sum",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes.sum.per_second",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sector_hit_rate.pct",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__maximum_warps_per_active_cycle_pct",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__waves_per_multiprocessor",
    "launch__registers_per_thread",
    "smsp__sass_inst_executed_op_local_ld.sum",
    "smsp__sass_inst_executed_op_local_st.sum",
];

/// Whether ncu locks the GPU's clocks to their base while measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ClockControl {
    /// Lock to the base clocks, so that profiles can be compared; needs permission
    Base,
    /// Leave the clocks alone, for machines where they may not be changed
    None,
}

/// Whether ncu empties the caches before each pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CacheControl {
    /// Empty them: every pass starts with a cold L2
    All,
    /// Leave them as the previous pass left them: a warm L2
    None,
}

/// A run of ncu on a program that launches a kernel.
#[derive(Clone, Debug)]
pub struct Invocation<'a> {
    /// Name of the kernel.
    pub kernel: &'a str,
    /// Path of the report.
    pub report: &'a Path,
    /// Clock control.
    pub clock_control: ClockControl,
    /// Cache control.
    pub cache_control: CacheControl,
}

impl Invocation<'_> {
    /// Arguments of ncu that precede the program and its arguments: the full section set and [`METRICS`], for the first
    /// launch of exactly that kernel.
    pub fn arguments(&self) -> Vec<OsString> {
        let metrics: Vec<String> = METRICS
            .iter()
            .map(|&metric| metric.to_owned())
            .chain(STALL_REASONS.map(|(reason, _)| stall_metric(reason)))
            .collect();
        let clocks = match self.clock_control {
            ClockControl::Base => "base",
            ClockControl::None => "none",
        };
        let caches = match self.cache_control {
            CacheControl::All => "all",
            CacheControl::None => "none",
        };
        let metrics = metrics.join(",");
        let fixed = ["--set", "full", "--metrics", &metrics, "--clock-control", clocks, "--cache-control", caches];
        let launch = ["--kernel-name-base", "function", "--kernel-name", self.kernel, "--launch-count", "1"];
        let mut arguments: Vec<OsString> = fixed.into_iter().chain(launch).map(OsString::from).collect();
        arguments.extend([OsStr::new("--force-overwrite"), OsStr::new("--export")].map(OsStr::to_owned));
        arguments.push(self.report.as_os_str().to_owned());
        arguments
    }
}

/// Arguments of ncu that print the raw page of `report`.
pub fn import_arguments(report: &Path) -> Vec<OsString> {
    let mut arguments = vec![OsString::from("--import"), report.as_os_str().to_owned()];
    arguments.extend(["--page", "raw", "--csv"].map(OsString::from));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_launch_of_the_kernel_is_selected() {
        let invocation = Invocation {
            kernel: "fa512_kernel",
            report: Path::new("out.ncu-rep"),
            clock_control: ClockControl::None,
            cache_control: CacheControl::All,
        };
        let arguments: Vec<_> = invocation.arguments().iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let value = |option: &str| {
            let index = arguments.iter().position(|word| word == option).unwrap_or_else(|| panic!("no {option}"));
            arguments[index + 1].as_str()
        };
        assert_eq!((value("--kernel-name"), value("--launch-count")), ("fa512_kernel", "1"));
        assert_eq!((value("--clock-control"), value("--cache-control")), ("none", "all"));
        assert_eq!(value("--export"), "out.ncu-rep");
        assert!(value("--metrics").contains(",smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio,"));
    }
}

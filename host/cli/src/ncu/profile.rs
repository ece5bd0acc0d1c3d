//! The profile of one launch.

use serde::{Deserialize, Serialize};

use super::raw_page::RawPage;
use crate::document::Format;
use crate::error::{Error, Result};
use crate::record::Case;

/// The file format of a [`Profile`].
pub const FORMAT: Format =
    Format { kind: "fa512-profile", version: 1, oldest: 1, name: "profile", source: "fa512 profile --out NAME" };

/// The profile of one launch under ncu. Numbers that ncu did not measure are absent. Fractions range from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Name of the entry.
    pub kernel: String,
    /// What it computed; absent if only ncu's output is known.
    pub case: Option<Case>,
    /// Name of the GPU.
    pub device: Option<String>,
    /// Compute capability, such as `9.0`.
    pub compute_capability: String,
    /// Grid, such as `(1024, 1, 1)`.
    pub grid: String,
    /// Block.
    pub block: String,
    /// ncu's command line, and its version; empty if only its output is known.
    pub ncu: Vec<String>,
    /// Duration of the launch, µs.
    pub duration_us: Option<f64>,
    /// Fraction of cycles in which the tensor cores were active.
    pub tensor: Option<f64>,
    /// Issue rate of the XU pipe, which computes exponentials, over its peak.
    pub exponentials: Option<f64>,
    /// Fraction of a scheduler's active cycles in which it issued an instruction.
    pub issue: Option<f64>,
    /// Throughput of device memory.
    pub dram: Throughput,
    /// Throughput of the L2 cache.
    pub l2: Throughput,
    /// Warp stall reasons, longest first; with `selected` they add up to all warp time.
    pub stalls: Vec<Stall>,
    /// Shared-memory bank conflicts.
    pub bank_conflicts: BankConflicts,
    /// Occupancy.
    pub occupancy: Occupancy,
    /// 32-bit registers per thread.
    pub registers: Option<f64>,
    /// Loads from and stores to local memory, counted by warps: spilled registers and arrays.
    pub local_accesses: Option<f64>,
}

/// Utilisation of a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Throughput over its peak.
    pub utilisation: Option<f64>,
    /// 10¹² bytes per second.
    pub terabytes_per_second: Option<f64>,
    /// Fraction of accesses served without the next level of memory.
    pub hit_rate: Option<f64>,
}

/// A reason why warps did not issue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// ncu's name, such as `long_scoreboard`.
    pub reason: String,
    /// Fraction of warp time.
    pub share: f64,
}

/// Shared-memory bank conflicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BankConflicts {
    /// Wavefronts caused by conflicts.
    pub conflicts: Option<f64>,
    /// All wavefronts.
    pub wavefronts: Option<f64>,
}

impl BankConflicts {
    /// Conflicts as a fraction of all wavefronts.
    pub fn share(&self) -> Option<f64> {
        let (conflicts, wavefronts) = (self.conflicts?, self.wavefronts?);
        Some(if wavefronts > 0.0 { conflicts / wavefronts } else { 0.0 })
    }
}

/// Resident warps of a multiprocessor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Average number of resident warps over the maximum.
    pub achieved: Option<f64>,
    /// Number of warps that the launch allows over the maximum.
    pub theoretical: Option<f64>,
    /// How many times the blocks fill all multiprocessors.
    pub waves: Option<f64>,
    /// Blocks per multiprocessor that each resource allows, tightest first.
    pub limits: Vec<OccupancyLimit>,
}

/// A resource that limits the blocks per multiprocessor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OccupancyLimit {
    /// Such as `registers`.
    pub resource: String,
    /// Blocks per multiprocessor.
    pub blocks: f64,
}

/// Reasons in `smsp__average_warps_issue_stalled_<reason>_per_issue_active.ratio`, with their meaning (Profiling Guide,
/// "Warp Stall Reasons").
pub const STALL_REASONS: [(&str, &str); 19] = [
    ("barrier", "waiting for other warps at a block barrier"),
    ("branch_resolving", "waiting for the target of a branch"),
    ("dispatch_stall", "held back by the dispatcher"),
    ("drain", "waiting for stores after the last instruction"),
    ("gmma", "waiting for a warpgroup matrix product"),
    ("imc_miss", "waiting for a constant that is not in the cache"),
    ("lg_throttle", "too many accesses to local or global memory are queued"),
    ("long_scoreboard", "waiting for data from global or local memory"),
    ("math_pipe_throttle", "the math pipe of the next instruction is busy"),
    ("membar", "waiting at a memory fence"),
    ("mio_throttle", "too many shared-memory, special-function or similar instructions are queued"),
    ("misc", "something else"),
    ("no_instruction", "waiting for instructions to be fetched"),
    ("not_selected", "ready, but another warp was chosen"),
    ("selected", "issuing"),
    ("short_scoreboard", "waiting for shared memory or the special-function pipe"),
    ("sleeping", "asleep"),
    ("tex_throttle", "too many texture accesses are queued"),
    ("wait", "waiting a fixed time for the instruction before"),
];

/// The "reason" of warps that issue.
const ISSUING: &str = "selected";

impl Profile {
    /// The profile in ncu's raw page of a launch.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the page names no kernel or has a malformed value.
    pub fn new(page: &RawPage) -> Result<Self> {
        let text = |name: &str| {
            let missing = || Error::Invalid(format!("the profile has no column {name:?}"));
            page.text(name).map(str::to_owned).ok_or_else(missing)
        };
        let local = [
            page.number("smsp__sass_inst_executed_op_local_ld.sum")?,
            page.number("smsp__sass_inst_executed_op_local_st.sum")?,
        ];
        Ok(Self {
            kernel: text("Kernel Name")?,
            case: None,
            device: page.text("device__attribute_display_name").map(str::to_owned),
            compute_capability: text("CC")?,
            grid: text("Grid Size")?,
            block: text("Block Size")?,
            ncu: Vec::new(),
            duration_us: page.microseconds("gpu__time_duration.sum")?,
            tensor: page.fraction("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed")?,
            exponentials: page.fraction("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed")?,
            issue: page.fraction("smsp__issue_active.avg.pct_of_peak_sustained_active")?,
            dram: Throughput {
                utilisation: page.fraction("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed")?,
                terabytes_per_second: page.terabytes_per_second("dram__bytes.sum.per_second")?,
                hit_rate: None,
            },
            l2: Throughput {
                utilisation: page.fraction("lts__throughput.avg.pct_of_peak_sustained_elapsed")?,
                terabytes_per_second: None,
                hit_rate: page.fraction("lts__t_sector_hit_rate.pct")?,
            },
            stalls: stalls(page)?,
            bank_conflicts: BankConflicts {
                conflicts: page.number("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum")?,
                wavefronts: page.number("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum")?,
            },
            occupancy: occupancy(page)?,
            registers: page.number("launch__registers_per_thread")?,
            local_accesses: local[0].zip(local[1]).map(|(loads, stores)| loads + stores),
        })
    }

    /// The longest stall reasons, without the time in which warps issued.
    pub fn top_stalls(&self) -> impl Iterator<Item = &Stall> {
        self.stalls.iter().filter(|stall| stall.reason != ISSUING)
    }
}

impl Stall {
    /// The meaning of the reason.
    pub fn meaning(&self) -> &'static str {
        STALL_REASONS.iter().find(|(reason, _)| *reason == self.reason).map_or("", |(_, meaning)| meaning)
    }
}

fn stalls(page: &RawPage) -> Result<Vec<Stall>> {
    let mut stalls = Vec::new();
    for (reason, _) in STALL_REASONS {
        if let Some(ratio) = page.number(&stall_metric(reason))? {
            stalls.push(Stall { reason: reason.to_owned(), share: ratio });
        }
    }
    let total: f64 = stalls.iter().map(|stall| stall.share).sum();
    if total > 0.0 {
        stalls.iter_mut().for_each(|stall| stall.share /= total);
    }
    stalls.retain(|stall| stall.share > 0.0);
    stalls.sort_by(|a, b| b.share.total_cmp(&a.share));
    Ok(stalls)
}

/// The metric of a stall reason: average number of warps stalled by it per issued instruction.
pub(super) fn stall_metric(reason: &str) -> String {
    format!("smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio")
}

fn occupancy(page: &RawPage) -> Result<Occupancy> {
    const RESOURCES: [(&str, &str); 5] = [
        ("registers", "launch__occupancy_limit_registers"),
        ("shared memory", "launch__occupancy_limit_shared_mem"),
        ("warps", "launch__occupancy_limit_warps"),
        ("blocks", "launch__occupancy_limit_blocks"),
        ("barriers", "launch__occupancy_limit_barriers"),
    ];
    let mut limits = Vec::new();
    for (resource, metric) in RESOURCES {
        if let Some(blocks) = page.number(metric)? {
            limits.push(OccupancyLimit { resource: resource.to_owned(), blocks });
        }
    }
    limits.sort_by(|a, b| a.blocks.total_cmp(&b.blocks));
    Ok(Occupancy {
        achieved: page.fraction("sm__warps_active.avg.pct_of_peak_sustained_active")?,
        theoretical: page.fraction("sm__maximum_warps_per_active_cycle_pct")?,
        waves: page.number("launch__waves_per_multiprocessor")?,
        limits,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Raw and details pages of ncu 2025.3.1 on an H200, without unused columns and rows.
    const SAMPLES: [(&str, &str); 2] = [
        (include_str!("../../tests/ncu/full.raw.csv"), include_str!("../../tests/ncu/full.details.csv")),
        (include_str!("../../tests/ncu/causal_any.raw.csv"), include_str!("../../tests/ncu/causal_any.details.csv")),
    ];

    fn profile(raw: &str) -> Profile {
        Profile::new(&RawPage::parse(raw).unwrap()).unwrap()
    }

    /// A value in ncu's own details page.
    fn details(page: &str, metric: &str) -> f64 {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(page.as_bytes());
        let row = reader.records().map(|row| row.expect("a CSV row")).find(|row| &row[12] == metric);
        row.unwrap_or_else(|| panic!("no {metric}"))[14].parse().unwrap()
    }

    #[test]
    fn the_numbers_are_those_of_the_details_page() {
        for (raw, page) in SAMPLES {
            let profile = profile(raw);
            let same = |metric: &str, value: Option<f64>| {
                let (value, shown) = (value.unwrap_or_else(|| panic!("{metric} is absent")), details(page, metric));
                assert!((value - shown).abs() <= 0.005 + 1e-9, "{metric} is {shown}, not {value}");
            };
            let percent = |fraction: Option<f64>| fraction.map(|fraction| fraction * 100.0);
            same("Duration", profile.duration_us);
            same("DRAM Throughput", percent(profile.dram.utilisation));
            same("L2 Cache Throughput", percent(profile.l2.utilisation));
            same("L2 Hit Rate", percent(profile.l2.hit_rate));
            same("Achieved Occupancy", percent(profile.occupancy.achieved));
            same("Theoretical Occupancy", percent(profile.occupancy.theoretical));
            same("Waves Per SM", profile.occupancy.waves);
            same("Registers Per Thread", profile.registers);
            let registers = profile.occupancy.limits.iter().find(|limit| limit.resource == "registers");
            same("Block Limit Registers", registers.map(|limit| limit.blocks));
        }
    }

    #[test]
    fn stalls_are_shares_of_the_warps_time_in_order() {
        let profile = profile(SAMPLES[0].0);
        let total: f64 = profile.stalls.iter().map(|stall| stall.share).sum();
        assert!((total - 1.0).abs() < 1e-12, "{total}");
        let top: Vec<_> = profile.top_stalls().take(3).map(|stall| stall.reason.as_str()).collect();
        assert_eq!(top, ["wait", "math_pipe_throttle", "long_scoreboard"]);
        assert!((profile.stalls[0].share - 1.106_749 / 4.345_971).abs() < 1e-3, "{:?}", profile.stalls[0]);
        assert!(profile.stalls.iter().all(|stall| !stall.meaning().is_empty()));
    }

    #[test]
    fn a_kernel_that_its_registers_limit_says_so() {
        let profile = profile(SAMPLES[0].0);
        let first = &profile.occupancy.limits[0];
        assert_eq!((first.resource.as_str(), first.blocks), ("registers", 2.0));
        assert_eq!(profile.local_accesses, Some(0.0));
        assert!((profile.bank_conflicts.share().unwrap() - 30_380.0 / 5_024_398.0).abs() < 1e-12);
        assert_eq!((profile.device.as_deref(), profile.compute_capability.as_str()), (Some("NVIDIA H200"), "9.0"));
    }

    #[test]
    fn a_profile_survives_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let profile = profile(SAMPLES[1].0);
        FORMAT.save(&path, &profile).unwrap();
        assert_eq!(FORMAT.load::<Profile>(&path).unwrap(), profile);
        let message = crate::record::BenchRecord::load(&path).unwrap_err().to_string();
        assert!(message.contains("holds a fa512-profile, not a bench record"), "{message}");
    }
}

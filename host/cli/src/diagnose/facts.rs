//! The measured facts about one contender in one case.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ncu::Profile;
use crate::record::{BenchRecord, Outcome, Row};

/// A number that rules refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// Wrong or unwritten elements of O and LSE.
    WrongElements,
    /// Coefficient of variation of the samples.
    Variation,
    /// Median time per call, µs.
    MedianTime,
    /// Median time over that of the fastest other contender.
    TimeOverBest,
    /// Floating-point operations per second over the highest measured rate of matrix products.
    AchievedTensorRate,
    /// Bytes of Q, K, V, O and LSE per second over the measured copy bandwidth.
    AchievedBandwidth,
    /// Fraction of cycles in which the tensor cores were active.
    TensorCores,
    /// Issue utilisation of the pipe that computes exponentials.
    Exponentials,
    /// Fraction of cycles in which the schedulers issued.
    IssueSlots,
    /// Throughput of device memory.
    Dram,
    /// Throughput of the L2 cache.
    L2,
    /// Resident warps of a multiprocessor over the maximum.
    Occupancy,
    /// Resident warps of a multiprocessor over those that the launch allows.
    OccupancyOfAllowed,
    /// How many times the blocks of the launch fill all multiprocessors.
    Waves,
    /// [`Self::Waves`] over the next whole number.
    WaveEfficiency,
    /// Fraction of shared-memory wavefronts caused by bank conflicts.
    BankConflicts,
    /// Number of local memory accesses, by warps.
    LocalAccesses,
    /// Fraction of warp time stalled on global or local memory.
    GlobalMemoryStalls,
    /// Fraction of warp time stalled at block barriers.
    BarrierStalls,
    /// Fraction of warp time stalled on shared memory or the special-function pipe, or on a full queue of theirs.
    SharedMemoryStalls,
    /// Fraction of warp time stalled on a math pipe.
    MathPipeStalls,
    /// Fraction of warp time stalled on a fixed-latency dependency.
    FixedLatencyStalls,
    /// Fraction of warp time stalled on a warpgroup matrix product.
    WarpgroupProductStalls,
    /// Fraction of warp time stalled on the fetch of instructions or constants.
    FetchStalls,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A fraction, shown in percent.
    Fraction,
    /// µs.
    Microseconds,
    /// A ratio.
    Ratio,
    /// A count.
    Count,
}

impl Quantity {
    /// `value` with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Quantity::Fraction => format!("{:.1} %", value * 100.0),
            Quantity::Microseconds => format!("{value:.1} µs"),
            Quantity::Ratio => format!("{value:.2}×"),
            Quantity::Count => format!("{value:.0}"),
        }
    }
}

/// Where a fact is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A bench record with one contender.
    Bench,
    /// A bench record with several contenders.
    BenchAgainstOthers,
    /// A bench record with the measured ceilings of the GPU.
    Ceilings,
    /// A profile.
    Profile,
}

impl Fact {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Fact::WrongElements => "wrong elements",
            Fact::Variation => "variation of the samples",
            Fact::MedianTime => "median time",
            Fact::TimeOverBest => "time of the fastest other contender",
            Fact::AchievedTensorRate => "FLOP/s of the measured ceiling",
            Fact::AchievedBandwidth => "bytes/s of the measured ceiling",
            Fact::TensorCores => "tensor cores",
            Fact::Exponentials => "exponential pipe",
            Fact::IssueSlots => "issue slots",
            Fact::Dram => "DRAM",
            Fact::L2 => "L2",
            Fact::Occupancy => "occupancy",
            Fact::OccupancyOfAllowed => "occupancy of what the launch allows",
            Fact::Waves => "waves of blocks",
            Fact::WaveEfficiency => "filled part of the waves",
            Fact::BankConflicts => "bank conflicts",
            Fact::LocalAccesses => "local-memory accesses",
            Fact::GlobalMemoryStalls => "stalls on global memory",
            Fact::BarrierStalls => "stalls at barriers",
            Fact::SharedMemoryStalls => "stalls on shared memory",
            Fact::MathPipeStalls => "stalls on a busy math pipe",
            Fact::FixedLatencyStalls => "stalls on the instruction before",
            Fact::WarpgroupProductStalls => "stalls on warpgroup products",
            Fact::FetchStalls => "stalls on instruction fetch",
        }
    }

    /// What it counts.
    pub fn quantity(self) -> Quantity {
        match self {
            Fact::WrongElements | Fact::LocalAccesses => Quantity::Count,
            Fact::MedianTime => Quantity::Microseconds,
            Fact::TimeOverBest | Fact::Waves => Quantity::Ratio,
            _ => Quantity::Fraction,
        }
    }

    /// Where it is measured.
    pub fn source(self) -> Source {
        match self {
            Fact::WrongElements | Fact::Variation | Fact::MedianTime => Source::Bench,
            Fact::TimeOverBest => Source::BenchAgainstOthers,
            Fact::AchievedTensorRate | Fact::AchievedBandwidth => Source::Ceilings,
            _ => Source::Profile,
        }
    }
}

/// The known facts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Facts(BTreeMap<Fact, f64>);

impl Facts {
    /// The value of a fact, if known.
    pub fn get(&self, fact: Fact) -> Option<f64> {
        self.0.get(&fact).copied()
    }

    /// Sets a fact, if its value is known.
    pub fn set(&mut self, fact: Fact, value: Option<f64>) {
        self.0.extend(value.map(|value| (fact, value)));
    }

    /// Adds the facts of `row`, one of the rows of `record`.
    pub fn add_row(&mut self, record: &BenchRecord, row: &Row) {
        if let Outcome::Wrong { correctness } = &row.outcome {
            self.set(Fact::WrongElements, Some((correctness.wrong_elements + correctness.unwritten_elements) as f64));
        }
        let Some(measurement) = row.measurement() else { return };
        let correctness = &measurement.correctness;
        self.set(Fact::WrongElements, Some((correctness.wrong_elements + correctness.unwritten_elements) as f64));
        self.set(Fact::Variation, Some(measurement.summary_us.coefficient_of_variation));
        self.set(Fact::MedianTime, Some(measurement.summary_us.median));
        self.set(Fact::AchievedTensorRate, measurement.tensor_utilisation);
        self.set(Fact::AchievedBandwidth, measurement.bandwidth_utilisation);
        let others = record.rows.iter().filter(|other| other.case == row.case && other.contender != row.contender);
        let best = others.filter_map(Row::measurement).map(|other| other.summary_us.median).min_by(f64::total_cmp);
        self.set(Fact::TimeOverBest, best.map(|best| measurement.summary_us.median / best));
    }

    /// Adds the facts of `profile`.
    pub fn add_profile(&mut self, profile: &Profile) {
        let occupancy = &profile.occupancy;
        self.set(Fact::TensorCores, profile.tensor);
        self.set(Fact::Exponentials, profile.exponentials);
        self.set(Fact::IssueSlots, profile.issue);
        self.set(Fact::Dram, profile.dram.utilisation);
        self.set(Fact::L2, profile.l2.utilisation);
        self.set(Fact::Occupancy, occupancy.achieved);
        let allowed = occupancy.theoretical.filter(|&theoretical| theoretical > 0.0);
        self.set(
            Fact::OccupancyOfAllowed,
            occupancy.achieved.zip(allowed).map(|(achieved, allowed)| achieved / allowed),
        );
        let waves = occupancy.waves.filter(|&waves| waves > 0.0);
        self.set(Fact::Waves, waves);
        self.set(Fact::WaveEfficiency, waves.map(|waves| waves / waves.ceil()));
        self.set(Fact::BankConflicts, profile.bank_conflicts.share());
        self.set(Fact::LocalAccesses, profile.local_accesses);
        const STALLS: [(Fact, &[&str]); 7] = [
            (Fact::GlobalMemoryStalls, &["long_scoreboard", "lg_throttle"]),
            (Fact::BarrierStalls, &["barrier"]),
            (Fact::SharedMemoryStalls, &["short_scoreboard", "mio_throttle"]),
            (Fact::MathPipeStalls, &["math_pipe_throttle"]),
            (Fact::FixedLatencyStalls, &["wait"]),
            (Fact::WarpgroupProductStalls, &["gmma"]),
            (Fact::FetchStalls, &["no_instruction", "imc_miss", "branch_resolving"]),
        ];
        if profile.stalls.is_empty() {
            return;
        }
        for (fact, reasons) in STALLS {
            let matching = profile.stalls.iter().filter(|stall| reasons.contains(&stall.reason.as_str()));
            self.set(fact, Some(matching.map(|stall| stall.share).sum()));
        }
    }
}

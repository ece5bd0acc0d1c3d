//! The result of a run, as data.

use std::path::PathBuf;

use crate::check;
use crate::device::Device;
use crate::error::Result;
use crate::executor::GuardDamage;
use crate::gradients::GradientReport;
use crate::inputs::{Distribution, Inputs};
use crate::ptx_folder::PtxFolder;
use crate::ptx_module::PtxModule;
use crate::score_mod::ScoreModForm;
use crate::statistics::{Bootstrap, Samples, Summary};
use crate::timing::{Batch, Protocol, Sampler};
use contract::args::Strides;
use contract::backward::plan::BackwardPlan;
use contract::config::{Element, Mask};
use contract::manifest::CodeGenerator;
use contract::problem::{Alignment, Shape};
use contract::refusal::Tensor;
use contract::view::Layout;
use serde::Serialize;

/// The result of a run, and what is needed to reproduce it.
#[derive(Serialize)]
pub struct Record {
    /// Whether everything passed.
    pub passed: bool,
    /// The device it ran on.
    pub device: Device,
    /// Why that device.
    pub device_reason: String,
    /// Name of the entry.
    pub variant: String,
    /// Short form of the reason for its choice, for the table.
    #[serde(skip)]
    pub variant_brief: String,
    /// The reason for its choice.
    pub variant_reason: String,
    /// The PTX it came from.
    pub ptx: Ptx,
    /// The problem that was computed.
    pub problem: Problem,
    /// The source of the inputs.
    pub source: Source,
    /// Launch geometry.
    pub launch: Launch,
    /// Comparison with the reference; absent with --no-check.
    pub check: Option<Check>,
    /// Inputs that the kernel changed.
    pub changed_inputs: Vec<String>,
    /// Guard regions that the kernel wrote to.
    pub damaged_guards: Vec<GuardDamage>,
    /// Findings of the simulator.
    pub findings: Vec<ptx_sim::Finding>,
    /// Counters of the simulator.
    pub counters: Option<ptx_sim::Counters>,
    /// Wall-clock seconds of the launch including copies.
    pub execution_seconds: f64,
    /// Device times; absent in the simulator and if a check failed.
    pub timing: Option<Timing>,
}

impl Record {
    /// Whether no check failed and there are no findings.
    pub fn everything_passed(&self) -> bool {
        self.check.as_ref().is_none_or(Check::passed)
            && self.changed_inputs.is_empty()
            && self.damaged_guards.is_empty()
            && self.findings.is_empty()
    }
}

/// Comparison with the reference.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Check {
    /// Of O and LSE.
    Forward(Box<check::Report>),
    /// Of gradients.
    Gradients(GradientReport),
}

impl Check {
    /// Whether the outputs are correct.
    pub fn passed(&self) -> bool {
        match self {
            Self::Forward(report) => report.passed(),
            Self::Gradients(report) => report.passed(),
        }
    }

    /// Whether no element still holds its fill value.
    pub fn everything_written(&self) -> bool {
        match self {
            Self::Forward(report) => report.everything_written(),
            Self::Gradients(report) => report.comparisons.iter().all(|one| one.unwritten == 0),
        }
    }

    /// Elements that belong to no row and were overwritten.
    pub fn overwritten_gaps(&self) -> u64 {
        match self {
            Self::Forward(report) => report.overwritten_gaps,
            Self::Gradients(report) => report.overwritten_gaps,
        }
    }
}

/// Origin of the PTX.
#[derive(Serialize)]
pub struct Ptx {
    /// Folder.
    pub folder: PathBuf,
    /// File in it.
    pub file: String,
    /// SHA-256 of the file.
    pub sha256: String,
    /// The compiler.
    pub code_generator: CodeGenerator,
    /// Commit of its source.
    pub git_commit: Option<String>,
}

impl Ptx {
    /// Describes `module` of `folder`.
    pub fn new(folder: &PtxFolder, module: &PtxModule) -> Self {
        let manifest = folder.manifest();
        let sha256 = manifest.modules.iter().find(|listed| listed.file == module.file).map(|listed| &listed.sha256);
        Self {
            folder: folder.path().to_owned(),
            file: module.file.clone(),
            sha256: sha256.cloned().unwrap_or_default(),
            code_generator: manifest.code_generator.clone(),
            git_commit: manifest.git_commit.clone(),
        }
    }
}

/// The problem that was computed.
#[derive(Serialize)]
pub struct Problem {
    /// B, H, S and D; for packed sequences B is 1 and S the total number of rows.
    #[serde(flatten)]
    pub shape: Shape,
    /// First row of each packed sequence, then the end of the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cu_seqlens: Option<Vec<u32>>,
    /// The same for K and V, if they have other lengths than Q.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cu_seqlens_k: Option<Vec<u32>>,
    /// Rows of Q that each entry of a padded batch uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seqused_q: Option<Vec<u32>>,
    /// Rows of K and V that each entry uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seqused_k: Option<Vec<u32>>,
    /// Element type of Q, K, V and O.
    pub element: Element,
    /// Mask.
    pub mask: Mask,
    /// How queries are aligned with keys.
    pub alignment: Alignment,
    /// Factor on the scores.
    pub scale: f64,
    /// Score modifications.
    #[serde(skip_serializing_if = "ScoreModForm::is_none")]
    pub score_mod: ScoreModForm,
    /// Dimension order of the tensors that are not in `views`.
    pub layout: Layout,
    /// Tensors that are not contiguous from the beginning of their buffer.
    pub views: Vec<View>,
}

/// Layout of a tensor in its buffer, in elements.
#[derive(Serialize)]
pub struct View {
    /// `Q`, `K`, `V` or `O`.
    pub tensor: &'static str,
    /// Offset of the first row in the buffer.
    pub offset: u64,
    /// From one batch entry to the next.
    pub batch_stride: u64,
    /// From one head to the next.
    pub head_stride: u64,
    /// From one row to the next.
    pub row_stride: u64,
}

impl Problem {
    /// Describes the problem of `inputs`, whose tensors are contiguous in `layout` unless listed as views.
    pub fn new(inputs: &Inputs, layout: Layout, score_mod: ScoreModForm) -> Self {
        let problem = inputs.problem();
        let array = |tensor| inputs.array(tensor).map(<[u32]>::to_vec);
        let is_contiguous = |tensor, view: &contract::view::View| {
            view.offset == 0 && Some(view.strides) == layout.strides(problem.shape().of(tensor)).ok()
        };
        let views = problem.views().named().into_iter().filter(|(tensor, view)| !is_contiguous(*tensor, view));
        let views = views.map(|(tensor, contract::view::View { offset, strides: Strides { batch, head, row } })| {
            View { tensor: tensor.name(), offset, batch_stride: batch, head_stride: head, row_stride: row }
        });
        Self {
            shape: problem.shape(),
            cu_seqlens: array(Tensor::CuSeqlens),
            cu_seqlens_k: array(Tensor::CuSeqlensK),
            seqused_q: array(Tensor::SequsedQ),
            seqused_k: array(Tensor::SequsedK),
            element: problem.element(),
            mask: problem.mask(),
            alignment: problem.alignment(),
            scale: problem.scale(),
            score_mod,
            layout,
            views: views.collect(),
        }
    }
}

/// Source of the inputs.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// They were generated.
    Generated {
        /// The distribution.
        distribution: Distribution,
        /// The seed.
        seed: u64,
    },
    /// They were read from files.
    Files {
        /// Q.
        q: PathBuf,
        /// K.
        k: PathBuf,
        /// V.
        v: PathBuf,
    },
}

/// Geometry of the launch.
#[derive(Serialize)]
pub struct Launch {
    /// Blocks of the grid.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, bytes.
    pub dynamic_shared_bytes: u32,
}

impl From<&contract::plan::Launch<'_>> for Launch {
    fn from(launch: &contract::plan::Launch<'_>) -> Self {
        Self { blocks: launch.blocks(), threads: launch.threads(), dynamic_shared_bytes: launch.dynamic_shared_bytes() }
    }
}

impl From<&BackwardPlan> for Launch {
    fn from(plan: &BackwardPlan) -> Self {
        let tile = plan.variant().tile;
        Self { blocks: plan.blocks(), threads: tile.threads(), dynamic_shared_bytes: tile.shared_bytes() }
    }
}

/// Device times.
#[derive(Serialize)]
pub struct Timing {
    /// Sampling protocol.
    pub protocol: Protocol,
    /// Calls per sample.
    pub batch: Batch,
    /// Summary of the samples, µs.
    pub summary_us: Summary,
    /// 10¹² floating-point operations per second at the median, counted as 4·B·H·S²·D, halved for a causal mask.
    pub teraflops: f64,
    /// All samples in the order in which they were taken, µs.
    pub samples_us: Samples,
}

impl Timing {
    /// Takes `count` samples of a call and summarises them.
    ///
    /// # Errors
    /// When a launch fails.
    pub fn take(sampler: &mut dyn Sampler, count: usize, protocol: Protocol, operations: f64) -> Result<Self> {
        let samples_us: Vec<f64> = (0..count).map(|_| sampler.sample()).collect::<Result<_>>()?;
        let samples_us = Samples::new(samples_us)?;
        let summary_us = Summary::new(&samples_us, &Bootstrap::new(0));
        let teraflops = operations / (summary_us.median * 1e-6) / 1e12;
        Ok(Self { protocol, batch: sampler.batch(), summary_us, teraflops, samples_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::L2;

    /// A sampler that returns these samples.
    struct Stub<'a>(std::slice::Iter<'a, f64>);

    impl Sampler for Stub<'_> {
        fn batch(&self) -> Batch {
            Batch { calls: 1, input_sets: 1, cuda_graph: true, host_launch_us: None }
        }

        fn sample(&mut self) -> Result<f64> {
            Ok(*self.0.next().expect("as many samples as there are"))
        }
    }

    fn timing(samples: &[f64], mask: Mask) -> Timing {
        let problem = contract::problem::Problem::new(Shape::new(32, 8, 512), mask, Layout::Bhsd).unwrap();
        let mut sampler = Stub(samples.iter());
        Timing::take(&mut sampler, samples.len(), Protocol::new(L2::Warm), problem.shape().operations(problem.mask()))
            .unwrap()
    }

    #[test]
    fn times_are_summarised_by_order_and_throughput() {
        let times = timing(&[50.0, 48.0, 60.0, 49.0], Mask::Full);
        assert_eq!((times.summary_us.minimum, times.summary_us.median), (48.0, 49.5));
        assert_eq!(times.samples_us.in_order(), [50.0, 48.0, 60.0, 49.0]);
        let full = timing(&[48.0], Mask::Full).teraflops;
        assert!((full - 358.0).abs() < 0.5, "{full}");
        assert_eq!(timing(&[48.0], Mask::Causal).teraflops * 2.0, full);
    }
}

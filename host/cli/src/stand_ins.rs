//! Stand-ins for what only a GPU has: a contender on the CPU, a record of a run. Tests use them, here and in the laboratory.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use contract::config::{Element, Mask};
use contract::manifest::CodeGenerator;
use contract::problem::Shape;
use contract::variants::VARIANTS;
use contract::view::Layout;

use crate::check::Outputs;
use crate::contender::{Answer, Contender, Prepared, Workload};
use crate::device::{Device, DeviceKind};
use crate::element::Encoding;
use crate::error::{Error, Result};
use crate::inputs::{Distribution, Inputs};
use crate::record::{
    BenchRecord, Case, Ceilings, Correctness, Environment, Implementation, Kernel, Measurement, Outcome, Row,
    RunProtocol, Telemetry, TensorCeiling,
};
use crate::reference::Reference;
use crate::statistics::{Bootstrap, Samples};
use crate::telemetry::Monitor;
use crate::timing::{Batch, L2, Protocol, Sampler};

/// A contender on the CPU: computes the reference and says how long it took.
pub struct Stub {
    /// Its name.
    pub name: String,
    /// What it does.
    pub behaviour: Behaviour,
}

/// What a [`Stub`] does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Behaviour {
    /// Correct; each sample takes 1 µs more than the one before.
    Right,
    /// Correct; every sample takes this long.
    Takes(f64),
    /// One element of O is off by 1.
    Wrong,
    /// Refuses every problem.
    Refuses,
    /// Fails at the fourth sample.
    FailsWhenTimed,
}

struct Running<'a> {
    inputs: &'a Inputs,
    behaviour: Behaviour,
    samples: f64,
}

impl Contender for Stub {
    fn name(&self) -> &str {
        &self.name
    }

    fn prepare<'a>(&'a mut self, workload: &'a Workload) -> Result<Box<dyn Prepared<'a> + 'a>> {
        match self.behaviour {
            Behaviour::Refuses => Err(Error::Invalid("not this one".into())),
            behaviour => Ok(Box::new(Running { inputs: &workload.inputs, behaviour, samples: 0.0 })),
        }
    }
}

impl<'a> Prepared<'a> for Running<'a> {
    fn implementation(&self) -> Implementation {
        Implementation::Library { function: "stub".into(), versions: BTreeMap::new() }
    }

    fn answer(&mut self) -> Result<Answer> {
        let reference = Reference::compute(self.inputs, |_| ());
        let type_ = self.inputs.element();
        let mut o: Vec<_> = reference.elements.iter().flatten().map(|element| type_.encode(element.value)).collect();
        if self.behaviour == Behaviour::Wrong {
            o[0] = type_.encode(type_.decode(o[0]) + 1.0);
        }
        Ok(Answer { outputs: Outputs { o, lse: None }, violations: vec![] })
    }

    fn into_sampler(self: Box<Self>) -> Result<Box<dyn Sampler + 'a>> {
        Ok(self)
    }
}

impl Sampler for Running<'_> {
    fn batch(&self) -> Batch {
        Batch { calls: 1, input_sets: 1, cuda_graph: false, host_launch_us: None }
    }

    fn sample(&mut self) -> Result<f64> {
        self.samples += 1.0;
        match self.behaviour {
            Behaviour::Takes(time) => Ok(time),
            Behaviour::FailsWhenTimed if self.samples > 3.0 => Err(Error::Unavailable("the process died".into())),
            _ => Ok(self.samples),
        }
    }
}

/// A monitor of no GPU.
pub fn monitor() -> Monitor {
    Monitor::new(&Device {
        kind: DeviceKind::Simulator,
        name: "none".into(),
        architecture: 80,
        shared_bytes_per_block: 0,
        multiprocessors: 132,
        l2_bytes: None,
        driver: None,
        uuid: None,
    })
}

/// A record of one case and one contender with `samples_us`.
pub fn record(samples_us: Vec<f64>) -> BenchRecord {
    let ceilings = Ceilings {
        copy_terabytes_per_second: Some(4.0),
        tensor: vec![TensorCeiling { instruction: "mma".into(), teraflops: 500.0 }],
    };
    record_under(samples_us, ceilings)
}

/// [`record`] of a run without ceilings.
pub fn record_without_ceilings(samples_us: Vec<f64>) -> BenchRecord {
    record_under(samples_us, Ceilings::default())
}

fn record_under(samples_us: Vec<f64>, ceilings: Ceilings) -> BenchRecord {
    let protocol = Protocol::new(L2::Cold { bytes: 60 << 20 });
    BenchRecord {
        command: vec!["fa512".into(), "bench".into()],
        started_at: 1_790_000_000,
        environment: Environment {
            device: Device {
                kind: DeviceKind::Gpu,
                name: "NVIDIA H200".into(),
                architecture: 90,
                shared_bytes_per_block: 227 << 10,
                multiprocessors: 132,
                l2_bytes: Some(60 << 20),
                driver: Some("13.0".into()),
                uuid: Some("GPU-0".into()),
            },
            telemetry: Telemetry::Absent { reason: "there is no NVML".into() },
            program_version: "0.1.0".into(),
            platform: "linux x86_64".into(),
            processor_threads: 16,
        },
        protocol: RunProtocol {
            timing: protocol,
            samples: samples_us.len(),
            order_seed: 0,
            distribution: Distribution::Normal,
            input_seed: 0,
        },
        rows: vec![row(samples_us, &ceilings)],
        pairs: vec![],
        ceilings,
    }
}

fn row(samples_us: Vec<f64>, ceilings: &Ceilings) -> Row {
    let shape = Shape::new(32, 8, 512);
    let variant = &VARIANTS[0];
    let implementation = Implementation::Ptx {
        kernel: Kernel { entry: variant.entry.into(), config: Some(variant.config) },
        blocks: 1024,
        parts: 1,
        threads: variant.config.threads(),
        dynamic_shared_bytes: variant.config.shared_bytes(),
        file: "sm_80.ptx".into(),
        sha256: "0".repeat(64),
        code_generator: CodeGenerator { name: "rustc".into(), version: "1.96".into() },
        git_commit: None,
    };
    let correctness = Correctness {
        heads_checked: 16,
        heads: 256,
        wrong_elements: 0,
        unwritten_elements: 0,
        largest_output_error: Some(2e-4),
        output_frobenius: Some(2e-4),
        largest_lse_error: Some(1e-6),
        violations: vec![],
    };
    let batch = Batch { calls: 20, input_sets: NonZeroU32::MIN.get(), cuda_graph: true, host_launch_us: Some(2.5) };
    let samples_us = Samples::new(samples_us).unwrap();
    let measured = (shape, Mask::Full);
    let measurement = Measurement::new(measured, correctness, batch, samples_us, None, ceilings, &Bootstrap::new(0));
    Row {
        case: Case::plain(shape, Element::F16, Mask::Full, Layout::Bhsd),
        contender: "fa512".into(),
        implementation: Some(implementation),
        outcome: Outcome::Measured(Box::new(measurement)),
    }
}

//! A contender from a PTX folder: our own kernels, another code generator's, or their CUDA C++ twins.

use std::sync::Arc;

use contract::manifest::Entry;
use contract::plan::Launch;

use super::{Answer, Contender, Prepared, Workload};
use crate::error::{Error, Result};
use crate::executor::Executor;
use crate::forward::Forward;
use crate::ptx_folder::PtxFolder;
use crate::ptx_module::PtxModule;
use crate::record::{Implementation, Kernel};
use crate::timing::{Protocol, Sampler};
use crate::variant;

/// An entry of a PTX folder, with its own executor.
pub struct Ptx {
    name: String,
    executor: Box<dyn Executor>,
    folder: Arc<PtxFolder>,
    variant: Option<String>,
}

impl Ptx {
    /// Contender `name`: entry `variant` of `folder`, or the one chosen for each workload.
    pub fn new(
        name: impl Into<String>,
        executor: Box<dyn Executor>,
        folder: Arc<PtxFolder>,
        variant: Option<String>,
    ) -> Self {
        Self { name: name.into(), executor, folder, variant }
    }
}

impl Contender for Ptx {
    fn name(&self) -> &str {
        &self.name
    }

    fn prepare<'a>(&'a mut self, workload: &'a Workload) -> Result<Box<dyn Prepared<'a> + 'a>> {
        let Self { executor, folder, variant, .. } = self;
        let problem = workload.inputs.problem();
        let choice = variant::choose(folder, problem, executor.device(), variant.as_deref())?;
        let forward = Forward::prepare(executor.as_mut(), choice.module, choice.entry, &workload.inputs, true)?;
        let implementation = implementation(folder, choice.entry, choice.module, forward.launch());
        Ok(Box::new(PreparedPtx { forward, implementation, protocol: workload.protocol }))
    }
}

fn implementation(folder: &PtxFolder, entry: &Entry, module: &PtxModule, launch: &Launch<'_>) -> Implementation {
    let manifest = folder.manifest();
    let listed = manifest.modules.iter().find(|listed| listed.file == module.file);
    Implementation::Ptx {
        kernel: Kernel { entry: entry.name.clone(), config: Some(entry.config) },
        blocks: launch.blocks(),
        parts: launch.parts(),
        threads: entry.threads,
        dynamic_shared_bytes: entry.dynamic_shared_bytes,
        file: module.file.clone(),
        sha256: listed.map(|module| module.sha256.clone()).unwrap_or_default(),
        code_generator: manifest.code_generator.clone(),
        git_commit: manifest.git_commit.clone(),
    }
}

struct PreparedPtx<'a> {
    forward: Forward<'a>,
    implementation: Implementation,
    protocol: Protocol,
}

impl<'a> Prepared<'a> for PreparedPtx<'a> {
    fn implementation(&self) -> Implementation {
        self.implementation.clone()
    }

    fn answer(&mut self) -> Result<Answer> {
        let outcome = self.forward.execute()?;
        let changed = outcome.changed_inputs.iter().map(|name| format!("changed its input {name}"));
        let damaged = outcome.damaged_guards.iter();
        let damaged = damaged.map(|damage| format!("wrote {} bytes behind {}", damage.bytes, damage.buffer));
        let found = outcome.execution.findings.iter().map(ToString::to_string);
        Ok(Answer { violations: changed.chain(damaged).chain(found).collect(), outputs: outcome.outputs })
    }

    fn into_sampler(self: Box<Self>) -> Result<Box<dyn Sampler + 'a>> {
        match self.forward.into_sampler(&self.protocol)? {
            Some(sampler) => Ok(Box::new(sampler)),
            None => Err(Error::Unavailable("the simulator's times mean nothing; a GPU is needed".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::sim::SimExecutor;
    use crate::inputs::{Distribution, Inputs};
    use crate::timing::L2;
    use contract::config::Mask;
    use contract::problem::{Problem, Shape};
    use contract::view::Layout;

    #[test]
    fn an_entry_of_the_folder_is_prepared_checked_and_refused_a_time_by_the_simulator() {
        let Ok(folder) = PtxFolder::find(None) else {
            println!("not tested: there is no PTX (`cargo xtask test` builds it)");
            return;
        };
        let problem = Problem::new(Shape::new(1, 1, 40), Mask::Causal, Layout::Bhsd).unwrap();
        let inputs = Inputs::generate(problem, Distribution::Normal, 1).unwrap();
        let workload = Workload { inputs, protocol: Protocol::new(L2::Warm) };
        let executor = Box::new(SimExecutor::new(90).unwrap());
        let mut contender = Ptx::new("fa512", executor, Arc::new(folder), None);
        assert_eq!(contender.name(), "fa512");
        let mut prepared = contender.prepare(&workload).unwrap();
        let Implementation::Ptx { kernel, sha256, blocks, .. } = prepared.implementation() else {
            panic!("not PTX: {:?}", prepared.implementation())
        };
        let entry = kernel.entry;
        assert!(entry.contains("any_causal") && sha256.len() == 64 && blocks > 0, "{entry} {sha256} {blocks}");
        let answer = prepared.answer().unwrap();
        assert_eq!(answer.violations, Vec::<String>::new());
        // The first row of a causal mask attends to the first key only.
        assert_eq!(answer.outputs.o[..64], workload.inputs.v_row(0, 0, 0)[..]);
        let refusal = prepared.into_sampler().err().expect("the simulator has no times").to_string();
        assert!(refusal.contains("a GPU is needed"), "{refusal}");
    }

    #[test]
    fn a_variant_that_does_not_compute_the_workload_says_so() {
        let Ok(folder) = PtxFolder::find(None) else {
            println!("not tested: there is no PTX (`cargo xtask test` builds it)");
            return;
        };
        let problem = Problem::new(Shape::new(1, 1, 40), Mask::Causal, Layout::Bhsd).unwrap();
        let inputs = Inputs::generate(problem, Distribution::Constant, 1).unwrap();
        let workload = Workload { inputs, protocol: Protocol::new(L2::Warm) };
        let full = folder.entries().find(|(entry, _)| entry.mask == Mask::Full).expect("a full mask").0.name.clone();
        let executor = Box::new(SimExecutor::new(90).unwrap());
        let mut contender = Ptx::new("full", executor, Arc::new(folder), Some(full.clone()));
        let refusal = contender.prepare(&workload).err().expect("another mask").to_string();
        assert!(refusal.contains(&full), "{refusal}");
    }
}

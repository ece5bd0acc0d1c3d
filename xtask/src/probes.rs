//! The PTX of the probes, beside that of the kernels.

use std::path::Path;
use std::thread;

use anyhow::{Result, bail};
use kernel_gpu::probe::{PROBES, Probe};

use crate::codegen::{CodeGenerator, Target};
use crate::files::write_atomically;

/// How a probe is compiled.
pub fn target(probe: &Probe) -> Target {
    Target { cargo_feature: probe.cargo_feature, cpu: probe.target, ptx_feature: "ptx80", file: probe.file }
}

/// Compiles every probe into `folder`, side by side. One that calls functions or keeps its accumulators in local memory
/// would measure something else, and is refused.
pub fn build(code_generator: &dyn CodeGenerator, folder: &Path) -> Result<()> {
    thread::scope(|scope| {
        let probes: Vec<_> =
            PROBES.iter().map(|probe| scope.spawn(|| build_one(code_generator, probe, folder))).collect();
        probes.into_iter().try_for_each(|probe| probe.join().expect("building a probe does not panic"))
    })
}

fn build_one(code_generator: &dyn CodeGenerator, probe: &Probe, folder: &Path) -> Result<()> {
    let target = target(probe);
    let ptx = code_generator.compile(&target)?.ptx;
    for forbidden in [".local", "call.uni", ".extern .func"] {
        if ptx.contains(forbidden) {
            bail!("{} is refused: its PTX has {forbidden}", probe.entry);
        }
    }
    write_atomically(&folder.join(target.file), ptx.as_bytes())
}

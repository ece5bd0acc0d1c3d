//! The PTX of the probes, beside that of the kernels.

use std::path::Path;

use anyhow::{Result, bail};
use contract::config::Family;
use contract::probe::{BLOCKS, PROBES, Probe, THREADS};

use crate::files::write_atomically;
use ptx_text::postprocess::{LaunchBounds, list, postprocess_alone};

/// Writes the probes of `family`, which are in its PTX as the compiler wrote it, to `folder`. One that calls functions or keeps
/// its accumulators in local memory would measure something else, and is refused.
pub fn write(ptx: &str, family: Family, folder: &Path) -> Result<()> {
    PROBES.iter().filter(|probe| probe.family == family).try_for_each(|probe| write_one(ptx, probe, folder))
}

fn write_one(ptx: &str, probe: &Probe, folder: &Path) -> Result<()> {
    match postprocess_alone(ptx, probe.entry, LaunchBounds { threads: THREADS, min_blocks: BLOCKS }) {
        Ok(ptx) => write_atomically(&folder.join(probe.file), ptx.text.as_bytes()),
        Err(refusals) => bail!("the probe for {} is refused:{}", probe.file, list(&refusals)),
    }
}

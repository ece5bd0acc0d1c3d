//! The kernels that a campaign runs.

use std::collections::BTreeMap;

use super::case::Target;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::ptx_folder::PtxFolder;
use crate::ptx_module::PtxModule;

/// Entries by name, with their modules, sorted.
pub struct Kernels<'a>(BTreeMap<String, (Kernel<'a>, &'a PtxModule)>);

impl<'a> Kernels<'a> {
    /// The entries of `folder` that `device` can run, among those in `names` (or all), and why others are left out.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a name has no entry, or `device` can run none of them.
    pub fn select(folder: &'a PtxFolder, device: &Device, names: &[String]) -> Result<(Self, Vec<String>)> {
        let mut kernels = BTreeMap::new();
        let mut unfit = Vec::new();
        for (kernel, module) in Kernel::named(folder, names)? {
            match kernel.check_fits(device) {
                Ok(()) => drop(kernels.insert(kernel.name().to_owned(), (kernel, module))),
                Err(reason) => unfit.push(reason.to_string()),
            }
        }
        match kernels.is_empty() {
            true => Err(Error::Invalid(format!("no variant runs on {}: {}", device.name, unfit.join("; ")))),
            false => Ok((Self(kernels), unfit)),
        }
    }

    /// The kernels as targets of a campaign.
    pub fn targets(&self) -> Vec<Target> {
        self.0.values().map(|(kernel, _)| Target::from(*kernel)).collect()
    }

    /// The kernel of `target`, one of [`Self::targets`], and its module.
    pub(super) fn get(&self, target: &Target) -> (Kernel<'a>, &'a PtxModule) {
        self.0[&target.variant]
    }
}

impl From<Kernel<'_>> for Target {
    fn from(kernel: Kernel<'_>) -> Self {
        match kernel {
            Kernel::Forward(entry) => Self::from(entry),
            Kernel::Backward(variant) => Self::from(variant),
        }
    }
}

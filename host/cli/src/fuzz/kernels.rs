//! The kernels that a campaign runs.

use std::collections::BTreeMap;

use contract::manifest::Entry;

use super::case::Target;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::launch::check_fits;
use crate::ptx_folder::PtxFolder;
use crate::ptx_module::PtxModule;

/// Entries by name, with their modules, sorted.
pub struct Kernels<'a>(BTreeMap<String, (&'a Entry, &'a PtxModule)>);

impl<'a> Kernels<'a> {
    /// The entries of `folder` that `device` can run, among those in `names` (or all), and why others are left out.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a name has no entry, or `device` can run none of them.
    pub fn select(folder: &'a PtxFolder, device: &Device, names: &[String]) -> Result<(Self, Vec<String>)> {
        if let Some(unknown) = names.iter().find(|name| folder.entries().all(|(entry, _)| entry.name != **name)) {
            let known: Vec<_> = folder.entries().map(|(entry, _)| entry.name.as_str()).collect();
            return Err(Error::Invalid(format!("there is no variant {unknown}; there are: {}", known.join(", "))));
        }
        let selected = folder.entries().filter(|(entry, _)| names.is_empty() || names.contains(&entry.name));
        let mut kernels = BTreeMap::new();
        let mut unfit = Vec::new();
        for (entry, module) in selected {
            match check_fits(entry, device) {
                Ok(()) => drop(kernels.insert(entry.name.clone(), (entry, module))),
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
        self.0.values().map(|(entry, _)| Target::from(*entry)).collect()
    }

    /// The entry of `target`, one of [`Self::targets`], and its module.
    pub(super) fn get(&self, target: &Target) -> (&'a Entry, &'a PtxModule) {
        self.0[&target.variant]
    }
}

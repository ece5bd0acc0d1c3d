//! Chooses the entry that computes a problem on a device.

use kernel_gpu::manifest::Entry;

use crate::error::{Error, Result};
use crate::executor::{Device, PtxModule};
use crate::launch::{check_accepts, check_fits};
use crate::problem::{Problem, mask_name};
use crate::ptx_folder::PtxFolder;

/// A chosen entry.
#[derive(Clone, Debug)]
pub struct Choice<'a> {
    /// The entry.
    pub entry: &'a Entry,
    /// The module it is in.
    pub module: &'a PtxModule,
    /// Why it was chosen, for people.
    pub reason: String,
}

/// Chooses the entry called `requested`, or else the first in the manifest's order of preference that accepts
/// `problem` and fits `device`.
///
/// # Errors
/// [`Error::Invalid`] when there is no such entry, it does not accept the problem, or none does; the message says why
/// each was passed over.
pub fn choose<'a>(
    folder: &'a PtxFolder,
    problem: &Problem,
    device: &Device,
    requested: Option<&str>,
) -> Result<Choice<'a>> {
    match requested {
        Some(name) => choose_by_name(folder, problem, device, name),
        None => choose_first(folder, problem, device),
    }
}

fn check(entry: &Entry, problem: &Problem, device: &Device) -> Result<()> {
    check_accepts(entry, problem)?;
    check_fits(entry, device)
}

fn choose_by_name<'a>(folder: &'a PtxFolder, problem: &Problem, device: &Device, name: &str) -> Result<Choice<'a>> {
    let Some((entry, module)) = folder.entries().find(|(entry, _)| entry.name == name) else {
        let names: Vec<_> = folder.entries().map(|(entry, _)| entry.name.as_str()).collect();
        return Err(Error::Invalid(format!("there is no variant {name}; there are: {}", names.join(", "))));
    };
    check(entry, problem, device)?;
    Ok(Choice { entry, module, reason: "asked for by name".into() })
}

fn choose_first<'a>(folder: &'a PtxFolder, problem: &Problem, device: &Device) -> Result<Choice<'a>> {
    let mut passed_over = Vec::new();
    for (entry, module) in folder.entries() {
        match check(entry, problem, device) {
            Ok(()) => {
                let reason = format!(
                    "first in order of preference for sequence {}, {} mask, sm_{}",
                    problem.shape().sequence,
                    mask_name(problem.mask()),
                    device.architecture
                );
                return Ok(Choice { entry, module, reason });
            }
            Err(error) => passed_over.push(format!("\n  {error}")),
        }
    }
    Err(Error::Invalid(format!(
        "no variant of {} runs this problem on {}:{}",
        folder.path().display(),
        device.name,
        passed_over.concat()
    )))
}

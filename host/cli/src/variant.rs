//! Chooses the entry of a PTX folder that computes a problem on a device: the requested one, else by the library's
//! rules ([`contract::selection`]).

use contract::cost;
use contract::manifest::Entry;
use contract::parts::Workspace;
use contract::plan::Plan;
use contract::problem::Problem;
use contract::selection;
use contract::variants::VARIANTS;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::launch;
use crate::ptx_folder::PtxFolder;
use crate::ptx_module::PtxModule;

/// The chosen entry.
#[derive(Clone, Debug)]
pub struct Choice<'a> {
    /// The entry.
    pub entry: &'a Entry,
    /// The module that it is in.
    pub module: &'a PtxModule,
    /// The plan of its launch.
    pub plan: Plan<'a>,
    /// Short reason for the choice.
    pub brief: String,
    /// The reason for the choice, in a sentence.
    pub reason: String,
}

/// The entry `requested`, or the best one for `problem` on `device`.
///
/// # Errors
/// [`Error::Invalid`] when there is no such entry, it does not compute the problem, or none does.
pub fn choose<'a>(
    folder: &'a PtxFolder,
    problem: &Problem,
    device: &Device,
    requested: Option<&str>,
) -> Result<Choice<'a>> {
    if let Some(name) = requested {
        let (entry, module) = named(folder, name)?;
        let plan = launch::plan(entry, problem, device)?;
        return Ok(Choice { entry, module, plan, brief: "named".into(), reason: "asked for by name".into() });
    }
    folder.entries().try_for_each(|(entry, _)| launch::check_arguments(entry))?;
    let variants = folder.entries().map(|(entry, _)| entry.variant());
    let choice = selection::choose(variants, cost::SHIPPED, problem, &device.gpu(), Workspace::Provided)
        .map_err(|none| Error::Invalid(none.to_string()))?;
    let (entry, module) = named(folder, choice.plan.variant().entry)?;
    let (brief, reason) = (choice.reason.brief().to_string(), choice.reason.to_string());
    Ok(Choice { entry, module, plan: choice.plan, brief, reason })
}

/// The name of the entry that [`choose`] would select from a folder with all variants. Needs no PTX.
///
/// # Errors
/// As for [`choose`].
pub fn among_all(problem: &Problem, device: &Device, requested: Option<&str>) -> Result<String> {
    if let Some(name) = requested {
        let is_there = VARIANTS.iter().any(|variant| variant.entry == name);
        return is_there.then(|| name.to_owned()).ok_or_else(|| unknown(name, VARIANTS.iter().map(|one| one.entry)));
    }
    selection::choose(VARIANTS.iter().copied(), cost::SHIPPED, problem, &device.gpu(), Workspace::Provided)
        .map(|choice| choice.plan.variant().entry.to_owned())
        .map_err(|none| Error::Invalid(none.to_string()))
}

/// The entries of `folder` that compute `problem` on `device`, in order of preference.
pub fn accepting<'a>(folder: &'a PtxFolder, problem: &Problem, device: &Device) -> impl Iterator<Item = &'a Entry> {
    let entries = folder.entries().map(|(entry, _)| entry);
    entries.filter(|entry| launch::plan(entry, problem, device).is_ok())
}

fn named<'a>(folder: &'a PtxFolder, name: &str) -> Result<(&'a Entry, &'a PtxModule)> {
    let named = folder.entries().find(|(entry, _)| entry.name == name);
    named.ok_or_else(|| unknown(name, folder.entries().map(|(entry, _)| entry.name.as_str())))
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    Error::Invalid(format!("there is no variant {name}; there are: {}", known.collect::<Vec<_>>().join(", ")))
}

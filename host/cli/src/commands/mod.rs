//! The program's commands, one file each, and shared helpers.

pub mod bench;
pub mod compare;
pub mod diagnose;
pub mod doctor;
pub mod fuzz;
pub mod gpu_option;
pub mod interrupt;
pub mod lab;
pub mod manual;
pub mod output;
pub mod profile;
pub mod progress;
pub mod ptx_options;
pub mod run;
pub mod sanitize;
mod score_mod_options;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::error::{Error, Result};
use crate::executor::Executor;
use crate::executor::gpu::GpuExecutor;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use contract::config::{Element, Mask};
use contract::problem::{Alignment, Window};
use contract::view::Layout;

/// Outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything passed.
    Pass,
    /// A check failed.
    Fail,
    /// Something needed is missing, and the command has reported it.
    CannotRun,
}

/// Exit code of a program after a command: 0 pass, 1 a check failed, 2 could not run. An error is printed.
pub fn exit_code(outcome: Result<Verdict>) -> ExitCode {
    match outcome {
        Ok(Verdict::Pass) => ExitCode::SUCCESS,
        Ok(Verdict::Fail) => ExitCode::from(1),
        Ok(Verdict::CannotRun) => ExitCode::from(2),
        Err(error) => {
            print_error(&error);
            ExitCode::from(2)
        }
    }
}

/// Prints an error to standard error. File names and contents are untrusted.
pub fn print_error(error: &Error) {
    output::note(&format!("error: {error}"));
}

/// Opens a GPU to measure times on. A GPU of the simulated driver is refused, not just warned about: records outlive
/// their warnings and end up in comparisons, plots and the constants of predicted times.
pub fn gpu_for_times() -> Result<GpuExecutor> {
    let meaningless =
        |reason| Error::Unavailable(format!("times mean nothing in the simulator, and there is {reason}"));
    match GpuExecutor::open() {
        Err(Error::Unavailable(reason)) => Err(meaningless(reason)),
        Ok(gpu) if gpu.device().is_simulated() => {
            let name = &gpu.device().name;
            let library = libcuda_delay_load::LIBRARY;
            Err(meaningless(format!("no GPU but {name}: the {library} found is the simulated driver's")))
        }
        opened => opened,
    }
}

/// A file option's name and path, if it is given.
pub fn named_file<'a>((name, path): (&'static str, &'a Option<PathBuf>)) -> Option<(&'static str, &'a Path)> {
    path.as_deref().map(|path| (name, path))
}

/// Parses an architecture such as 90, 9.0 or sm_90.
pub fn architecture(text: &str) -> std::result::Result<u32, String> {
    ptx_sim::parse_architecture(text).ok_or_else(|| "expected a number or a name, as in 90, 9.0 or sm_90".to_owned())
}

/// Parser of a mask's name.
pub fn mask_parser() -> impl TypedValueParser<Value = Mask> {
    const MASKS: [Mask; 3] = [Mask::Full, Mask::Causal, Mask::Window];
    PossibleValuesParser::new(MASKS.map(Mask::name))
        .map(|name| MASKS.into_iter().find(|&mask| mask.name() == name).expect("clap accepts only these names"))
}

/// Parses a window, keys before and after a query's own position, such as 64,64; `any` means no limit.
fn window(text: &str) -> std::result::Result<Window, String> {
    let side = |text: &str| match text {
        "any" => Ok(None),
        number => {
            number.parse().map(Some).map_err(|_| format!("{text} is not a number of keys; it may also be \"any\""))
        }
    };
    let (left, right) = text.split_once(',').ok_or("expected two numbers of keys, as in 64,64 or any,0")?;
    Ok(Window { left: side(left)?, right: side(right)? })
}

/// Parser of an element type's name.
pub fn element_parser() -> impl TypedValueParser<Value = Element> {
    PossibleValuesParser::new(Element::ALL.map(Element::name)).map(|name| {
        Element::ALL.into_iter().find(|element| element.name() == name).expect("clap accepts only these names")
    })
}

/// Parser of an alignment's name.
fn alignment_parser() -> impl TypedValueParser<Value = Alignment> {
    PossibleValuesParser::new(Alignment::ALL.map(Alignment::name)).map(|name| {
        Alignment::ALL.into_iter().find(|alignment| alignment.name() == name).expect("clap accepts only these names")
    })
}

/// Parser of a layout's name.
pub fn layout_parser() -> impl TypedValueParser<Value = Layout> {
    PossibleValuesParser::new(Layout::ALL.map(Layout::name)).map(|name| {
        Layout::ALL.into_iter().find(|layout| layout.name() == name).expect("clap accepts only these names")
    })
}

/// Finds a program in `PATH` or in a CUDA toolkit: `CUDA_HOME`, `CUDA_PATH`, else the newest of `/usr/local/cuda*`.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let cuda = named.chain(installed_toolkits()).map(|root| root.join("bin"));
    let folders = std::env::split_paths(&path).chain(cuda);
    folders
        .map(|folder| folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
        .find(|program| program.is_file())
}

/// `/usr/local/cuda*`, in reverse order of names.
fn installed_toolkits() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/usr/local").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_toolkit = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("cuda"));
    let mut toolkits: Vec<_> = entries.filter(is_toolkit).collect();
    toolkits.sort();
    toolkits.reverse();
    toolkits
}

#[cfg(test)]
mod tests {
    use super::{Window, window};

    #[test]
    fn a_window_has_two_sides() {
        assert_eq!(window("64,any"), Ok(Window { left: Some(64), right: None }));
        for text in ["", "64", "-1,0", "1,2,3", "99999999999,0", "a,b"] {
            assert!(window(text).is_err(), "{text}");
        }
    }
}

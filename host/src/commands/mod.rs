//! The program's commands: one file each, and what they share.

pub mod bench;
pub mod compare;
pub mod doctor;
pub mod fuzz;
mod interrupt;
mod output;
mod progress;
pub mod run;
pub mod sanitize;

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use fa512::problem::mask_name;
use kernel_gpu::config::Mask;

/// How a command that could be carried out ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is well.
    Pass,
    /// A check failed.
    Fail,
    /// Something that is needed is missing, and the command has said what.
    CannotRun,
}

/// Accepts the name of a mask.
fn mask_parser() -> impl TypedValueParser<Value = Mask> {
    const MASKS: [Mask; 2] = [Mask::Full, Mask::Causal];
    PossibleValuesParser::new(MASKS.map(mask_name))
        .map(|name| MASKS.into_iter().find(|&mask| mask_name(mask) == name).expect("clap accepts only these names"))
}

/// A program in `PATH` or in the CUDA toolkit.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cuda =
        ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(|root| Path::new(&root).join("bin"));
    let folders = std::env::split_paths(&path).chain(cuda);
    folders
        .map(|folder| folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
        .find(|program| program.is_file())
}

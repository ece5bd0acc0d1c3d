//! The program's commands: one file each, and what they share.

pub mod doctor;
mod output;
mod progress;
pub mod run;

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

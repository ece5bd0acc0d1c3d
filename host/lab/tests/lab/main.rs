//! The program `fa512-lab`.

mod command_line;
mod damaged_files;
mod map;
#[path = "../../../cli/tests/integration/program.rs"]
mod program;
#[path = "../../../cli/tests/integration/records.rs"]
mod records;
mod report;
mod tune;

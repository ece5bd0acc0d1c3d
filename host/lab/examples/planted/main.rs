//! The planted bugs on a GPU: one by name, or all of them under compute-sanitizer.
//!
//! ```text
//! export FA512_PLANTED_PTX=target/ptx-planted     # `cargo xtask test` makes it
//! planted run planted_misaligned_async_copy_to_rows_of_130_bytes
//! planted compare planted --architecture sm_90a > planted.md
//! ```

mod compare;
mod launch;
mod one_entry;
mod tensor_map;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use planted::CASES;

/// Run planted bugs on a GPU.
#[derive(Parser)]
enum Command {
    /// Run one entry and wait for it
    Run {
        /// An entry, as in planted_<class>_<kernel> or clean_<class>_<kernel>
        entry: String,
    },
    /// Run every kernel under memcheck, racecheck, initcheck and synccheck, each in a process of its own, and print a
    /// table of what they say
    Compare(compare::Options),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Run { entry } => run(&entry),
        Command::Compare(options) => compare::run(&options),
    };
    done.map_or_else(
        |message| {
            eprintln!("planted: {message}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn run(entry: &str) -> Result<(), String> {
    let case = CASES.iter().find(|case| case.planted == entry || case.clean == entry);
    let case = case.ok_or_else(|| format!("no entry {entry}; planted::CASES lists what there is"))?;
    let folder = std::env::var("FA512_PLANTED_PTX")
        .map_err(|_| "FA512_PLANTED_PTX is not set; it names the folder that `cargo xtask test` makes".to_owned())?;
    launch::run(Path::new(&folder), case, entry).map_err(|error| format!("{entry}: {error}"))
}

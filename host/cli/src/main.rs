//! The fa512 program.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::program::main()
}

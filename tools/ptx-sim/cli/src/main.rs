//! The ptx-sim program: runs kernels of a PTX file on the CPU and reports their errors.

mod assembler;
mod cpp;
mod description;
mod element;
mod entry;
mod expect;
mod init;
mod input;
mod kernel;
mod kinds;
mod notation;
mod npy;
mod program;
mod report;
mod schedules;
mod session;
mod signals;
mod versioned;
mod world;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Run kernels of a PTX file on the CPU and show what is wrong with them.
#[derive(Parser)]
#[command(
    name = "ptx-sim",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Parameters: u32:1024 | f32:0.5 | bytes:00ff | f16[512] | f32[512]=zeros | =range | =range(NUMBERS) | =random(SEED) | =file(PATH) | =npy(PATH) |
            &NAME | &NAME+BYTES | null | ptr[&NAME, null] | tensor_map:NAME | struct{f16[512]=zeros; u32:4}.
            A buffer without contents is uninitialised: reading it is a finding.
Launch description (TOML): [buffers], [variables], [tensor_maps], [[launch]], [expect]; see tools/ptx-sim/docs/your-kernels.md.

Exit codes: 0 nothing found, 1 something found or unexpected values, 2 could not run."
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    kernel: Option<kernel::Kernel>,
}

#[derive(Subcommand)]
enum Command {
    /// Write a launch description for an entry, to fill in and run
    Init(init::Init),
    /// Run an unchanged program on simulated GPUs and show what it does wrong
    Run(program::Program),
}

fn main() -> ExitCode {
    if let Some(code) = assembler::answer(std::env::args_os()) {
        return code;
    }
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            report::note(&format!("error: {error}"));
            ExitCode::from(2)
        }
    }
}

/// Makes a write beyond the file size limit (`ulimit -f`) an error, as on a full disk. Otherwise it would end the process and leave
/// temporary files. A program run by this one would inherit that.
fn let_writes_fail_at_the_size_limit() {
    // SAFETY: SIG_IGN runs no code of ours, and nothing else in this process handles SIGXFSZ.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Executes the command.
fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    if !matches!(arguments.command, Some(Command::Run(_))) {
        let_writes_fail_at_the_size_limit();
    }
    match (&arguments.command, &arguments.kernel) {
        (Some(Command::Init(init)), _) => init.run().map(|()| ExitCode::SUCCESS),
        (Some(Command::Run(program)), _) => program.run(),
        (None, Some(kernel)) => kernel.run().map(|passed| ExitCode::from(u8::from(!passed))),
        (None, None) => Err("which PTX file? See --help".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use doc_lint::Tree;
    use doc_lint::commands::{self, Form};

    #[test]
    fn the_commands_that_the_documents_show_are_accepted() {
        let forms = [
            Form { words: &["ptx-sim"], arguments: &[] },
            Form { words: &["cargo", "run", "--release", "-p", "ptx-sim-cli", "--"], arguments: &[] },
        ];
        let documents = Tree::read(doc_lint::workspace_root()).and_then(|tree| tree.documents());
        doc_lint::assert_none(&commands::check::<super::Arguments>(&documents.expect("the documents"), &forms));
    }
}

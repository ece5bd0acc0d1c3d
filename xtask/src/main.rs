//! Build tasks: `cargo xtask --help`.

mod archive;
mod candidates;
mod cargo_build;
mod circles;
mod codegen;
mod codegen_comparison;
mod collectives;
mod commands;
mod cores;
mod cover;
mod cuda_tool;
mod device_cargo;
mod device_compiler;
mod elf;
mod emulator;
mod environment;
mod files;
mod instruction_mix;
mod kernels;
mod machine;
mod nvcc;
mod oldest_rust;
mod output;
mod outside;
mod planted;
mod portable;
mod probes;
mod process;
mod progress;
mod provision;
mod ptx_folder;
mod ptxas;
mod python;
mod rust_cuda;
mod sass;
mod shared_library;
mod simulator;
mod standard_library;
mod twins;
mod zigbuild;

use std::process::ExitCode;

use clap::Parser;

use commands::{
    baselines, bless, candle_test, ci, codegens, cubek, dist, doctor, house, mutate, package, ptx, python_test,
    release, run, test, toolchain,
};
use environment::{Environment, Workspace};

/// Builds and tests everything in this workspace.
#[derive(Parser, Debug)]
#[command(bin_name = "cargo xtask")]
enum Task {
    Run(run::Arguments),
    Test(test::Arguments),
    Ci(ci::Arguments),
    Ptx(ptx::Arguments),
    Baselines(baselines::Arguments),
    Cubek(cubek::Arguments),
    Codegens(codegens::Arguments),
    Bless(bless::Arguments),
    Mutate(mutate::Arguments),
    Dist(dist::Arguments),
    Package(package::Arguments),
    Release(release::Arguments),
    PythonTest(python_test::Arguments),
    CandleTest(candle_test::Arguments),
    Toolchain(toolchain::Arguments),
    #[command(subcommand)]
    RustCuda(commands::rust_cuda::Arguments),
    Doctor(doctor::Arguments),
    House(house::Arguments),
}

/// Exit code of a task whose check failed.
const FAILED: u8 = 1;
/// Exit code of `run` and `mutate` when there is nothing to hand over to (any other code is that of the program), of
/// `baselines` when there is no nvcc, and of every task when there is no Rust-CUDA that it was asked to use.
const COULD_NOT_RUN: u8 = 2;

fn main() -> ExitCode {
    let task = Task::parse();
    let environment = Environment::of_this_process();
    let workspace = Workspace::current(&environment);
    let failure =
        if matches!(task, Task::Run(_) | Task::Mutate(_) | Task::Baselines(_)) { COULD_NOT_RUN } else { FAILED };
    let done = match task {
        Task::Run(arguments) => arguments.run(&environment, &workspace),
        Task::Test(arguments) => arguments.run(&environment, &workspace).map(|()| ExitCode::SUCCESS),
        Task::RustCuda(arguments) => arguments.run(&environment, &workspace).map(|()| ExitCode::SUCCESS),
        Task::Ci(arguments) => arguments.run(&environment, &workspace).map(|()| ExitCode::SUCCESS),
        Task::Baselines(arguments) => arguments.run(&environment, &workspace).map(|()| ExitCode::SUCCESS),
        Task::Cubek(arguments) => arguments.run(&environment, &workspace).map(|()| ExitCode::SUCCESS),
        Task::Codegens(arguments) => arguments.run(&environment, &workspace).map(|()| ExitCode::SUCCESS),
        Task::Bless(arguments) => arguments.run(&environment, &workspace).map(|()| ExitCode::SUCCESS),
        Task::Dist(arguments) => arguments.run(&environment, &workspace).map(|()| ExitCode::SUCCESS),
        Task::Package(arguments) => arguments.run(&environment, &workspace).map(|()| ExitCode::SUCCESS),
        Task::Release(arguments) => arguments.run(&environment, &workspace).map(|()| ExitCode::SUCCESS),
        Task::PythonTest(arguments) => arguments.run(&environment, &workspace).map(|()| ExitCode::SUCCESS),
        Task::CandleTest(arguments) => arguments.run(&environment, &workspace).map(|()| ExitCode::SUCCESS),
        Task::Mutate(arguments) => arguments.run(&environment, &workspace),
        Task::Ptx(arguments) => arguments.run(&environment, &workspace).map(|()| ExitCode::SUCCESS),
        Task::Toolchain(arguments) => arguments.run(&environment, &workspace).map(|()| ExitCode::SUCCESS),
        Task::House(arguments) => arguments.run(&workspace).map(|()| ExitCode::SUCCESS),
        Task::Doctor(arguments) => arguments.run(&environment, &workspace),
    };
    done.unwrap_or_else(|error| {
        eprintln!("xtask: error: {error:#}");
        ExitCode::from(if codegen::is_not_installed(&error) { COULD_NOT_RUN } else { failure })
    })
}

#[cfg(test)]
mod tests {
    use doc_lint::Tree;
    use doc_lint::commands::{self, Form};

    use super::Task;

    #[test]
    fn the_tasks_that_the_documents_show_are_accepted() {
        let forms = [Form { words: &["cargo", "xtask"], arguments: &[] }];
        let documents = Tree::read(doc_lint::workspace_root()).and_then(|tree| tree.documents());
        doc_lint::assert_none(&commands::check::<Task>(&documents.expect("the documents"), &forms));
    }
}

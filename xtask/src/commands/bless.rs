//! `cargo xtask bless`: accepts what the tests compare with as it is now.

use anyhow::Result;

use super::{ptx, test};
use crate::codegen::Choice;
use crate::codegen_comparison;
use crate::environment::{Environment, Workspace};
use crate::provision;

/// The tests that compare with a record, and rewrite it when `BLESS_VARIABLE` is `1`.
const TESTS: [&[&str]; 2] = [
    &["-p", "fa512-cli", "--test", "integration", "--", "counters_are_those_on_record"],
    &["-p", "fa512-cli", "--test", "planted"],
];
/// Tells the tests to rewrite their record.
const BLESS_VARIABLE: &str = "FA512_BLESS";

/// Rewrites the stored counters (instructions, wavefronts, bank conflicts, registers …), the collectives of each
/// entry, and the reports of the planted bugs.
///
/// The tests fail if the counters of a kernel or the report of a bug differ from the stored ones. Run this if your change is
/// meant to change them, and commit the files with it.
#[derive(clap::Args, Debug)]
pub struct Arguments {}

impl Arguments {
    /// Builds the PTX, with registers and spills, and runs the tests that rewrite the records.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        let ptxas = provision::ptxas(environment, workspace)?;
        ptx::build_and_record(&Choice::default(), environment, workspace, Some(&ptxas), &workspace.ptx())?;
        codegen_comparison::mark_age(workspace, &workspace.ptx())?;
        for test in TESTS {
            let arguments: Vec<String> = test.iter().map(|&argument| argument.to_owned()).collect();
            test::run_tests_with(environment, workspace, &arguments, &[(BLESS_VARIABLE, "1".as_ref())])?;
        }
        Ok(())
    }
}

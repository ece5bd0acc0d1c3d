//! `cargo xtask bless`: accepts the counters of the kernels as they are now.

use anyhow::Result;

use super::{ptx, test};
use crate::environment::{Environment, Workspace};
use crate::provision;

/// The test that compares the counters with those on record, and rewrites the record when `BLESS_VARIABLE` is `1`.
const TEST: [&str; 6] = ["-p", "fa512", "--test", "integration", "--", "counters_are_those_on_record"];
/// Tells the test to rewrite the record.
const BLESS_VARIABLE: &str = "FA512_BLESS";

/// Rewrites the stored counters (instructions, wavefronts, bank conflicts, registers …) and shows what changed.
///
/// The tests fail when the counters of a kernel are not the stored ones. Run this when a change is meant to move them,
/// and commit the file with it.
#[derive(clap::Args, Debug)]
pub struct Arguments {}

impl Arguments {
    /// Builds the PTX, with registers and spills, and runs the test that rewrites the record.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        provision::ptxas(environment, workspace)?;
        ptx::build(environment, workspace, &workspace.ptx())?;
        test::run_tests_with(environment, workspace, &TEST.map(str::to_owned), &[(BLESS_VARIABLE, "1")])
    }
}

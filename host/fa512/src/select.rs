//! Selection of the kernel that computes a problem.

use contract::cost;
use contract::parts::Workspace;
use contract::problem::Problem;
use contract::selection::{self, Choice};
use contract::variants::VARIANTS;

use crate::error::Error;
use crate::gpu::Gpu;

/// Chooses the kernel for `problem` on `gpu` and plans its launch.
///
/// # Errors
/// When no kernel computes the problem.
pub fn choose(problem: &Problem, gpu: &Gpu, workspace: Workspace) -> Result<Choice<'static>, Error> {
    selection::choose(VARIANTS.iter().copied(), cost::SHIPPED, problem, gpu.facts(), workspace).map_err(|none| {
        Error::Unsupported { gpu: gpu.name().to_owned(), why: none.to_string(), each: format!("{none:#}") }
    })
}

//! Which kernel computes a problem.

use contract::cost;
use contract::problem::Problem;
use contract::selection::{self, Choice};
use contract::tuned;
use contract::variants::VARIANTS;

use crate::error::Error;
use crate::gpu::Gpu;

/// The kernel for `problem` on `gpu`, planned.
///
/// # Errors
/// When there is none.
pub fn choose(problem: &Problem, gpu: &Gpu) -> Result<Choice<'static>, Error> {
    selection::choose(VARIANTS.iter().copied(), cost::SHIPPED, tuned::SHIPPED.iter().copied(), problem, gpu.facts())
        .map_err(|none| Error::Unsupported { gpu: gpu.name().to_owned(), why: none.to_string() })
}

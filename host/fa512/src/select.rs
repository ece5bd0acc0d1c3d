//! Which kernel computes a problem.

use contract::config::Loads;
use contract::problem::Problem;
use contract::selection::{self, Choice};
use contract::tuned::SHIPPED;
use contract::variants::{VARIANTS, Variant};

use crate::error::Error;
use crate::gpu::Gpu;

/// The variants that can be launched without memory of their own, in order of preference.
fn variants() -> impl Iterator<Item = Variant<'static>> + Clone {
    VARIANTS.iter().copied().filter(|variant| variant.config.loads != Loads::Tma)
}

/// The kernel for `problem` on `gpu`, planned.
///
/// # Errors
/// When there is none.
pub fn choose(problem: &Problem, gpu: &Gpu) -> Result<Choice<'static>, Error> {
    selection::choose(variants(), SHIPPED.iter().copied(), problem, gpu.facts())
        .map_err(|none| Error::Unsupported { gpu: gpu.name().to_owned(), why: none.to_string() })
}

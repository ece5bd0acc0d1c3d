//! One launch: the kernels that there are, their arguments, the plan that fills them.

pub mod args;
pub mod backward;
pub mod dealing;
#[cfg(feature = "manifest")]
pub mod manifest;
pub mod plan;
pub mod probe;
pub mod tensor_map;
pub mod variants;

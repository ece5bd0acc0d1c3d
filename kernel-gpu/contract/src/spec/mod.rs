//! What is computed: the problem, how its tensors lie in memory, the GPU, and why something is refused.

pub mod config;
pub mod gpu;
pub mod gradient;
pub mod limits;
pub mod packing;
pub mod problem;
pub mod refusal;
pub mod shape;
pub mod tensor;
pub mod view;

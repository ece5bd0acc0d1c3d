//! The workshop around the kernel-gpu attention kernels: problems and inputs, an f64 reference, executors (GPU and
//! simulator) behind one trait, and the checks that compare them.

pub mod error;
pub mod executor;
pub mod launch;
pub mod problem;

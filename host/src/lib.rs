//! The workshop around the kernel-gpu attention kernels: problems and inputs, an f64 reference, executors (GPU and
//! simulator) behind one trait, and the checks that compare them.

pub mod check;
pub mod error;
pub mod executor;
pub mod forward;
pub mod host_memory;
pub mod inputs;
pub mod launch;
pub mod npy;
pub mod problem;
pub mod ptx_folder;
pub mod reference;
pub mod variant;

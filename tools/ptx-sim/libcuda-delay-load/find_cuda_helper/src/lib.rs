//! Stands in for the crate of the same name that the build scripts of `cust` and `cust_raw` call.
//!
//! The original panics where no CUDA is installed and otherwise links the program to libcuda, so that it does not start
//! without a driver. `libcuda-delay-load` defines the functions of libcuda itself, so nothing is to be found or linked:
//! the same program results on every machine. The workspace puts this crate in the original's place by `[patch]`.

/// Emits no linker arguments.
pub fn include_cuda() {}

//! `libcudart.so` over the CUDA driver API: programs that nvcc linked with `-cudart shared` run on the `libcuda.so.1` that the
//! loader finds, in particular the simulated one.
//!
//! nvcc's code registers the program's fat binaries before `main`. The first launch of a kernel or use of a variable loads a module
//! from the PTX of its fat binary. Everything else is one or two driver calls. Every function of the CUDA 13 runtime is exported;
//! those not implemented return `cudaErrorNotSupported`, among them mipmaps and updates of graphs.
//!
//! `ptx-sim run` makes programs load the library, by a file that bears the symbol version for which they ask.

mod arrays;
mod context;
mod devices;
mod driver;
mod entry_points;
mod errors;
mod graphs;
mod handles;
mod host_memory;
mod memory;
mod per_thread;
mod registry;
mod status;
mod streams;
mod textures;
mod unsupported;

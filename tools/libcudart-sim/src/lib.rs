//! `libcudart.so` over the CUDA driver API: programs that nvcc linked with `-cudart shared` run on whatever `libcuda.so.1` the loader
//! finds, the simulated one in particular.
//!
//! nvcc's code registers the fat binaries of a program before `main`; a module is made of the PTX in one when a kernel of it is
//! launched or a variable of it is used. Everything else is a call or two of the driver. Every function of the CUDA 13 runtime is
//! exported; those that are not here return `cudaErrorNotSupported`: mipmaps and updates of graphs
//! among others.
//!
//! `ptx-sim run` puts the library under a program. The loader says that it has no version information, which does no harm.

mod arrays;
mod devices;
mod driver;
mod entry_points;
mod errors;
mod graphs;
mod host_memory;
mod memory;
mod per_thread;
mod registry;
mod status;
mod streams;
mod textures;
mod unsupported;

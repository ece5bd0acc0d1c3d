//! The library and the program with the PTX of this build.

mod bench;
mod command_line;
mod compare;
mod counters;
mod damaged_files;
mod diagnose;
mod fuzz;
mod kernels;
mod laboratory;
mod packed;
mod packed_order;
mod print_entry;
mod probes;
mod profile;
mod program;
mod races;
mod records;
mod sanitize;
mod score_mods;
mod shapes;
mod simulated_driver;
mod support;
mod support_table;
mod tensor_maps;
mod variants;
mod windows;

//! The library and the program with the PTX of this build.

mod bench;
mod command_line;
mod compare;
mod counters;
mod damaged_files;
mod diagnose;
mod fuzz;
mod kernels;
mod map;
mod packed;
mod packed_order;
mod print_entry;
mod probes;
mod profile;
mod races;
mod report;
mod sanitize;
mod score_mods;
mod shapes;
mod simulated_driver;
mod support;
mod support_table;
mod tensor_maps;
mod tune;
mod variants;
mod windows;

//! The fa512 program.

fn main() {}

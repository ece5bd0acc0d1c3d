//! Mutation testing of the kernels: breaks their PTX in small ways, one at a time, and counts how many of the broken kernels
//! ("mutants") the checks detect. This measures how much a passing test suite is worth.
//!
//! [`rules`] is the list of mistakes; [`mutant`] makes them in an entry; [`trial`] runs a mutant in the simulator on
//! shapes and inputs chosen to exercise it, with every check the simulator has and the f64 reference; [`attempts`]
//! does so with many on all cores; [`review`] holds
//! the mutants that cannot be noticed because they are no worse than the kernel; [`report`] adds up;
//! [`record`] says whether a run is worse than the one before.

pub mod attempts;
pub mod campaign;
pub mod change;
pub mod instruction;
mod json;
pub mod mutant;
pub mod record;
pub mod report;
pub mod review;
pub mod rules;
pub mod source;
pub mod trial;

//! Random problems for the kernels, judged as by `fa512 run`, and shrunk when they fail.
//!
//! [`campaign`] draws [`case`]s from a seed for the [`kernels`] of a PTX folder. [`fuzzer`] runs them: [`trial`] runs
//! one and lists its failures, [`shrink`] searches for the simplest case that still fails, [`repeat`] gives the command
//! to reproduce it, and [`summary`] collects how close to their tolerances the results are.

pub mod campaign;
pub mod case;
pub mod fuzzer;
pub mod kernels;
pub mod repeat;
pub mod shrink;
pub mod summary;
pub mod trial;

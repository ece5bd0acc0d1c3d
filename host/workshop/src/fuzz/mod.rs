//! Random problems for the kernels, judged like `fa512 run` judges one, and made small when they fail.
//!
//! [`campaign`] draws [`case`]s from a seed for the [`kernels`] of a PTX folder; [`fuzzer`] runs them: [`trial`] runs one and
//! lists its failures, [`shrink`] looks for the simplest case that still fails, [`repeat`] says how to run it again, and
//! [`summary`] adds up how close to their tolerances the results came.

pub mod campaign;
pub mod case;
pub mod fuzzer;
pub mod kernels;
pub mod repeat;
pub mod shrink;
pub mod summary;
pub mod trial;

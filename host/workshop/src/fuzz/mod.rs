//! Random problems for the kernels, judged like `fa512 run` judges one, and made small when they fail.
//!
//! [`campaign`] draws [`case`]s from a seed; [`trial`] runs one and lists its failures; [`shrink`] looks for the simplest
//! case that still fails; [`summary`] adds up how close to their tolerances the results came.

pub mod campaign;
pub mod case;
pub mod shrink;
pub mod summary;
pub mod trial;

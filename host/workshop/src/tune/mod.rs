//! Finds the tile configuration that is fastest on a GPU.
//!
//! The way of a candidate: a point of the search [`space`] passes the [`gates`] into a [`plan`], `cargo xtask ptx
//! --variants` compiles it, and on the GPU a [`search`] measures it against the incumbent, group by group ([`lab`]). What
//! was measured is in a [`record`] that a later run goes on from, and the winners are in a [table](crate::tuned_table) that selection reads.

mod adoption;
pub mod features;
pub mod gates;
pub mod lab;
pub mod latin_hypercube;
pub mod plan;
pub mod record;
pub mod search;
pub mod session;
pub mod space;
pub mod task;
pub mod tpe;

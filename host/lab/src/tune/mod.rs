//! Finds the tile configuration that is fastest on a GPU.
//!
//! A candidate is a point of the search [`space`] that passes the [`gates`] into a [`plan`]. `cargo xtask ptx
//! --variants` compiles it, and on the GPU a [`search`] measures it against the incumbent, group by group ([`lab`]).
//! Measurements go to a [`record`] that a later run can continue. A winner becomes a line of the variant list, and its predicted time is
//! fitted to a [map](crate::map).

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

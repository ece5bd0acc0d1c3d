//! From a compiler's PTX text to the PTX that is shipped.
//!
//! About ten million lines pass through here after an edit of a kernel. This is a package of its own so that it is compiled with
//! optimisation while xtask, which calls it, is not.

pub mod call_chains;
pub mod collectives;
pub mod dwarf;
pub mod join;
pub mod lines;
pub mod postprocess;
pub mod split_by_lane;

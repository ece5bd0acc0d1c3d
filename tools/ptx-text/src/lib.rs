//! From the PTX text of a compiler to that which is shipped.
//!
//! Some ten million lines pass through here after an edit of a kernel, so this is a package of its own: it is compiled with
//! optimisation, and xtask, which calls it, without.

pub mod call_chains;
pub mod collectives;
pub mod dwarf;
pub mod join;
pub mod lines;
pub mod postprocess;

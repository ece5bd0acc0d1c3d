//! Times the entries of one PTX folder beside those of the same names in another: each pair is checked, then timed in turns.

pub mod problem;
pub mod record;
pub mod session;

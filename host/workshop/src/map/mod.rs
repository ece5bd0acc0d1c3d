//! The map: our time beside that of each contender over a range of batch × heads and sequence lengths, few samples a point.
//!
//! [`points`] says which cases are measured, [`doubt`] which first, [`session`] measures them, [`record`] holds what was found, and
//! [`summary`] says what it comes to; [`fit`] learns from it to
//! predict times.

pub mod doubt;
pub mod fit;
pub mod points;
pub mod record;
pub mod session;
pub mod summary;

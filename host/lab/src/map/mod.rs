//! The map: our time beside that of other contenders over a range of batch × heads and sequence lengths, few samples
//! per point.
//!
//! [`points`] chooses the cases, [`doubt`] orders them, [`session`] measures them, [`record`] stores the results, and
//! [`summary`] summarises them. [`times`] keeps the times of our kernels, to which [`fit`] fits the constants of predicted times.

pub mod doubt;
pub mod fit;
pub mod points;
pub mod record;
pub mod session;
pub mod summary;
pub mod times;

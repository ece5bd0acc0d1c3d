//! Statistics of measured times: order statistics, bootstrap intervals, effect size and rank test.
//!
//! Times of a kernel are skewed and have outliers, so all statistics are based on order, not on a normal distribution.

mod bootstrap;
mod rank_test;
mod samples;
mod summary;

pub use bootstrap::{Bootstrap, CONFIDENCE, Interval, RESAMPLES};
pub use rank_test::RankTest;
pub use samples::Samples;
pub use summary::{Summary, agrees};

//! Makes one HTML page from the records of other commands: times, distributions, roofline, counters, verdicts and the
//! machine, as plots with a table for each.
//!
//! The page is self-contained: no scripts, nothing fetched, plots as inline SVG. [`Report`] holds the sources,
//! `section/` turns them into the content defined in `content.rs`, `plot/` draws, and `page.rs` renders everything into
//! a page.

mod cases;
mod contenders;
mod content;
mod drawn;
pub mod heat;
mod number;
mod page;
mod plot;
mod section;
mod source;
pub mod speed;
mod verdict;

pub use source::{Campaign, Named, Report, Simulation};

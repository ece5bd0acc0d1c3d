//! One HTML page from what the other commands recorded: times, their distributions, the roofline, counters, verdicts and
//! the machine, as plots with a table beside each.
//!
//! The page stands alone: no scripts, nothing fetched, plots as inline SVG. [`Report`] holds the sources, the files in
//! `section/` turn them into the content that `content.rs` describes, those in `plot/` draw, and `page.rs` puts all of it
//! on a page.

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

pub use source::{Campaign, CampaignFailure, CampaignRow, CampaignWorst, Named, Ptx, Report, Simulation};

//! One HTML page from what the other commands recorded: times, their distributions, the roofline, counters, verdicts and
//! the machine, as plots with a table beside each.
//!
//! The page stands alone: no scripts, nothing fetched, plots as inline SVG. [`Report`] holds the sources, the files in
//! `section/` turn them into the page model of `page.rs`, those in `plot/` draw.

mod contenders;
mod number;
mod page;
mod plot;
mod section;
mod source;

use askama::Template;

use crate::compare::Comparison;
use crate::error::{Error, Result};
use crate::ncu::Profile;
use crate::record::BenchRecord;
use contenders::Contenders;
use page::Page;
pub use source::{Campaign, CampaignFailure, CampaignRow, CampaignWorst, Named, Ptx, Simulation};

/// What a page is made of; each part may be empty.
#[derive(Debug, Default)]
pub struct Report {
    /// Measurements.
    pub records: Vec<Named<BenchRecord>>,
    /// Comparisons of two records.
    pub comparisons: Vec<Named<Comparison>>,
    /// Launches under ncu.
    pub profiles: Vec<Named<Profile>>,
    /// Launches in the simulator.
    pub simulations: Vec<Named<Simulation>>,
    /// Fuzzing campaigns.
    pub campaigns: Vec<Named<Campaign>>,
}

impl Report {
    /// The page: HTML that is also well-formed XML.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a plot cannot be drawn.
    pub fn html(&self) -> Result<String> {
        let page = Page::new(self, &Contenders::of(&self.records))?;
        let html = page.render().map_err(|error| Error::Invalid(format!("the page cannot be written: {error}")))?;
        // XML allows no other control characters, not even escaped ones.
        Ok(html.replace(|character: char| character.is_control() && character != '\n', "\u{fffd}"))
    }
}

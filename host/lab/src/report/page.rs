//! Renders the page from its template.

use askama::Template;

use super::contenders::Contenders;
use super::content::Section;
use super::plot::{HEAT, PALETTE, Tone};
use super::section;
use super::source::Report;
use cli::error::{Error, Result};

/// The data of the page's template.
#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    title: String,
    version: &'static str,
    palette: Vec<&'static Tone>,
    sections: Vec<Section>,
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

impl Page {
    /// The page of `report`.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    fn new(report: &Report, contenders: &Contenders) -> Result<Self> {
        let mut sections = Vec::new();
        for (index, record) in report.records.iter().enumerate() {
            sections.push(section::record(index + 1, record, contenders)?);
        }
        sections.extend(section::maps(&report.maps));
        sections.extend(section::comparisons(&report.comparisons)?);
        sections.extend(section::profiles(&report.profiles)?);
        sections.extend(section::simulations(&report.simulations)?);
        sections.extend(section::campaigns(&report.campaigns));
        let environments = report.records.iter().map(|record| &record.content.environment);
        let maps = report.maps.iter().map(|map| &map.content.header.environment);
        let title = match environments.chain(maps).next() {
            Some(environment) => format!("fa512 on {}", environment.device.name),
            None => "fa512 report".into(),
        };
        Ok(Self { title, version: env!("CARGO_PKG_VERSION"), palette: PALETTE.iter().chain(&HEAT).collect(), sections })
    }
}

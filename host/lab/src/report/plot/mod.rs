//! Plots as SVG in the page's colours: light, dark or printed.

mod axis;
mod bars;
mod canvas;
mod histogram;
mod palette;
mod ratios;
mod roofline;
mod rows;
mod time;

pub use bars::{Bar, bars};
pub use canvas::marker;
pub use histogram::{Distribution, histograms};
pub use palette::{HEAT, PALETTE, Style, Tone};
pub use ratios::{Ratio, ratios};
pub use roofline::{Point, Roofline, roofline};
pub use rows::Label;
pub use time::{Line, lines};

/// A plot with its text alternatives.
pub struct Plot {
    /// What it shows.
    pub caption: String,
    /// The same for a screen reader, with the range of the numbers.
    pub description: String,
    /// SVG.
    pub svg: String,
}

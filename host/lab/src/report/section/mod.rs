//! The sections of a page, each from one kind of source.

mod campaigns;
mod cases;
mod comparisons;
mod environment;
mod maps;
mod overview;
mod pairs;
mod profiles;
mod record;
mod roofline;
mod simulations;
mod warnings;

pub use campaigns::campaigns;
pub use comparisons::comparisons;
pub use maps::maps;
pub use profiles::profiles;
pub use record::record;
pub use simulations::simulations;

//! Shows the findings of [`ptx_sim`] as a good compiler shows its errors: the source line with its code, the calls it was
//! inlined through, the PTX instruction, the numbers, and what to do about it.
//!
//! ```no_run
//! # let report = ptx_sim::Report::default();
//! let renderer = ptx_diagnostics::Renderer::new(ptx_diagnostics::Sources::nearby(), false);
//! for finding in &report.findings {
//!     println!("{}", renderer.render(finding));
//! }
//! ```

#![forbid(unsafe_code)]

mod advice;
mod chain;
pub mod files;
mod names;
pub mod printable;
mod render;
mod sources;
pub mod streams;

pub use advice::advice;
pub use names::{demangled, demangled_text, short_name};
pub use render::Renderer;
pub use sources::Sources;

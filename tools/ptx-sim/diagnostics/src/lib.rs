//! Renders the findings of [`ptx_sim`] like compiler errors: the source line with its code, the inlined calls, the PTX
//! instruction, the numbers, and advice.
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

//! Inputs for attention, the f64 reference, and the comparison of a kernel's outputs with it.
//!
//! This is the CPU-heavy part of `fa512`, the program, so it is optimised in every profile; the rest is not.
//!
//! ```
//! use numerics::inputs::{Distribution, Inputs};
//! use contract::problem::{Problem, Shape};
//! use contract::view::Layout;
//! use numerics::reference::Reference;
//! use contract::config::Mask;
//!
//! let problem = Problem::new(Shape::new(1, 2, 512), Mask::Causal, Layout::Bhsd)?;
//! let inputs = Inputs::generate(problem, Distribution::Constant, 0)?;
//! let reference = Reference::compute(&inputs, |_rows| ());
//! assert!((reference.elements[300][7].value - 0.75).abs() < 1e-12);
//! # Ok::<(), numerics::Invalid>(())
//! ```

pub mod check;
pub mod element;
pub mod gradients;
pub mod inputs;
mod invalid;
pub mod reference;
pub mod rows;

pub use invalid::{Invalid, Result};

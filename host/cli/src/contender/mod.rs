//! Implementations of attention that can be timed: entries of our own, or a library in another process.
//!
//! All contenders of a case are prepared together, then take one sample each in turn, so that disturbances of the GPU
//! affect all of them. The types enforce the order: [`Contender`] → [`Prepared`], whose outputs are checked →
//! [`Sampler`], which is timed.

pub mod cubek;
pub mod library;
pub mod ptx;
pub mod spec;
pub mod torch;

use std::num::NonZeroU32;

use crate::check::Outputs;
use crate::error::Result;
use crate::inputs::Inputs;
use crate::record::Implementation;
use crate::timing::{Protocol, Sampler};

/// The input of contenders in a case.
pub struct Workload {
    /// Q, K and V, the same bits for every contender. Additional input sets are copies at other addresses.
    pub inputs: Inputs,
    /// The sampling protocol.
    pub protocol: Protocol,
}

impl Workload {
    /// Number of input sets, each with its own outputs, that a sample rotates over.
    pub fn input_sets(&self) -> NonZeroU32 {
        self.protocol.input_sets(self.inputs.problem().shape().bytes() as u64)
    }
}

/// An implementation of attention.
pub trait Contender {
    /// The name, as on the command line.
    fn name(&self) -> &str;

    /// Prepares for `workload`: inputs in device memory, kernel compiled.
    ///
    /// # Errors
    /// [`Invalid`](crate::error::Error::Invalid) when the contender does not compute this problem,
    /// [`Unavailable`](crate::error::Error::Unavailable) when something it needs is missing.
    fn prepare<'a>(&'a mut self, workload: &'a Workload) -> Result<Box<dyn Prepared<'a> + 'a>>;
}

/// A contender prepared for one workload.
pub trait Prepared<'a> {
    /// The implementation that will run.
    fn implementation(&self) -> Implementation;

    /// Computes O and LSE of the inputs.
    fn answer(&mut self) -> Result<Answer>;

    /// Allocates the additional input sets, warms up, and decides how many calls a sample has.
    fn into_sampler(self: Box<Self>) -> Result<Box<dyn Sampler + 'a>>;
}

/// The result of a contender.
pub struct Answer {
    /// O by the problem's strides; LSE if the contender returns it.
    pub outputs: Outputs,
    /// Forbidden side effects, as messages: changed inputs, writes past the end of a buffer.
    pub violations: Vec<String>,
}

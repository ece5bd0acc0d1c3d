//! Implementations of attention that can be timed: our own entries, or a library in another process.
//!
//! All contenders of a case are prepared together and then take one sample each in turn, so that what disturbs the GPU
//! disturbs all. The types lead through the only order there is: [`Contender`] → [`Prepared`], whose outputs are checked
//! → [`Sampler`], which is timed.

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

/// What contenders of a case are given.
pub struct Workload {
    /// Q, K and V, the same bits for every contender. Further sets of inputs are copies at other addresses.
    pub inputs: Inputs,
    /// How samples are taken.
    pub protocol: Protocol,
}

impl Workload {
    /// Sets of inputs, each with outputs of its own, that take turns within a sample.
    pub fn input_sets(&self) -> NonZeroU32 {
        self.protocol.input_sets(self.inputs.problem().shape().bytes() as u64)
    }
}

/// An implementation of attention.
pub trait Contender {
    /// The name, as on the command line.
    fn name(&self) -> &str;

    /// Gets ready for `workload`: inputs in device memory, kernel compiled.
    ///
    /// # Errors
    /// [`Invalid`](crate::error::Error::Invalid) when the contender does not compute this problem,
    /// [`Unavailable`](crate::error::Error::Unavailable) when something it needs is missing.
    fn prepare<'a>(&'a mut self, workload: &'a Workload) -> Result<Box<dyn Prepared<'a> + 'a>>;
}

/// A contender that can compute one workload.
pub trait Prepared<'a> {
    /// What is going to run.
    fn implementation(&self) -> Implementation;

    /// Computes O and LSE of the inputs.
    fn answer(&mut self) -> Result<Answer>;

    /// Allocates the other sets of inputs, warms up, and decides how many calls a sample has.
    fn into_sampler(self: Box<Self>) -> Result<Box<dyn Sampler + 'a>>;
}

/// What a contender computed.
pub struct Answer {
    /// O by the problem's strides; LSE where the contender gives it.
    pub outputs: Outputs,
    /// Forbidden side effects, as text: changed inputs, writes past the end of a buffer.
    pub violations: Vec<String>,
}

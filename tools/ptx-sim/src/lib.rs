//! Executes PTX on the CPU.

/// Something wrong with a kernel.
#[derive(Clone, Debug)]
pub struct Finding;

/// What the hardware would have done.
#[derive(Clone, Debug, Default)]
pub struct Counters;

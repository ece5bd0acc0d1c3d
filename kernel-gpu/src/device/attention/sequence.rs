//! Sequence lengths as types: a compile-time constant, or the launch's argument with masked tails.

use contract::args::ForwardArgs;

/// The sequence length of a kernel.
pub trait Sequence {
    /// Whether the last tile of rows or keys may be partly beyond the end.
    const HAS_TAIL: bool;

    /// The length.
    fn length(args: &ForwardArgs) -> u32;
}

/// Exactly `LENGTH`, a multiple of every tile: trip counts are constants and nothing is masked at the end.
pub struct Exact<const LENGTH: u32>;

impl<const LENGTH: u32> Sequence for Exact<LENGTH> {
    const HAS_TAIL: bool = false;

    #[inline(always)]
    fn length(_args: &ForwardArgs) -> u32 {
        LENGTH
    }
}

/// Any length from 1 up.
pub struct Any;

impl Sequence for Any {
    const HAS_TAIL: bool = true;

    #[inline(always)]
    fn length(args: &ForwardArgs) -> u32 {
        args.sequence
    }
}

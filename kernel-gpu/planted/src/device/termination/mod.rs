//! Kernels that do not end as they should.

use super::{element, lane, ptx};
use crate::Arguments;

/// A violated assertion.
#[inline(always)]
pub unsafe fn failed_assertion<const PLANTED: bool>(arguments: Arguments) {
    let limit = if PLANTED { 31 } else { 32 };
    if ptx::load_global_4(element(arguments.input, lane(), 4)) >= limit {
        ptx::trap();
    }
}

/// A step of 0.
#[inline(always)]
pub unsafe fn endless_loop<const PLANTED: bool>(arguments: Arguments) {
    let step = u32::from(!PLANTED);
    let mut index = 0;
    while index < 4 {
        ptx::store_global_4(element(arguments.output, index * 32 + lane(), 4), lane());
        index += step;
    }
}

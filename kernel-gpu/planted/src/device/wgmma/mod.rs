//! Registers of a `wgmma` in flight.

use kernel_gpu::ptx::mma::FragmentA;
use kernel_gpu::ptx::wgmma::{self, Accumulators, KMajor, Registers};
use kernel_gpu::shared_tile::F16;

use super::matrices::{self, A_BYTES, Tile};
use super::{lane, ptx};
use crate::Arguments;

/// The result is stored before the wait.
#[inline(always)]
pub unsafe fn accumulator_read_before_the_wait<const PLANTED: bool>(arguments: Arguments) {
    matrices::load(arguments);
    wgmma::fence();
    let d = matrices::multiply_loaded();
    wgmma::commit_group();
    if !PLANTED {
        wgmma::wait_group::<0>();
    }
    matrices::write_out(arguments, d);
    wgmma::wait_group::<0>();
}

/// Two products in flight, of which the wait leaves the one whose result is stored.
#[inline(always)]
pub unsafe fn one_group_too_few<const PLANTED: bool>(arguments: Arguments) {
    matrices::load(arguments);
    wgmma::fence();
    let mut first = matrices::multiply_loaded();
    wgmma::commit_group();
    let second = matrices::multiply_loaded();
    wgmma::commit_group();
    if PLANTED {
        wgmma::wait_group::<1>();
    } else {
        wgmma::wait_group::<0>();
    }
    first.pin();
    matrices::write_out(arguments, second);
    wgmma::wait_group::<0>();
}

/// The wait knows nothing of products that were not committed.
#[inline(always)]
pub unsafe fn wait_before_the_commit<const PLANTED: bool>(arguments: Arguments) {
    matrices::load(arguments);
    wgmma::fence();
    let d = matrices::multiply_loaded();
    if !PLANTED {
        wgmma::commit_group();
    }
    wgmma::wait_group::<0>();
    matrices::write_out(arguments, d);
    wgmma::commit_group();
    wgmma::wait_group::<0>();
}

/// The kernel ends with a product in flight.
#[inline(always)]
pub unsafe fn never_waited_for<const PLANTED: bool>(arguments: Arguments) {
    matrices::load(arguments);
    wgmma::fence();
    matrices::multiply_loaded();
    wgmma::commit_group();
    if !PLANTED {
        wgmma::wait_group::<0>();
    }
}

/// Accumulators are cleared between the fence and the product that adds to them.
#[inline(always)]
pub unsafe fn accumulator_cleared_after_the_fence<const PLANTED: bool>(arguments: Arguments) {
    matrices::load(arguments);
    let mut d: Tile = ptx::zeros();
    wgmma::fence();
    if PLANTED {
        d = ptx::zeros();
    }
    d.multiply_accumulate::<F16, _, _>(matrices::operand::<KMajor>(0), matrices::operand::<KMajor>(A_BYTES));
    wgmma::commit_group();
    matrices::wait_and_write_out(arguments, d);
}

/// No fence at all.
#[inline(always)]
pub unsafe fn no_fence<const PLANTED: bool>(arguments: Arguments) {
    matrices::load(arguments);
    let mut d: Tile = ptx::zeros();
    if !PLANTED {
        wgmma::fence();
    }
    d.multiply_accumulate::<F16, _, _>(matrices::operand::<KMajor>(0), matrices::operand::<KMajor>(A_BYTES));
    wgmma::commit_group();
    matrices::wait_and_write_out(arguments, d);
}

/// The fragment of the next product goes to the registers of one in flight.
#[inline(always)]
pub unsafe fn fragment_changed_in_flight<const PLANTED: bool>(arguments: Arguments) {
    matrices::load(arguments);
    let mut fragment: [FragmentA; 1] = [[lane(); 4]];
    fragment.pin();
    let mut d: Tile = ptx::zeros();
    wgmma::fence();
    d.multiply_fragment::<F16, _>(fragment[0], matrices::operand::<KMajor>(A_BYTES), true);
    wgmma::commit_group();
    if PLANTED {
        ptx::increment(&mut fragment[0][0]);
    }
    wgmma::wait_group::<0>();
    if !PLANTED {
        ptx::increment(&mut fragment[0][0]);
    }
    fragment.pin();
    matrices::write_out(arguments, d);
}

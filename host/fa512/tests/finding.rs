//! Premise of the other tests: with the checks of a call switched off, the simulator reports a finding. In a process of its own,
//! since the context is lost.

mod common;

use fa512::{Layout, Mask, Options, Problem, Shape};

use common::attention::Case;
use common::{findings, gpu, machine, raw};

#[test]
fn an_output_that_is_too_short_is_found_by_the_simulator_where_nobody_else_looks() {
    let Some(()) = machine() else { return };
    if std::env::var_os("FA512_TEST_GPU").is_some() {
        return;
    }
    let stream = gpu(0);
    let shape = Shape::new(1, 1, 40);
    let case = Case::new(Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap(), &stream);
    let mut addresses = case.addresses();
    addresses.lse = addresses.lse.map(|lse| lse + 32);
    let options = Options::default().check_pointers(false);
    // SAFETY: the memory behind the buffer is simulated, too.
    let launched = unsafe { fa512::forward_with(&case.problem, addresses, raw(&stream), options) };
    let finished = stream.synchronize();
    assert!(launched.is_err() || finished.is_err(), "the launch does not fail");
    let report = findings();
    assert!(report.contains("fa512_") && report.contains("past the end of buffer"), "no report: {report}");
    assert!(report.contains("kernel-gpu/src/device/") && report.contains(".rs:"), "no line of Rust: {report}");
}

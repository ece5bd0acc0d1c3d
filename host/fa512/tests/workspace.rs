//! Calls with a workspace, on GPUs without clusters: in a process of its own, since all GPUs of one are of one kind.

mod common;

use fa512::{Addresses, Error, Gpu, Layout, Mask, MemoryProblem, Plan, Problem, Shape, Tensor};

use common::attention::Case;
use common::{address, findings, gpu, machine_of, raw};

/// Few queries with many keys.
fn problem() -> Problem {
    let shape = Shape::new(1, 1, 20).with_kv_sequence(3000);
    Problem::new(shape, Mask::Full, Layout::Bshd).unwrap()
}

#[test]
fn parts_pass_through_a_workspace_with_any_contents() {
    let Some(()) = machine_of("80") else { return };
    let stream = gpu(0);
    let gpu = Gpu::current().unwrap();
    let plan = Plan::with_workspace(&problem(), &gpu).unwrap();
    assert_eq!(Plan::new(&problem(), &gpu).unwrap().workspace_bytes(), 0);
    let bytes = plan.workspace_bytes() as usize;
    assert!(bytes > 0, "{} computes it whole", plan.entry());

    let mut case = Case::new(problem(), &stream);
    let without = plan.bind(case.addresses()).unwrap_err().to_string();
    assert!(without.contains(&format!("workspace is missing; the plan needs one of {bytes} bytes")), "{without}");

    let workspace = stream.clone_htod(&vec![u8::MAX; bytes]).unwrap();
    let addresses = Addresses { workspace: Some(address(&workspace, &stream)), ..case.addresses() };
    let launch = plan.bind(addresses).unwrap();
    for _ in 0..2 {
        // SAFETY: the tensors and the workspace live until the check has synchronised.
        unsafe { launch.launch(raw(&stream)) }.unwrap();
        case.check(true);
        case.clear();
    }
    // SAFETY: as above.
    unsafe { fa512::forward(&problem(), addresses, raw(&stream)) }.unwrap();
    case.check(true);
    assert_eq!(findings(), "");
}

#[test]
fn what_the_workspace_points_to_is_checked() {
    let Some(()) = machine_of("80") else { return };
    let stream = gpu(0);
    let case = Case::new(problem(), &stream);
    let bytes = Plan::with_workspace(&problem(), &Gpu::current().unwrap()).unwrap().workspace_bytes();
    let short = stream.clone_htod(&vec![0_u8; bytes as usize - 16]).unwrap();
    let refused = |workspace| {
        let addresses = Addresses { workspace: Some(workspace), ..case.addresses() };
        // SAFETY: nothing is launched.
        unsafe { fa512::forward(&problem(), addresses, raw(&stream)) }.unwrap_err()
    };
    let error = refused(address(&short, &stream));
    let is_it = matches!(error, Error::Memory { tensor: Tensor::Workspace, why: MemoryProblem::TooShort { .. }, .. });
    assert!(is_it, "{error}");
    let error = refused(address(&case.o, &stream)).to_string();
    assert!(error.contains("workspace at") && error.contains("overlaps O"), "{error}");
    let error = refused(address(&short, &stream) + 8).to_string();
    assert!(error.contains("workspace is at address") && error.contains("multiple of 16"), "{error}");
}

#[cfg(feature = "cudarc")]
#[test]
fn slices_need_no_workspace_of_the_callers() {
    let Some(()) = machine_of("80") else { return };
    let stream = gpu(0);
    let mut case = Case::new(problem(), &stream);
    let halves = |slice: &cudarc::driver::CudaSlice<u16>| {
        let bits = stream.clone_dtoh(slice).unwrap();
        stream.clone_htod(&bits.iter().map(|&bits| half::f16::from_bits(bits)).collect::<Vec<_>>()).unwrap()
    };
    let [q, k, v, mut o] = [&case.q, &case.k, &case.v, &case.o].map(halves);
    fa512::cudarc::forward(&problem(), &q, &k, &v, &mut o, None, &stream).unwrap();
    let o = stream.clone_dtoh(&o).unwrap().into_iter().map(half::f16::to_bits).collect::<Vec<_>>();
    case.o = stream.clone_htod(&o).unwrap();
    case.check(false);
    assert_eq!(findings(), "");
}

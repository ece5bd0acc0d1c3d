//! Plans that a thread made last, so that the layers of a model, which compute the same problem, share one.

use std::cell::RefCell;

use contract::backward::plan::{BackwardPlan, Sums};
use contract::gradient::Gradient;
use contract::parts::Workspace;
use contract::problem::Problem;

use crate::error::Error;
use crate::gpu::Gpu;
use crate::plan::Plan;

/// Number of plans that a thread keeps: models alternate between few problems, such as layers with a window and without.
const KEPT: usize = 4;

/// Plans `P`, and what each was made for, the newest first.
type Recent<For, P> = RefCell<[Option<(For, P)>; KEPT]>;

thread_local! {
    static FORWARD: Recent<(Problem, usize, Workspace), Plan> = const { RefCell::new([None; KEPT]) };
    static BACKWARD: Recent<(Gradient, usize, Sums), BackwardPlan> = const { RefCell::new([None; KEPT]) };
}

/// [`Plan::of`] for a GPU of this machine, computed once for a problem that comes again soon.
pub fn plan(problem: &Problem, gpu: &Gpu, workspace: Workspace) -> Result<Plan, Error> {
    let wanted = (*problem, ordinal(gpu)?, workspace);
    FORWARD.with(|recent| find(recent, wanted, || Plan::of(problem, gpu, workspace)))
}

/// The plan that `make` makes of a gradient, likewise.
pub fn backward_plan(
    gradient: &Gradient,
    gpu: &Gpu,
    sums: Sums,
    make: impl FnOnce() -> Result<BackwardPlan, Error>,
) -> Result<BackwardPlan, Error> {
    BACKWARD.with(|recent| find(recent, (*gradient, ordinal(gpu)?, sums), make))
}

fn ordinal(gpu: &Gpu) -> Result<usize, Error> {
    gpu.ordinal().ok_or(Error::OtherGpu { planned: None })
}

fn find<For: PartialEq, P: Copy>(
    recent: &Recent<For, P>,
    wanted: For,
    make: impl FnOnce() -> Result<P, Error>,
) -> Result<P, Error> {
    let mut recent = recent.borrow_mut();
    if let Some((_, plan)) = recent.iter().flatten().find(|(made_for, _)| *made_for == wanted) {
        return Ok(*plan);
    }
    let plan = make()?;
    recent.rotate_right(1);
    recent[0] = Some((wanted, plan));
    Ok(plan)
}

//! Plans that a thread made last, so that the layers of a model, which compute the same problem, share one.

use std::cell::RefCell;

use contract::parts::Workspace;
use contract::problem::Problem;

use crate::error::Error;
use crate::gpu::Gpu;
use crate::plan::Plan;

/// Number of plans that a thread keeps: models alternate between few problems, such as layers with a window and without.
const KEPT: usize = 4;

/// A plan, and what it was made for.
#[derive(Clone, Copy)]
struct Made {
    problem: Problem,
    gpu: usize,
    workspace: Workspace,
    plan: Plan,
}

thread_local! {
    /// The newest first.
    static RECENT: RefCell<[Option<Made>; KEPT]> = const { RefCell::new([None; KEPT]) };
}

/// [`Plan::of`] for a GPU of this machine, computed once for a problem that comes again soon.
pub fn plan(problem: &Problem, gpu: &Gpu, workspace: Workspace) -> Result<Plan, Error> {
    let ordinal = gpu.ordinal().ok_or(Error::OtherGpu { planned: None })?;
    let is_wanted = |made: &Made| made.gpu == ordinal && made.workspace == workspace && made.problem == *problem;
    RECENT.with_borrow_mut(|recent| {
        if let Some(made) = recent.iter().flatten().find(|made| is_wanted(made)) {
            return Ok(made.plan);
        }
        let plan = Plan::of(problem, gpu, workspace)?;
        recent.rotate_right(1);
        recent[0] = Some(Made { problem: *problem, gpu: ordinal, workspace, plan });
        Ok(plan)
    })
}

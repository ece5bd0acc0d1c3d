//! Whether a workspace makes a launch faster.

use crate::choose::cost::{Costs, KernelClass};
use crate::launch::plan::Plan;
use crate::spec::gpu::Gpu;

impl Plan<'_> {
    /// The same launch for callers with a workspace ([`Self::workspace_bytes`]): if the kernel can, and it is predicted by `costs` to be
    /// faster, the keys of an item are split among blocks of `gpu`, and a second launch combines their results.
    pub fn with_workspace(self, costs: &[Costs<'_>], gpu: &Gpu<'_>) -> Self {
        let (variant, problem) = (self.variant(), self.problem());
        let class = KernelClass::of(&variant);
        let costs = Costs::find(costs, gpu).filter(|_| variant.leaves_parts && problem.packing().is_none());
        let fastest = costs.and_then(|costs| costs.in_fastest_parts(&class, problem, gpu.multiprocessors));
        self.in_parts(fastest.map_or(1, |(parts, _)| parts))
    }
}

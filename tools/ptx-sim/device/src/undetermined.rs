//! Reports undetermined values that kernels left in global memory, when they are copied to the host or their memory is
//! freed.

use ptx_diagnostics::short_name;
use ptx_sim::UndeterminedStore;

use crate::error::Result;
use crate::objects::{Call, Context};

impl Context {
    /// Reports undetermined values in the `bytes` bytes at `address` that are copied to the host.
    pub(crate) fn tell_copied(&self, address: u64, bytes: u64, copy: &str) -> Result<()> {
        let stores = self.state(Call::Asynchronous)?.memory.global.take_undetermined(address, bytes);
        self.tell_stores(stores, &format!("the values go to the host by {copy}"));
        Ok(())
    }

    /// Reports undetermined values in the allocation at `address`, whose lifetime ends: a result that nothing has read.
    pub(crate) fn tell_left(&self, address: u64) -> Result<()> {
        let state = self.state(Call::Asynchronous)?;
        let Some(allocation) = state.memory.find(address) else { return Ok(()) };
        let stores = state.memory.global.take_left(allocation.address);
        drop(state);
        self.tell_stores(stores, &format!("the values are left in {}", allocation.name));
        Ok(())
    }

    /// As [`Context::tell_left`], for every live allocation.
    pub(crate) fn tell_left_at_end(&self) -> Result<()> {
        let state = self.state(Call::Asynchronous)?;
        let live = state.memory.global.allocations().filter(|found| found.live).map(|found| found.start);
        let live: Vec<u64> = live.collect();
        drop(state);
        live.into_iter().try_for_each(|address| self.tell_left(address))
    }

    fn tell_stores(&self, stores: Vec<UndeterminedStore>, consequence: &str) {
        let reporter = &self.machine().reporter;
        for UndeterminedStore { entry, finding } in stores {
            let mut findings = vec![finding];
            reporter.retain_new(&mut findings);
            if !findings.is_empty() {
                let launch = format!("{}; {consequence}", short_name(&entry));
                reporter.findings(&findings, &launch, &format!("launch of {launch}"));
            }
        }
    }
}

//! The faults of one instruction's accesses, collected over its lanes.

use super::view::Context;
use crate::finding::{FindingClass, LaneAddress, OtherAccess};

/// The faults of one instruction's accesses, collected over its lanes.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    kinds: Vec<Fault>,
}

#[derive(Debug)]
struct Fault {
    class: FindingClass,
    /// Description of the first lane's access, without `{}`.
    cause: String,
    which: Vec<LaneAddress>,
    /// The other access of a race.
    other: Option<OtherAccess>,
}

impl Faults {
    /// Whether the lane's access conflicts with an asynchronous operation that was not waited for.
    pub fn has_not_waited(&self, lane: usize) -> bool {
        let not_waited = self.kinds.iter().filter(|fault| fault.class == FindingClass::AsyncCopyNotWaited);
        not_waited.flat_map(|fault| &fault.which).any(|access| access.lane == lane as u32)
    }

    /// Adds a fault of a lane's access.
    #[cold]
    pub fn add(&mut self, class: FindingClass, lane: usize, address: u64, cause: impl FnOnce() -> String) {
        self.add_pair(class, lane, address, || (cause(), None));
    }

    /// Adds a fault of a lane without an address.
    #[cold]
    pub fn add_lane(&mut self, class: FindingClass, lane: usize, cause: impl FnOnce() -> String) {
        self.insert(class, LaneAddress { lane: lane as u32, address: None }, || (cause(), None));
    }

    /// Adds a fault of a lane's access, with the access that it races with.
    #[cold]
    pub fn add_pair(
        &mut self,
        class: FindingClass,
        lane: usize,
        address: u64,
        describe: impl FnOnce() -> (String, Option<OtherAccess>),
    ) {
        self.insert(class, LaneAddress { lane: lane as u32, address: Some(address) }, describe);
    }

    fn insert(
        &mut self,
        class: FindingClass,
        access: LaneAddress,
        describe: impl FnOnce() -> (String, Option<OtherAccess>),
    ) {
        match self.kinds.iter_mut().find(|fault| fault.class == class) {
            // If an instruction accesses several places per lane, the first fault is enough.
            Some(fault) if fault.which.iter().any(|known| known.lane == access.lane) => {}
            Some(fault) => fault.which.push(access),
            None => {
                let (cause, other) = describe();
                self.kinds.push(Fault { class, cause, which: vec![access], other });
            }
        }
    }
}

/// `lane 1 at 0x82, lane 2 at 0x104, …`
pub(super) fn addresses(which: &[LaneAddress]) -> String {
    const SHOWN: usize = 4;
    let shown = which.iter().take(SHOWN).map(|access| match access.address {
        Some(address) => format!("lane {} at {address:#x}", access.lane),
        None => format!("lane {}", access.lane),
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if which.len() > SHOWN {
        text.push_str(&format!(" and {} more lanes", which.len() - SHOWN));
    }
    text
}

impl Context<'_> {
    /// Reports the collected faults.
    pub fn report_faults(&mut self, faults: Faults) {
        for Fault { class, cause, which, other } in faults.kinds {
            let list = addresses(&which);
            self.report_pair(class, which, other, || format!("{cause}: {list}"));
        }
    }
}

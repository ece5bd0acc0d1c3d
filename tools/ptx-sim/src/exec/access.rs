//! Every access to memory that an instruction makes, and every check of one.

use super::Context;
use crate::finding::{FindingClass, LaneAddress};
use crate::memory::{OutOfBounds, resolve};
use crate::parse::Space;

/// What is wrong with the accesses of one instruction, gathered over its lanes.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    kinds: Vec<Fault>,
}

#[derive(Debug)]
struct Fault {
    class: FindingClass,
    /// Describes the first lane's access; `{}`-free text.
    cause: String,
    which: Vec<LaneAddress>,
}

impl Faults {
    #[cold]
    pub fn add(&mut self, class: FindingClass, lane: usize, address: u64, cause: impl FnOnce() -> String) {
        let access = LaneAddress { lane: lane as u32, address: Some(address) };
        match self.kinds.iter_mut().find(|fault| fault.class == class) {
            Some(fault) => fault.which.push(access),
            None => self.kinds.push(Fault { class, cause: cause(), which: vec![access] }),
        }
    }
}

/// `lane 1 at 0x82, lane 2 at 0x104, …`
fn addresses(which: &[LaneAddress]) -> String {
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
    /// Reports what was gathered.
    pub fn report_faults(&mut self, faults: Faults) {
        for Fault { class, cause, which } in faults.kinds {
            let list = addresses(&which);
            self.report(class, which, || format!("{cause}: {list}"));
        }
    }

    /// The space and the address there; `None` stands for a generic address.
    fn place(space: Option<Space>, address: u64) -> (Space, u64) {
        space.map_or_else(|| resolve(address), |space| (space, address))
    }

    /// Whether `address` is a multiple of `alignment`; a fault otherwise.
    pub fn check_alignment(
        &self,
        faults: &mut Faults,
        lane: usize,
        space: Space,
        address: u64,
        alignment: u64,
        what: impl FnOnce() -> String,
    ) -> bool {
        let aligned = address.is_multiple_of(alignment);
        if !aligned {
            let cause = || {
                let location = self.location(space, address, 1);
                format!("{} in {space} memory needs an address that is a multiple of {alignment}{location}", what())
            };
            faults.add(FindingClass::Misaligned, lane, address, cause);
        }
        aligned
    }

    /// Whether an ordinary access touches an mbarrier, which is a fault.
    fn is_opaque(
        &self,
        faults: &mut Faults,
        lane: usize,
        space: Space,
        address: u64,
        bytes: usize,
        what: impl Fn() -> String,
    ) -> bool {
        let found = match space {
            Space::Shared => self.block.mbarriers.overlapping(address, bytes),
            _ => None,
        };
        if let Some(mbarrier) = found {
            let cause = || format!("{} touches the mbarrier at {mbarrier:#x}, which only mbarrier may access", what());
            faults.add(FindingClass::MbarrierMisuse, lane, address, cause);
        }
        found.is_some()
    }

    /// Reads `data.len()` bytes, which have to be naturally aligned. A faulty access reads zeros. Returns the space.
    pub fn load(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Option<Space>,
        address: u64,
        data: &mut [u8],
    ) -> Space {
        let (space, address) = Self::place(space, address);
        let alignment = data.len() as u64;
        self.load_aligned(faults, lane, space, address, alignment, data);
        space
    }

    /// Reads `data.len()` bytes with a given alignment.
    pub fn load_aligned(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Space,
        address: u64,
        alignment: u64,
        data: &mut [u8],
    ) {
        let bytes = data.len();
        if !self.check_alignment(faults, lane, space, address, alignment, || read_of(bytes)) {
            data.fill(0);
            return;
        }
        if self.is_opaque(faults, lane, space, address, bytes, || read_of(bytes)) {
            data.fill(0);
            return;
        }
        let state = match space {
            Space::Global | Space::Constant => {
                self.machine.memory.load(address, data).map(|initialised| (!initialised, false))
            }
            Space::Parameter => self.load_parameter(address, data),
            Space::Shared => self.block.shared.load(address, data).map(|state| (state.uninitialised, state.in_flight)),
            Space::Local => match self.warp.local.get(lane) {
                Some(local) => local.load(address, data).map(|state| (state.uninitialised, false)),
                None => Err(OutOfBounds("the entry has no local memory".to_owned())),
            },
        };
        match state {
            Err(OutOfBounds(location)) => {
                data.fill(0);
                let variable = self.variable(space, address);
                let cause = || format!("{} from {space} memory out of bounds, {location}{variable}", read_of(bytes));
                faults.add(FindingClass::OutOfBounds, lane, address, cause);
            }
            Ok((_, true)) => {
                let what = read_of(bytes);
                let cause =
                    || format!("{what} of {space} memory that an asynchronous copy, not yet waited for, will write");
                faults.add(FindingClass::AsyncCopyNotWaited, lane, address, cause);
            }
            Ok((true, false)) => {
                let cause = || {
                    let location = self.location(space, address, bytes);
                    format!("{} of {space} memory that was never written{location}", read_of(bytes))
                };
                faults.add(FindingClass::Uninitialised, lane, address, cause);
            }
            Ok((false, false)) => {}
        }
    }

    /// Where an address lies, for messages.
    fn location(&self, space: Space, address: u64, bytes: usize) -> String {
        match space {
            Space::Global | Space::Constant => format!(", {}", self.machine.memory.describe(address, bytes as u64)),
            Space::Shared | Space::Local | Space::Parameter => self.variable(space, address),
        }
    }

    /// The shared variable at or below an address, for messages.
    pub fn variable(&self, space: Space, address: u64) -> String {
        let names = &self.machine.program.layout.shared_names;
        let below = names.iter().filter(|(_, first)| space == Space::Shared && *first <= address);
        let nearest = below.max_by_key(|(_, first)| *first);
        nearest.map_or(String::new(), |(name, first)| format!(", offset {} of `{name}`", address - first))
    }

    fn load_parameter(&self, address: u64, data: &mut [u8]) -> Result<(bool, bool), OutOfBounds> {
        let bytes = &self.machine.parameters;
        let end = address.checked_add(data.len() as u64).filter(|end| *end <= bytes.len() as u64);
        match end {
            Some(end) => {
                data.copy_from_slice(&bytes[address as usize..end as usize]);
                Ok((false, false))
            }
            None => Err(OutOfBounds(format!("the parameters have {} bytes", bytes.len()))),
        }
    }

    /// Writes `data`, which has to be naturally aligned. A faulty access writes nothing. Returns the space.
    pub fn store(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Option<Space>,
        address: u64,
        data: &[u8],
    ) -> Space {
        let (space, address) = Self::place(space, address);
        let alignment = data.len() as u64;
        self.store_aligned(faults, lane, space, address, alignment, data);
        space
    }

    /// Writes `data` with a given alignment.
    pub fn store_aligned(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Space,
        address: u64,
        alignment: u64,
        data: &[u8],
    ) {
        let what = || format!("a {}-byte write", data.len());
        if !self.check_alignment(faults, lane, space, address, alignment, what) {
            return;
        }
        if self.is_opaque(faults, lane, space, address, data.len(), what) {
            return;
        }
        let result = match space {
            Space::Global => self.machine.memory.store(address, data).map(|()| false),
            Space::Shared => self.block.shared.store(address, data),
            Space::Local => match self.warp.local.get_mut(lane) {
                Some(local) => local.store(address, data),
                None => Err(OutOfBounds("the entry has no local memory".to_owned())),
            },
            Space::Parameter | Space::Constant => Err(OutOfBounds("it cannot be written".to_owned())),
        };
        match result {
            Err(OutOfBounds(location)) => {
                let variable = self.variable(space, address);
                let cause = || format!("{} to {space} memory out of bounds, {location}{variable}", what());
                faults.add(FindingClass::OutOfBounds, lane, address, cause);
            }
            Ok(true) => {
                let cause = || {
                    format!("{} to {space} memory that an asynchronous copy, not yet waited for, will write", what())
                };
                faults.add(FindingClass::AsyncCopyNotWaited, lane, address, cause);
            }
            Ok(false) => {}
        }
    }

    /// Replaces a naturally aligned value by `update` of it as one atomic operation; the old value and the space. A
    /// faulty access changes nothing and gives 0.
    pub fn update(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Option<Space>,
        address: u64,
        bytes: usize,
        update: &dyn Fn(u64) -> u64,
    ) -> (u64, Space) {
        let (space, address) = Self::place(space, address);
        if space != Space::Global {
            let mut data = [0; 8];
            self.load_aligned(faults, lane, space, address, bytes as u64, &mut data[..bytes]);
            let old = u64::from_le_bytes(data);
            if faults.kinds.is_empty() {
                let new = update(old).to_le_bytes();
                self.store_aligned(faults, lane, space, address, bytes as u64, &new[..bytes]);
            }
            return (old, space);
        }
        let what = || format!("a {bytes}-byte atomic operation");
        if !self.check_alignment(faults, lane, space, address, bytes as u64, what) {
            return (0, space);
        }
        match self.machine.memory.update(address, bytes as u32, update) {
            Err(OutOfBounds(location)) => {
                let cause = || format!("{} on {space} memory out of bounds, {location}", what());
                faults.add(FindingClass::OutOfBounds, lane, address, cause);
                (0, space)
            }
            Ok((old, initialised)) => {
                if !initialised {
                    let location = self.location(space, address, bytes);
                    let cause = || format!("{} on {space} memory that was never written{location}", what());
                    faults.add(FindingClass::Uninitialised, lane, address, cause);
                }
                (old, space)
            }
        }
    }

    /// Begins an asynchronous copy of `bytes` bytes to shared memory; false when it cannot be done.
    pub fn begin_copy(&mut self, faults: &mut Faults, lane: usize, address: u64, bytes: usize) -> bool {
        let what = || format!("the destination of a {bytes}-byte cp.async");
        if !self.check_alignment(faults, lane, Space::Shared, address, bytes as u64, what) {
            return false;
        }
        if self.is_opaque(faults, lane, Space::Shared, address, bytes, what) {
            return false;
        }
        match self.block.shared.begin_copy(address, bytes) {
            Ok(false) => true,
            Ok(true) => {
                let cause = || format!("{} overlaps that of another copy not yet waited for", what());
                faults.add(FindingClass::AsyncCopyNotWaited, lane, address, cause);
                true
            }
            Err(OutOfBounds(location)) => {
                let variable = self.variable(Space::Shared, address);
                let cause = || format!("{} in shared memory is out of bounds, {location}{variable}", what());
                faults.add(FindingClass::OutOfBounds, lane, address, cause);
                false
            }
        }
    }
}

fn read_of(bytes: usize) -> String {
    format!("a {bytes}-byte read")
}

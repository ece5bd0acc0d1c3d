//! Loads, stores and atomic operations: every access to memory that takes effect at once, and every check of one but for races.

use super::faults::Faults;
use super::place::Place;
use super::races::Effect;
use super::view::Context;
use crate::finding::FindingClass;
use crate::memory::OutOfBounds;
use crate::parse::Space;

/// What a lane reads or writes.
enum Data<'d> {
    Read(&'d mut [u8]),
    Write(&'d [u8]),
}

impl Data<'_> {
    fn len(&self) -> usize {
        match self {
            Data::Read(data) => data.len(),
            Data::Write(data) => data.len(),
        }
    }

    /// What a read that cannot be done gives.
    fn clear(&mut self) {
        if let Data::Read(data) = self {
            data.fill(0);
        }
    }
}

/// What an access that can be done meets.
#[derive(Clone, Copy, Default)]
struct Met {
    /// It reads a byte that nobody wrote.
    uninitialised: bool,
    /// An asynchronous copy to a byte was not waited for.
    in_flight: bool,
}

/// Why an access cannot be done.
enum Failure {
    OutOfBounds(OutOfBounds),
    ReadOnly,
}

impl From<OutOfBounds> for Failure {
    fn from(error: OutOfBounds) -> Self {
        Failure::OutOfBounds(error)
    }
}

impl Context<'_> {
    /// Reads `data.len()` bytes, which have to be naturally aligned. A faulty access reads zeros. Returns the space.
    pub fn load(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Option<Space>,
        address: u64,
        data: &mut [u8],
    ) -> Space {
        let place = Place::new(lane, space, address, data.len() as u64);
        self.read(faults, place, data);
        place.space
    }

    /// Reads `data.len()` bytes. A faulty access reads zeros.
    pub fn read(&mut self, faults: &mut Faults, place: Place, data: &mut [u8]) {
        if self.access(faults, place, Data::Read(data)) {
            self.check_races(faults, place, data, Effect::Read);
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
        let place = Place::new(lane, space, address, data.len() as u64);
        self.write(faults, place, data);
        place.space
    }

    /// Writes `data`. A faulty access writes nothing.
    pub fn write(&mut self, faults: &mut Faults, place: Place, data: &[u8]) {
        if self.access(faults, place, Data::Write(data)) {
            self.check_races(faults, place, data, Effect::Write);
        }
    }

    /// Reads or writes without a check for races; whether there are such bytes, none of which a copy in flight will write.
    fn access(&mut self, faults: &mut Faults, place: Place, mut data: Data<'_>) -> bool {
        let (Place { lane, space, address, .. }, bytes) = (place, data.len());
        let (effect, verb, preposition) = match data {
            Data::Read(_) => (Effect::Read, "read", "from"),
            Data::Write(_) => (Effect::Write, "write", "to"),
        };
        let what = || format!("a {bytes}-byte {verb}");
        if !self.check_place(faults, place, bytes, what) {
            data.clear();
            return false;
        }
        match self.transfer(faults, place, &mut data) {
            Err(failure) => {
                data.clear();
                let cause = || match failure {
                    Failure::OutOfBounds(OutOfBounds(location)) => {
                        let variable = self.variable(space, address);
                        format!("{} {preposition} {space} memory out of bounds, {location}{variable}", what())
                    }
                    Failure::ReadOnly => {
                        let location = self.location(space, address, bytes);
                        format!("{} {preposition} {space} memory, which can only be read{location}", what())
                    }
                };
                faults.add(FindingClass::OutOfBounds, lane, address, cause);
                false
            }
            Ok(Met { in_flight: true, .. }) => {
                let what = effect.of(bytes);
                let cause =
                    || format!("{what} {space} memory that an asynchronous copy, not yet waited for, will write");
                faults.add(FindingClass::AsyncCopyNotWaited, lane, address, cause);
                false
            }
            Ok(Met { uninitialised, in_flight: false }) => {
                if uninitialised {
                    let cause = || {
                        let location = self.location(space, address, bytes);
                        format!("{} {space} memory that was never written{location}", effect.of(bytes))
                    };
                    faults.add(FindingClass::Uninitialised, lane, address, cause);
                }
                true
            }
        }
    }

    /// Moves the bytes between the lane and its memory.
    fn transfer(&mut self, faults: &mut Faults, place: Place, data: &mut Data<'_>) -> Result<Met, Failure> {
        let Place { lane, space, address, .. } = place;
        match (space, data) {
            (Space::Global | Space::Constant, Data::Read(data)) => {
                let uninitialised = !self.machine.memory.load(address, data)?;
                Ok(Met { uninitialised, in_flight: false })
            }
            (Space::Global, Data::Write(data)) => {
                self.machine.memory.store(address, data)?;
                Ok(Met::default())
            }
            (Space::Parameter, Data::Read(data)) => {
                self.machine.parameters.load(address, data)?;
                Ok(Met::default())
            }
            (Space::Parameter | Space::Constant, Data::Write(_)) => Err(Failure::ReadOnly),
            (Space::Shared, Data::Read(data)) => {
                let state = self.block.shared.load(address, data)?;
                Ok(Met { uninitialised: state.uninitialised, in_flight: state.in_flight })
            }
            (Space::Shared, Data::Write(data)) => {
                let bytes = data.len();
                self.check_bulk_reads(faults, lane, address, bytes, || format!("a {bytes}-byte write"));
                let in_flight = self.block.shared.store(address, data)?;
                self.block.ordinary_write(self.warp.index, address, bytes);
                Ok(Met { uninitialised: false, in_flight })
            }
            (Space::Local, data) => {
                let Some(local) = self.warp.local.get_mut(lane) else {
                    return Err(OutOfBounds("the entry has no local memory".to_owned()).into());
                };
                match data {
                    Data::Read(data) => {
                        let uninitialised = local.load(address, data)?.uninitialised;
                        Ok(Met { uninitialised, in_flight: false })
                    }
                    Data::Write(data) => {
                        let in_flight = local.store(address, data)?;
                        Ok(Met { uninitialised: false, in_flight })
                    }
                }
            }
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
        let place = Place::new(lane, space, address, bytes as u64);
        let old = match place.space {
            Space::Global => self.update_global(faults, place, update),
            _ => self.update_in_steps(faults, place, update),
        };
        (old, place.space)
    }

    /// Where only one block has access, a read and a write are one operation.
    fn update_in_steps(&mut self, faults: &mut Faults, place: Place, update: &dyn Fn(u64) -> u64) -> u64 {
        let bytes = place.alignment as usize;
        let mut data = [0; 8];
        let mut is_right = self.access(faults, place, Data::Read(&mut data[..bytes]));
        let old = u64::from_le_bytes(data);
        if faults.is_empty() {
            is_right &= self.access(faults, place, Data::Write(&update(old).to_le_bytes()[..bytes]));
        }
        if is_right {
            self.check_races(faults, place, &data[..bytes], Effect::Update);
        }
        old
    }

    fn update_global(&mut self, faults: &mut Faults, place: Place, update: &dyn Fn(u64) -> u64) -> u64 {
        let Place { lane, space, address, alignment: bytes } = place;
        let what = || format!("a {bytes}-byte atomic operation");
        if !self.check_alignment(faults, place, what) {
            return 0;
        }
        match self.machine.memory.update(address, bytes as u32, update) {
            Err(OutOfBounds(location)) => {
                let cause = || format!("{} on {space} memory out of bounds, {location}", what());
                faults.add(FindingClass::OutOfBounds, lane, address, cause);
                0
            }
            Ok((old, initialised)) => {
                if !initialised {
                    let location = self.location(space, address, bytes as usize);
                    let cause = || format!("{} on {space} memory that was never written{location}", what());
                    faults.add(FindingClass::Uninitialised, lane, address, cause);
                }
                self.check_races(faults, place, &old.to_le_bytes()[..bytes as usize], Effect::Update);
                old
            }
        }
    }

    /// Whether `bytes` bytes of memory lie at a place and are aligned; a fault otherwise. Nothing is read.
    pub fn check_reachable(&mut self, faults: &mut Faults, place: Place, bytes: usize, what: impl Fn() -> String) {
        if !self.check_alignment(faults, place, &what) {
            return;
        }
        let Place { lane, space, address, .. } = place;
        let mut data = vec![0; bytes];
        let found = match space {
            Space::Global | Space::Constant => self.machine.memory.load(address, &mut data).map(drop),
            Space::Parameter => self.machine.parameters.load(address, &mut data),
            Space::Shared | Space::Local => Err(OutOfBounds("where none can be".to_owned())),
        };
        if let Err(OutOfBounds(location)) = found {
            let cause = || format!("{} in {space} memory out of bounds, {location}", what());
            faults.add(FindingClass::OutOfBounds, lane, address, cause);
        }
    }
}

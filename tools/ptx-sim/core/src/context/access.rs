//! Loads, stores and atomic operations: all synchronous memory accesses, with all checks except those for races.

use super::faults::Faults;
use super::left::Left;
use super::place::Place;
use super::races::Effect;
use super::unknown::Use;
use super::view::Context;
use crate::finding::FindingClass;
use crate::memory::OutOfBounds;
use crate::parse::Space;
use crate::race::Conflict;
use crate::unknown::{Origin, Read, Unknown, UnknownBytes};

/// The data of a lane's access.
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

    /// Sets the result of a read that cannot be performed.
    fn clear(&mut self) {
        if let Data::Read(data) = self {
            data.fill(0);
        }
    }
}

/// Problems of an access that can be performed.
#[derive(Clone, Copy, Default)]
struct Met {
    /// It reads an uninitialised byte.
    uninitialised: bool,
    /// It touches a byte of an asynchronous copy that was not waited for.
    in_flight: bool,
}

/// Why an access cannot be performed.
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
    /// Reads `data.len()` bytes whose values matter. A faulty access reads zeros.
    pub fn read(&mut self, faults: &mut Faults, place: Place, data: &mut [u8]) {
        let unknown = self.read_values(faults, place, data);
        if !unknown.is_empty() {
            self.refuse_unknown(faults, place, data.len(), &unknown);
        }
    }

    /// Reads `data.len()` bytes, and returns which are undetermined. A faulty access reads zeros.
    pub fn read_values(&mut self, faults: &mut Faults, place: Place, data: &mut [u8]) -> UnknownBytes {
        let Some(met) = self.access(faults, place, Data::Read(data)) else { return UnknownBytes::default() };
        self.check_races(faults, place, data, Effect::Read, None);
        if met.uninitialised { self.unknown_bytes(place, data) } else { UnknownBytes::default() }
    }

    /// Reads `data.len()` bytes for a load, whose values may or may not matter; returns which are undetermined, and the
    /// space. A faulty access reads zeros.
    pub fn load_values(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Option<Space>,
        address: u64,
        data: &mut [u8],
    ) -> (Option<Box<UnknownBytes>>, Space) {
        let place = Place::new(lane, space, address, data.len() as u64);
        if self.instruction.semantics.strength.is_strong() {
            return (self.load_strong(faults, place, data), place.space);
        }
        let Some(met) = self.access(faults, place, Data::Read(data)) else { return (None, place.space) };
        let conflict = self.race(faults, place, data, Effect::Read, None);
        match (met.uninitialised, conflict) {
            (false, None) => (None, place.space),
            (uninitialised, conflict) => (self.unknown_of_load(place, data, uninitialised, conflict), place.space),
        }
    }

    /// A load whose data others may write concurrently, and which a polling loop may use.
    fn load_strong(&mut self, faults: &mut Faults, place: Place, data: &mut [u8]) -> Option<Box<UnknownBytes>> {
        let mut shard = self.announcements(place);
        let met = self.access(faults, place, Data::Read(data))?;
        if place.space == Space::Global {
            self.machine.memory.note_exchange(place.address);
        }
        if self.instruction.is_strong_read {
            let mut word = [0; 8];
            let count = data.len().min(8);
            word[..count].copy_from_slice(&data[..count]);
            self.note_read(place, u64::from_le_bytes(word));
        }
        let conflict = self.race(faults, place, data, Effect::Read, shard.as_deref_mut());
        self.unknown_of_load(place, data, met.uninitialised, conflict)
    }

    /// The undetermined bytes of a load: uninitialised, or racing.
    #[cold]
    pub(super) fn unknown_of_load(
        &self,
        place: Place,
        data: &mut [u8],
        uninitialised: bool,
        conflict: Option<Conflict>,
    ) -> Option<Box<UnknownBytes>> {
        let mut unknown = UnknownBytes::default();
        if uninitialised {
            unknown = self.unknown_bytes(place, data);
            if unknown.len() < data.len() {
                unknown.mark_partial(self.pc);
            }
        }
        if let Some(conflict) = conflict {
            self.doubt(&mut unknown, place, data.len(), conflict);
        }
        (!unknown.is_empty()).then(|| Box::new(unknown))
    }

    /// Records a read that a polling loop may be based on.
    fn note_read(&mut self, Place { lane, address, .. }: Place, value: u64) {
        self.cluster.polls.add(self.warp.strong_reads.note(self.pc, lane, address, value));
    }

    /// Marks the result of a racing read as undetermined, unless its race was reported.
    #[cold]
    fn doubt(&self, unknown: &mut UnknownBytes, place: Place, bytes: usize, conflict: Conflict) {
        let origin = Origin::Race(self.read_at(place, bytes), conflict);
        if !self.cluster.reported.contains(&origin) {
            *unknown = UnknownBytes::default();
            unknown.push_value(0, bytes.min(8), Unknown { bits: u64::MAX, origin, is_computed: false });
            for index in 8..bytes {
                unknown.push(index, Unknown { bits: 0xff, origin, is_computed: false });
            }
        }
    }

    /// A read of this many bytes by the current instruction.
    pub fn read_at(&self, place: Place, bytes: usize) -> Read {
        let Place { lane, space, address, .. } = place;
        let (pc, warp, lane, bytes) = (self.pc, self.warp.index, lane as u32, bytes as u32);
        Read { pc, warp, lane, space, address, bytes, is_partial: false, writes: false }
    }

    /// The undetermined bytes of a read at a place, except those that were reported before.
    #[cold]
    fn unknown_bytes(&self, place: Place, data: &mut [u8]) -> UnknownBytes {
        let read = self.read_at(place, data.len());
        let mut unknown = match place.space {
            Space::Shared => self.cluster.shared.unknown(read, data),
            Space::Local => {
                self.warp.local.get(place.lane).map_or_else(Default::default, |local| local.unknown(read, data))
            }
            _ => self.machine.memory.unknown(read, data),
        };
        unknown.retain(|origin| !self.cluster.reported.contains(&origin));
        unknown
    }

    /// A fault for a read whose values matter and are undetermined.
    #[cold]
    fn refuse_unknown(&mut self, faults: &mut Faults, place: Place, bytes: usize, unknown: &UnknownBytes) {
        let Place { lane, space, address, .. } = place;
        let mine = |origin: Origin| matches!(origin, Origin::Memory(read) if read.pc == self.pc);
        let elsewhere = unknown.iter().map(|(_, byte)| (lane, byte.origin)).filter(|(_, origin)| !mine(*origin));
        let elsewhere: Vec<Use> = elsewhere.collect();
        if unknown.iter().any(|(_, byte)| mine(byte.origin)) {
            let cause = || {
                let location = self.location(space, address, bytes);
                format!("{} {space} memory that was never written{location}", Effect::Read.of(bytes))
            };
            faults.add(FindingClass::Uninitialised, lane, address, cause);
        }
        self.report_uses(&elsewhere);
    }

    /// Writes `data`. A faulty access writes nothing.
    pub fn write(&mut self, faults: &mut Faults, place: Place, data: &[u8]) {
        let mut shard = self.announcements(place);
        if self.access(faults, place, Data::Write(data)).is_some() {
            self.check_races(faults, place, data, Effect::Write, shard.as_deref_mut());
        }
    }

    /// Writes `data`, some of which may be undetermined. Undetermined values stored to global memory are added to
    /// `left`, unless they are padding. A faulty access writes nothing.
    #[cold]
    pub fn write_values(
        &mut self,
        faults: &mut Faults,
        place: Place,
        data: &[u8],
        unknown: &UnknownBytes,
        left: &mut Left,
    ) {
        let Place { lane, space, address, .. } = place;
        let mut shard = self.announcements(place);
        if self.access(faults, place, Data::Write(data)).is_none() {
            return;
        }
        self.check_races(faults, place, data, Effect::Write, shard.as_deref_mut());
        match space {
            Space::Shared => self.cluster.shared.set_unknown(address, unknown),
            Space::Local => {
                if let Some(local) = self.warp.local.get_mut(lane) {
                    local.set_unknown(address, unknown);
                }
            }
            _ if unknown.is_padding_of(data.len()) => {
                unknown.iter().for_each(|(index, _)| self.machine.memory.forget_bytes(address + index as u64, 1));
            }
            _ => self.leave(lane, address, unknown, left),
        }
    }

    /// Reads or writes without a race check. Returns its problems, if there is such memory and no copy in flight will
    /// write it.
    fn access(&mut self, faults: &mut Faults, place: Place, mut data: Data<'_>) -> Option<Met> {
        let (Place { lane, space, address, .. }, bytes) = (place, data.len());
        let (effect, verb, preposition) = match data {
            Data::Read(_) => (Effect::Read, "read", "from"),
            Data::Write(_) => (Effect::Write, "write", "to"),
        };
        let what = || format!("a {bytes}-byte {verb}");
        if !self.check_place(faults, place, bytes, what) {
            data.clear();
            return None;
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
                None
            }
            Ok(Met { in_flight: true, .. }) => {
                let what = effect.of(bytes);
                let cause =
                    || format!("{what} {space} memory that an asynchronous copy, not yet waited for, will write");
                faults.add(FindingClass::AsyncCopyNotWaited, lane, address, cause);
                None
            }
            Ok(met) => Some(met),
        }
    }

    /// Moves the bytes between the lane and its memory.
    fn transfer(&mut self, faults: &mut Faults, place: Place, data: &mut Data<'_>) -> Result<Met, Failure> {
        let Place { lane, space, address, .. } = place;
        match (space, data) {
            (Space::Global, data) if place.is_texel => self.transfer_texel(address, data),
            (Space::Global | Space::Constant, Data::Read(data)) => {
                let uninitialised = !self.machine.memory.load(address, data)?;
                Ok(Met { uninitialised, in_flight: false })
            }
            (Space::Global, Data::Write(data)) => {
                self.machine.memory.store(address, data)?;
                self.cluster.global_writes += 1;
                Ok(Met::default())
            }
            (Space::Parameter, Data::Read(data)) => {
                self.machine.parameters.load(address, data)?;
                Ok(Met::default())
            }
            (Space::Parameter | Space::Constant, Data::Write(_)) => Err(Failure::ReadOnly),
            (Space::Shared, Data::Read(data)) => {
                let state = self.cluster.shared.load(address, data)?;
                Ok(Met { uninitialised: state.uninitialised, in_flight: state.in_flight })
            }
            (Space::Shared, Data::Write(data)) => {
                let bytes = data.len();
                self.check_bulk_reads(faults, lane, address, bytes, || format!("a {bytes}-byte write"));
                let in_flight = self.cluster.shared.store(address, data)?;
                self.cluster.ordinary_write(self.warp.index, address, bytes);
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

    fn transfer_texel(&mut self, address: u64, data: &mut Data<'_>) -> Result<Met, Failure> {
        let mut met = Met::default();
        match data {
            Data::Read(data) => met.uninitialised = !self.machine.memory.load_any(address, data)?,
            Data::Write(data) => {
                self.machine.memory.store_any(address, data)?;
                self.cluster.global_writes += 1;
            }
        }
        Ok(met)
    }

    /// Reads a texel, whose value may or may not matter; returns its undetermined bits. A faulty access reads zeros.
    pub fn load_texel(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        address: u64,
        data: &mut [u8],
    ) -> Option<Box<UnknownBytes>> {
        let place = Place::texel(lane, address);
        let met = self.access(faults, place, Data::Read(data))?;
        // The texture cache is not coherent with writes of the same grid, even if they are ordered.
        let written = self.cluster.races.as_ref().and_then(|races| races.write_to(address, data.len()));
        let conflict = self.race(faults, place, data, Effect::Read, None).or(written);
        if !met.uninitialised && conflict.is_none() {
            return None;
        }
        self.unknown_of_load(place, data, met.uninitialised, conflict)
    }

    /// Atomically replaces a naturally aligned value by `update` of it; returns the old value and the space. A faulty
    /// access changes nothing and returns 0.
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

    /// Memory that only one block accesses needs no atomic: a read and a write.
    fn update_in_steps(&mut self, faults: &mut Faults, place: Place, update: &dyn Fn(u64) -> u64) -> u64 {
        let bytes = place.alignment as usize;
        let mut data = [0; 8];
        let read = self.access(faults, place, Data::Read(&mut data[..bytes]));
        if read.is_some_and(|met| met.uninitialised) {
            let unknown = self.unknown_bytes(place, &mut data[..bytes]);
            if !unknown.is_empty() {
                self.refuse_unknown(faults, place, bytes, &unknown);
            }
        }
        let old = u64::from_le_bytes(data);
        if self.instruction.is_strong_read {
            self.note_read(place, old);
        }
        let new = update(old).to_le_bytes();
        if read.is_some() && self.access(faults, place, Data::Write(&new[..bytes])).is_some() {
            self.check_races(faults, place, &data[..bytes], Effect::Update, None);
        }
        old
    }

    fn update_global(&mut self, faults: &mut Faults, place: Place, update: &dyn Fn(u64) -> u64) -> u64 {
        let Place { lane, space, address, alignment: bytes, .. } = place;
        let what = || format!("a {bytes}-byte atomic operation");
        if !self.check_alignment(faults, place, what) {
            return 0;
        }
        let mut shard = self.announcements(place);
        match self.machine.memory.update(address, bytes as u32, update) {
            Err(OutOfBounds(location)) => {
                let cause = || format!("{} on {space} memory out of bounds, {location}", what());
                faults.add(FindingClass::OutOfBounds, lane, address, cause);
                0
            }
            Ok((old, initialised)) => {
                self.machine.memory.note_exchange(address);
                if self.instruction.is_strong_read {
                    self.note_read(place, old);
                }
                self.cluster.global_writes += u64::from(update(old) != old);
                if !initialised {
                    let location = self.location(space, address, bytes as usize);
                    let cause = || match self.machine.memory.stored_in(address, bytes) {
                        None => format!("{} on {space} memory that was never written{location}", what()),
                        Some(store) => {
                            let stored = self.describe_store(store);
                            format!("{} on {space} memory in which undetermined values were{location}{stored}", what())
                        }
                    };
                    faults.add(FindingClass::Uninitialised, lane, address, cause);
                }
                let data = &old.to_le_bytes()[..bytes as usize];
                self.check_races(faults, place, data, Effect::Update, shard.as_deref_mut());
                old
            }
        }
    }

    /// Whether a place has `bytes` accessible bytes and is aligned; otherwise adds a fault. Reads nothing.
    pub fn check_reachable(
        &mut self,
        faults: &mut Faults,
        place: Place,
        bytes: usize,
        what: impl Fn() -> String,
    ) -> bool {
        if !self.check_alignment(faults, place, &what) {
            return false;
        }
        let Place { lane, space, address, .. } = place;
        let mut data = vec![0; bytes];
        let found = match space {
            Space::Global | Space::Constant => self.machine.memory.load(address, &mut data).map(drop),
            Space::Parameter => self.machine.parameters.load(address, &mut data),
            Space::Shared | Space::Local => Err(OutOfBounds("where none can be".to_owned())),
        };
        if let Err(OutOfBounds(location)) = &found {
            let cause = || format!("{} in {space} memory out of bounds, {location}", what());
            faults.add(FindingClass::OutOfBounds, lane, address, cause);
        }
        found.is_ok()
    }
}

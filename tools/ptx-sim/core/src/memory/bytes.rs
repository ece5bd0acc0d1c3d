//! Memory of one block or thread: bytes with flags for "written" and "copy in flight".

use std::collections::HashMap;

use super::error::OutOfBounds;
use crate::lane_accesses::LaneAccesses;
use crate::lanes::{LANES, lanes};
use crate::unknown::{Origin, Read, Unknown, UnknownBytes};

const INITIALISED: u8 = 1;
const IN_FLIGHT: u8 = 2;

/// Problems of a read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    /// Some byte was never written.
    pub uninitialised: bool,
    /// An asynchronous copy to some byte was not waited for.
    pub in_flight: bool,
}

/// A memory of fixed size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bytes {
    /// Its first address.
    start: u64,
    data: Vec<u8>,
    state: Vec<u8>,
    /// Undetermined bits of bytes that are not initialised, by index; a byte without an entry was never written.
    unknown: HashMap<usize, Unknown>,
}

impl Bytes {
    /// `bytes` uninitialised bytes from the address `start` on.
    pub fn new(start: u64, bytes: usize) -> Bytes {
        Bytes { start, data: vec![0; bytes], state: vec![0; bytes], unknown: HashMap::new() }
    }

    /// Whether `bytes` bytes at `address` lie inside.
    pub fn contains(&self, address: u64, bytes: usize) -> bool {
        self.range(address, bytes).is_ok()
    }

    /// Extends the memory by `bytes` unwritten bytes at `address`.
    pub fn renew(&mut self, address: u64, bytes: usize) {
        let (first, end) = ((address - self.start) as usize, (address - self.start) as usize + bytes);
        if self.data.len() < end {
            self.data.resize(end, 0);
            self.state.resize(end, 0);
        }
        self.state[first..end].fill(0);
        if !self.unknown.is_empty() {
            self.unknown.retain(|index, _| !(first..end).contains(index));
        }
    }

    /// Marks everything as unwritten.
    pub fn clear(&mut self) {
        self.state.fill(0);
        self.unknown.clear();
    }

    /// Reads `data.len()` bytes; unwritten bytes and targets of copies in flight keep their previous contents.
    pub fn load(&self, address: u64, data: &mut [u8]) -> Result<State, OutOfBounds> {
        let range = self.range(address, data.len())?;
        data.copy_from_slice(&self.data[range.clone()]);
        let state = &self.state[range];
        Ok(State { uninitialised: state.contains(&0), in_flight: state.iter().any(|state| state & IN_FLIGHT != 0) })
    }

    /// The undetermined bits of a read inside the memory. Bytes that were never written read as zeros; others keep the value
    /// that was stored.
    #[cold]
    pub fn unknown(&self, read: Read, data: &mut [u8]) -> UnknownBytes {
        let mut unknown = UnknownBytes::default();
        let first = (read.address - self.start) as usize;
        let mut origin = None;
        for (index, byte) in data.iter_mut().enumerate() {
            if self.state[first + index] & INITIALISED != 0 {
                continue;
            }
            // Its address is that of the first unwritten byte.
            let address = read.address + index as u64;
            let origin = *origin.get_or_insert(Origin::Memory(Read { address, ..read }));
            let stored = self.unknown.get(&(first + index)).copied();
            unknown.push(index, stored.unwrap_or(Unknown { bits: 0xff, origin, is_computed: false }));
            if stored.is_none() {
                *byte = 0;
            }
        }
        unknown
    }

    /// Sets the undetermined bits of bytes just written at `address`.
    #[cold]
    pub fn set_unknown(&mut self, address: u64, unknown: &UnknownBytes) {
        let first = (address - self.start) as usize;
        for (index, byte) in unknown.iter() {
            if let Some(state) = self.state.get_mut(first + index) {
                *state &= !INITIALISED;
                self.unknown.insert(first + index, byte);
            }
        }
    }

    /// Writes `data`; true if a copy to some of the bytes is in flight.
    pub fn store(&mut self, address: u64, data: &[u8]) -> Result<bool, OutOfBounds> {
        let range = self.range(address, data.len())?;
        self.data[range.clone()].copy_from_slice(data);
        let mut in_flight = false;
        for state in &mut self.state[range] {
            in_flight |= *state & IN_FLIGHT != 0;
            *state |= INITIALISED;
        }
        Ok(in_flight)
    }

    /// Reads for the lanes of a warp; `None` if a byte lies outside, is unwritten or is the target of a copy in flight.
    pub fn load_lanes<const BYTES: usize>(&self, accesses: &LaneAccesses) -> Option<[[u8; BYTES]; LANES]> {
        if !self.contains_lanes(accesses) {
            return None;
        }
        let mut all = [[0; BYTES]; LANES];
        let mut all_initialised = true;
        for (data, address) in all.iter_mut().zip(&accesses.addresses) {
            let first = (address - self.start) as usize;
            data.copy_from_slice(&self.data[first..first + BYTES]);
            all_initialised &= self.state[first..first + BYTES] == [INITIALISED; BYTES];
        }
        all_initialised.then_some(all)
    }

    /// Writes for the lanes of a warp, in lane order. False, with nothing written, if a byte lies outside or is the
    /// target of a copy in flight.
    pub fn store_lanes<const BYTES: usize>(&mut self, accesses: &LaneAccesses, data: &[[u8; BYTES]; LANES]) -> bool {
        if !self.contains_lanes(accesses) {
            return false;
        }
        let ranges = lanes(accesses.active).map(|lane| (lane, (accesses.addresses[lane] - self.start) as usize));
        let mut states = 0;
        for (_, first) in ranges.clone() {
            states |= self.state[first..first + BYTES].iter().fold(0, |states, state| states | state);
        }
        if states & IN_FLIGHT != 0 {
            return false;
        }
        for (lane, first) in ranges {
            self.data[first..first + BYTES].copy_from_slice(&data[lane]);
            self.state[first..first + BYTES].fill(INITIALISED);
        }
        true
    }

    fn contains_lanes(&self, accesses: &LaneAccesses) -> bool {
        let end = accesses.first.checked_sub(self.start).and_then(|first| first.checked_add(accesses.span));
        end.is_some_and(|end| end <= self.data.len() as u64)
    }

    /// Marks the target of an asynchronous copy; true if another copy to some of the bytes is in flight.
    pub fn begin_copy(&mut self, address: u64, bytes: usize) -> Result<bool, OutOfBounds> {
        let range = self.range(address, bytes)?;
        let mut in_flight = false;
        for state in &mut self.state[range] {
            in_flight |= *state & IN_FLIGHT != 0;
            *state |= IN_FLIGHT;
        }
        Ok(in_flight)
    }

    /// Completes a copy to `address`.
    pub fn finish_copy(&mut self, address: u64, data: &[u8], unknown: &UnknownBytes) {
        if let Ok(range) = self.range(address, data.len()) {
            self.data[range.clone()].copy_from_slice(data);
            self.state[range].fill(INITIALISED);
            self.set_unknown(address, unknown);
        }
    }

    fn range(&self, address: u64, bytes: usize) -> Result<std::ops::Range<usize>, OutOfBounds> {
        let size = self.data.len() as u64;
        let Some(address) = address.checked_sub(self.start) else {
            return Err(OutOfBounds(format!("{} bytes before the first of its {size} bytes", self.start - address)));
        };
        let end = address.checked_add(bytes as u64).filter(|end| *end <= size);
        match end {
            Some(end) => Ok(address as usize..end as usize),
            None if address < size => Err(OutOfBounds(format!(
                "the last {} bytes are past the end of its {size} bytes",
                address + bytes as u64 - size
            ))),
            None => Err(OutOfBounds(format!("{} bytes past the end of its {size} bytes", address - size))),
        }
    }
}

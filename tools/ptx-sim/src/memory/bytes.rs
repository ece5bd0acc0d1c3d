//! Memory of one block or thread: bytes that know whether they were written and whether a copy to them is in flight.

use super::error::OutOfBounds;

const INITIALISED: u8 = 1;
const IN_FLIGHT: u8 = 2;

/// What a read met.
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
}

impl Bytes {
    /// `bytes` uninitialised bytes from the address `start` on.
    pub fn new(start: u64, bytes: usize) -> Bytes {
        Bytes { start, data: vec![0; bytes], state: vec![0; bytes] }
    }

    /// Whether `bytes` bytes at `address` are all its own.
    pub fn contains(&self, address: u64, bytes: usize) -> bool {
        self.range(address, bytes).is_ok()
    }

    /// Makes `bytes` bytes at `address` its own, of which nothing is written.
    pub fn renew(&mut self, address: u64, bytes: usize) {
        let (first, end) = ((address - self.start) as usize, (address - self.start) as usize + bytes);
        if self.data.len() < end {
            self.data.resize(end, 0);
            self.state.resize(end, 0);
        }
        self.state[first..end].fill(0);
    }

    /// The value of up to 8 bytes, and whether all were written.
    pub fn value(&self, address: u64, bytes: usize) -> (u64, bool) {
        let mut data = [0; 8];
        match self.load(address, &mut data[..bytes]) {
            Ok(state) => (u64::from_le_bytes(data), !state.uninitialised),
            Err(_) => (0, false),
        }
    }

    /// Sets up to 8 bytes, which were written then or not.
    pub fn set_value(&mut self, address: u64, bytes: usize, value: u64, written: bool) {
        if let Ok(range) = self.range(address, bytes) {
            self.data[range.clone()].copy_from_slice(&value.to_le_bytes()[..bytes]);
            self.state[range].fill(if written { INITIALISED } else { 0 });
        }
    }

    /// Appends bytes at `address`, and whether each was written.
    pub fn copy_out(&self, address: u64, bytes: usize, to: &mut Vec<(u8, bool)>) {
        if let Ok(range) = self.range(address, bytes) {
            let state = self.state[range.clone()].iter().map(|state| state & INITIALISED != 0);
            to.extend(self.data[range].iter().copied().zip(state));
        }
    }

    /// Writes bytes at `address`; those that were not written become so again.
    pub fn copy_in(&mut self, address: u64, from: &[(u8, bool)]) {
        if let Ok(range) = self.range(address, from.len()) {
            for (index, (byte, written)) in range.zip(from) {
                self.data[index] = *byte;
                self.state[index] = if *written { INITIALISED } else { 0 };
            }
        }
    }

    /// Forgets everything that was written.
    pub fn clear(&mut self) {
        self.state.fill(0);
    }

    /// Reads `data.len()` bytes; what was never written or is in flight reads as it was before.
    pub fn load(&self, address: u64, data: &mut [u8]) -> Result<State, OutOfBounds> {
        let range = self.range(address, data.len())?;
        data.copy_from_slice(&self.data[range.clone()]);
        let state = &self.state[range];
        Ok(State { uninitialised: state.contains(&0), in_flight: state.iter().any(|state| state & IN_FLIGHT != 0) })
    }

    /// Writes `data`; true when a copy to some of the bytes is in flight.
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

    /// Marks the target of an asynchronous copy; true when another copy to some of the bytes is in flight.
    pub fn begin_copy(&mut self, address: u64, bytes: usize) -> Result<bool, OutOfBounds> {
        let range = self.range(address, bytes)?;
        let mut in_flight = false;
        for state in &mut self.state[range] {
            in_flight |= *state & IN_FLIGHT != 0;
            *state |= IN_FLIGHT;
        }
        Ok(in_flight)
    }

    /// Completes a copy begun at `address`.
    pub fn finish_copy(&mut self, address: u64, data: &[u8]) {
        if let Ok(range) = self.range(address, data.len()) {
            self.data[range.clone()].copy_from_slice(data);
            self.state[range].fill(INITIALISED);
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

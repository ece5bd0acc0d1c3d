//! The memory of a context, with names of its allocations.

use std::collections::{BTreeMap, HashMap};

use ptx_sim::{GlobalMemory, MemoryError, Texels, Undetermined};

use crate::code::Code;
use crate::error::{Error, Result};
use crate::problem::Problem;

/// Bytes whose initialisation state is queried at once when memory is copied on a GPU.
const BLOCK: u64 = 4096;

/// A live allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Number in the machine, from 1; 0 for a variable of a module.
    pub number: u64,
    /// First address.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Name in messages, for example `allocation 3 of 4,096 bytes, by cuMemAlloc_v2`.
    pub name: String,
}

/// The memory of one context.
pub(crate) struct Memory {
    pub global: GlobalMemory,
    /// Numbers of the live allocations of the program, by address.
    numbers: HashMap<u64, u64>,
    /// Names in messages of the live texture and surface objects.
    pub objects: BTreeMap<u64, String>,
}

impl Memory {
    pub fn new(global: GlobalMemory) -> Self {
        Self { global, numbers: HashMap::new(), objects: BTreeMap::new() }
    }

    /// Allocates; the caller has checked that the GPU has room.
    pub fn allocate(&mut self, number: u64, name: &str, bytes: u64) -> Result<u64> {
        let address = self.global.allocate(name, bytes).map_err(memory_error)?;
        self.numbers.insert(address, number);
        Ok(address)
    }

    /// Allocates an array; the caller has checked that the GPU has room.
    pub fn allocate_array(&mut self, number: u64, name: &str, shape: &Texels) -> Result<Texels> {
        let Texels { geometry, extent, format, .. } = *shape;
        let texels = self.global.allocate_array(name, geometry, extent, format).map_err(memory_error)?;
        self.numbers.insert(texels.address, number);
        Ok(texels)
    }

    /// Frees the array that begins at `address` and returns its size. The caller has checked that it is one.
    pub fn free_array(&mut self, address: u64) -> Result<u64> {
        self.numbers.remove(&address);
        let bytes = self.find(address).map_or(0, |found| found.bytes);
        self.global.free(address).map_err(memory_error)?;
        Ok(bytes)
    }

    /// Frees the allocation that begins at `address` and returns its size.
    pub fn free(&mut self, address: u64) -> Result<u64> {
        let refused = |problem: Problem, what: &str| {
            Err(Error::invalid(format!("{address:#x} cannot be freed: {what}")).of(problem))
        };
        let found = self.global.allocation_at(address).filter(|found| found.start == address);
        match found.filter(|found| !found.is_array).map(|found| (found.live, found.bytes, found.name)) {
            Some((true, bytes, _)) if self.numbers.remove(&address).is_some() => {
                self.global.free(address).map_err(memory_error)?;
                Ok(bytes)
            }
            Some((false, _, name)) => refused(Problem::DoubleFree, &format!("it is {name}, which was freed before")),
            _ => refused(Problem::InvalidFree, &self.describe(address)),
        }
    }

    /// The live allocation that contains `address`.
    pub fn find(&self, address: u64) -> Option<Allocation> {
        let found = self.global.allocation_at(address).filter(|found| found.live)?;
        let number = self.numbers.get(&found.start).copied().unwrap_or(0);
        Some(Allocation { number, address: found.start, bytes: found.bytes, name: found.name.to_owned() })
    }

    /// Requires `bytes` bytes at `address` to lie in one live allocation that is not an array.
    pub fn check_plain(&self, address: u64, bytes: u64) -> Result<()> {
        match self.global.allocation_at(address).filter(|found| found.is_array) {
            Some(array) => {
                let text = format!("{bytes} bytes at {address:#x}: no pointer reaches {}", array.name);
                Err(Error::invalid(text).of(Problem::OutOfBounds))
            }
            None => self.check(address, bytes),
        }
    }

    /// Requires `bytes` bytes at `address` to lie in one live allocation.
    pub fn check(&self, address: u64, bytes: u64) -> Result<()> {
        let found = self.global.allocation_at(address).filter(|found| found.live);
        if bytes == 0 || found.is_some_and(|found| bytes <= found.bytes - (address - found.start)) {
            return Ok(());
        }
        // The error of ptx-sim says where the memory is.
        match self.global.first_unwritten(address, bytes) {
            Err(MemoryError::OutOfBounds { location, .. }) => {
                let is_freed = self.global.allocation_at(address).is_some_and(|found| !found.live);
                let problem = if is_freed { Problem::UseAfterFree } else { Problem::OutOfBounds };
                Err(Error::invalid(format!("{bytes} bytes at {address:#x}: {location}")).of(problem))
            }
            other => other.map(drop).map_err(memory_error),
        }
    }

    /// What is at `address`, in words.
    pub fn describe(&self, address: u64) -> String {
        match (self.find(address), self.global.first_unwritten(address, 1)) {
            (Some(found), _) => format!("byte {} of {}", address - found.address, found.name),
            (None, Err(MemoryError::OutOfBounds { location, .. })) => location,
            (None, _) => "nothing".to_owned(),
        }
    }

    /// Name and size of every live allocation of the program.
    pub fn live(&self) -> impl Iterator<Item = (&str, u64)> {
        let live = self.global.allocations().filter(|found| found.live && self.numbers.contains_key(&found.start));
        live.map(|found| (found.name, found.bytes))
    }

    /// Everything that the program still has to free or destroy.
    pub fn leaks(&self) -> impl Iterator<Item = &str> {
        self.live().map(|(name, _)| name).chain(self.objects.values().map(String::as_str))
    }

    /// Total size of the live allocations of the program, bytes.
    pub fn live_bytes(&self) -> u64 {
        self.live().map(|(_, bytes)| bytes).sum()
    }

    pub fn write(&mut self, address: u64, data: &[u8]) -> Result<()> {
        self.check(address, data.len() as u64)?;
        self.global.write(address, data).map_err(memory_error)
    }

    pub fn read(&self, address: u64, data: &mut [u8]) -> Result<()> {
        self.check(address, data.len() as u64)?;
        self.global.read(address, data).map_err(memory_error)
    }

    pub fn first_unwritten(&self, address: u64, bytes: u64) -> Result<Option<u64>> {
        self.check(address, bytes)?;
        self.global.first_unwritten(address, bytes).map_err(memory_error)
    }

    /// Reads the `bytes` bytes at `address` for a copy.
    pub fn written(&self, address: u64, bytes: u64) -> Result<Moved> {
        self.check(address, bytes)?;
        let mut parts = Vec::new();
        let undetermined = self.global.undetermined(address, bytes);
        for offset in (0..bytes).step_by(BLOCK as usize) {
            let count = BLOCK.min(bytes - offset);
            let mut data = vec![0; count as usize];
            if self.global.read_checked(address + offset, &mut data).map_err(memory_error)? {
                parts.push((offset, data));
                continue;
            }
            for at in offset..offset + count {
                let mut byte = [0];
                if self.global.read_checked(address + at, &mut byte).map_err(memory_error)? {
                    parts.push((at, byte.to_vec()));
                }
            }
        }
        Ok(Moved { parts, undetermined })
    }

    /// Writes `bytes` copied bytes at `address`.
    pub fn put(&mut self, address: u64, bytes: u64, moved: Moved) -> Result<()> {
        self.check(address, bytes)?;
        let mut end = 0;
        for (at, part) in moved.parts {
            self.global.forget(address + end, at - end);
            self.write(address + at, &part)?;
            end = at + part.len() as u64;
        }
        self.global.forget(address + end, bytes - end);
        self.global.put_undetermined(address, moved.undetermined);
        Ok(())
    }
}

/// The contents that a copy transfers.
pub(crate) struct Moved {
    /// The written parts with their offsets, in order. Unwritten bytes are unwritten at the destination too.
    pub parts: Vec<(u64, Vec<u8>)>,
    /// Values that kernels left undetermined.
    pub undetermined: Undetermined,
}

impl Moved {
    /// Bytes that are all known.
    pub fn of(data: Vec<u8>) -> Moved {
        Moved { parts: vec![(0, data)], undetermined: Undetermined::default() }
    }
}

/// The driver's error for a memory error of ptx-sim.
pub(crate) fn memory_error(error: MemoryError) -> Error {
    let code = match error {
        MemoryError::Allocation { .. } => Code::OUT_OF_MEMORY,
        _ => Code::INVALID_VALUE,
    };
    Error::new(code, error.to_string())
}

/// A number with commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> (Memory, u64) {
        let mut memory = Memory::new(GlobalMemory::new());
        let address = memory.allocate(1, "allocation 1", 100).unwrap();
        (memory, address)
    }

    #[track_caller]
    fn assert_says<T: std::fmt::Debug>(result: Result<T>, expected: &str) {
        let message = result.unwrap_err().message.unwrap();
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn ranges_have_to_lie_in_one_live_allocation() {
        let (mut memory, address) = memory();
        memory.check(address + 90, 10).unwrap();
        assert_says(memory.check(address + 90, 16), "the last 6 bytes are past the end of buffer `allocation 1`");
        assert_says(memory.check(address + 100, 1), "0 bytes past the end of buffer `allocation 1`");
        assert_says(memory.check(0, 1), "a null pointer");
        memory.free(address).unwrap();
        assert_says(memory.check(address, 1), "offset 0 of buffer `allocation 1`, which was freed");
    }

    #[test]
    fn what_is_freed_has_to_be_the_start_of_a_live_allocation() {
        let (mut memory, address) = memory();
        assert_says(memory.free(address + 4), "byte 4 of allocation 1");
        assert_eq!(memory.free(address).unwrap(), 100);
        assert_says(memory.free(address), "allocation 1, which was freed before");
    }

    #[test]
    fn only_what_was_written_is_moved_on_a_gpu() {
        let (mut memory, address) = memory();
        memory.write(address + 2, &[1, 2]).unwrap();
        assert_eq!(memory.written(address, 5).unwrap().parts, [(2, vec![1]), (3, vec![2])]);
        memory.write(address, &[7; 100]).unwrap();
        assert_eq!(memory.written(address + 10, 20).unwrap().parts, [(0, vec![7; 20])]);
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([7, 4096, 1_234_567].map(grouped), ["7", "4,096", "1,234,567"]);
    }
}

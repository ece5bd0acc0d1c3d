//! The memory of a context: what was allocated, by whom, and what of it is still there.

use std::collections::BTreeMap;

use ptx_sim::{GlobalMemory, MemoryError};

use crate::code::Code;
use crate::error::{Error, Result};

/// Memory that somebody allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Counted from 1 over the machine.
    pub number: u64,
    /// First address.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// What messages call it, as in `allocation 3 of 4,096 bytes, by cuMemAlloc_v2`.
    pub name: String,
    /// Whether it has not been freed.
    pub is_live: bool,
}

impl Allocation {
    fn end(&self) -> u64 {
        self.address + self.bytes
    }
}

/// The memory of one context.
pub(crate) struct Memory {
    pub global: GlobalMemory,
    /// By address, freed ones too: they are named when somebody still uses them.
    allocations: BTreeMap<u64, Allocation>,
}

impl Memory {
    pub fn new(global: GlobalMemory) -> Self {
        Self { global, allocations: BTreeMap::new() }
    }

    /// Allocates; the caller has seen to it that the GPU has room.
    pub fn allocate(&mut self, number: u64, name: String, bytes: u64) -> Result<u64> {
        let address = self.global.allocate(&name, bytes).map_err(memory_error)?;
        self.allocations.insert(address, Allocation { number, address, bytes, name, is_live: true });
        Ok(address)
    }

    /// Frees the allocation that begins at `address` and returns its size.
    pub fn free(&mut self, address: u64) -> Result<u64> {
        let refused = |what: String| Err(Error::invalid(format!("{address:#x} cannot be freed: {what}")));
        match self.allocations.get_mut(&address) {
            Some(allocation) if allocation.is_live => {
                self.global.free(address).map_err(memory_error)?;
                allocation.is_live = false;
                Ok(allocation.bytes)
            }
            Some(allocation) => refused(format!("it is {}, which was freed before", allocation.name)),
            None => refused(self.describe(address).unwrap_or_else(|| "no allocation begins there".to_owned())),
        }
    }

    /// The live allocation that holds `address`.
    pub fn find(&self, address: u64) -> Option<&Allocation> {
        self.nearest(address).filter(|allocation| allocation.is_live && address < allocation.end())
    }

    /// Requires `bytes` bytes at `address` to lie in one live allocation.
    pub fn check(&self, address: u64, bytes: u64) -> Result<()> {
        let what = match self.find(address) {
            Some(allocation) if bytes <= allocation.end() - address => return Ok(()),
            Some(allocation) => {
                let beyond = bytes - (allocation.end() - address);
                format!("the last {beyond} are past the end of {}", allocation.name)
            }
            None => self.describe(address).unwrap_or_else(|| "no memory of the context".to_owned()),
        };
        Err(Error::invalid(format!("{bytes} bytes at {address:#x}: {what}")))
    }

    /// What lies at or before `address`, in words.
    pub fn describe(&self, address: u64) -> Option<String> {
        let allocation = self.nearest(address)?;
        let name = &allocation.name;
        if address >= allocation.end() {
            return Some(format!("{} bytes past the end of {name}", address - allocation.end()));
        }
        let freed = if allocation.is_live { "" } else { ", which was freed" };
        Some(format!("byte {} of {name}{freed}", address - allocation.address))
    }

    /// Bytes of everything live.
    pub fn live_bytes(&self) -> u64 {
        self.allocations.values().filter(|allocation| allocation.is_live).map(|allocation| allocation.bytes).sum()
    }

    fn nearest(&self, address: u64) -> Option<&Allocation> {
        self.allocations.range(..=address).next_back().map(|(_, allocation)| allocation)
    }
}

/// The driver's code for what ptx-sim says about memory.
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
        let address = memory.allocate(1, "allocation 1".into(), 100).unwrap();
        (memory, address)
    }

    fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().message.unwrap()
    }

    #[test]
    fn ranges_have_to_lie_in_one_live_allocation() {
        let (mut memory, address) = memory();
        memory.check(address + 90, 10).unwrap();
        assert!(message(memory.check(address + 90, 16)).contains("the last 6 are past the end of allocation 1"));
        assert!(message(memory.check(address + 100, 1)).contains("0 bytes past the end of allocation 1"));
        assert!(message(memory.check(0, 1)).contains("no memory of the context"));
        memory.free(address).unwrap();
        assert!(message(memory.check(address, 1)).contains("byte 0 of allocation 1, which was freed"));
    }

    #[test]
    fn what_is_freed_has_to_be_the_start_of_a_live_allocation() {
        let (mut memory, address) = memory();
        assert!(message(memory.free(address + 4)).contains("byte 4 of allocation 1"));
        assert_eq!(memory.free(address).unwrap(), 100);
        assert!(message(memory.free(address)).contains("allocation 1, which was freed before"));
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([7, 4096, 1_234_567].map(grouped), ["7", "4,096", "1,234,567"]);
    }
}

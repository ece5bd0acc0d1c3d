//! The undetermined values in global memory.

use super::buffer::ALWAYS_READ;
use super::global::GlobalMemory;
use super::undetermined::{Storing, Table, Undetermined, UndeterminedStore, bytes_of, shift_of, word_of};
use crate::finding::Finding;
use crate::unknown::{Origin, Read, StoreId, Unknown, UnknownBytes};

impl GlobalMemory {
    /// The number of the launch.
    pub(crate) fn launch(&self) -> u64 {
        self.launch
    }

    /// Starts a launch.
    pub(crate) fn begin_launch(&mut self) {
        self.launch += 1;
    }

    /// The undetermined bits of a read inside a buffer. Bytes that were never written read as zeros; others keep the value
    /// that was stored.
    #[cold]
    pub(crate) fn unknown(&self, read: Read, data: &mut [u8]) -> UnknownBytes {
        let mut unknown = UnknownBytes::default();
        let Ok(buffer) = self.locate(read.address, data.len() as u64) else { return unknown };
        let mut origin = None;
        for (index, byte) in data.iter_mut().enumerate() {
            let address = read.address + index as u64;
            if buffer.is_written(address - buffer.address) {
                continue;
            }
            let stored = self.undetermined.at(address);
            // Its address is that of the first undetermined byte.
            let origin = *origin.get_or_insert_with(|| {
                let read = Read { address, ..read };
                stored.map_or(Origin::Memory(read), |(_, store)| Origin::Stored(read, store))
            });
            let bits = stored.map_or(0xff, |(bits, _)| bits);
            unknown.push(index, Unknown { bits: bits.into(), origin, is_computed: stored.is_some() });
            if stored.is_none() {
                *byte = 0;
            }
        }
        unknown
    }

    /// Whether the host can access the address at any time.
    pub(crate) fn is_seen_by_host(&self, address: u64) -> bool {
        !self.addresses.contains(&address)
    }

    /// Whether a byte lies in a live buffer and counts as unwritten.
    fn is_unwritten(&self, address: u64) -> bool {
        self.find(address, 1).is_some_and(|buffer| !buffer.is_written(address - buffer.address))
    }

    /// Records that a store left these bits undetermined, counted as that many occurrences.
    #[cold]
    pub(crate) fn leave_undetermined(
        &self,
        by: Storing<'_>,
        bytes: &[(u64, u8)],
        occurrences: u64,
        describe: impl FnOnce() -> UndeterminedStore,
    ) {
        let mut table = self.undetermined.table();
        let store = table.add(by, occurrences, describe);
        bytes.iter().for_each(|(address, bits)| table.put(*address, *bits, store));
    }

    /// The store that left the first undetermined byte of some bytes.
    pub(crate) fn stored_in(&self, address: u64, bytes: u64) -> Option<StoreId> {
        (address..address + bytes).find_map(|byte| self.undetermined.at(byte)).map(|(_, store)| store)
    }

    /// The store of an undetermined value, which then counts as reported.
    #[cold]
    pub(crate) fn tell_store(&self, StoreId(index): StoreId) -> Option<UndeterminedStore> {
        let mut table = self.undetermined.table();
        let known = table.stores.get_mut(index as usize)?;
        known.is_told = true;
        Some(known.store.clone())
    }

    /// Unreported stores of the last launch whose undetermined values are still there.
    pub(crate) fn left_by_launch(&self) -> Vec<UndeterminedStore> {
        let mut table = self.undetermined.table();
        let launch = self.launch;
        if table.stores.iter().all(|known| known.launch != launch || known.is_told) {
            return Vec::new();
        }
        let mut left = self.undetermined_between(&table, 0, u64::MAX);
        left.retain(|id| table.stores[id.0 as usize].launch == launch);
        table.tell(left)
    }

    /// The unreported stores that left undetermined values in some bytes, each once. Call it when the bytes leave the
    /// GPU.
    pub fn take_undetermined(&self, address: u64, bytes: u64) -> Vec<UndeterminedStore> {
        self.note_exchange(address);
        let mut table = self.undetermined.table();
        let stores = self.undetermined_between(&table, address, address.saturating_add(bytes));
        table.tell(stores)
    }

    /// The stores that left undetermined values in the buffer at `address` as a result: no later launch or copy has
    /// read it, and blocks do not communicate through it. Call it before the buffer is freed.
    pub fn take_left(&self, address: u64) -> Vec<UndeterminedStore> {
        let mut table = self.undetermined.table();
        let Some(buffer) = self.locate(address, 1).ok().filter(|_| !table.words.is_empty()) else { return Vec::new() };
        let mut stores = self.undetermined_between(&table, buffer.address, buffer.end());
        stores.retain(|id| !buffer.is_read_after(table.stores[id.0 as usize].launch));
        table.tell(stores)
    }

    /// Records a read by others than kernels, or by communicating blocks.
    pub(crate) fn note_exchange(&self, address: u64) {
        if let Ok(buffer) = self.locate(address, 1) {
            buffer.note_read(ALWAYS_READ);
        }
    }

    /// The undetermined values in some bytes.
    pub fn undetermined(&self, address: u64, bytes: u64) -> Undetermined {
        let table = self.undetermined.table();
        let end = address.saturating_add(bytes);
        let mut values = Vec::new();
        for (word, (bits, StoreId(store))) in table.words.range(word_of(address)..end) {
            for byte in bytes_of(*word, address, end) {
                let bits = (bits >> shift_of(byte)) as u8;
                if bits != 0 && self.is_unwritten(byte) {
                    values.push((byte - address, bits, table.stores[*store as usize].store.clone()));
                }
            }
        }
        Undetermined(values)
    }

    /// Stores undetermined values at an address; the bytes count as unwritten.
    pub fn put_undetermined(&mut self, address: u64, values: Undetermined) {
        let launch = self.launch;
        let mut table = self.undetermined.table();
        for (offset, bits, store) in values.0 {
            let Finding { ptx_file: file, at, .. } = &store.finding;
            let by = Storing { launch, file, line: at.ptx_line, cluster: 0 };
            let store = table.add(by, 0, || store.clone());
            table.put(address + offset, bits, store);
        }
    }

    fn undetermined_between(&self, table: &Table, address: u64, end: u64) -> Vec<StoreId> {
        let is_left = |word: u64, bits: u64| {
            bytes_of(word, address, end).any(|byte| bits >> shift_of(byte) & 0xff != 0 && self.is_unwritten(byte))
        };
        let words = table.words.range(word_of(address)..end).filter(|(word, (bits, _))| is_left(**word, *bits));
        words.map(|(_, (_, store))| *store).collect()
    }
}

//! Undetermined values in global memory: which bits are undetermined, and which store left them. They matter when a
//! kernel depends on them, when they are copied off the GPU, and when they remain as a result.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::finding::Finding;
use crate::unknown::StoreId;

/// Bytes covered by one entry.
const WORD: u64 = 8;

/// A store that left undetermined values in global memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndeterminedStore {
    /// The launched entry.
    pub entry: String,
    /// The store, and the origin of its values.
    pub finding: Finding,
}

/// Undetermined values of some bytes, for copying them elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Undetermined(pub(super) Vec<(u64, u8, UndeterminedStore)>);

impl Undetermined {
    /// Whether there are no undetermined values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Key of an executed store: name of the PTX file, line, and index of the cluster.
#[derive(Clone, Copy)]
pub(crate) struct Storing<'a> {
    pub launch: u64,
    pub file: &'a str,
    pub line: u32,
    pub cluster: u64,
}

/// All undetermined values in a memory. May still list bytes that have been overwritten.
#[derive(Default)]
pub(super) struct UndeterminedStores(Mutex<Table>);

/// The table of [`UndeterminedStores`].
#[derive(Default)]
pub(super) struct Table {
    /// By address of a word: the undetermined bits, and the last store that left them.
    pub words: BTreeMap<u64, (u64, StoreId)>,
    pub stores: Vec<Known>,
    pub index: HashMap<(String, u32), StoreId>,
}

/// A store, and when it was executed last.
pub(super) struct Known {
    pub launch: u64,
    pub cluster: u64,
    /// Whether it was reported since its last execution.
    pub is_told: bool,
    pub store: UndeterminedStore,
}

impl UndeterminedStores {
    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The undetermined bits of a byte, and the store that left them.
    pub fn at(&self, address: u64) -> Option<(u8, StoreId)> {
        let (bits, store) = *self.table().words.get(&word_of(address))?;
        let bits = (bits >> shift_of(address)) as u8;
        (bits != 0).then_some((bits, store))
    }

    /// Removes the entries of bytes.
    pub fn remove(&self, address: u64, bytes: u64) {
        let mut table = self.table();
        if table.words.is_empty() {
            return;
        }
        let end = address.saturating_add(bytes);
        let words: Vec<u64> = table.words.range(word_of(address)..end).map(|(word, _)| *word).collect();
        for word in words {
            let mine = bytes_of(word, address, end).fold(0, |bits, byte| bits | 0xff << shift_of(byte));
            if let Some((bits, _)) = table.words.get_mut(&word) {
                *bits &= !mine;
                if *bits == 0 {
                    table.words.remove(&word);
                }
            }
        }
    }
}

impl Table {
    pub fn put(&mut self, address: u64, bits: u8, store: StoreId) {
        let word = self.words.entry(word_of(address)).or_insert((0, store));
        word.0 = word.0 & !(0xff << shift_of(address)) | u64::from(bits) << shift_of(address);
        word.1 = store;
    }

    /// Number of the store `by`; `describe` describes it on its first occurrence in the launch.
    pub fn add(&mut self, by: Storing<'_>, occurrences: u64, describe: impl FnOnce() -> UndeterminedStore) -> StoreId {
        let (launch, next) = (by.launch, StoreId(self.stores.len() as u32));
        let id = *self.index.entry((by.file.to_owned(), by.line)).or_insert(next);
        let known = self.stores.get(id.0 as usize).filter(|known| known.launch == launch);
        let (before, is_told) = known.map_or((0, false), |known| (known.store.finding.occurrences, known.is_told));
        if known.is_none_or(|known| known.cluster > by.cluster) {
            let new = Known { launch, cluster: by.cluster, is_told, store: describe() };
            match self.stores.get_mut(id.0 as usize) {
                Some(old) => *old = new,
                None => self.stores.push(new),
            }
        }
        self.stores[id.0 as usize].store.finding.occurrences = before + occurrences;
        id
    }

    /// The unreported ones of `stores`, in order of clusters and lines.
    pub fn tell(&mut self, mut stores: Vec<StoreId>) -> Vec<UndeterminedStore> {
        let order = |id: &StoreId| {
            let Known { cluster, store, .. } = &self.stores[id.0 as usize];
            (*cluster, store.finding.at.ptx_line, id.0)
        };
        stores.sort_unstable_by_key(order);
        stores.dedup();
        let mut told = Vec::new();
        for id in stores {
            let known = &mut self.stores[id.0 as usize];
            if !std::mem::replace(&mut known.is_told, true) {
                told.push(known.store.clone());
            }
        }
        told
    }
}

pub(super) fn word_of(address: u64) -> u64 {
    address & !(WORD - 1)
}

pub(super) fn shift_of(address: u64) -> u64 {
    address % WORD * 8
}

/// Mask of the bytes of a word between two addresses.
pub(super) fn bytes_of(word: u64, address: u64, end: u64) -> std::ops::Range<u64> {
    word.max(address)..(word + WORD).min(end)
}

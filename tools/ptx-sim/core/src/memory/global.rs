//! Global memory: named buffers, widely spaced in a 64-bit address space.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::buffer::{Buffer, HostWords};
use super::error::{MemoryError, OutOfBounds, plain_access};
use super::heap::{FreeError, HEAP_BYTES, Heap};
use super::spaces::{is_outside_windows, resolve};
use super::texels::Texels;
use super::texture_objects::{Object, Objects};
use super::undetermined::UndeterminedStores;
use crate::lane_accesses::LaneAccesses;
use crate::lanes::LANES;
use crate::parse::Space;

/// Alignment of buffers.
const ALIGNMENT: u64 = 256;
/// Lowest possible start of a memory: an address truncated to 32 bits hits nothing.
const LEAST_ADDRESS: u64 = 1 << 32;
/// Default address of the first buffer.
const FIRST_ADDRESS: u64 = 0x0007_0000_0000;
/// Upper bound of buffer addresses.
const LAST_ADDRESS: u64 = 1 << 46;
/// Minimum gap between buffers.
const RED_ZONE: u64 = 64 << 10;
/// Maximum distance at which messages mention the nearest buffer.
const FAR: u64 = 1 << 40;

/// The global memory of a simulated GPU. Buffers start at multiples of 256 bytes above 4 GiB, separated by at least
/// their own size and 64 KiB. Addresses are never reused, so that a use after free is detected.
pub struct GlobalMemory {
    /// Address range of buffers.
    pub(super) addresses: Range<u64>,
    /// Buffers in order of address.
    buffers: Vec<Buffer>,
    /// Host memory, at addresses outside the range; in order of address.
    of_host: Vec<Buffer>,
    /// Address of the workspace of cooperative launches, once there was one.
    pub(super) grid_workspace: Option<u64>,
    /// Global variables of launched modules: module identity, name, address.
    variables: Vec<(u64, String, u64)>,
    /// Addresses assigned to variables before they are placed.
    reserved: Vec<(u64, String, u64)>,
    /// Held by atomic operations wider than 8 bytes.
    wide: Mutex<()>,
    /// Created by the first kernel that uses it.
    heap: Option<Heap>,
    /// Textures and surfaces.
    objects: Objects,
    /// Number of launches so far.
    pub(super) launch: u64,
    /// Undetermined values stored by kernels.
    pub(super) undetermined: UndeterminedStores,
}

/// A buffer, live or freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation<'a> {
    /// The name given at its allocation.
    pub name: &'a str,
    /// Its first address.
    pub start: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it has not been freed.
    pub live: bool,
    /// Whether it is a CUDA array.
    pub is_array: bool,
}

impl Default for GlobalMemory {
    fn default() -> Self {
        GlobalMemory {
            addresses: FIRST_ADDRESS..LAST_ADDRESS,
            buffers: Vec::new(),
            of_host: Vec::new(),
            grid_workspace: None,
            variables: Vec::new(),
            reserved: Vec::new(),
            wide: Mutex::new(()),
            heap: None,
            objects: Objects::default(),
            launch: 0,
            undetermined: UndeterminedStores::default(),
        }
    }
}

impl std::fmt::Debug for GlobalMemory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let live = self.buffers.iter().filter(|buffer| buffer.is_live());
        formatter.debug_map().entries(live.map(|buffer| (&buffer.name, buffer.address..buffer.end()))).finish()
    }
}

/// Buffers: memory operations of a driver.
impl GlobalMemory {
    /// Memory without buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Memory without buffers whose first buffer will start at `first_address`: as [`Self::within`], with all addresses
    /// from there on.
    ///
    /// # Errors
    /// As [`Self::within`].
    pub fn starting_at(first_address: u64) -> Result<Self, MemoryError> {
        Self::within(first_address..LAST_ADDRESS)
    }

    /// Memory without buffers, restricted to an address range. Disjoint ranges keep the buffers of several simulated
    /// GPUs apart.
    ///
    /// # Errors
    /// If the range is empty, does not begin at a multiple of 256, begins below 4 GiB, or ends above 2^46.
    pub fn within(addresses: Range<u64>) -> Result<Self, MemoryError> {
        let Range { start: first, end } = addresses;
        if first < LEAST_ADDRESS || !first.is_multiple_of(ALIGNMENT) || end <= first || end > LAST_ADDRESS {
            return Err(MemoryError::Addresses { first, end });
        }
        Ok(GlobalMemory { addresses, ..Self::default() })
    }

    /// Allocates `bytes` bytes and returns their address. The contents are uninitialised: a kernel that reads them
    /// before they are written gets a finding. `name` appears in messages.
    ///
    /// # Errors
    /// If `bytes` is 0 or exceeds the available memory.
    pub fn allocate(&mut self, name: &str, bytes: u64) -> Result<u64, MemoryError> {
        if bytes == 0 {
            return Err(MemoryError::Empty { name: name.to_owned() });
        }
        let failed = || MemoryError::Allocation { name: name.to_owned(), bytes };
        let address = match self.buffers.last() {
            None => self.addresses.start,
            Some(last) => (last.end() + last.bytes.max(RED_ZONE)).next_multiple_of(ALIGNMENT),
        };
        if bytes > self.addresses.end.saturating_sub(address) {
            return Err(failed());
        }
        self.buffers.push(Buffer::new(name, address, bytes).ok_or_else(failed)?);
        Ok(address)
    }

    /// Frees the buffer that starts at `address`.
    ///
    /// # Errors
    /// If no live buffer starts there.
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        let buffers = if self.addresses.contains(&address) { &mut self.buffers } else { &mut self.of_host };
        let index = buffers.binary_search_by_key(&address, |buffer| buffer.address);
        match index {
            Ok(index) if buffers[index].is_live() => {
                buffers[index].free();
                self.undetermined.remove(address, buffers[index].bytes);
                Ok(())
            }
            _ => Err(MemoryError::NoBuffer { address }),
        }
    }

    /// Makes host memory accessible to kernels at its host address, until it is freed. The host may write to it
    /// unnoticed, so all of it counts as written.
    ///
    /// # Errors
    /// If it overlaps other memory, or `words` are too few.
    pub fn map_host(
        &mut self,
        name: &str,
        address: u64,
        bytes: u64,
        words: Arc<dyn HostWords>,
    ) -> Result<(), MemoryError> {
        let failed = || MemoryError::Host { name: name.to_owned(), address, bytes };
        let end = address.checked_add(bytes).filter(|end| *end > address).ok_or_else(failed)?;
        let is_apart = end <= self.addresses.start || address >= self.addresses.end;
        let meets = |buffer: &Buffer| buffer.address < end && address < buffer.end();
        if !is_apart
            || !is_outside_windows(address, bytes)
            || self.of_host.iter().any(|buffer| buffer.is_live() && meets(buffer))
        {
            return Err(failed());
        }
        let buffer = Buffer::of_host(name, address, bytes, words).ok_or_else(failed)?;
        self.of_host.retain(|old| !meets(old));
        let index = self.of_host.partition_point(|old| old.address < address);
        self.of_host.insert(index, buffer);
        Ok(())
    }

    /// The buffer, live or freed, that contains `address` (`cuMemGetAddressRange`, `cuPointerGetAttribute`).
    pub fn allocation_at(&self, address: u64) -> Option<Allocation<'_>> {
        self.below(address).filter(|buffer| address < buffer.end()).map(allocation)
    }

    /// Every buffer, live or freed, in order of address; excludes host memory.
    pub fn allocations(&self) -> impl Iterator<Item = Allocation<'_>> {
        let is_own = |address| {
            self.grid_workspace == Some(address) || self.heap.as_ref().is_some_and(|heap| heap.start == address)
        };
        self.buffers.iter().filter(move |buffer| !is_own(buffer.address)).map(allocation)
    }

    /// Total size of live buffers, bytes (`cuMemGetInfo`).
    pub fn bytes_in_use(&self) -> u64 {
        self.allocations().filter(|buffer| buffer.live).map(|buffer| buffer.bytes).sum()
    }

    /// Bytes that kernels allocated with `malloc` and did not free.
    pub fn heap_bytes_in_use(&self) -> u64 {
        self.heap.as_ref().map_or(0, Heap::bytes_in_use)
    }

    /// Creates the device heap on first use.
    pub(crate) fn prepare_heap(&mut self) -> Result<(), MemoryError> {
        if self.heap.is_none() {
            self.heap = Some(Heap::new(self.allocate("the device heap", HEAP_BYTES)?));
        }
        Ok(())
    }

    fn is_heap(&self, buffer: &Buffer) -> bool {
        self.heap.as_ref().is_some_and(|heap| heap.start == buffer.address)
    }

    /// The address of a module's global variable, and whether this call allocated it.
    pub(crate) fn variable(&mut self, module: u64, name: &str, bytes: u64) -> Result<(u64, bool), MemoryError> {
        if let Some((_, _, address)) = self.variables.iter().find(|(id, known, _)| *id == module && known == name) {
            return Ok((*address, false));
        }
        let reserved = self.reserved.iter().position(|(id, known, _)| *id == module && known == name);
        let address = match reserved {
            Some(index) => self.reserved.swap_remove(index).2,
            None => self.allocate(name, bytes)?,
        };
        self.variables.push((module, name.to_owned(), address));
        Ok((address, true))
    }

    /// Sets the address of a variable of a module.
    pub(crate) fn reserve_variable(&mut self, module: u64, name: &str, address: u64) {
        self.reserved.push((module, name.to_owned(), address));
    }
}

/// Objects and arrays.
impl GlobalMemory {
    /// Marks the buffer at the start of `texels` as an array of them.
    pub(super) fn set_texels(&mut self, texels: Texels) {
        if let Ok(index) = self.buffers.binary_search_by_key(&texels.address, |buffer| buffer.address) {
            self.buffers[index].texels = Some(texels);
        }
    }

    pub(super) fn add_object(&mut self, object: Object) -> u64 {
        self.objects.add(self.addresses.start, object)
    }

    pub(super) fn remove_object(&mut self, handle: u64) -> Result<(), &'static str> {
        self.objects.remove(handle)
    }

    pub(super) fn object(&self, handle: u64) -> Result<&Object, &'static str> {
        self.objects.get(handle)
    }
}

/// Contents, as accessed by kernels.
impl GlobalMemory {
    /// Reads `data.len()` bytes of ordinary memory; true if all of them were written.
    pub(crate) fn load(&self, address: u64, data: &mut [u8]) -> Result<bool, OutOfBounds> {
        let buffer = self.locate_plain(address, data.len() as u64)?;
        buffer.note_read(self.launch);
        Ok(buffer.load(address - buffer.address, data))
    }

    /// Writes `data` to ordinary memory.
    pub(crate) fn store(&self, address: u64, data: &[u8]) -> Result<(), OutOfBounds> {
        let buffer = self.locate_plain(address, data.len() as u64)?;
        buffer.store(address - buffer.address, data);
        Ok(())
    }

    /// Reads for the lanes of a warp; `None` unless everything is written and in one buffer of ordinary memory.
    pub(crate) fn load_lanes<const BYTES: usize>(&self, accesses: &LaneAccesses) -> Option<[[u8; BYTES]; LANES]> {
        let buffer = self.find_plain(accesses)?;
        buffer.note_read(self.launch);
        buffer.load_lanes(accesses)
    }

    /// Writes for the lanes of a warp. False, with nothing written, unless everything is in one buffer of ordinary
    /// memory.
    pub(crate) fn store_lanes<const BYTES: usize>(&self, accesses: &LaneAccesses, data: &[[u8; BYTES]; LANES]) -> bool {
        self.find_plain(accesses).map(|buffer| buffer.store_lanes(accesses, data)).is_some()
    }

    /// As [`Self::load`], including arrays.
    pub(crate) fn load_any(&self, address: u64, data: &mut [u8]) -> Result<bool, OutOfBounds> {
        let buffer = self.locate(address, data.len() as u64)?;
        buffer.note_read(self.launch);
        Ok(buffer.load(address - buffer.address, data))
    }

    /// As [`Self::store`], including arrays.
    pub(crate) fn store_any(&self, address: u64, data: &[u8]) -> Result<(), OutOfBounds> {
        let buffer = self.locate(address, data.len() as u64)?;
        buffer.store(address - buffer.address, data);
        Ok(())
    }

    /// Marks bytes of a buffer as unwritten.
    pub(crate) fn forget_bytes(&self, address: u64, bytes: u64) {
        if let Ok(buffer) = self.locate(address, bytes) {
            (address..address + bytes).for_each(|byte| buffer.forget(byte - buffer.address));
            self.undetermined.remove(address, bytes);
        }
    }

    /// Atomically replaces the `bytes` (at most 8, naturally aligned) bytes at `address` by `update` of them; returns
    /// the old value and whether it was initialised.
    pub(crate) fn update(
        &self,
        address: u64,
        bytes: u32,
        update: &dyn Fn(u64) -> u64,
    ) -> Result<(u64, bool), OutOfBounds> {
        let buffer = self.locate_plain(address, u64::from(bytes))?;
        Ok(buffer.update(address - buffer.address, bytes, update))
    }

    /// Marks bytes in one buffer as unwritten; `address` is a multiple of 8.
    pub(crate) fn forget_range(&self, address: u64, bytes: u64) {
        if let Ok(buffer) = self.locate(address, bytes) {
            buffer.forget_range(address - buffer.address, bytes);
            self.undetermined.remove(address, bytes);
        }
    }

    /// Allocates a block of the device heap; 0 if it is full.
    pub(crate) fn heap_allocate(&self, bytes: u64) -> u64 {
        let Some(granted) = self.heap.as_ref().and_then(|heap| heap.allocate(bytes)) else { return 0 };
        if let Some(buffer) = self.below(granted.address).filter(|_| granted.is_used) {
            buffer.forget_range(granted.address - buffer.address, bytes);
            self.undetermined.remove(granted.address, bytes);
        }
        granted.address
    }

    /// Frees a block of the device heap.
    pub(crate) fn heap_free(&self, address: u64) -> Result<(), FreeError> {
        self.heap.as_ref().map_or(Err(FreeError::NoBlock), |heap| heap.free(address))
    }

    /// The first unwritten byte among `bytes` bytes at `address`.
    pub(super) fn unwritten(&self, address: u64, bytes: u64) -> Result<Option<u64>, OutOfBounds> {
        let buffer = self.locate(address, bytes)?;
        Ok(buffer.first_unwritten(address - buffer.address, bytes).map(|offset| buffer.address + offset))
    }

    /// Lock for atomic operations that take several steps.
    pub(crate) fn lock_wide(&self) -> MutexGuard<'_, ()> {
        self.wide.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last buffer that starts at or below `address`.
    fn below(&self, address: u64) -> Option<&Buffer> {
        let buffers = if self.addresses.contains(&address) { &self.buffers } else { &self.of_host };
        let after = buffers.partition_point(|buffer| buffer.address <= address);
        after.checked_sub(1).map(|index| &buffers[index])
    }

    /// As [`Self::locate`], excluding arrays, which pointers cannot access.
    fn locate_plain(&self, address: u64, bytes: u64) -> Result<&Buffer, OutOfBounds> {
        let buffer = self.locate(address, bytes)?;
        if buffer.texels.is_some() { Err(plain_access(&buffer.name)) } else { Ok(buffer) }
    }

    /// The live buffer that contains `address..address + bytes`.
    pub(super) fn locate(&self, address: u64, bytes: u64) -> Result<&Buffer, OutOfBounds> {
        let Some(buffer) = self.find(address, bytes) else { return Err(OutOfBounds(self.describe(address, bytes))) };
        if let Some(heap) = self.heap.as_ref().filter(|heap| heap.start == buffer.address) {
            heap.check(address, bytes)?;
        }
        Ok(buffer)
    }

    /// The same, ignoring which blocks of the device heap are allocated.
    pub(super) fn find(&self, address: u64, bytes: u64) -> Option<&Buffer> {
        let is_inside = |buffer: &&Buffer| address < buffer.end() && bytes <= buffer.end() - address;
        self.below(address).filter(|buffer| buffer.is_live()).filter(is_inside)
    }

    /// The buffer of ordinary memory, excluding the device heap, that contains all addresses of a warp's access.
    fn find_plain(&self, accesses: &LaneAccesses) -> Option<&Buffer> {
        let buffer = self.find(accesses.first, accesses.span)?;
        (buffer.texels.is_none() && !self.is_heap(buffer)).then_some(buffer)
    }

    /// What is at `address`, in words.
    pub(crate) fn describe(&self, address: u64, bytes: u64) -> String {
        if address == 0 {
            return "a null pointer".to_owned();
        }
        let (space, _) = resolve(address);
        if space != Space::Global {
            return format!("a generic address of {space} memory");
        }
        if address < 1 << 32 && self.buffers.iter().any(|buffer| buffer.address as u32 == address as u32) {
            return "a buffer address cut to 32 bits".to_owned();
        }
        let all = || self.buffers.iter().chain(&self.of_host);
        let below = all().filter(|buffer| buffer.address <= address).max_by_key(|buffer| buffer.address);
        let above = all().filter(|buffer| buffer.address > address).min_by_key(|buffer| buffer.address);
        let is_near =
            |buffer: &&Buffer| buffer.address.saturating_sub(address).max(address.saturating_sub(buffer.end())) < FAR;
        if !self.buffers.is_empty() && !below.iter().chain(&above).any(is_near) {
            return "far from every buffer".to_owned();
        }
        match (below, above) {
            (Some(buffer), _) if address < buffer.end() && self.is_heap(buffer) => {
                self.heap.as_ref().map_or(String::new(), |heap| heap.describe(address, bytes))
            }
            (Some(buffer), _) if address < buffer.end() => {
                let offset = address - buffer.address;
                let beyond = bytes.saturating_sub(buffer.end() - address);
                match (buffer.is_live(), beyond) {
                    (false, _) => format!("offset {offset} of buffer `{}`, which was freed", buffer.name),
                    (true, 0) if buffer.texels.is_some() => {
                        let offset = buffer.texels.map_or(String::new(), |texels| texels.describe_offset(offset));
                        format!("{offset} of `{}`", buffer.name)
                    }
                    (true, 0) => format!("offset {offset} of buffer `{}` ({} bytes)", buffer.name, buffer.bytes),
                    (true, _) => {
                        format!(
                            "the last {beyond} bytes are past the end of buffer `{}` ({} bytes)",
                            buffer.name, buffer.bytes
                        )
                    }
                }
            }
            (Some(buffer), Some(next)) if next.address - address < address - buffer.end() => before(next, address),
            (Some(buffer), _) => {
                let freed = if buffer.is_live() { "" } else { ", which was freed" };
                let distance = address - buffer.end();
                format!("{distance} bytes past the end of buffer `{}` ({} bytes){freed}", buffer.name, buffer.bytes)
            }
            (None, Some(next)) => before(next, address),
            (None, None) => "there are no buffers".to_owned(),
        }
    }
}

fn allocation(buffer: &Buffer) -> Allocation<'_> {
    Allocation {
        name: &buffer.name,
        start: buffer.address,
        bytes: buffer.bytes,
        live: buffer.is_live(),
        is_array: buffer.texels.is_some(),
    }
}

fn before(buffer: &Buffer, address: u64) -> String {
    format!("{} bytes before buffer `{}` ({} bytes)", buffer.address - address, buffer.name, buffer.bytes)
}

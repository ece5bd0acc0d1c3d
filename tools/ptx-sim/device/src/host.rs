//! Host memory known to the driver: kernels of every context access it at its host address.

use std::sync::{Arc, Weak};

use crate::code::Code;
use crate::error::{Error, Result};
use crate::host_range::{HostKind, HostRange};
use crate::memory::{grouped, memory_error};
use crate::objects::{Call, Context, Machine};
use crate::sync::lock;

/// An address up to this many bytes past host memory is taken for an overrun of it.
const NEAR: u64 = 64 << 10;

impl Machine {
    /// The name in messages of an allocation made now for `owner`, for example `cuMemAlloc_v2`.
    pub fn allocation_name(&self, owner: &str, bytes: u64) -> String {
        self.numbered_name(self.next_allocation(), owner, bytes)
    }

    pub(crate) fn numbered_name(&self, number: u64, owner: &str, bytes: u64) -> String {
        format!("allocation {number} of {} bytes, by {owner}{}", grouped(bytes), self.caller(""))
    }

    /// Registers host memory and makes it accessible to kernels.
    ///
    /// # Errors
    /// [`Code::HOST_MEMORY_ALREADY_REGISTERED`] if part of it is known already; [`Code::INVALID_VALUE`] if kernels have
    /// other memory at its address.
    pub fn add_host_range(&self, range: HostRange) -> Result<()> {
        let contexts = self.live_contexts();
        let mut host = lock(&self.host);
        let below = host.range(..range.address.saturating_add(range.bytes)).next_back();
        if below.is_some_and(|(_, below)| below.address + below.bytes > range.address) {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED.into());
        }
        contexts.iter().try_for_each(|context| context.map_host(&range))?;
        host.insert(range.address, range);
        Ok(())
    }

    /// Removes the host memory that begins at `address`; `None` if none does.
    pub fn remove_host_range(&self, address: u64) -> Option<HostRange> {
        let contexts = self.live_contexts();
        let range = lock(&self.host).remove(&address)?;
        for context in contexts {
            // A context whose kernel failed drops it with everything else.
            if let Ok(mut state) = context.state_in_any_case() {
                let _ = state.memory.global.free(address);
            }
        }
        Some(range)
    }

    /// The known host memory that contains `address`.
    pub fn host_range(&self, address: u64) -> Option<HostRange> {
        let host = lock(&self.host);
        let (_, range) = host.range(..=address).next_back()?;
        (address < range.address + range.bytes).then(|| range.clone())
    }

    /// Whether `address` lies in known host memory or shortly past its end.
    pub(crate) fn is_near_host_range(&self, address: u64) -> bool {
        let host = lock(&self.host);
        let below = host.range(..=address).next_back();
        below.is_some_and(|(_, range)| address < range.address.saturating_add(range.bytes).saturating_add(NEAR))
    }

    /// The host memory that a context allocated.
    pub(crate) fn host_ranges_of(&self, context: u64) -> Vec<HostRange> {
        lock(&self.host).values().filter(|range| range.context == context).cloned().collect()
    }

    /// Allocates managed memory for `owner`, as in `cuMemAllocManaged`, and returns its address.
    ///
    /// # Errors
    /// [`Code::OUT_OF_MEMORY`]; [`Code::NOT_SUPPORTED`] if there is no allocator for it
    /// ([`crate::Config::host_memory`]).
    pub fn allocate_managed(&self, context: &Context, owner: &str, bytes: u64, flags: u32) -> Result<u64> {
        let name = self.allocation_name(owner, bytes);
        self.new_managed(context, HostKind::Managed { gpu: context.gpu() }, name, bytes, flags)
    }

    /// Allocates a managed variable of a module.
    pub(crate) fn managed_variable(&self, context: &Context, name: &str, bytes: u64) -> Result<u64> {
        self.new_managed(context, HostKind::Variable { gpu: context.gpu() }, name.to_owned(), bytes, 1)
    }

    fn new_managed(&self, context: &Context, kind: HostKind, name: String, bytes: u64, flags: u32) -> Result<u64> {
        context.check(Call::Asynchronous)?;
        if bytes == 0 {
            return Err(Error::invalid("an allocation of 0 bytes"));
        }
        let allocate = self.config().host_memory.ok_or_else(|| Error::unsupported("there is no managed memory"))?;
        let words = allocate(bytes).ok_or(Code::OUT_OF_MEMORY)?;
        let address = words.words().as_ptr() as u64;
        self.add_host_range(HostRange { address, bytes, flags, context: context.id(), kind, name, words })?;
        Ok(address)
    }

    /// The context whose memory contains `address`, or `asking` for known host memory.
    pub(crate) fn reached_through(&self, address: u64, asking: &Context) -> Option<Arc<Context>> {
        self.context_at(address).or_else(|| {
            self.host_range(address)?;
            self.context_in_span(asking.span())
        })
    }

    fn live_contexts(&self) -> Vec<Arc<Context>> {
        lock(&self.contexts).values().filter_map(Weak::upgrade).filter(|context| context.is_alive()).collect()
    }

    /// Makes all known host memory accessible to kernels of a new context.
    pub(crate) fn map_all_host(&self, context: &Context) -> Result<()> {
        lock(&self.host).values().try_for_each(|range| context.map_host(range))
    }
}

impl Context {
    fn map_host(&self, range: &HostRange) -> Result<()> {
        let HostRange { address, bytes, name, words, .. } = range;
        let mut state = self.state_in_any_case()?;
        state.memory.global.map_host(name, *address, *bytes, words.clone()).map_err(memory_error)
    }
}

//! Checks the memory that a tensor's address points to (`cuPointerGetAttributes`).

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use contract::refusal::Tensor;

use crate::driver::{Code, Driver, Handle, MEMORY_TYPE_HOST, pointer_attribute};
use crate::error::{Error, MemoryProblem};

/// The context and GPU that memory has to belong to.
#[derive(Clone, Copy)]
pub struct Place {
    /// The current context.
    pub context: Handle,
    /// Ordinal of its GPU.
    pub gpu: usize,
}

/// What the driver reports about an address. The default is its answer for an unknown address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    /// Null for memory that no context owns: from a pool, or mapped by the virtual memory functions.
    context: Handle,
    /// `CUmemorytype`, 0 for none.
    memory_type: c_uint,
    is_managed: bool,
    ordinal: c_int,
    range_start: u64,
    range_bytes: usize,
    pool: Handle,
}

/// Requires `address` to point to device memory at `place`, or managed memory, that holds `bytes`.
///
/// # Errors
/// [`Error::Memory`], with what is wrong.
pub fn check(driver: &Driver, place: Place, tensor: Tensor, address: u64, bytes: u64) -> Result<(), Error> {
    let facts = ask(driver, address)?;
    let checked = match facts.verdict(place, address, bytes) {
        Verdict::Refused(why) => Err(why),
        Verdict::Accepted => Ok(()),
        // A tensor may span several mappings: whether they reach its end is asked about its last byte.
        Verdict::AcceptedIfMappedUntil(last) => {
            let end = ask(driver, last)?;
            let available = facts.end().saturating_sub(address);
            let reaches = end.memory_type != 0;
            if reaches { Ok(()) } else { Err(MemoryProblem::TooShort { bytes: available, needed: bytes }) }
        }
    };
    checked.map_err(|why| Error::Memory { tensor, address: Some(address), why })
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Accepted,
    AcceptedIfMappedUntil(u64),
    Refused(MemoryProblem),
}

impl Facts {
    fn end(&self) -> u64 {
        self.range_start.saturating_add(self.range_bytes as u64)
    }

    fn verdict(&self, place: Place, address: u64, bytes: u64) -> Verdict {
        if self.is_managed {
            return Verdict::Accepted;
        }
        match self.memory_type {
            0 => return Verdict::Refused(MemoryProblem::Unknown),
            MEMORY_TYPE_HOST => return Verdict::Refused(MemoryProblem::Host),
            _ => {}
        }
        if usize::try_from(self.ordinal) != Ok(place.gpu) {
            return Verdict::Refused(MemoryProblem::OtherGpu { ordinal: self.ordinal, current: place.gpu });
        }
        if !self.context.is_null() && self.context != place.context {
            return Verdict::Refused(MemoryProblem::OtherContext);
        }
        if self.context.is_null() && self.pool.is_null() {
            return Verdict::AcceptedIfMappedUntil(address.saturating_add(bytes.saturating_sub(1)));
        }
        let available = self.end().saturating_sub(address);
        if available < bytes {
            return Verdict::Refused(MemoryProblem::TooShort { bytes: available, needed: bytes });
        }
        Verdict::Accepted
    }
}

fn ask(driver: &Driver, address: u64) -> Result<Facts, Error> {
    let mut context: Handle = ptr::null_mut();
    let (mut memory_type, mut is_managed, mut ordinal): (c_uint, c_uint, c_int) = (0, 0, -1);
    let (mut range_start, mut range_bytes, mut pool): (u64, usize, Handle) = (0, 0, ptr::null_mut());
    let attributes = [
        pointer_attribute::CONTEXT,
        pointer_attribute::MEMORY_TYPE,
        pointer_attribute::IS_MANAGED,
        pointer_attribute::DEVICE_ORDINAL,
        pointer_attribute::RANGE_START,
        pointer_attribute::RANGE_SIZE,
        pointer_attribute::MEMPOOL,
    ];
    let results: [*mut c_void; 7] = [
        ptr::from_mut(&mut context).cast(),
        ptr::from_mut(&mut memory_type).cast(),
        ptr::from_mut(&mut is_managed).cast(),
        ptr::from_mut(&mut ordinal).cast(),
        ptr::from_mut(&mut range_start).cast(),
        ptr::from_mut(&mut range_bytes).cast(),
        ptr::from_mut(&mut pool).cast(),
    ];
    // SAFETY: there is a result of the right type for each attribute. Any address is allowed: the driver only looks it
    // up.
    let code = unsafe {
        (driver.call.pointer_get_attributes)(results.len() as c_uint, attributes.as_ptr(), results.as_ptr(), address)
    };
    match code {
        // Some drivers answer this for an unknown address.
        Code::INVALID_VALUE | Code::INVALID_CONTEXT => memory_type = 0,
        code => driver.check(code, || format!("asking about the memory at {address:#x}"))?,
    }
    let is_managed = memory_type != 0 && is_managed != 0;
    Ok(Facts { context, memory_type, is_managed, ordinal, range_start, range_bytes, pool })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: Handle = ptr::without_provenance_mut(64);
    const OTHER: Handle = ptr::without_provenance_mut(128);
    const DEVICE: c_uint = 2;
    const PLACE: Place = Place { context: CONTEXT, gpu: 1 };
    const ALLOCATED: Facts = Facts {
        context: CONTEXT,
        memory_type: DEVICE,
        is_managed: false,
        ordinal: 1,
        range_start: 0x1000,
        range_bytes: 0x1000,
        pool: ptr::null_mut(),
    };

    fn verdict(facts: Facts) -> Verdict {
        facts.verdict(PLACE, 0x1800, 0x800)
    }

    #[test]
    fn memory_of_the_current_context_is_accepted_up_to_its_end() {
        assert_eq!(verdict(ALLOCATED), Verdict::Accepted);
        let short = MemoryProblem::TooShort { bytes: 0x7ff, needed: 0x800 };
        assert_eq!(verdict(Facts { range_bytes: 0xfff, ..ALLOCATED }), Verdict::Refused(short));
    }

    #[test]
    fn memory_elsewhere_is_refused_by_what_it_is() {
        let unknown = Facts { memory_type: 0, ..ALLOCATED };
        assert_eq!(verdict(unknown), Verdict::Refused(MemoryProblem::Unknown));
        let host = Facts { memory_type: MEMORY_TYPE_HOST, ..ALLOCATED };
        assert_eq!(verdict(host), Verdict::Refused(MemoryProblem::Host));
        let other_gpu = MemoryProblem::OtherGpu { ordinal: 0, current: 1 };
        assert_eq!(verdict(Facts { ordinal: 0, ..ALLOCATED }), Verdict::Refused(other_gpu));
        let other = Facts { context: OTHER, ..ALLOCATED };
        assert_eq!(verdict(other), Verdict::Refused(MemoryProblem::OtherContext));
    }

    #[test]
    fn memory_that_no_context_owns_is_accepted() {
        let pooled = Facts { context: ptr::null_mut(), pool: OTHER, ..ALLOCATED };
        assert_eq!(verdict(pooled), Verdict::Accepted);
        assert_eq!(
            verdict(Facts { range_bytes: 0x900, ..pooled }),
            Verdict::Refused(MemoryProblem::TooShort { bytes: 0x100, needed: 0x800 })
        );
        let mapped = Facts { context: ptr::null_mut(), range_bytes: 0x900, ..ALLOCATED };
        assert_eq!(verdict(mapped), Verdict::AcceptedIfMappedUntil(0x1fff), "a tensor may span several mappings");
        let managed = Facts { is_managed: true, context: OTHER, ordinal: 0, ..ALLOCATED };
        assert_eq!(verdict(managed), Verdict::Accepted);
    }
}

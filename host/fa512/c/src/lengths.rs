//! `fa512_lengths`, checked and turned into addresses.

use attention::Addresses;

use crate::given;
use crate::status::Failure;

/// `fa512_lengths`: numbers of which every value can be read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawLengths {
    size: usize,
    cu_seqlens: usize,
    cu_seqlens_k: usize,
    seqused_q: usize,
    seqused_k: usize,
}

/// `addresses` with the lengths at `lengths`; without any where that is null.
///
/// # Errors
/// When it is misaligned, or of another size than this version's.
///
/// # Safety
/// `lengths` is null or points to as many bytes as its `size` says.
pub unsafe fn read(lengths: *const RawLengths, addresses: Addresses) -> Result<Addresses, Failure> {
    if lengths.is_null() {
        return Ok(addresses);
    }
    if !lengths.is_aligned() {
        return Err(Failure::Invalid(format!("lengths is at {lengths:p}, where no struct can be")));
    }
    // SAFETY: it is aligned, and points to a `size_t` by the caller's promise.
    let size = unsafe { (&raw const (*lengths).size).read() };
    if size != size_of::<RawLengths>() {
        return Err(Failure::Invalid(format!("the size of lengths is {size}; it must be sizeof(fa512_lengths)")));
    }
    // SAFETY: it is aligned and as large as the struct.
    let RawLengths { cu_seqlens, cu_seqlens_k, seqused_q, seqused_k, .. } = unsafe { lengths.read() };
    Ok(Addresses {
        cu_seqlens: given(cu_seqlens),
        cu_seqlens_k: given(cu_seqlens_k),
        seqused_q: given(seqused_q),
        seqused_k: given(seqused_k),
        ..addresses
    })
}

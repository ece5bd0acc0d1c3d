//! Reads and checks `fa512_lengths`.

use attention::Addresses;

use crate::given;
use crate::status::Failure;

/// `fa512_lengths`. Any bit pattern is valid.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawLengths {
    size: usize,
    cu_seqlens: usize,
    cu_seqlens_k: usize,
    seqused_q: usize,
    seqused_k: usize,
}

/// `addresses` with the length arrays of `lengths`; unchanged if `lengths` is null.
///
/// # Errors
/// When `lengths` is misaligned, or its size is not that of this version.
///
/// # Safety
/// `lengths` is null or points to `size` readable bytes, `size` being its first field.
pub unsafe fn read(lengths: *const RawLengths, addresses: Addresses) -> Result<Addresses, Failure> {
    if lengths.is_null() {
        return Ok(addresses);
    }
    if !lengths.is_aligned() {
        return Err(Failure::Invalid(format!("lengths is at {lengths:p}, where no struct can be")));
    }
    // SAFETY: it is aligned, and the caller promises a readable `size`.
    let size = unsafe { (&raw const (*lengths).size).read() };
    if size != size_of::<RawLengths>() {
        return Err(Failure::Invalid(format!("the size of lengths is {size}; it must be sizeof(fa512_lengths)")));
    }
    // SAFETY: it is aligned, and `size` says that it is as large as the struct.
    let RawLengths { cu_seqlens, cu_seqlens_k, seqused_q, seqused_k, .. } = unsafe { lengths.read() };
    Ok(Addresses {
        cu_seqlens: given(cu_seqlens),
        cu_seqlens_k: given(cu_seqlens_k),
        seqused_q: given(seqused_q),
        seqused_k: given(seqused_k),
        ..addresses
    })
}

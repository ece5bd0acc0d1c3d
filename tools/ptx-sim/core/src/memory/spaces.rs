//! Windows of the state spaces in generic addresses (PTX ISA, "Generic Addressing").

use crate::parse::Space;

/// Shared memory reserved by the system before the block's own variables. As on a GPU, an address that lacks this base
/// is never one of theirs (CUDA C++ Programming Guide, "Compute Capabilities": 1 KiB is reserved per block since 8.0;
/// an H200 places a block's shared memory from there on).
pub(crate) const SYSTEM_SHARED_BYTES: u64 = 1024;

/// Size of the generic address window of each space other than global.
const WINDOW: u64 = 1 << 32;
/// First generic address of parameters. The windows lie where Linux places no memory of a program, since kernels may
/// access that at its own addresses.
const PARAMETER_WINDOW: u64 = 0x5000_0000_0000;
/// First generic address of local memory.
const LOCAL_WINDOW: u64 = 0x5100_0000_0000;
/// First generic address of shared memory.
const SHARED_WINDOW: u64 = 0x5200_0000_0000;

/// First generic address of a space.
fn window(space: Space) -> u64 {
    match space {
        Space::Global | Space::Constant => 0,
        Space::Parameter => PARAMETER_WINDOW,
        Space::Local => LOCAL_WINDOW,
        Space::Shared => SHARED_WINDOW,
    }
}

/// The generic address of an address of `space` (`cvta`).
pub(crate) fn generic_address(space: Space, address: u64) -> u64 {
    window(space).wrapping_add(address)
}

/// The address in `space` of a generic address (`cvta.to`).
pub(crate) fn space_address(space: Space, generic: u64) -> u64 {
    generic.wrapping_sub(window(space))
}

/// Whether none of `bytes` bytes at `address` is a generic address of a space other than global.
pub(crate) fn is_outside_windows(address: u64, bytes: u64) -> bool {
    let end = address.saturating_add(bytes);
    [PARAMETER_WINDOW, LOCAL_WINDOW, SHARED_WINDOW].iter().all(|first| end <= *first || address >= first + WINDOW)
}

/// The space of a generic address, and the address in it.
pub(crate) fn resolve(generic: u64) -> (Space, u64) {
    for space in [Space::Shared, Space::Local, Space::Parameter] {
        let address = space_address(space, generic);
        if address < WINDOW {
            return (space, address);
        }
    }
    (Space::Global, generic)
}

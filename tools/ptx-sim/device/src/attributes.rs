//! Values of `cuDeviceGetAttribute` for a simulated GPU.

use crate::architecture::{
    BLOCK_EXTENT, CONSTANT_BYTES, DEFAULT_SHARED_BYTES, GRID_EXTENT, REGISTERS, RESERVED_SHARED_BYTES,
    THREADS_PER_BLOCK, WARP,
};
use crate::array::largest_extent;
use crate::config::Config;
use crate::texture::PITCH_ALIGNMENT;

use ptx_sim::Geometry;

/// Size of the second-level cache, bytes.
const L2_BYTES: i32 = 50 << 20;
/// Attribute numbers of `cuda.h` of CUDA 13.0.
const KNOWN: std::ops::RangeInclusive<u32> = 1..=147;

/// First attribute number of each group of largest extents of textures and surfaces, with its geometry. Layered
/// geometries only have the attributes of their own dimensions.
const EXTENTS: [(u32, Geometry); 10] = [
    (21, Geometry::Line),
    (22, Geometry::Plane),
    (24, Geometry::Volume),
    (27, Geometry::Planes),
    (42, Geometry::Lines),
    (55, Geometry::Line),
    (56, Geometry::Plane),
    (58, Geometry::Volume),
    (61, Geometry::Lines),
    (63, Geometry::Planes),
];

/// The largest extent of textures or surfaces that `attribute` stands for.
fn texture_extent(attribute: u32) -> Option<u32> {
    EXTENTS.into_iter().find_map(|(first, geometry)| {
        let sizes = largest_extent(geometry).into_iter().filter(|size| *size > 1);
        sizes.zip(first..).find(|(_, number)| *number == attribute).map(|(size, _)| size)
    })
}

/// The value of an attribute (`CUdevice_attribute`) of GPU `index`; `None` for an unknown number. Features that the
/// simulator lacks, such as peer access, are 0.
pub fn device_attribute(config: &Config, index: u32, attribute: u32) -> Option<i32> {
    let architecture = &config.architecture;
    let (major, minor) = architecture.compute_capability();
    let is_hopper = architecture.number >= 90;
    let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    Some(match attribute {
        1 => number(THREADS_PER_BLOCK),
        2..=4 => number(BLOCK_EXTENT[attribute as usize - 2]),
        5..=7 => number(GRID_EXTENT[attribute as usize - 5]),
        8 => number(DEFAULT_SHARED_BYTES),
        9 => number(CONSTANT_BYTES),
        10 => number(WARP),
        // Largest pitch; registers per block; clock in kHz.
        11 => i32::MAX,
        12 | 82 => number(REGISTERS),
        13 => 1_000_000,
        // Alignment of textures, of their pitch, of surfaces.
        14 | 30 => 512,
        51 => number(PITCH_ALIGNMENT as u32),
        // Copies overlap kernels; concurrent kernels; stream priorities.
        15 | 31 | 40 | 78 => 1,
        16 => number(config.multiprocessors),
        // PCI bus, device, domain.
        33 => number(index + 1),
        34 | 50 => 0,
        36 => 1_000_000,
        // Memory bus width in bits.
        37 => 5120,
        38 => L2_BYTES,
        39 => number(architecture.threads),
        // Host memory in kernels; unified addressing.
        19 | 41 => 1,
        75 => number(major),
        76 => number(minor),
        // Caches of global and local memory.
        79 | 80 => 1,
        81 => number(architecture.shared_bytes),
        // Managed memory, with concurrent access by host and GPU.
        83 | 89 => 1,
        // Compute preemption; registered host memory at the host's address; cooperative launches; registration.
        90 | 91 | 95 | 99 => 1,
        // Ratio of single to double precision throughput.
        87 => 2,
        97 => number(architecture.shared_bytes_per_block),
        106 => number(architecture.blocks),
        111 => number(RESERVED_SHARED_BYTES),
        // Memory pools (stream-ordered allocation).
        115 => 1,
        // Clusters; asynchronous copies of tensors.
        120 | 127 => i32::from(is_hopper),
        // No NUMA node of the host.
        131 | 134 => -1,
        _ if KNOWN.contains(&attribute) => texture_extent(attribute).map_or(0, number),
        _ => return None,
    })
}

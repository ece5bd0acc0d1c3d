//! The constants that are shipped. Written by `fa512 map fit` (docs/results/map.md).

use super::{Constants, Costs, KernelClass};
use crate::config::Mask::{self, Causal, Full};
use crate::tile::Grid::{self, OneShot, Persistent, SplitKeys};
use crate::tile::Kind::{self, Sm80, Sm90CpAsync, Sm90Tma};

/// The GPU models.
#[rustfmt::skip]
pub const SHIPPED: &[Costs<'static>] = &[
    Costs { gpu: "NVIDIA H200", architecture: 90, kernels: &[
        kernel((Sm90Tma, 512, 64, 64, 1, Persistent, Full), 1, [1.9416, 0.0173, 1.5697, 1.5737, 0.2581, 0.1102, 0.0746]),
        kernel((Sm90Tma, 512, 64, 64, 1, Persistent, Causal), 1, [1.5774, 0.0152, 1.5238, 1.0209, 0.2581, 0.1117, 0.0756]),
        kernel((Sm90Tma, 64, 64, 64, 1, OneShot, Full), 2, [0.1295, 0.0106, 1.3842, 0.4116, 0.2580, 0.3896, 0.2638]),
        kernel((Sm90Tma, 64, 64, 64, 1, OneShot, Causal), 2, [0.0513, 0.0087, 1.8084, 0.3701, 0.2259, 0.3537, 0.2371]),
        kernel((Sm90Tma, 256, 64, 64, 1, Persistent, Full), 1, [1.6430, 0.0178, 1.4362, 0.7713, 0.2581, 0.1114, 0.0754]),
        kernel((Sm90Tma, 256, 64, 64, 1, Persistent, Causal), 1, [1.4193, 0.0182, 1.6952, 0.6889, 0.2582, 0.0652, 0.0441]),
        kernel((Sm90Tma, 64, 64, 64, 3, Persistent, Full), 3, [0.9129, 0.0113, 0.5475, 0.4355, 0.2498, 0.2393, 0.0709]),
        kernel((Sm90Tma, 64, 64, 64, 3, Persistent, Causal), 3, [1.1233, 0.0113, 0.5978, 0.4200, 0.2499, 0.2402, 0.0588]),
        kernel((Sm90Tma, 64, 64, 64, 2, SplitKeys, Full), 2, [0.1332, 0.0169, 2.2278, 0.4858, 0.2429, 0.3230, 0.2186]),
        kernel((Sm90Tma, 64, 64, 64, 2, SplitKeys, Causal), 2, [0.1332, 0.0169, 2.2278, 0.4858, 0.2429, 0.3230, 0.2186]),
        kernel((Sm90Tma, 256, 64, 32, 1, Persistent, Full), 1, [1.6430, 0.0178, 1.4362, 0.7713, 0.2581, 0.1114, 0.0754]),
        kernel((Sm90Tma, 256, 64, 32, 1, Persistent, Causal), 1, [1.4193, 0.0182, 1.6952, 0.6889, 0.2582, 0.0652, 0.0441]),
        kernel((Sm90Tma, 64, 64, 32, 4, Persistent, Full), 3, [0.9129, 0.0113, 0.5475, 0.4355, 0.2498, 0.2393, 0.0709]),
        kernel((Sm90Tma, 64, 64, 32, 4, Persistent, Causal), 3, [1.1233, 0.0113, 0.5978, 0.4200, 0.2499, 0.2402, 0.0588]),
        kernel((Sm90Tma, 64, 64, 32, 2, SplitKeys, Full), 2, [0.1332, 0.0169, 2.2278, 0.4858, 0.2429, 0.3230, 0.2186]),
        kernel((Sm90Tma, 64, 64, 32, 2, SplitKeys, Causal), 2, [0.1332, 0.0169, 2.2278, 0.4858, 0.2429, 0.3230, 0.2186]),
        kernel((Sm90Tma, 192, 64, 96, 1, Persistent, Full), 1, [1.6430, 0.0178, 1.4362, 0.7713, 0.2581, 0.1114, 0.0754]),
        kernel((Sm90Tma, 192, 64, 96, 1, Persistent, Causal), 1, [1.4193, 0.0182, 1.6952, 0.6889, 0.2582, 0.0652, 0.0441]),
        kernel((Sm90Tma, 128, 64, 128, 1, Persistent, Full), 1, [1.6430, 0.0178, 1.4362, 0.7713, 0.2581, 0.1114, 0.0754]),
        kernel((Sm90Tma, 128, 64, 128, 1, Persistent, Causal), 1, [1.4193, 0.0182, 1.6952, 0.6889, 0.2582, 0.0652, 0.0441]),
        kernel((Sm90Tma, 64, 64, 128, 2, Persistent, Full), 3, [0.9129, 0.0113, 0.5475, 0.4355, 0.2498, 0.2393, 0.0709]),
        kernel((Sm90Tma, 64, 64, 128, 2, Persistent, Causal), 3, [1.1233, 0.0113, 0.5978, 0.4200, 0.2499, 0.2402, 0.0588]),
        kernel((Sm90Tma, 64, 64, 128, 2, SplitKeys, Full), 2, [0.1332, 0.0169, 2.2278, 0.4858, 0.2429, 0.3230, 0.2186]),
        kernel((Sm90Tma, 64, 64, 128, 2, SplitKeys, Causal), 2, [0.1332, 0.0169, 2.2278, 0.4858, 0.2429, 0.3230, 0.2186]),
        kernel((Sm90CpAsync, 64, 64, 64, 4, OneShot, Full), 4, [1.8279, 0.0039, 0.9325, 0.5099, 0.2313, 0.3313, 0.2839]),
        kernel((Sm90CpAsync, 64, 64, 64, 4, OneShot, Causal), 6, [1.8485, 0.0039, 0.9371, 0.5239, 0.2297, 0.3211, 0.2819]),
        kernel((Sm80, 128, 64, 64, 2, OneShot, Full), 4, [0.6052, 0.0075, 2.3316, 0.8067, 0.6520, 0.2626, 0.4271]),
        kernel((Sm80, 128, 32, 64, 2, OneShot, Causal), 2, [0.9298, 0.0055, 2.3081, 0.4738, 0.3034, 0.2734, 0.4445]),
        kernel((Sm80, 32, 32, 64, 3, OneShot, Full), 4, [0.8416, 0.0041, 1.5265, 0.3507, 0.1303, 0.1458, 0.2371]),
        kernel((Sm80, 32, 32, 64, 3, OneShot, Causal), 4, [0.7710, 0.0029, 1.8490, 0.3466, 0.1174, 0.2092, 0.3401]),
        kernel((Sm80, 128, 64, 32, 3, OneShot, Full), 4, [0.6052, 0.0075, 2.3316, 0.8067, 0.6520, 0.2626, 0.4271]),
        kernel((Sm80, 128, 64, 32, 3, OneShot, Causal), 4, [0.6052, 0.0075, 2.3316, 0.8067, 0.6520, 0.2626, 0.4271]),
        kernel((Sm80, 64, 64, 128, 1, OneShot, Full), 2, [1.0556, 0.0053, 2.0737, 0.8669, 0.7943, 0.1619, 0.2634]),
        kernel((Sm80, 64, 64, 128, 1, OneShot, Causal), 2, [0.7374, 0.0054, 2.3809, 0.8919, 0.6841, 0.2081, 0.3386]),
    ] },
];

/// Kind, rows, keys, columns, blocks, grid, mask.
type Class = (Kind, u32, u32, u32, u32, Grid, Mask);

const fn kernel(class: Class, resident: u32, constants: [f64; 7]) -> (KernelClass, Constants) {
    let (kind, rows, keys, columns, blocks, grid, mask) = class;
    let [launch_us, block_us, item_us, step_us, shared_step_us, megabyte_us, exposed] = constants;
    (
        KernelClass { kind, rows, keys, columns, blocks, grid, mask },
        Constants { resident, launch_us, block_us, item_us, step_us, shared_step_us, megabyte_us, exposed },
    )
}

//! The constants that are shipped. Written by `fa512 map fit` (docs/results/map.md).

use super::{Constants, Costs, KernelClass};
use crate::config::Mask::{self, Causal, Full};
use crate::tile::Grid::{self, OneShot, Persistent};
use crate::tile::Kind::{self, Sm80, Sm90CpAsync, Sm90Tma};

/// The GPU models.
#[rustfmt::skip]
pub const SHIPPED: &[Costs<'static>] = &[
    Costs { gpu: "NVIDIA H100 80GB HBM3", architecture: 90, kernels: &[
        kernel((Sm90Tma, 512, 64, 1, Persistent, Full), 1, [6.4008, 1.8509, 0.7608, 0.3000, 0.3816, 0.1379]),
        kernel((Sm90Tma, 512, 64, 1, Persistent, Causal), 1, [3.1164, 4.2031, 0.6127, 0.3000, 0.2833, 0.3403]),
        kernel((Sm90Tma, 64, 64, 1, OneShot, Full), 2, [0.1367, 1.6715, 0.3888, 0.2443, 0.3333, 0.6968]),
        kernel((Sm90Tma, 64, 64, 1, OneShot, Causal), 1, [0.8319, 1.3265, 0.2958, 0.2442, 0.0801, 0.1676]),
        kernel((Sm90Tma, 256, 64, 1, Persistent, Full), 1, [1.3721, 1.8521, 0.7627, 0.3000, 0.2274, 0.1949]),
        kernel((Sm90Tma, 256, 64, 1, Persistent, Causal), 1, [1.1416, 2.1615, 0.7358, 0.2999, 0.1098, 0.0942]),
        kernel((Sm90Tma, 64, 64, 3, Persistent, Full), 3, [1.9184, 0.4987, 0.2082, 0.2082, 0.3030, 0.6165]),
        kernel((Sm90Tma, 64, 64, 3, Persistent, Causal), 3, [1.7163, 0.7065, 0.2082, 0.2369, 0.2299, 0.9235]),
        kernel((Sm90CpAsync, 64, 64, 4, OneShot, Full), 6, [2.9596, 1.0187, 0.3629, 0.2485, 0.3387, 0.2903]),
        kernel((Sm90CpAsync, 64, 64, 4, OneShot, Causal), 6, [3.6540, 0.9765, 0.2808, 0.2808, 0.3337, 0.2901]),
        kernel((Sm80, 128, 64, 2, OneShot, Full), 1, [2.1273, 0.9337, 0.6858, 0.2999, 0.2743, 0.4844]),
        kernel((Sm80, 128, 32, 2, OneShot, Causal), 2, [1.4741, 1.9301, 0.4498, 0.3673, 0.2863, 0.5625]),
        kernel((Sm80, 32, 32, 3, OneShot, Full), 2, [2.6149, 0.4891, 0.2126, 0.1070, 0.2842, 0.3542]),
        kernel((Sm80, 32, 32, 3, OneShot, Causal), 2, [2.6530, 0.4563, 0.2497, 0.1070, 0.2882, 0.3352]),
    ] },
];

/// Kind, rows, keys, blocks, grid, mask.
type Class = (Kind, u32, u32, u32, Grid, Mask);

const fn kernel(class: Class, resident: u32, constants: [f64; 6]) -> (KernelClass, Constants) {
    let (kind, rows, keys, blocks, grid, mask) = class;
    let [launch_us, item_us, step_us, shared_step_us, megabyte_us, exposed] = constants;
    (
        KernelClass { kind, rows, keys, blocks, grid, mask },
        Constants { resident, launch_us, item_us, step_us, shared_step_us, megabyte_us, exposed },
    )
}

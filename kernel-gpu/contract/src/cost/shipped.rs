//! The constants that are shipped. Written by `fa512 map fit` (docs/results/map.md).

use super::{Constants, Costs, KernelClass};
use crate::config::Mask::{self, Causal, Full};
use crate::tile::Grid::{self, OneShot, Persistent};
use crate::tile::Kind::{self, Sm80, Sm90CpAsync, Sm90Tma};

/// The GPU models.
#[rustfmt::skip]
pub const SHIPPED: &[Costs<'static>] = &[
    Costs { gpu: "NVIDIA H100 80GB HBM3", architecture: 90, kernels: &[
        kernel((Sm90Tma, 512, 64, 64, 1, Persistent, Full), 1, [7.3821, 1.8334, 0.6702, 0.2418, 0.3631, 0.1550]),
        kernel((Sm90Tma, 512, 64, 64, 1, Persistent, Causal), 1, [3.3527, 4.6985, 0.4539, 0.2418, 0.2594, 0.4637]),
        kernel((Sm90Tma, 64, 64, 64, 1, OneShot, Full), 2, [0.1491, 1.6936, 0.3893, 0.2418, 0.3147, 0.7117]),
        kernel((Sm90Tma, 64, 64, 64, 1, OneShot, Causal), 1, [0.8786, 1.3124, 0.2967, 0.2419, 0.0658, 0.1487]),
        kernel((Sm90Tma, 256, 64, 64, 1, Persistent, Full), 1, [1.0969, 1.9266, 0.7750, 0.2418, 0.1346, 0.3043]),
        kernel((Sm90Tma, 256, 64, 64, 1, Persistent, Causal), 1, [0.9058, 2.2094, 0.7507, 0.2418, 0.0629, 0.1424]),
        kernel((Sm90Tma, 64, 64, 64, 3, Persistent, Full), 3, [1.8980, 0.1533, 0.3952, 0.2640, 0.3826, 0.2208]),
        kernel((Sm90Tma, 64, 64, 64, 3, Persistent, Causal), 3, [2.1648, 0.0690, 0.3865, 0.3181, 0.3530, 0.2487]),
        kernel((Sm90Tma, 256, 64, 32, 1, Persistent, Full), 1, [1.4848, 1.6326, 0.6487, 0.2155, 0.4484, 0.0492]),
        kernel((Sm90Tma, 256, 64, 32, 1, Persistent, Causal), 1, [1.2724, 1.8905, 0.5750, 0.2155, 0.3057, 0.0335]),
        kernel((Sm90Tma, 64, 64, 32, 4, Persistent, Full), 4, [1.8247, 0.1440, 0.3112, 0.2155, 0.7164, 0.0787]),
        kernel((Sm90Tma, 64, 64, 32, 4, Persistent, Causal), 4, [2.1489, 0.0463, 0.2966, 0.2462, 0.6203, 0.0478]),
        kernel((Sm90Tma, 192, 64, 96, 1, Persistent, Full), 1, [1.0664, 3.1003, 0.6871, 0.6095, 0.1654, 0.1548]),
        kernel((Sm90Tma, 192, 64, 96, 1, Persistent, Causal), 1, [0.7963, 3.2480, 0.7099, 0.6096, 0.1084, 0.1015]),
        kernel((Sm90Tma, 128, 64, 128, 1, Persistent, Full), 1, [1.5516, 1.7546, 0.6722, 0.6095, 0.2980, 0.2788]),
        kernel((Sm90Tma, 128, 64, 128, 1, Persistent, Causal), 1, [1.2232, 1.8760, 0.6718, 0.8150, 0.2125, 0.1988]),
        kernel((Sm90Tma, 64, 64, 128, 2, Persistent, Full), 2, [0.2688, 2.2947, 0.8566, 0.6093, 0.3291, 0.3945]),
        kernel((Sm90Tma, 64, 64, 128, 2, Persistent, Causal), 2, [0.1788, 2.5913, 0.8660, 0.6123, 0.3529, 0.2573]),
        kernel((Sm90CpAsync, 64, 64, 64, 4, OneShot, Full), 6, [3.2323, 1.0038, 0.3111, 0.2448, 0.3398, 0.2913]),
        kernel((Sm90CpAsync, 64, 64, 64, 4, OneShot, Causal), 6, [3.7208, 0.9174, 0.2732, 0.2732, 0.3234, 0.3270]),
        kernel((Sm80, 128, 64, 64, 2, OneShot, Full), 1, [2.1122, 0.9432, 0.6959, 0.3001, 0.3300, 0.3409]),
        kernel((Sm80, 128, 32, 64, 2, OneShot, Causal), 2, [1.4461, 1.9912, 0.4480, 0.3695, 0.2909, 0.4973]),
        kernel((Sm80, 32, 32, 64, 3, OneShot, Full), 4, [2.1076, 0.5086, 0.3424, 0.1244, 0.3373, 0.6392]),
        kernel((Sm80, 32, 32, 64, 3, OneShot, Causal), 3, [2.1479, 0.3512, 0.3598, 0.1217, 0.3065, 0.8306]),
        kernel((Sm80, 128, 64, 32, 3, OneShot, Full), 2, [1.7015, 0.9430, 0.5897, 0.4030, 0.2297, 0.5957]),
        kernel((Sm80, 128, 64, 32, 3, OneShot, Causal), 2, [1.4060, 0.9736, 0.7175, 0.3621, 0.2659, 0.6900]),
        kernel((Sm80, 64, 64, 128, 1, OneShot, Full), 1, [2.5490, 0.9639, 0.7960, 0.3000, 0.2384, 0.6181]),
        kernel((Sm80, 64, 64, 128, 1, OneShot, Causal), 1, [2.5925, 0.9239, 0.8336, 0.3000, 0.2292, 0.5940]),
    ] },
];

/// Kind, rows, keys, columns, blocks, grid, mask.
type Class = (Kind, u32, u32, u32, u32, Grid, Mask);

const fn kernel(class: Class, resident: u32, constants: [f64; 6]) -> (KernelClass, Constants) {
    let (kind, rows, keys, columns, blocks, grid, mask) = class;
    let [launch_us, item_us, step_us, shared_step_us, megabyte_us, exposed] = constants;
    (
        KernelClass { kind, rows, keys, columns, blocks, grid, mask },
        Constants { resident, launch_us, item_us, step_us, shared_step_us, megabyte_us, exposed },
    )
}

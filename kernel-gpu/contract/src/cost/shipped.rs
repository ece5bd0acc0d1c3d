//! The constants that are shipped. Written by `fa512 map fit` (docs/results/map.md).

use super::{Constants, Costs, KernelClass};
use crate::config::Mask::{self, Causal, Full};
use crate::tile::Grid::{self, OneShot, Persistent, SplitKeys};
use crate::tile::Kind::{self, Sm80, Sm90CpAsync, Sm90Tma};

/// The GPU models.
#[rustfmt::skip]
pub const SHIPPED: &[Costs<'static>] = &[
    Costs { gpu: "NVIDIA H100 80GB HBM3", architecture: 90, kernels: &[
        kernel((Sm90Tma, 512, 64, 64, 1, Persistent, Full), 1, [2.4019, 0.0112, 1.1107, 1.5209, 0.2753, 0.3046, 0.1554]),
        kernel((Sm90Tma, 512, 64, 64, 1, Persistent, Causal), 1, [2.0473, 0.0115, 1.0446, 1.0126, 0.2754, 0.3046, 0.1642]),
        kernel((Sm90Tma, 64, 64, 64, 1, OneShot, Full), 8, [0.8785, 0.0090, 0.6382, 0.3988, 0.2753, 0.4325, 0.2820]),
        kernel((Sm90Tma, 64, 64, 64, 1, OneShot, Causal), 3, [0.3408, 0.0069, 1.4818, 0.3769, 0.2548, 0.3334, 0.4099]),
        kernel((Sm90Tma, 256, 64, 64, 1, Persistent, Full), 1, [2.0613, 0.0108, 1.0421, 0.7559, 0.2753, 0.2961, 0.1511]),
        kernel((Sm90Tma, 256, 64, 64, 1, Persistent, Causal), 1, [1.7920, 0.0084, 1.3844, 0.6775, 0.2754, 0.3187, 0.0843]),
        kernel((Sm90Tma, 64, 64, 64, 3, Persistent, Full), 3, [0.6590, 0.0101, 0.8233, 0.4251, 0.2478, 0.3160, 0.1017]),
        kernel((Sm90Tma, 64, 64, 64, 3, Persistent, Causal), 3, [0.5661, 0.0074, 1.2089, 0.4115, 0.2473, 0.3181, 0.0889]),
        kernel((Sm90Tma, 64, 64, 64, 2, SplitKeys, Full), 2, [0.5055, 0.0155, 1.8809, 0.5526, 0.2753, 0.5817, 0.2422]),
        kernel((Sm90Tma, 64, 64, 64, 2, SplitKeys, Causal), 2, [0.2902, 0.0125, 2.5170, 0.4653, 0.2705, 0.4947, 0.2641]),
        kernel((Sm90Tma, 256, 64, 32, 1, Persistent, Full), 1, [2.3487, 0.0090, 0.6041, 0.6671, 0.2754, 0.2564, 0.1308]),
        kernel((Sm90Tma, 256, 64, 32, 1, Persistent, Causal), 1, [2.1350, 0.0087, 0.6349, 0.6186, 0.2753, 0.2563, 0.1307]),
        kernel((Sm90Tma, 64, 64, 32, 4, Persistent, Full), 4, [1.2932, 0.0055, 0.3951, 0.3321, 0.1942, 0.2283, 0.1165]),
        kernel((Sm90Tma, 64, 64, 32, 4, Persistent, Causal), 4, [1.2213, 0.0059, 0.4212, 0.3290, 0.1971, 0.2356, 0.1202]),
        kernel((Sm90Tma, 64, 64, 32, 2, SplitKeys, Full), 2, [1.1107, 0.0099, 1.5558, 0.4779, 0.1942, 0.2520, 0.1285]),
        kernel((Sm90Tma, 64, 64, 32, 2, SplitKeys, Causal), 2, [0.7505, 0.0083, 2.1754, 0.3456, 0.2243, 0.2682, 0.1368]),
        kernel((Sm90Tma, 192, 64, 96, 1, Persistent, Full), 1, [2.0613, 0.0108, 1.0421, 0.7559, 0.2753, 0.2961, 0.1511]),
        kernel((Sm90Tma, 192, 64, 96, 1, Persistent, Causal), 1, [1.7920, 0.0084, 1.3844, 0.6775, 0.2754, 0.3187, 0.0843]),
        kernel((Sm90Tma, 128, 64, 128, 1, Persistent, Full), 1, [1.3846, 0.0236, 1.4478, 0.7253, 0.2753, 0.2407, 0.1384]),
        kernel((Sm90Tma, 128, 64, 128, 1, Persistent, Causal), 1, [1.3005, 0.0171, 1.5912, 0.7705, 0.2752, 0.2372, 0.1138]),
        kernel((Sm90Tma, 64, 64, 128, 2, Persistent, Full), 2, [0.3725, 0.0142, 1.2154, 1.0099, 0.2753, 0.2882, 0.2484]),
        kernel((Sm90Tma, 64, 64, 128, 2, Persistent, Causal), 2, [0.3167, 0.0122, 0.9529, 0.9884, 0.2753, 0.2903, 0.2848]),
        kernel((Sm90Tma, 64, 64, 128, 2, SplitKeys, Full), 2, [0.4847, 0.0245, 2.1533, 1.0911, 0.2753, 0.5032, 0.2383]),
        kernel((Sm90Tma, 64, 64, 128, 2, SplitKeys, Causal), 2, [0.4183, 0.0228, 1.4351, 1.1580, 0.2753, 0.5087, 0.1805]),
        kernel((Sm90CpAsync, 64, 64, 64, 4, OneShot, Full), 6, [1.8036, 0.0039, 0.9371, 0.4974, 0.2408, 0.3340, 0.2862]),
        kernel((Sm90CpAsync, 64, 64, 64, 4, OneShot, Causal), 8, [1.9601, 0.0051, 0.9396, 0.4793, 0.2909, 0.3323, 0.2952]),
        kernel((Sm80, 128, 64, 64, 2, OneShot, Full), 2, [1.5127, 0.0088, 1.4350, 0.7867, 0.6868, 0.3020, 0.2573]),
        kernel((Sm80, 128, 32, 64, 2, OneShot, Causal), 2, [1.2005, 0.0064, 2.0929, 0.4491, 0.3113, 0.4403, 0.2499]),
        kernel((Sm80, 32, 32, 64, 3, OneShot, Full), 8, [0.7832, 0.0038, 1.6126, 0.3326, 0.1307, 0.3804, 0.2403]),
        kernel((Sm80, 32, 32, 64, 3, OneShot, Causal), 6, [0.6470, 0.0029, 1.9564, 0.3338, 0.1245, 0.3830, 0.2892]),
        kernel((Sm80, 128, 64, 32, 3, OneShot, Full), 4, [1.3950, 0.0070, 1.0760, 0.5703, 0.3998, 0.2698, 0.2299]),
        kernel((Sm80, 128, 64, 32, 3, OneShot, Causal), 2, [1.4311, 0.0067, 1.0334, 0.5833, 0.3794, 0.2628, 0.2240]),
        kernel((Sm80, 64, 64, 128, 1, OneShot, Full), 2, [1.6722, 0.0057, 1.4752, 0.8541, 0.7657, 0.3868, 0.3296]),
        kernel((Sm80, 64, 64, 128, 1, OneShot, Causal), 2, [1.3842, 0.0061, 1.7392, 0.8751, 0.7183, 0.3480, 0.3403]),
    ] },
    Costs { gpu: "NVIDIA H200", architecture: 90, kernels: &[
        kernel((Sm90Tma, 512, 64, 64, 1, Persistent, Full), 1, [1.9178, 0.0097, 1.5541, 1.5457, 0.2792, 0.1360, 0.1682]),
        kernel((Sm90Tma, 512, 64, 64, 1, Persistent, Causal), 1, [1.7610, 0.0091, 1.4793, 0.9932, 0.2792, 0.1329, 0.1644]),
        kernel((Sm90Tma, 64, 64, 64, 1, OneShot, Full), 8, [0.6220, 0.0086, 0.8837, 0.4020, 0.2791, 0.2971, 0.3675]),
        kernel((Sm90Tma, 64, 64, 64, 1, OneShot, Causal), 2, [0.2103, 0.0045, 1.7105, 0.3897, 0.2566, 0.4420, 0.1283]),
        kernel((Sm90Tma, 256, 64, 64, 1, Persistent, Full), 1, [1.6777, 0.0097, 1.4262, 0.7805, 0.2792, 0.1376, 0.1702]),
        kernel((Sm90Tma, 256, 64, 64, 1, Persistent, Causal), 1, [1.5433, 0.0064, 1.7104, 0.7087, 0.2792, 0.0872, 0.1079]),
        kernel((Sm90Tma, 64, 64, 64, 3, Persistent, Full), 3, [0.8970, 0.0075, 0.6107, 0.4419, 0.2547, 0.2639, 0.1089]),
        kernel((Sm90Tma, 64, 64, 64, 3, Persistent, Causal), 3, [1.1060, 0.0064, 0.7323, 0.4255, 0.2712, 0.2693, 0.0687]),
        kernel((Sm90Tma, 64, 64, 64, 2, SplitKeys, Full), 2, [0.2348, 0.0103, 2.3679, 0.3769, 0.2880, 0.5399, 0.2168]),
        kernel((Sm90Tma, 64, 64, 64, 2, SplitKeys, Causal), 2, [0.1302, 0.0083, 2.7685, 0.4484, 0.2816, 0.5967, 0.1601]),
        kernel((Sm90Tma, 256, 64, 32, 1, Persistent, Full), 1, [1.2840, 0.0083, 1.3778, 0.6660, 0.2400, 0.3355, 0.1347]),
        kernel((Sm90Tma, 256, 64, 32, 1, Persistent, Causal), 1, [1.3107, 0.0044, 1.5739, 0.5596, 0.2400, 0.2358, 0.0947]),
        kernel((Sm90Tma, 64, 64, 32, 4, Persistent, Full), 4, [0.4695, 0.0076, 0.9420, 0.3447, 0.1882, 0.2381, 0.0956]),
        kernel((Sm90Tma, 64, 64, 32, 4, Persistent, Causal), 4, [0.7996, 0.0069, 0.9571, 0.3182, 0.1841, 0.1732, 0.0695]),
        kernel((Sm90Tma, 64, 64, 32, 2, SplitKeys, Full), 2, [0.1643, 0.0085, 1.9908, 0.2400, 0.2400, 0.5685, 0.2282]),
        kernel((Sm90Tma, 64, 64, 32, 2, SplitKeys, Causal), 2, [0.1322, 0.0060, 2.5041, 0.2183, 0.2183, 0.4606, 0.1849]),
        kernel((Sm90Tma, 192, 64, 96, 1, Persistent, Full), 1, [1.6777, 0.0097, 1.4262, 0.7805, 0.2792, 0.1376, 0.1702]),
        kernel((Sm90Tma, 192, 64, 96, 1, Persistent, Causal), 1, [1.5433, 0.0064, 1.7104, 0.7087, 0.2792, 0.0872, 0.1079]),
        kernel((Sm90Tma, 128, 64, 128, 1, Persistent, Full), 1, [0.4006, 0.0093, 2.1712, 0.3770, 0.7406, 0.2476, 0.1424]),
        kernel((Sm90Tma, 128, 64, 128, 1, Persistent, Causal), 1, [0.7636, 0.0089, 2.0082, 0.3770, 0.7357, 0.1929, 0.1109]),
        kernel((Sm90Tma, 64, 64, 128, 2, Persistent, Full), 2, [0.1693, 0.0166, 1.4126, 0.9561, 0.5406, 0.2512, 0.1596]),
        kernel((Sm90Tma, 64, 64, 128, 2, Persistent, Causal), 2, [0.1595, 0.0092, 1.7778, 0.9245, 0.5171, 0.1975, 0.1255]),
        kernel((Sm90Tma, 64, 64, 128, 2, SplitKeys, Full), 2, [0.1936, 0.0164, 3.9169, 0.3770, 0.5600, 0.4326, 0.2487]),
        kernel((Sm90Tma, 64, 64, 128, 2, SplitKeys, Causal), 2, [0.1719, 0.0167, 4.1469, 0.3770, 0.5821, 0.3718, 0.2137]),
        kernel((Sm90CpAsync, 64, 64, 64, 4, OneShot, Full), 4, [1.8389, 0.0039, 0.9402, 0.5241, 0.2333, 0.3316, 0.2843]),
        kernel((Sm90CpAsync, 64, 64, 64, 4, OneShot, Causal), 8, [1.8360, 0.0038, 0.9414, 0.5288, 0.2317, 0.3221, 0.2821]),
        kernel((Sm80, 128, 64, 64, 2, OneShot, Full), 2, [0.9545, 0.0073, 1.9698, 0.8170, 0.6612, 0.3561, 0.1747]),
        kernel((Sm80, 128, 32, 64, 2, OneShot, Causal), 2, [0.6571, 0.0061, 2.6047, 0.4741, 0.3211, 0.3924, 0.1994]),
        kernel((Sm80, 32, 32, 64, 3, OneShot, Full), 4, [0.9044, 0.0036, 1.4305, 0.3568, 0.1309, 0.3435, 0.1246]),
        kernel((Sm80, 32, 32, 64, 3, OneShot, Causal), 4, [0.7436, 0.0024, 1.8524, 0.3515, 0.1262, 0.3932, 0.1216]),
        kernel((Sm80, 128, 64, 32, 3, OneShot, Full), 3, [1.0251, 0.0052, 1.3741, 0.6254, 0.4125, 0.3948, 0.1656]),
        kernel((Sm80, 128, 64, 32, 3, OneShot, Causal), 3, [0.9775, 0.0052, 1.5936, 0.6219, 0.3856, 0.4031, 0.2059]),
        kernel((Sm80, 64, 64, 128, 1, OneShot, Full), 2, [1.2530, 0.0068, 1.8086, 0.8664, 0.7779, 0.3212, 0.2754]),
        kernel((Sm80, 64, 64, 128, 1, OneShot, Causal), 2, [0.9608, 0.0040, 2.1899, 0.8955, 0.7255, 0.3043, 0.2610]),
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

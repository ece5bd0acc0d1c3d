//! The constants that are shipped. Written by `fa512 map fit` (docs/results/map.md).

use super::{Constants, Costs, KernelClass};
use crate::config::Mask::{self, Causal, Full};
use crate::tile::Grid::{self, OneShot, Persistent, SplitKeys};
use crate::tile::Kind::{self, Sm80, Sm90CpAsync, Sm90Tma};
use crate::tile::Overlap::{self, AcrossStrips, BetweenWarpgroups, WithinStrip};

/// The GPU models.
#[rustfmt::skip]
#[allow(clippy::approx_constant, reason = "a fitted number may come near any other")]
pub const SHIPPED: &[Costs<'static>] = &[
    Costs { gpu: "NVIDIA H100 80GB HBM3", architecture: 90, kernels: &[
        kernel((Sm90Tma, 512, 64, 1, 64, 1, Persistent, BetweenWarpgroups, Full), 1, [1.5029, 0.0079, 1.8523, 1.4935, 0.2532, 0.1604, 0.1842]),
        kernel((Sm90Tma, 512, 64, 1, 64, 1, Persistent, BetweenWarpgroups, Causal), 1, [1.3931, 0.0079, 1.6896, 0.9764, 0.2532, 0.1604, 0.1841]),
        kernel((Sm90Tma, 64, 64, 1, 64, 1, OneShot, BetweenWarpgroups, Full), 2, [0.1974, 0.0060, 1.4885, 0.3937, 0.2531, 0.3736, 0.4288]),
        kernel((Sm90Tma, 64, 64, 1, 64, 1, OneShot, BetweenWarpgroups, Causal), 2, [0.0925, 0.0072, 1.7784, 0.3713, 0.2359, 0.3475, 0.3682]),
        kernel((Sm90Tma, 256, 64, 1, 64, 1, Persistent, BetweenWarpgroups, Full), 1, [1.3802, 0.0079, 1.6678, 0.7592, 0.2532, 0.1604, 0.1841]),
        kernel((Sm90Tma, 256, 64, 1, 64, 1, Persistent, BetweenWarpgroups, Causal), 1, [1.0065, 0.0142, 1.8341, 0.7142, 0.2532, 0.1073, 0.1231]),
        kernel((Sm90Tma, 64, 64, 1, 64, 3, Persistent, BetweenWarpgroups, Full), 3, [0.3564, 0.0095, 1.0980, 0.4282, 0.2489, 0.3251, 0.0800]),
        kernel((Sm90Tma, 64, 64, 1, 64, 3, Persistent, BetweenWarpgroups, Causal), 3, [0.6539, 0.0093, 1.0156, 0.4158, 0.2619, 0.3474, 0.0758]),
        kernel((Sm90Tma, 64, 64, 1, 64, 2, SplitKeys, BetweenWarpgroups, Full), 2, [0.1501, 0.0130, 2.4462, 0.5398, 0.2531, 0.4838, 0.2180]),
        kernel((Sm90Tma, 64, 64, 1, 64, 2, SplitKeys, BetweenWarpgroups, Causal), 2, [0.1138, 0.0115, 2.8313, 0.4390, 0.2708, 0.5225, 0.1838]),
        kernel((Sm90Tma, 256, 64, 1, 32, 1, Persistent, BetweenWarpgroups, Full), 1, [2.0959, 0.0067, 0.7787, 0.6691, 0.2532, 0.1419, 0.1629]),
        kernel((Sm90Tma, 256, 64, 1, 32, 1, Persistent, BetweenWarpgroups, Causal), 1, [2.0011, 0.0065, 0.7660, 0.6188, 0.2532, 0.1401, 0.1609]),
        kernel((Sm90Tma, 64, 64, 1, 32, 4, Persistent, BetweenWarpgroups, Full), 4, [1.2143, 0.0047, 0.4881, 0.3326, 0.1948, 0.1320, 0.1516]),
        kernel((Sm90Tma, 64, 64, 1, 32, 4, Persistent, BetweenWarpgroups, Causal), 4, [1.1241, 0.0052, 0.5380, 0.3288, 0.1974, 0.1362, 0.1564]),
        kernel((Sm90Tma, 64, 64, 1, 32, 2, SplitKeys, BetweenWarpgroups, Full), 2, [1.0636, 0.0093, 1.6451, 0.4770, 0.1948, 0.1400, 0.1608]),
        kernel((Sm90Tma, 64, 64, 1, 32, 2, SplitKeys, BetweenWarpgroups, Causal), 2, [0.7222, 0.0082, 2.2175, 0.3467, 0.2244, 0.1460, 0.1676]),
        kernel((Sm90Tma, 192, 64, 1, 96, 1, Persistent, BetweenWarpgroups, Full), 1, [1.3802, 0.0079, 1.6678, 0.7592, 0.1899, 0.1604, 0.1841]),
        kernel((Sm90Tma, 192, 64, 1, 96, 1, Persistent, WithinStrip, Causal), 1, [1.0065, 0.0142, 1.8341, 0.7142, 0.1899, 0.1073, 0.1231]),
        kernel((Sm90Tma, 128, 64, 1, 128, 1, Persistent, AcrossStrips, Full), 1, [1.6014, 0.0155, 1.0358, 0.6903, 0.2531, 0.3089, 0.1446]),
        kernel((Sm90Tma, 128, 64, 1, 128, 1, Persistent, AcrossStrips, Causal), 1, [1.5737, 0.0136, 1.1902, 0.6901, 0.2531, 0.3107, 0.1498]),
        kernel((Sm90Tma, 64, 64, 1, 128, 2, Persistent, BetweenWarpgroups, Full), 2, [0.1192, 0.0159, 1.3068, 1.0177, 0.2531, 0.2305, 0.3513]),
        kernel((Sm90Tma, 64, 64, 1, 128, 2, Persistent, BetweenWarpgroups, Causal), 2, [0.1161, 0.0138, 1.5737, 0.9378, 0.2529, 0.2130, 0.3850]),
        kernel((Sm90Tma, 64, 64, 1, 128, 2, SplitKeys, BetweenWarpgroups, Full), 2, [0.1343, 0.0197, 2.4621, 1.1280, 0.2531, 0.4598, 0.3140]),
        kernel((Sm90Tma, 64, 64, 1, 128, 2, SplitKeys, BetweenWarpgroups, Causal), 2, [0.1249, 0.0158, 2.6247, 1.0650, 0.2532, 0.4506, 0.3320]),
        kernel((Sm90CpAsync, 64, 64, 1, 64, 4, OneShot, BetweenWarpgroups, Full), 1, [1.8368, 0.0040, 0.9566, 0.4987, 0.3000, 0.3496, 0.2996]),
        kernel((Sm90CpAsync, 64, 64, 1, 64, 4, OneShot, BetweenWarpgroups, Causal), 1, [1.8336, 0.0040, 0.9558, 0.4968, 0.3000, 0.3496, 0.2996]),
        kernel((Sm80, 128, 64, 1, 64, 2, OneShot, BetweenWarpgroups, Full), 2, [1.1014, 0.0092, 1.8159, 0.7759, 0.6482, 0.3726, 0.2400]),
        kernel((Sm80, 128, 32, 1, 64, 2, OneShot, BetweenWarpgroups, Causal), 2, [1.1760, 0.0099, 2.1414, 0.4496, 0.3249, 0.3505, 0.2982]),
        kernel((Sm80, 32, 32, 1, 64, 3, OneShot, BetweenWarpgroups, Full), 4, [0.7212, 0.0037, 1.6586, 0.3412, 0.1236, 0.2941, 0.1894]),
        kernel((Sm80, 32, 32, 1, 64, 3, OneShot, BetweenWarpgroups, Causal), 4, [0.9380, 0.0039, 1.6230, 0.3366, 0.1240, 0.3867, 0.2470]),
        kernel((Sm80, 16, 128, 8, 64, 1, OneShot, BetweenWarpgroups, Full), 1, [0.6550, 0.0040, 2.5408, 0.4433, 0.1236, 0.2982, 0.1921]),
        kernel((Sm80, 16, 128, 8, 64, 1, OneShot, BetweenWarpgroups, Causal), 1, [0.6925, 0.0033, 2.8068, 0.3768, 0.1236, 0.3039, 0.1957]),
        kernel((Sm80, 32, 192, 4, 64, 1, OneShot, BetweenWarpgroups, Full), 1, [0.7210, 0.0047, 2.2391, 0.8498, 0.1236, 0.3230, 0.2081]),
        kernel((Sm80, 32, 192, 4, 64, 1, OneShot, BetweenWarpgroups, Causal), 1, [0.7460, 0.0042, 2.4150, 0.7331, 0.1235, 0.3548, 0.2285]),
        kernel((Sm80, 48, 192, 4, 64, 1, OneShot, BetweenWarpgroups, Full), 1, [0.7210, 0.0047, 2.2391, 0.8498, 0.1854, 0.3230, 0.2081]),
        kernel((Sm80, 32, 128, 4, 64, 1, OneShot, BetweenWarpgroups, Full), 2, [0.5275, 0.0061, 2.3144, 0.7671, 0.1236, 0.5738, 0.3694]),
        kernel((Sm80, 32, 128, 4, 64, 1, OneShot, BetweenWarpgroups, Causal), 2, [0.5186, 0.0041, 2.8872, 0.6916, 0.1235, 0.5343, 0.3441]),
        kernel((Sm80, 128, 64, 1, 32, 3, OneShot, BetweenWarpgroups, Full), 4, [1.1136, 0.0068, 1.2771, 0.5779, 0.3975, 0.3173, 0.2044]),
        kernel((Sm80, 128, 64, 1, 32, 3, OneShot, BetweenWarpgroups, Causal), 3, [1.1509, 0.0064, 1.3082, 0.5841, 0.3795, 0.3119, 0.2009]),
        kernel((Sm80, 32, 128, 2, 32, 1, OneShot, BetweenWarpgroups, Full), 8, [1.5590, 0.0095, 1.7880, 0.8091, 0.2782, 0.4442, 0.2044]),
        kernel((Sm80, 32, 128, 2, 32, 1, OneShot, BetweenWarpgroups, Causal), 6, [1.6112, 0.0090, 1.8314, 0.8178, 0.2657, 0.4366, 0.2009]),
        kernel((Sm80, 64, 64, 1, 128, 1, OneShot, BetweenWarpgroups, Full), 3, [0.8769, 0.0082, 2.2083, 0.8287, 0.7410, 0.3675, 0.3031]),
        kernel((Sm80, 64, 64, 1, 128, 1, OneShot, BetweenWarpgroups, Causal), 2, [1.2154, 0.0081, 2.0627, 0.8403, 0.7147, 0.3368, 0.2697]),
        kernel((Sm80, 16, 128, 8, 128, 1, OneShot, BetweenWarpgroups, Full), 1, [0.5247, 0.0043, 3.6550, 0.7127, 0.7127, 0.3819, 0.3150]),
        kernel((Sm80, 16, 128, 8, 128, 1, OneShot, BetweenWarpgroups, Causal), 1, [0.5345, 0.0028, 3.9380, 0.6107, 0.6107, 0.5011, 0.4130]),
        kernel((Sm80, 32, 128, 4, 128, 1, OneShot, BetweenWarpgroups, Full), 1, [0.6709, 0.0045, 2.8709, 0.7129, 0.9877, 0.4503, 0.3712]),
        kernel((Sm80, 32, 128, 4, 128, 1, OneShot, BetweenWarpgroups, Causal), 1, [0.8090, 0.0037, 3.1593, 0.7129, 0.8559, 0.4781, 0.3941]),
        kernel((Sm80, 64, 96, 2, 128, 1, OneShot, BetweenWarpgroups, Full), 1, [0.9311, 0.0095, 2.2070, 1.1605, 0.7410, 0.4568, 0.3766]),
        kernel((Sm80, 64, 96, 2, 128, 1, OneShot, BetweenWarpgroups, Causal), 1, [0.9731, 0.0054, 2.9537, 1.0663, 0.7147, 0.4227, 0.3386]),
    ] },
    Costs { gpu: "NVIDIA H200", architecture: 90, kernels: &[
        kernel((Sm90Tma, 512, 64, 1, 64, 1, Persistent, BetweenWarpgroups, Full), 1, [1.6995, 0.0131, 1.7545, 1.5849, 0.2702, 0.1420, 0.0450]),
        kernel((Sm90Tma, 512, 64, 1, 64, 1, Persistent, BetweenWarpgroups, Causal), 1, [1.7619, 0.0124, 1.6616, 1.0078, 0.2702, 0.1395, 0.0442]),
        kernel((Sm90Tma, 64, 64, 1, 64, 1, OneShot, BetweenWarpgroups, Full), 8, [0.3765, 0.0126, 1.0632, 0.4081, 0.2680, 0.2600, 0.1131]),
        kernel((Sm90Tma, 64, 64, 1, 64, 1, OneShot, BetweenWarpgroups, Causal), 8, [0.9247, 0.0101, 0.8055, 0.3893, 0.2701, 0.4012, 0.1271]),
        kernel((Sm90Tma, 256, 64, 1, 64, 1, Persistent, BetweenWarpgroups, Full), 1, [1.5528, 0.0129, 1.5891, 0.7747, 0.2702, 0.1417, 0.0449]),
        kernel((Sm90Tma, 256, 64, 1, 64, 1, Persistent, BetweenWarpgroups, Causal), 1, [1.3979, 0.0097, 1.8834, 0.6970, 0.2701, 0.1855, 0.0588]),
        kernel((Sm90Tma, 64, 64, 1, 64, 3, Persistent, BetweenWarpgroups, Full), 3, [0.7063, 0.0115, 0.7781, 0.4358, 0.2566, 0.2159, 0.0591]),
        kernel((Sm90Tma, 64, 64, 1, 64, 3, Persistent, BetweenWarpgroups, Causal), 3, [0.6825, 0.0104, 1.0325, 0.4423, 0.2372, 0.2239, 0.0948]),
        kernel((Sm90Tma, 64, 64, 1, 64, 2, SplitKeys, BetweenWarpgroups, Full), 2, [0.0723, 0.0097, 2.5916, 0.5200, 0.2776, 0.5273, 0.2619]),
        kernel((Sm90Tma, 64, 64, 1, 64, 2, SplitKeys, BetweenWarpgroups, Causal), 2, [0.1713, 0.0083, 2.8453, 0.4447, 0.2795, 0.5566, 0.2366]),
        kernel((Sm90Tma, 256, 64, 1, 32, 1, Persistent, BetweenWarpgroups, Full), 1, [1.6014, 0.0039, 1.2564, 0.7048, 0.1886, 0.1197, 0.0507]),
        kernel((Sm90Tma, 256, 64, 1, 32, 1, Persistent, BetweenWarpgroups, Causal), 1, [1.4675, 0.0033, 1.4347, 0.5891, 0.1886, 0.1296, 0.0548]),
        kernel((Sm90Tma, 64, 64, 1, 32, 4, Persistent, BetweenWarpgroups, Full), 4, [1.0470, 0.0084, 0.4189, 0.3387, 0.2018, 0.1284, 0.0543]),
        kernel((Sm90Tma, 64, 64, 1, 32, 4, Persistent, BetweenWarpgroups, Causal), 4, [0.7512, 0.0057, 0.8815, 0.3917, 0.1885, 0.1612, 0.0683]),
        kernel((Sm90Tma, 64, 64, 1, 32, 2, SplitKeys, BetweenWarpgroups, Full), 2, [0.1515, 0.0082, 2.1697, 0.2346, 0.2496, 0.2041, 0.0864]),
        kernel((Sm90Tma, 64, 64, 1, 32, 2, SplitKeys, BetweenWarpgroups, Causal), 2, [0.2883, 0.0051, 2.4605, 0.2347, 0.2347, 0.1740, 0.0737]),
        kernel((Sm90Tma, 192, 64, 1, 96, 1, Persistent, BetweenWarpgroups, Full), 1, [1.5528, 0.0129, 1.5891, 0.7747, 0.2026, 0.1417, 0.0449]),
        kernel((Sm90Tma, 192, 64, 1, 96, 1, Persistent, WithinStrip, Causal), 1, [1.3979, 0.0097, 1.8834, 0.6970, 0.2026, 0.1855, 0.0588]),
        kernel((Sm90Tma, 128, 64, 1, 128, 1, Persistent, AcrossStrips, Full), 1, [1.0732, 0.0166, 1.8752, 0.6609, 0.2566, 0.2782, 0.0428]),
        kernel((Sm90Tma, 128, 64, 1, 128, 1, Persistent, AcrossStrips, Causal), 1, [0.5548, 0.0148, 2.0936, 0.6497, 0.2566, 0.2752, 0.0432]),
        kernel((Sm90Tma, 64, 64, 1, 128, 2, Persistent, BetweenWarpgroups, Full), 2, [0.2930, 0.0199, 0.9596, 1.0726, 0.2566, 0.2681, 0.0692]),
        kernel((Sm90Tma, 64, 64, 1, 128, 2, Persistent, BetweenWarpgroups, Causal), 2, [0.1855, 0.0147, 1.3533, 1.0143, 0.2565, 0.2496, 0.0667]),
        kernel((Sm90Tma, 64, 64, 1, 128, 2, SplitKeys, BetweenWarpgroups, Full), 2, [0.1947, 0.0261, 2.8132, 1.0913, 0.2566, 0.4383, 0.2663]),
        kernel((Sm90Tma, 64, 64, 1, 128, 2, SplitKeys, BetweenWarpgroups, Causal), 2, [0.1392, 0.0215, 3.2019, 1.0127, 0.2566, 0.4016, 0.3562]),
        kernel((Sm90CpAsync, 64, 64, 1, 64, 4, OneShot, BetweenWarpgroups, Full), 4, [1.8775, 0.0043, 0.9402, 0.5429, 0.2218, 0.3522, 0.3018]),
        kernel((Sm90CpAsync, 64, 64, 1, 64, 4, OneShot, BetweenWarpgroups, Causal), 3, [1.8605, 0.0044, 0.9340, 0.5378, 0.2189, 0.3380, 0.3026]),
        kernel((Sm80, 128, 64, 1, 64, 2, OneShot, BetweenWarpgroups, Full), 2, [0.8897, 0.0072, 2.0549, 0.8052, 0.6568, 0.3151, 0.2273]),
        kernel((Sm80, 128, 32, 1, 64, 2, OneShot, BetweenWarpgroups, Causal), 2, [0.9202, 0.0069, 2.3914, 0.4627, 0.3178, 0.3797, 0.2741]),
        kernel((Sm80, 32, 32, 1, 64, 3, OneShot, BetweenWarpgroups, Full), 4, [0.8431, 0.0031, 1.5316, 0.3637, 0.1305, 0.3439, 0.1673]),
        kernel((Sm80, 32, 32, 1, 64, 3, OneShot, BetweenWarpgroups, Causal), 3, [1.3954, 0.0027, 1.2523, 0.3399, 0.1290, 0.3276, 0.2142]),
        kernel((Sm80, 16, 128, 8, 64, 1, OneShot, BetweenWarpgroups, Full), 1, [0.7411, 0.0019, 2.5865, 0.4598, 0.1290, 0.3047, 0.1992]),
        kernel((Sm80, 16, 128, 8, 64, 1, OneShot, BetweenWarpgroups, Causal), 1, [0.7804, 0.0018, 2.7885, 0.4054, 0.1290, 0.3148, 0.2058]),
        kernel((Sm80, 32, 192, 4, 64, 1, OneShot, BetweenWarpgroups, Full), 1, [0.7745, 0.0021, 2.2335, 0.8952, 0.1290, 0.3127, 0.2045]),
        kernel((Sm80, 32, 192, 4, 64, 1, OneShot, BetweenWarpgroups, Causal), 1, [0.7950, 0.0016, 2.4111, 0.7775, 0.1290, 0.2916, 0.1906]),
        kernel((Sm80, 48, 192, 4, 64, 1, OneShot, BetweenWarpgroups, Full), 1, [0.7745, 0.0021, 2.2335, 0.8952, 0.1935, 0.3127, 0.2045]),
        kernel((Sm80, 32, 128, 4, 64, 1, OneShot, BetweenWarpgroups, Full), 2, [0.4350, 0.0047, 2.5023, 0.8343, 0.1290, 0.4685, 0.3064]),
        kernel((Sm80, 32, 128, 4, 64, 1, OneShot, BetweenWarpgroups, Causal), 2, [0.4460, 0.0021, 3.2155, 0.7213, 0.1290, 0.3719, 0.2431]),
        kernel((Sm80, 128, 64, 1, 32, 3, OneShot, BetweenWarpgroups, Full), 8, [0.8975, 0.0042, 1.5435, 0.6291, 0.4157, 0.3232, 0.2151]),
        kernel((Sm80, 128, 64, 1, 32, 3, OneShot, BetweenWarpgroups, Causal), 3, [0.8893, 0.0054, 1.6661, 0.6210, 0.3765, 0.3383, 0.2440]),
        kernel((Sm80, 32, 128, 2, 32, 1, OneShot, BetweenWarpgroups, Full), 3, [0.9184, 0.0045, 1.2357, 0.6262, 0.2638, 0.3215, 0.2320]),
        kernel((Sm80, 32, 128, 2, 32, 1, OneShot, BetweenWarpgroups, Causal), 2, [1.1730, 0.0038, 1.2697, 0.4018, 0.2401, 0.3045, 0.2198]),
        kernel((Sm80, 64, 64, 1, 128, 1, OneShot, BetweenWarpgroups, Full), 2, [1.0400, 0.0062, 2.0611, 0.8465, 0.7649, 0.3208, 0.1940]),
        kernel((Sm80, 64, 64, 1, 128, 1, OneShot, BetweenWarpgroups, Causal), 3, [0.6045, 0.0076, 2.6408, 0.8646, 0.7553, 0.3034, 0.2573]),
        kernel((Sm80, 16, 128, 8, 128, 1, OneShot, BetweenWarpgroups, Full), 1, [0.5434, 0.0019, 3.7803, 0.6437, 0.7330, 0.3088, 0.2617]),
        kernel((Sm80, 16, 128, 8, 128, 1, OneShot, BetweenWarpgroups, Causal), 1, [0.6304, 0.0020, 3.9949, 0.6438, 0.6438, 0.3638, 0.3083]),
        kernel((Sm80, 32, 128, 4, 128, 1, OneShot, BetweenWarpgroups, Full), 1, [0.7645, 0.0032, 2.9193, 1.0396, 0.8854, 0.3507, 0.2975]),
        kernel((Sm80, 32, 128, 4, 128, 1, OneShot, BetweenWarpgroups, Causal), 1, [0.8139, 0.0033, 3.2563, 0.8644, 0.8852, 0.3363, 0.2851]),
        kernel((Sm80, 64, 96, 2, 128, 1, OneShot, BetweenWarpgroups, Full), 1, [0.7744, 0.0059, 2.3048, 1.2191, 0.7649, 0.4562, 0.2760]),
        kernel((Sm80, 64, 96, 2, 128, 1, OneShot, BetweenWarpgroups, Causal), 1, [0.8532, 0.0026, 3.2095, 1.0725, 0.7554, 0.2956, 0.2505]),
    ] },
];

/// Kind, rows, keys, groups that share them, columns, blocks, grid, overlap, mask.
type Class = (Kind, u32, u32, u32, u32, u32, Grid, Overlap, Mask);

const fn kernel(class: Class, resident: u32, constants: [f64; 7]) -> (KernelClass, Constants) {
    let (kind, rows, keys, key_groups, columns, blocks, grid, overlap, mask) = class;
    let [launch_us, block_us, item_us, step_us, shared_step_us, megabyte_us, exposed] = constants;
    (
        KernelClass { kind, rows, keys, key_groups, columns, blocks, grid, overlap, mask },
        Constants { resident, launch_us, block_us, item_us, step_us, shared_step_us, megabyte_us, exposed },
    )
}

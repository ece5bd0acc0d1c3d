//! What the GPU reached at most, measured in the same run.

use serde::{Deserialize, Serialize};

/// Measured limits of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// 10¹² bytes a second of a device-to-device copy much larger than L2, counting bytes read and bytes written.
    pub copy_terabytes_per_second: Option<f64>,
    /// Matrix products from registers alone, one for each tensor-core instruction that was tried.
    pub tensor: Vec<TensorCeiling>,
}

/// What one tensor-core instruction reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorCeiling {
    /// The instruction, as in `mma.sync.m16n8k16 f16→f32`.
    pub instruction: String,
    /// 10¹² floating-point operations per second.
    pub teraflops: f64,
}

impl Ceilings {
    /// The highest rate of matrix products that was reached, TFLOP/s.
    pub fn teraflops(&self) -> Option<f64> {
        self.tensor.iter().map(|ceiling| ceiling.teraflops).max_by(f64::total_cmp)
    }
}

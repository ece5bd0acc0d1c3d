//! Peak rates of the GPU, measured in the same run.

use serde::{Deserialize, Serialize};

/// Measured peak rates of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// Bandwidth of a device-to-device copy much larger than L2, 10¹² bytes per second, counting bytes read and
    /// written.
    pub copy_terabytes_per_second: Option<f64>,
    /// Rates of matrix products on operands in registers, one per tensor-core instruction that was measured.
    pub tensor: Vec<TensorCeiling>,
}

/// The measured rate of a tensor-core instruction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorCeiling {
    /// The instruction, such as `mma.sync.m16n8k16 f16→f32`.
    pub instruction: String,
    /// 10¹² floating-point operations per second.
    pub teraflops: f64,
}

impl Ceilings {
    /// The highest measured rate of matrix products, TFLOP/s.
    pub fn teraflops(&self) -> Option<f64> {
        self.tensor.iter().map(|ceiling| ceiling.teraflops).max_by(f64::total_cmp)
    }
}

//! The description of a device, as in records.

use contract::gpu::Gpu;

/// The kind of a [`Device`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A GPU driven through libcuda.
    Gpu,
    /// ptx-sim on the CPU.
    Simulator,
}

/// The device that an executor runs on.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Device {
    /// GPU or simulator.
    pub kind: DeviceKind,
    /// Name, such as `NVIDIA H200` or `ptx-sim (2 threads)`.
    pub name: String,
    /// Compute capability, such as 90 for `sm_90`; for the simulator the architecture that it simulates.
    pub architecture: u32,
    /// Maximum dynamic shared memory of a block, bytes.
    pub shared_bytes_per_block: u32,
    /// Number of multiprocessors, which a persistent grid fills; 0 if a record does not say.
    #[serde(default)]
    pub multiprocessors: u32,
    /// Size of the L2 cache, bytes; absent if unknown.
    pub l2_bytes: Option<u64>,
    /// Driver version, such as `13.0`; absent for the simulator.
    pub driver: Option<String>,
    /// The GPU's identifier, `GPU-…`; absent for the simulator and if the driver does not report it.
    pub uuid: Option<String>,
}

impl Device {
    /// Whether the simulator executes kernels, also as a GPU of the simulated driver: times are then meaningless.
    pub fn is_simulated(&self) -> bool {
        self.kind == DeviceKind::Simulator || self.name.starts_with(sim_device::NAME)
    }

    /// The properties that a plan depends on.
    pub fn gpu(&self) -> Gpu<'_> {
        let &Self { architecture, multiprocessors, shared_bytes_per_block, .. } = self;
        Gpu { name: &self.name, architecture, multiprocessors, shared_bytes_per_block }
    }
}

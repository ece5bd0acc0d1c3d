//! The device that a kernel runs on, as records hold it.

use contract::gpu::Gpu;

/// What a [`Device`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A GPU driven through libcuda.
    Gpu,
    /// ptx-sim on the CPU.
    Simulator,
}

/// The device behind an executor.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Device {
    /// GPU or simulator.
    pub kind: DeviceKind,
    /// Name, as in `NVIDIA H200` or `ptx-sim (2 threads)`.
    pub name: String,
    /// Compute capability as in 90 for `sm_90`; for the simulator the architecture it stands for.
    pub architecture: u32,
    /// Largest dynamic shared memory of a block, bytes.
    pub shared_bytes_per_block: u32,
    /// Multiprocessors, which a persistent grid fills; 0 in a record that does not say.
    #[serde(default)]
    pub multiprocessors: u32,
    /// Size of the L2 cache, bytes; absent where it is not known.
    pub l2_bytes: Option<u64>,
    /// Driver version, as in `13.0`; absent for the simulator.
    pub driver: Option<String>,
    /// The GPU's identifier, as in `GPU-…`; absent for the simulator and where the driver does not tell.
    pub uuid: Option<String>,
}

impl Device {
    /// Whether kernels are executed by the simulator, as they also are on a GPU of the simulated driver: their times mean nothing.
    pub fn is_simulated(&self) -> bool {
        self.kind == DeviceKind::Simulator || self.name.starts_with(sim_device::NAME)
    }

    /// What a plan needs to know of it.
    pub fn gpu(&self) -> Gpu<'_> {
        let &Self { architecture, multiprocessors, shared_bytes_per_block, .. } = self;
        Gpu { name: &self.name, architecture, multiprocessors, shared_bytes_per_block }
    }
}

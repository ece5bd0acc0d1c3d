//! The contenders at a point of the map: our chosen kernel, our other kernels that accept the problem, and libraries.

use std::sync::Arc;

use crate::map::session::Field;
use cli::contender::Contender;
use cli::contender::ptx::Ptx;
use cli::error::Result;
use cli::executor::Executor;
use cli::executor::gpu::GpuExecutor;
use cli::ptx_folder::PtxFolder;
use cli::record::Case;
use cli::variant;
use contract::problem::Problem;

/// The contenders of a map.
pub struct Contenders {
    gpu: GpuExecutor,
    folder: Arc<PtxFolder>,
    /// Contenders that take part at every point, including ours.
    always: Vec<Box<dyn Contender>>,
    /// All our kernels by name, if they are timed too.
    kernels: Vec<(String, Box<dyn Contender>)>,
}

impl Contenders {
    /// The contenders `always`, and with `all` also every entry of `folder`.
    pub fn new(gpu: GpuExecutor, folder: Arc<PtxFolder>, always: Vec<Box<dyn Contender>>, all: bool) -> Result<Self> {
        let entries = folder.entries().filter(|_| all);
        let kernel = |name: &str| -> Result<(String, Box<dyn Contender>)> {
            let (executor, variant) = (Box::new(GpuExecutor::open()?), Some(name.to_owned()));
            Ok((name.to_owned(), Box::new(Ptx::new(format!("variant:{name}"), executor, folder.clone(), variant))))
        };
        let kernels = entries.map(|(entry, _)| kernel(&entry.name)).collect::<Result<_>>()?;
        Ok(Self { gpu, folder, always, kernels })
    }

    /// Names of the entries that compute `problem`, except the chosen one, which is already timed as ours.
    fn others(&self, problem: &Problem) -> Vec<String> {
        let device = self.gpu.device();
        let chosen = variant::choose(&self.folder, problem, device, None).map(|choice| choice.entry.name.clone()).ok();
        let entries = variant::accepting(&self.folder, problem, device);
        entries.filter(|entry| Some(&entry.name) != chosen.as_ref()).map(|entry| entry.name.clone()).collect()
    }
}

impl Field for Contenders {
    fn of(&mut self, case: &Case) -> Result<Vec<&mut Box<dyn Contender>>> {
        // After a kernel has faulted, the driver refuses every call.
        let probe = self.gpu.allocate("a probe of the context", 1)?;
        self.gpu.free(probe)?;
        let names = self.others(&case.problem()?);
        let kernels = self.kernels.iter_mut().filter(|(name, _)| names.contains(name)).map(|(_, kernel)| kernel);
        Ok(self.always.iter_mut().chain(kernels).collect())
    }
}

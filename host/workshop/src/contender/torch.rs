//! PyTorch's attention in a Python process: `scaled_dot_product_attention` behind each of its backends, and
//! FlexAttention.
//!
//! The process runs `baselines/torch/contender.py`, which is part of this program and says what is asked and answered.
//! O is held to the same bounds as that of our own kernels; the library gives no LSE.

mod process;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Contender, Prepared, Workload};
use crate::check::Outputs;
use crate::error::{Error, Result};
use crate::inputs::Inputs;
use crate::npy;
use crate::record::Implementation;
use crate::timing::{Batch, Sampler};
use contract::problem::Shape;
use contract::refusal::Tensor;
use contract::view::{Layout, View};
use process::Process;

/// The program that the process runs.
const SCRIPT: &str = include_str!("../../../../baselines/torch/contender.py");
/// Version of the script's protocol.
const PROTOCOL: u64 = 4;

/// Longest wait for an answer: importing PyTorch from a slow disk, compiling FlexAttention.
const PATIENCE: Duration = Duration::from_secs(300);

/// What computes the attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// FlashAttention-2.
    Flash,
    /// cuDNN's fused attention.
    Cudnn,
    /// The memory-efficient attention of xFormers (CUTLASS).
    Efficient,
    /// FlexAttention, compiled by Inductor and Triton.
    Flex,
}

impl Backend {
    /// Every backend.
    pub const ALL: [Self; 4] = [Self::Flash, Self::Cudnn, Self::Efficient, Self::Flex];

    /// The name, as in the contender `torch:cudnn`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flash => "flash",
            Self::Cudnn => "cudnn",
            Self::Efficient => "efficient",
            Self::Flex => "flex",
        }
    }

    /// The backend called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|backend| backend.name() == name)
    }

    /// The function that is called.
    fn function(self) -> String {
        match self {
            Self::Flex => "torch.nn.attention.flex_attention.flex_attention (torch.compile)".into(),
            _ => format!("torch.nn.functional.scaled_dot_product_attention ({})", self.name()),
        }
    }
}

/// A Python process with PyTorch, which its contenders share.
pub struct Library {
    process: RefCell<Process>,
    hello: Hello,
    /// Tensors on their way to and from the process, and its script.
    folder: tempfile::TempDir,
    prepared: Cell<u64>,
}

/// What the process says about itself.
#[derive(Clone, Debug, Deserialize)]
struct Hello {
    protocol: u64,
    versions: BTreeMap<String, String>,
    device: String,
    backends: BTreeMap<String, Option<String>>,
}

impl Library {
    /// Starts `python`, else the first of `python3` and `python` in `PATH`, and waits until PyTorch is imported.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the one thing that is missing: Python, PyTorch, its CUDA support, a GPU.
    pub fn start(python: Option<&Path>) -> Result<Rc<Self>> {
        let python = python.map(Path::to_owned).or_else(find_python).ok_or_else(|| {
            Error::Unavailable("no python3 or python in PATH to run PyTorch with; --python names one".into())
        })?;
        let folder = tempfile::Builder::new().prefix("fa512-torch-").tempdir();
        let folder = folder.map_err(|source| Error::File { path: std::env::temp_dir(), source })?;
        let script = folder.path().join("contender.py");
        std::fs::write(&script, SCRIPT).map_err(|source| Error::File { path: script.clone(), source })?;
        let mut command = Command::new(&python);
        command.arg(script);
        let mut process = Process::start(command, format!("PyTorch's process ({})", python.display()))?;
        let hello = granted(process.ask(&json!({"command": "hello"}), PATIENCE)?)?;
        let hello: Hello = understood(hello)?;
        if hello.protocol != PROTOCOL {
            return Err(Error::Unavailable(format!(
                "{} speaks protocol {}, this program {PROTOCOL}",
                python.display(),
                hello.protocol
            )));
        }
        Ok(Rc::new(Self { process: RefCell::new(process), hello, folder, prepared: Cell::new(0) }))
    }

    /// Name of the GPU that PyTorch computes on.
    pub fn device(&self) -> &str {
        &self.hello.device
    }

    /// Versions of what takes part, by name: python, torch, cuda, cudnn, triton.
    pub fn versions(&self) -> &BTreeMap<String, String> {
        &self.hello.versions
    }

    /// Why `backend` cannot be used here, or `None` when it can.
    pub fn refusal(&self, backend: Backend) -> Option<String> {
        match self.hello.backends.get(backend.name()) {
            Some(refusal) => refusal.clone(),
            None => Some("the process does not know it".into()),
        }
    }

    /// The contender `torch:<backend>`.
    pub fn contender(self: &Rc<Self>, backend: Backend) -> Torch {
        Torch { name: format!("torch:{}", backend.name()), backend, library: self.clone() }
    }

    fn ask<T: serde::de::DeserializeOwned>(&self, request: &Value) -> Result<T> {
        let answer = self.process.borrow_mut().ask(request, PATIENCE)?;
        understood(granted(answer)?)
    }
}

/// One backend of PyTorch.
pub struct Torch {
    name: String,
    backend: Backend,
    library: Rc<Library>,
}

impl Contender for Torch {
    fn name(&self) -> &str {
        &self.name
    }

    fn prepare<'a>(&'a mut self, workload: &'a Workload) -> Result<Box<dyn Prepared<'a> + 'a>> {
        if let Some(reason) = self.library.refusal(self.backend) {
            return Err(Error::Unavailable(format!("{} cannot be used: {reason}", self.name)));
        }
        let problem = workload.inputs.problem();
        let layout = contiguous_layout(&workload.inputs)?;
        let id = self.library.prepared.get();
        self.library.prepared.set(id + 1);
        let prepared = PreparedTorch { contender: self, workload, layout, id };
        let [q, k, v] = prepared.write_inputs()?;
        let bias = prepared.write_bias()?;
        prepared.ask::<Done>(json!({
            "command": "prepare", "backend": prepared.contender.backend.name(), "q": q, "k": k, "v": v,
            "layout": layout.name(), "rows_around": problem.rows_around(), "scale": problem.scale(),
            "element": problem.element().name(), "bias": bias, "slopes": prepared.slopes(),
            "softcap": problem.score_mod().softcap, "first_position": problem.first_position(),
        }))?;
        Ok(Box::new(prepared))
    }
}

struct PreparedTorch<'a> {
    contender: &'a Torch,
    workload: &'a Workload,
    layout: Layout,
    /// What the process knows this by.
    id: u64,
}

impl PreparedTorch<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.contender.library.folder.path().join(format!("{}-{name}.npy", self.id))
    }

    fn write_inputs(&self) -> Result<[PathBuf; 3]> {
        let inputs = &self.workload.inputs;
        let paths = ["q", "k", "v"].map(|name| self.path(name));
        let tensors = [Tensor::Q, Tensor::K, Tensor::V];
        for ((path, storage), tensor) in paths.iter().zip(inputs.storages()).zip(tensors) {
            let dimensions = self.layout.dimensions(inputs.problem().shape().of(tensor));
            let elements = dimensions.iter().product::<u64>() as usize;
            npy::write_elements(path, &dimensions, inputs.element(), &storage[..elements])?;
        }
        Ok(paths)
    }

    /// The bias, of one entry along each dimension in which it is the same.
    fn write_bias(&self) -> Result<Option<PathBuf>> {
        let inputs = &self.workload.inputs;
        let (Some(bias), Some(strides)) = (inputs.bias(), inputs.problem().score_mod().bias) else { return Ok(None) };
        let Shape { batch, heads, sequence, kv_sequence, .. } = inputs.problem().shape();
        let size = |stride: u64, size: u32| if stride == 0 { 1 } else { u64::from(size) };
        let dimensions =
            [size(strides.batch, batch), size(strides.head, heads), size(strides.row, sequence), kv_sequence.into()];
        let path = self.path("bias");
        npy::write_elements(&path, &dimensions, inputs.element(), bias)?;
        Ok(Some(path))
    }

    /// ALiBi slopes for each batch entry, or for one that stands for all.
    fn slopes(&self) -> Option<Vec<&[f32]>> {
        let heads = self.workload.inputs.problem().shape().heads as usize;
        self.workload.inputs.slopes().map(|slopes| slopes.chunks(heads).collect())
    }

    fn ask<T: serde::de::DeserializeOwned>(&self, mut request: Value) -> Result<T> {
        request["id"] = self.id.into();
        self.contender.library.ask(&request).map_err(|error| named(&self.contender.name, error))
    }
}

impl Drop for PreparedTorch<'_> {
    fn drop(&mut self) {
        // A process that has ended has nothing to release, and its end was already told.
        let _ = self.ask::<Done>(json!({"command": "release"}));
        for name in ["q", "k", "v", "o", "bias"] {
            let _ = std::fs::remove_file(self.path(name));
        }
    }
}

impl<'a> Prepared<'a> for PreparedTorch<'a> {
    fn implementation(&self) -> Implementation {
        Implementation::Library {
            function: self.contender.backend.function(),
            versions: self.contender.library.hello.versions.clone(),
        }
    }

    fn answer(&mut self) -> Result<Answer> {
        let path = self.path("o");
        self.ask::<Done>(json!({"command": "answer", "path": path}))?;
        let element = self.workload.inputs.element();
        let output = npy::read(&path, self.layout, element, npy::F32::Refused)?;
        let shape = self.workload.inputs.problem().shape().of(Tensor::O);
        if output.shape != shape {
            return Err(Error::Unavailable(format!("{} gave O of {}, not {shape}", self.contender.name, output.shape)));
        }
        Ok(Answer { outputs: Outputs { o: output.elements, lse: None }, violations: Vec::new() })
    }

    fn into_sampler(self: Box<Self>) -> Result<Box<dyn Sampler + 'a>> {
        let (protocol, input_sets) = (&self.workload.protocol, self.workload.input_sets());
        let warm: Warm = self.ask(json!({
            "command": "warm_up", "input_sets": input_sets, "milliseconds": protocol.warm_up_ms,
            "host_launch": protocol.host_launch,
        }))?;
        let calls = protocol.calls(warm.call_us, input_sets);
        self.ask::<Done>(json!({"command": "capture", "calls": calls}))?;
        let batch =
            Batch { calls, input_sets: input_sets.get(), cuda_graph: true, host_launch_us: warm.host_launch_us };
        Ok(Box::new(TorchSampler { prepared: *self, batch }))
    }
}

struct TorchSampler<'a> {
    prepared: PreparedTorch<'a>,
    batch: Batch,
}

impl Sampler for TorchSampler<'_> {
    fn batch(&self) -> Batch {
        self.batch
    }

    fn sample(&mut self) -> Result<f64> {
        let Sample { us } = self.prepared.ask(json!({"command": "sample"}))?;
        Ok(us)
    }
}

/// Answer to a request that asks for no value.
#[derive(Deserialize)]
struct Done {}

/// Answer to `warm_up`.
#[derive(Deserialize)]
struct Warm {
    call_us: f64,
    host_launch_us: Option<f64>,
}

/// Answer to `sample`.
#[derive(Deserialize)]
struct Sample {
    us: f64,
}

/// The answer, unless it is a refusal.
fn granted(answer: Value) -> Result<Value> {
    if answer["ok"] == true {
        return Ok(answer);
    }
    let reason = answer["error"].as_str().unwrap_or("the process does not say why").to_owned();
    Err(match answer["kind"].as_str() {
        Some("invalid") => Error::Invalid(reason),
        _ => Error::Unavailable(reason),
    })
}

fn understood<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T> {
    let text = answer.to_string();
    serde_json::from_value(answer)
        .map_err(|error| Error::Unavailable(format!("PyTorch's process answered {text}: {error}")))
}

/// Puts the contender's name before what it refused.
fn named(name: &str, error: Error) -> Error {
    match error {
        Error::Invalid(reason) => Error::Invalid(format!("{name}: {reason}")),
        Error::Unavailable(reason) => Error::Unavailable(format!("{name}: {reason}")),
        other => other,
    }
}

/// The order of dimensions in which all tensors of the problem are contiguous.
fn contiguous_layout(inputs: &Inputs) -> Result<Layout> {
    let problem = inputs.problem();
    let is_contiguous = |layout: &Layout| {
        let contiguous = |tensor| layout.strides(problem.shape().of(tensor)).map(View::new);
        problem.views().named().into_iter().all(|(tensor, view)| contiguous(tensor) == Ok(view))
    };
    Layout::ALL.into_iter().find(is_contiguous).ok_or_else(|| {
        Error::Invalid(
            "PyTorch is given contiguous tensors only, [B,H,S,D] or [B,S,H,D]; these have other strides".into(),
        )
    })
}

fn find_python() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    let programs =
        ["python3", "python"].into_iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    programs.into_iter().find(|path| path.is_file())
}

#[cfg(test)]
mod tests;

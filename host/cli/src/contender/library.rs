//! A library's attention in a separate process, which computes and times on request.
//!
//! `baselines/torch/contender.py` documents requests and answers, one JSON object per line. O is held to the same
//! bounds as for our own kernels; libraries return no LSE.

mod process;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
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

/// Version of the protocol.
const PROTOCOL: u64 = 4;

/// Time limit for an answer: importing PyTorch from a slow disk, compiling kernels.
const PATIENCE: Duration = Duration::from_secs(600);

/// A process, shared by the contenders of a library.
pub struct Library {
    /// Name of the process in messages.
    name: String,
    process: RefCell<Process>,
    hello: Hello,
    /// Folder for tensors exchanged with the process, and for its other files.
    folder: tempfile::TempDir,
    prepared: Cell<u64>,
}

/// The process's description of itself.
#[derive(Clone, Debug, Deserialize)]
struct Hello {
    protocol: u64,
    versions: BTreeMap<String, String>,
    device: String,
    backends: BTreeMap<String, Option<String>>,
}

impl Library {
    /// A temporary folder for [`Self::start`].
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be created.
    pub fn folder() -> Result<tempfile::TempDir> {
        let folder = tempfile::Builder::new().prefix("fa512-contender-").tempdir();
        folder.map_err(|source| Error::File { path: std::env::temp_dir(), source })
    }

    /// Starts `command` and waits until it is ready. Messages call it `name`. Tensors are exchanged in `folder`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] names what is missing: the program, its library, or a GPU.
    pub fn start(command: Command, name: String, folder: tempfile::TempDir) -> Result<Rc<Self>> {
        let mut process = Process::start(command, name.clone())?;
        let hello = granted(process.ask(&json!({"command": "hello"}), PATIENCE)?)?;
        let hello: Hello = understood(&name, hello)?;
        if hello.protocol != PROTOCOL {
            return Err(Error::Unavailable(format!(
                "{name} speaks protocol {}, this program {PROTOCOL}",
                hello.protocol
            )));
        }
        Ok(Rc::new(Self { name, process: RefCell::new(process), hello, folder, prepared: Cell::new(0) }))
    }

    /// Name of the GPU that it computes on.
    pub fn device(&self) -> &str {
        &self.hello.device
    }

    /// Versions of the libraries involved, by name, such as `torch` or `cudnn`.
    pub fn versions(&self) -> &BTreeMap<String, String> {
        &self.hello.versions
    }

    /// Why `backend` cannot be used here; `None` if it can.
    pub fn refusal(&self, backend: &str) -> Option<String> {
        match self.hello.backends.get(backend) {
            Some(refusal) => refusal.clone(),
            None => Some("the process does not know it".into()),
        }
    }

    /// The contender `name` for the process's `backend`. It calls `function`, unless the process reports what it calls.
    pub fn contender(self: &Rc<Self>, name: String, backend: &'static str, function: String) -> LibraryContender {
        LibraryContender { name, backend, function, library: self.clone() }
    }

    fn ask<T: serde::de::DeserializeOwned>(&self, request: &Value) -> Result<T> {
        let answer = self.process.borrow_mut().ask(request, PATIENCE)?;
        understood(&self.name, granted(answer)?)
    }
}

/// One backend of a library.
pub struct LibraryContender {
    name: String,
    backend: &'static str,
    function: String,
    library: Rc<Library>,
}

impl Contender for LibraryContender {
    fn name(&self) -> &str {
        &self.name
    }

    fn prepare<'a>(&'a mut self, workload: &'a Workload) -> Result<Box<dyn Prepared<'a> + 'a>> {
        if let Some(reason) = self.library.refusal(self.backend) {
            return Err(Error::Unavailable(format!("{} cannot be used: {reason}", self.name)));
        }
        let problem = workload.inputs.problem();
        let layout = contiguous_layout(&self.name, &workload.inputs)?;
        let id = self.library.prepared.get();
        self.library.prepared.set(id + 1);
        let mut prepared = PreparedLibrary { contender: self, workload, layout, id, function: self.function.clone() };
        let [q, k, v] = prepared.write_inputs()?;
        let bias = prepared.write_bias()?;
        let ready: Ready = prepared.ask(json!({
            "command": "prepare", "backend": prepared.contender.backend, "q": q, "k": k, "v": v,
            "layout": layout.name(), "rows_around": problem.rows_around(), "scale": problem.scale(),
            "element": problem.element().name(), "bias": bias, "slopes": prepared.slopes(),
            "softcap": problem.score_mod().softcap, "first_position": problem.first_position(),
        }))?;
        if let Some(function) = ready.function {
            prepared.function = function;
        }
        Ok(Box::new(prepared))
    }
}

struct PreparedLibrary<'a> {
    contender: &'a LibraryContender,
    workload: &'a Workload,
    layout: Layout,
    /// The process's id for it.
    id: u64,
    /// The function that is called.
    function: String,
}

impl PreparedLibrary<'_> {
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

    /// Writes the bias to a file, with size 1 in each broadcast dimension.
    fn write_bias(&self) -> Result<Option<PathBuf>> {
        let inputs = &self.workload.inputs;
        let Some(strides) = inputs.problem().score_mod().bias else { return Ok(None) };
        let Shape { batch, heads, sequence, kv_sequence, .. } = inputs.problem().shape();
        let size = |stride: u64, size: u32| if stride == 0 { 1 } else { u64::from(size) };
        let dimensions =
            [size(strides.batch, batch), size(strides.head, heads), size(strides.row, sequence), kv_sequence.into()];
        let path = self.path("bias");
        let [batches, heads, rows, _] = dimensions.map(|size| size as u32);
        let of_head = |batch, head| (0..rows).filter_map(move |row| inputs.bias_row(batch, head, row));
        let rows = (0..batches).flat_map(|batch| (0..heads).flat_map(move |head| of_head(batch, head)));
        let bias: Vec<_> = rows.flatten().copied().collect();
        npy::write_elements(&path, &dimensions, inputs.element(), &bias)?;
        Ok(Some(path))
    }

    /// ALiBi slopes per batch entry, or a single row if all share them.
    fn slopes(&self) -> Option<Vec<&[f32]>> {
        let heads = self.workload.inputs.problem().shape().heads as usize;
        self.workload.inputs.slopes().map(|slopes| slopes.chunks(heads).collect())
    }

    fn ask<T: serde::de::DeserializeOwned>(&self, mut request: Value) -> Result<T> {
        request["id"] = self.id.into();
        self.contender.library.ask(&request).map_err(|error| named(&self.contender.name, error))
    }
}

impl Drop for PreparedLibrary<'_> {
    fn drop(&mut self) {
        // A process that has ended holds nothing to release, and its end was already reported.
        let _ = self.ask::<Done>(json!({"command": "release"}));
        for name in ["q", "k", "v", "o", "bias"] {
            let _ = std::fs::remove_file(self.path(name));
        }
    }
}

impl<'a> Prepared<'a> for PreparedLibrary<'a> {
    fn implementation(&self) -> Implementation {
        Implementation::Library {
            function: self.function.clone(),
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
        Ok(Box::new(LibrarySampler { prepared: *self, batch }))
    }
}

struct LibrarySampler<'a> {
    prepared: PreparedLibrary<'a>,
    batch: Batch,
}

impl Sampler for LibrarySampler<'_> {
    fn batch(&self) -> Batch {
        self.batch
    }

    fn sample(&mut self) -> Result<f64> {
        let Sample { us } = self.prepared.ask(json!({"command": "sample"}))?;
        Ok(us)
    }
}

/// An answer without a value.
#[derive(Deserialize)]
struct Done {}

/// Answer to `prepare`.
#[derive(Deserialize)]
struct Ready {
    /// The function that is called, if the process chooses it by problem.
    function: Option<String>,
}

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

/// The answer; a refusal becomes an error.
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

fn understood<T: serde::de::DeserializeOwned>(name: &str, answer: Value) -> Result<T> {
    let text = answer.to_string();
    serde_json::from_value(answer).map_err(|error| Error::Unavailable(format!("{name} answered {text}: {error}")))
}

/// Prefixes the contender's name to an error.
fn named(name: &str, error: Error) -> Error {
    match error {
        Error::Invalid(reason) => Error::Invalid(format!("{name}: {reason}")),
        Error::Unavailable(reason) => Error::Unavailable(format!("{name}: {reason}")),
        other => other,
    }
}

/// The layout in which all tensors of the problem are contiguous.
fn contiguous_layout(name: &str, inputs: &Inputs) -> Result<Layout> {
    let problem = inputs.problem();
    let is_contiguous = |layout: &Layout| {
        let contiguous = |tensor| layout.strides(problem.shape().of(tensor)).map(View::new);
        problem.views().named().into_iter().all(|(tensor, view)| contiguous(tensor) == Ok(view))
    };
    Layout::ALL.into_iter().find(is_contiguous).ok_or_else(|| {
        Error::Invalid(format!(
            "{name} is given contiguous tensors only, [B,H,S,D] or [B,S,H,D]; these have other strides"
        ))
    })
}

#[cfg(test)]
mod tests;
